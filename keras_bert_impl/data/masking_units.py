"""Which tokens of a row go together when targets are chosen: pieces, words, n-grams, marked units.

Whole words: google-research/bert's README. N-grams: ALBERT (Lan et al. 2019), section 4.1. Phrases
and entities: ERNIE 1.0 (Sun et al. 2019), section 3.2.
"""

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.randomness import uniform
from keras_bert_impl.data.word_units import begins_unit, unit_kind


def word_begins(token_ids, continuation_ids, vocabulary_size: int) -> tf.Tensor:
    """(batch, length) bool: tokens that are not among `continuation_ids`.

    Special tokens begin words too, so no word reaches over a [SEP].
    """
    is_continuation = np.zeros([vocabulary_size], bool)
    is_continuation[list(continuation_ids)] = True  # of none at all, where no piece has ##
    return ~tf.gather(tf.constant(is_continuation), token_ids)


def marked_begins(begins, units, kind: int) -> tf.Tensor:
    """Where words begin, but within marked units of a kind where these do.

    Args:
        begins: (batch, length) bool. Where words begin.
        units: (batch, length) int, the marks of `data/word_units.py`; 0 on special tokens.
        kind: int. Units of other kinds do not count.

    Returns:
        (batch, length) bool. What is left of a unit whose beginning was cut off begins one too.
    """
    is_inside = unit_kind(units) == kind
    follows_unit = tf.pad(is_inside[:, :-1], [[0, 0], [1, 0]])
    return tf.where(is_inside, begins_unit(units) | ~follows_unit, begins)


def ngram_begins(begins, is_alone, max_words: int, seed) -> tf.Tensor:
    """Words joined to n-grams of random lengths, P(n) proportional to 1 / n.

    The row is cut into n-grams from its front. One ends before a word that stands alone, whatever
    length was drawn for it.

    Args:
        begins: (batch, length) bool. Where words begin.
        is_alone: (batch, length) bool. Tokens, special ones, whose words are joined to no other.
        max_words: int. Longest n-gram.
        seed: (2,) int64.

    Returns:
        (batch, length) bool: where n-grams begin; wider padding changes nothing.
    """
    shape = tf.shape(begins)
    word = groups_of(begins)  # (batch, length)
    alone = tf.math.unsorted_segment_max(  # (batch, word); there are no more words than tokens
        tf.reshape(tf.cast(is_alone, tf.int32), [-1]),
        tf.reshape(word + tf.range(shape[0])[:, tf.newaxis] * shape[1], [-1]),
        shape[0] * shape[1],
    )
    joins = tf.reshape(alone, shape) == 0  # false where there is no word any more
    draw = uniform(shape, seed)

    size = tf.ones(shape, tf.int32)
    runs_on = joins
    total = sum(1 / n for n in range(1, max_words + 1))
    for n in range(1, max_words):
        runs_on &= tf.pad(joins[:, n:], [[0, 0], [0, tf.minimum(n, shape[1])]])[:, : shape[1]]
        longer = draw >= sum(1 / k for k in range(1, n + 1)) / total
        size += tf.cast(runs_on & longer, tf.int32)

    column = tf.range(shape[1])[tf.newaxis]
    place = tf.range(shape[0] * shape[1])
    jump = tf.where(column + size < shape[1], tf.reshape(place, shape) + size, tf.size(place))
    first = tf.broadcast_to(column == 0, shape)
    starts = tf.reshape(reached(tf.reshape(first, [-1]), tf.reshape(jump, [-1])), shape)
    return begins & tf.gather(starts, word, batch_dims=1)


def groups_of(begins) -> tf.Tensor:
    """(batch, length) int32: which group each token is of, from (batch, length) bool beginnings."""
    return tf.cumsum(tf.cast(begins, tf.int32), axis=1) - tf.cast(begins[:, :1], tf.int32)


def reached(starts, jump) -> tf.Tensor:
    """Where one comes to by jumps.

    Args:
        starts: (places,) bool. Places to start from.
        jump: (places,) int32. Of each place a later one, or `places` where it ends.

    Returns:
        (places,) bool: the starts and all places that jumps lead to from them.

    Example:

    >>> reached(tf.constant([True, False, False, False]), tf.constant([2, 3, 3, 4])).numpy().tolist()
    [True, False, True, True]
    """
    end = tf.size(jump)
    jump = tf.concat([jump, [end]], axis=0)
    seen = tf.concat([starts, [False]], axis=0)

    # After k rounds a jump is 2 ** k jumps of the first, and what fewer lead to is seen.
    def double(seen, jump):
        landed = tf.math.unsorted_segment_max(tf.cast(seen, tf.int32), jump, end + 1) > 0
        return seen | landed, tf.gather(jump, jump)

    seen, _ = tf.while_loop(
        lambda seen, jump: tf.reduce_any(jump < end), double, [seen, jump], parallel_iterations=1
    )
    return seen[:-1]
