"""Documents to sentence pairs A/B, where B follows A or was taken from another document.

Paper, section 3.1 (task 2) and appendix A.2; google-research/bert, create_pretraining_data.py,
`create_instances_from_document`. "Sentences" are the lines of a document, whatever they hold.

A pair is two slices of the window's pieces, end to end: the loop below moves numbers only, all
documents at once, and the pieces are gathered when it is done.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert_impl.data.packing import kept_lengths
from keras_bert_impl.data.randomness import below, coin_flips, fold_in, uniform_float64

# The label's classes, as in the reference (`is_random_next`) and in its checkpoints' head.
IS_NEXT = 0
IS_RANDOM = 1


def pairs_from_documents(
    window: tf.RaggedTensor,
    *,
    max_tokens: int,
    short_sequence_probability: float = 0.1,
    next_sentence_random_probability: float = 0.5,
    seed,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
    """All sentence pairs of some documents.

    Each document is cut into chunks of sentences of about a target length. A is a random number
    of the chunk's first sentences. B is the rest of the chunk, or, in half of the cases and where
    the chunk has one sentence, a piece of another document of the window, begun at a random
    sentence; then the rest of the chunk goes back and begins the next one. Pairs over `max_tokens`
    lose tokens of the longer text, each at random from its front or its end.

    Args:
        window: ragged (documents, sentences, pieces) ids. Sentences without pieces and documents
            without sentences are dropped. Random sentences come from within the window, so a
            window of one document gives only pairs of label 0, and its chunks of one sentence
            give none.
        max_tokens: int, at least 2. Most pieces of A and B together: the row's length less
            `[CLS]` and two `[SEP]`.
        short_sequence_probability: float. Share of documents with a target drawn from
            [2, max_tokens] instead of max_tokens, so that the model sees short rows too.
            Default 0.1, the reference's.
        next_sentence_random_probability: float. Default 0.5, the paper's.
        seed: (2,) int tensor or a pair of numbers. The pairs are a function of it and the window.

    Returns:
        first: ragged (pairs, pieces), A. In the order of the documents.
        second: ragged (pairs, pieces), B.
        is_random: (pairs,) int32. 0 (`IS_NEXT`): B follows A; 1 (`IS_RANDOM`): it was drawn.

    Raises:
        ValueError: for max_tokens below 2 or a window of another rank.

    Example:

    >>> window = tf.ragged.constant([[[5], [6, 7], [8]], [[9, 9, 9]]])
    >>> first, second, is_random = pairs_from_documents(window, max_tokens=8, seed=(1, 0))
    """
    sentences = _Sentences.of(window, max_tokens)
    target = _targets(sentences, max_tokens, short_sequence_probability, seed)

    def step(step_index, cursor):
        draws = _draws(sentences, seed, step_index, 4)  # (4, documents)
        chunk_end = sentences.reach(cursor, target, sentences.document_ends)
        chunk_size = chunk_end - cursor
        a_end = cursor + 1 + below(draws[0], chunk_size - 1)
        a_pieces = sentences.pieces_between(cursor, a_end)

        is_random = (chunk_size == 1) | (draws[1] < next_sentence_random_probability)
        is_random &= sentences.num_documents > 1
        other = below(draws[2], sentences.num_documents - 1)
        other += tf.cast(other >= tf.range(sentences.num_documents), tf.int64)
        other = tf.minimum(other, sentences.num_documents - 1)  # the only document: not used
        other_start, other_end = sentences.bounds(other)
        other_start += below(draws[3], other_end - other_start)
        b_start = tf.where(is_random, other_start, a_end)
        b_end = tf.where(
            is_random, sentences.reach(other_start, target - a_pieces, other_end), chunk_end
        )

        made = (cursor < sentences.document_ends) & (b_start < b_end)
        pair = tf.stack([cursor, a_end, b_start, b_end, tf.cast(is_random, tf.int64)])
        return tf.where(is_random, a_end, chunk_end), pair, made

    pairs = _walk(sentences, step, width=5)  # (5, pairs)
    a_start, a_end, b_start, b_end = (
        tf.gather(sentences.offsets, i) for i in tf.unstack(pairs[:4])
    )
    # As the reference: from the longer, from B when they are equal.
    a_kept, b_kept = kept_lengths(a_end - a_start, b_end - b_start, max_tokens, "longest_first")
    return (
        _random_slice(sentences.pieces, a_start, a_end, a_kept, fold_in(seed, -2)),
        _random_slice(sentences.pieces, b_start, b_end, b_kept, fold_in(seed, -3)),
        tf.cast(pairs[4], tf.int32),
    )


def texts_from_documents(
    window: tf.RaggedTensor,
    *,
    max_tokens: int,
    short_sequence_probability: float = 0.1,
    seed,
) -> tf.RaggedTensor:
    """Single texts of about `max_tokens`, for a masked LM without next sentences.

    The chunks of `pairs_from_documents`, whole: runs of sentences of one document.

    Args:
        window, max_tokens, short_sequence_probability, seed: as in `pairs_from_documents`, but
            max_tokens leaves room for `[CLS]` and one `[SEP]`.

    Returns:
        Ragged (texts, pieces), texts over max_tokens cut at random from the front or the end.

    Raises:
        ValueError: for max_tokens below 2 or a window of another rank.
    """
    sentences = _Sentences.of(window, max_tokens)
    target = _targets(sentences, max_tokens, short_sequence_probability, seed)

    def step(step_index, cursor):
        chunk_end = sentences.reach(cursor, target, sentences.document_ends)
        return chunk_end, tf.stack([cursor, chunk_end]), cursor < sentences.document_ends

    start, end = tf.unstack(tf.gather(sentences.offsets, _walk(sentences, step, width=2)))
    kept = tf.minimum(end - start, tf.cast(max_tokens, tf.int64))
    return _random_slice(sentences.pieces, start, end, kept, fold_in(seed, -2))


class _Sentences(NamedTuple):
    """A window laid flat. Sentences are numbered through; all numbers are int64."""

    pieces: tf.Tensor  # (pieces,) ids
    offsets: tf.Tensor  # (sentences + 1,) where each sentence begins in pieces
    document_starts: tf.Tensor  # (documents,) first sentence
    document_ends: tf.Tensor  # (documents,) one after the last
    num_documents: tf.Tensor  # ()

    @classmethod
    def of(cls, window, max_tokens) -> "_Sentences":
        if max_tokens < 2:
            raise ValueError(f"max_tokens={max_tokens} must be at least 2: one piece each of A, B.")
        if not isinstance(window, tf.RaggedTensor) or window.shape.rank != 3:
            raise ValueError(
                "window must be a ragged (documents, sentences, pieces) tensor, but is "
                f"{type(window).__name__} of shape {getattr(window, 'shape', None)}."
            )
        if not isinstance(window.values, tf.RaggedTensor):  # dense pieces: all of one length
            window = window.with_values(tf.RaggedTensor.from_tensor(window.values))
        window = window.with_row_splits_dtype(tf.int64)
        filled = window.with_values(window.values.row_lengths() > 0)
        window = tf.ragged.boolean_mask(window, filled)
        window = tf.ragged.boolean_mask(window, window.row_lengths() > 0)
        return cls(
            pieces=window.flat_values,
            offsets=window.values.row_splits,
            document_starts=window.row_splits[:-1],
            document_ends=window.row_splits[1:],
            num_documents=window.nrows(),
        )

    def pieces_between(self, start, end):
        return tf.gather(self.offsets, end) - tf.gather(self.offsets, start)

    def bounds(self, document):
        return tf.gather(self.document_starts, document), tf.gather(self.document_ends, document)

    def reach(self, start, num_pieces, end):
        """The sentence before which `num_pieces` are full, counted from start; at most `end`.

        At least one sentence is taken, unless start is end.
        """
        full = tf.gather(self.offsets, start) + tf.maximum(num_pieces, 1)
        return tf.minimum(tf.searchsorted(self.offsets, full, out_type=tf.int64), end)


def _targets(sentences, max_tokens, short_sequence_probability, seed):
    """(documents,) pieces that a chunk should reach."""
    draws = _draws(sentences, seed, -1, 2)
    short = 2 + below(draws[1], tf.constant(max_tokens - 1, tf.int64))
    return tf.where(draws[0] < short_sequence_probability, short, max_tokens)


def _walk(sentences, step, width):
    """Take steps in all documents at once until each is at its end.

    `step(step_index, cursor)` returns (next cursor, (width, documents) numbers, (documents,) bool
    which of these count). Returns (width, made), by document, then by step.
    """
    made = tf.TensorArray(tf.bool, 0, dynamic_size=True, element_shape=[None])
    numbers = tf.TensorArray(tf.int64, 0, dynamic_size=True, element_shape=[width, None])

    def unfinished(step_index, cursor, *_):
        # one step even without documents, so that there is something to stack
        return (step_index == 0) | tf.reduce_any(cursor < sentences.document_ends)

    def body(step_index, cursor, numbers, made):
        # a finished document stands on its last sentence, and what it makes does not count
        unfinished = cursor < sentences.document_ends
        cursor, new_numbers, new_made = step(
            step_index, tf.where(unfinished, cursor, sentences.document_ends - 1)
        )
        return (
            step_index + 1,
            tf.where(unfinished, cursor, sentences.document_ends),
            numbers.write(step_index, new_numbers),
            made.write(step_index, new_made & unfinished),
        )

    _, _, numbers, made = tf.while_loop(
        unfinished, body, [tf.constant(0), sentences.document_starts, numbers, made]
    )
    by_document = tf.transpose(numbers.stack(), [1, 2, 0])  # (width, documents, steps)
    return tf.boolean_mask(by_document, tf.transpose(made.stack()), axis=1)


def _draws(sentences, seed, index, count):
    """(count, documents) float64 in [0, 1)."""
    shape = tf.stack([count, tf.cast(sentences.num_documents, tf.int32)])
    return uniform_float64(shape, fold_in(seed, index))


def _random_slice(pieces, start, end, kept, seed):
    """Ragged rows pieces[start:end], cut to `kept`: each surplus token from a random end."""
    start += coin_flips(end - start - kept, seed)
    return tf.gather(pieces, tf.ragged.range(start, start + kept))
