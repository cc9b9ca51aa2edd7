"""How far apart are two texts: neighbours, of one document, or of two?

ERNIE 2.0 (Sun et al. 2019), section 4.2.2, "Sentence Distance Task".
"""

import keras
import tensorflow as tf

from keras_bert_impl.data.document_walk import Sentences, draws, random_slices, targets, walk
from keras_bert_impl.data.randomness import below
from keras_bert_impl.objectives.base import TextObjective

ADJACENT = 0
SAME_DOCUMENT = 1
OTHER_DOCUMENT = 2


def sentence_distance_pairs(
    window: tf.RaggedTensor,
    *,
    max_tokens: int,
    short_sequence_probability: float = 0.1,
    seed,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
    """Pairs of texts, and whether they are neighbours, of one document, or strangers.

    A is taken as in `pairs_from_documents`: a random number of the first sentences of a chunk. B
    begins at the sentence after A (class 0), at a random one of the same document so that at least
    one sentence stands between A and B, on either side (class 1), or at a random one of a random
    other document (class 2), and goes on until both together reach the target length. The class is
    drawn evenly from those that there are for this A: class 0 needs a sentence after A, class 1 one
    more on either side, class 2 a second document. Where there is none, there is no pair.

    Args:
        window: ragged (documents, sentences, pieces) ids. What is empty is dropped.
        max_tokens: int, at least 2. Most pieces of both texts together; pairs over it lose tokens
            as in `pairs_from_documents`.
        short_sequence_probability: float. Share of documents with a target drawn from
            [2, max_tokens] instead of max_tokens. Default 0.1, as BERT's.
        seed: (2,) int tensor or a pair of numbers. The pairs are a function of it and the window.

    Returns:
        first: ragged (pairs, pieces), A. In the order of the documents.
        second: ragged (pairs, pieces), B.
        label: (pairs,) int32. 0 (`ADJACENT`), 1 (`SAME_DOCUMENT`), 2 (`OTHER_DOCUMENT`).

    Raises:
        ValueError: for max_tokens below 2 or a window of another rank.

    Example:

    >>> window = tf.ragged.constant([[[5]], [[6, 7]]])
    >>> first, second, label = sentence_distance_pairs(window, max_tokens=8, seed=(1, 0))
    >>> label.numpy().tolist()
    [2, 2]
    """
    sentences = Sentences.of(window, max_tokens)
    starts, ends = sentences.document_starts, sentences.document_ends
    target = targets(sentences, max_tokens, short_sequence_probability, seed)

    def step(step_index, cursor):
        draw = draws(sentences, seed, step_index, 5)  # (5, documents)
        chunk_end = sentences.reach(cursor, target, ends)
        a_end = cursor + 1 + below(draw[0], chunk_end - cursor - 1)

        # Class 1: sentences where B may begin before A and after it; one stays between.
        before = tf.maximum(cursor - 1 - starts, 0)
        after = tf.maximum(ends - 1 - a_end, 0)
        far = below(draw[1], before + after)
        is_before = far < before
        far_start = tf.where(is_before, starts + far, a_end + 1 + far - before)
        far_end = tf.where(is_before, cursor - 1, ends)
        other_start, other_end = sentences.elsewhere(draw[2], draw[3])

        has_other = tf.fill(tf.shape(cursor), sentences.num_documents > 1)
        possible = tf.stack([a_end < ends, before + after > 0, has_other])  # (3, documents)
        label = _drawn_class(possible, draw[4])
        b_start = _at(label, [a_end, far_start, other_start])
        b_last = _at(label, [ends, far_end, other_end])
        room = target - sentences.pieces_between(cursor, a_end)
        b_end = sentences.reach(b_start, room, b_last)

        pair = tf.stack([cursor, a_end, b_start, b_end, label])
        return tf.where(label == ADJACENT, b_end, a_end), pair, tf.reduce_any(possible, axis=0)

    pairs = walk(sentences, step, width=5)  # (5, pairs)
    first, second = random_slices(sentences, pairs[:4], max_tokens, seed)
    return first, second, tf.cast(pairs[4], tf.int32)


def _drawn_class(possible, draw):
    """(documents,) int64: each of the possible classes as likely; 0 where there is none."""
    number = tf.cast(possible, tf.int64)
    chosen = below(draw, tf.reduce_sum(number, axis=0))
    is_it = possible & (tf.cumsum(number, axis=0, exclusive=True) == chosen)
    return tf.argmax(tf.cast(is_it, tf.int32), axis=0)


def _at(label, by_class):
    """(documents,): of the class's row, the document's number."""
    return tf.gather(tf.stack(by_class, axis=1), label, batch_dims=1)


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class SentenceDistance(TextObjective):
    """Sentence distance, with the rows of `sentence_distance_pairs`.

    Args:
        weight: float, as in `Objective`.
    """

    name = "sentence_distance"
    num_classes = 3

    def rows(self, texts, to_pieces, *, max_tokens, short_sequence_probability, seed):
        return sentence_distance_pairs(
            to_pieces(texts),
            max_tokens=max_tokens(2),
            short_sequence_probability=short_sequence_probability,
            seed=seed,
        )
