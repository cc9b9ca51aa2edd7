"""A window of documents laid flat, and a walk through all of its documents at once.

What the makers of examples have in common: sentences are gathered to chunks of about a target
length, a step of the walk takes one chunk of each document, and all that moves is numbers of
sentences.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert_impl.data.packing import kept_lengths
from keras_bert_impl.data.randomness import below, coin_flips, fold_in, uniform_float64


class Sentences(NamedTuple):
    """A window laid flat. Sentences are numbered through; all numbers are int64."""

    pieces: tf.Tensor  # (pieces,) ids
    offsets: tf.Tensor  # (sentences + 1,) where each sentence begins in pieces
    document_starts: tf.Tensor  # (documents,) first sentence
    document_ends: tf.Tensor  # (documents,) one after the last
    num_documents: tf.Tensor  # ()

    @classmethod
    def of(cls, window: tf.RaggedTensor, max_tokens: int) -> "Sentences":
        """Of a ragged (documents, sentences, pieces) window; what is empty is dropped.

        Raises:
            ValueError: for max_tokens below 2 or a window of another rank.
        """
        if max_tokens < 2:
            raise ValueError(f"max_tokens={max_tokens} must be at least 2: one piece each of A, B.")
        window = as_window(window)
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

    def fit(self, start, num_pieces, end):
        """The sentence before which at most `num_pieces` stand, counted from start; at most `end`.

        At least one sentence is taken, unless start is end.
        """
        room = tf.gather(self.offsets, start) + num_pieces
        fitting = tf.searchsorted(self.offsets, room, side="right", out_type=tf.int64) - 1
        return tf.minimum(tf.maximum(fitting, start + 1), end)

    def elsewhere(self, document_draw, sentence_draw):
        """For each document a sentence of another one: its number, and its document's end.

        Both draws are (documents,) float64. In a window of one document it is that document's own.
        """
        other = below(document_draw, self.num_documents - 1)
        other += tf.cast(other >= tf.range(self.num_documents), tf.int64)
        other = tf.minimum(other, self.num_documents - 1)
        start, end = self.bounds(other)
        return start + below(sentence_draw, end - start), end


def as_window(window: tf.RaggedTensor) -> tf.RaggedTensor:
    """The window with both of its inner dimensions ragged and int64 row splits.

    Raises:
        ValueError: if it is no ragged tensor of rank 3.
    """
    if not isinstance(window, tf.RaggedTensor) or window.shape.rank != 3:
        raise ValueError(
            "window must be a ragged (documents, sentences, pieces) tensor, but is "
            f"{type(window).__name__} of shape {getattr(window, 'shape', None)}."
        )
    if not isinstance(window.values, tf.RaggedTensor):  # dense pieces: all of one length
        window = window.with_values(tf.RaggedTensor.from_tensor(window.values))
    return window.with_row_splits_dtype(tf.int64)


def targets(sentences, max_tokens, short_sequence_probability, seed):
    """(documents,) pieces that a chunk should reach."""
    draw = draws(sentences, seed, -1, 2)
    short = 2 + below(draw[1], tf.constant(max_tokens - 1, tf.int64))
    return tf.where(draw[0] < short_sequence_probability, short, max_tokens)


def walk(sentences, step, width):
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


def draws(sentences, seed, index, count):
    """(count, documents) float64 in [0, 1)."""
    shape = tf.stack([count, tf.cast(sentences.num_documents, tf.int32)])
    return uniform_float64(shape, fold_in(seed, index))


def random_slices(sentences, bounds, max_tokens, seed):
    """Two texts of whole sentences, cut at random where both together are over `max_tokens`.

    As the reference: from the longer, from the second when they are equal, each surplus token from
    a random end.

    Args:
        sentences: `Sentences`.
        bounds: (4, pairs) int64. First sentence of the one text and the one after its last; the
            same of the other.
        max_tokens: int.
        seed: (2,) int.

    Returns:
        Two ragged (pairs, pieces).
    """
    a_start, a_end, b_start, b_end = tf.unstack(tf.gather(sentences.offsets, bounds))
    a_kept, b_kept = kept_lengths(a_end - a_start, b_end - b_start, max_tokens, "longest_first")
    return (
        random_slice(sentences.pieces, a_start, a_end, a_kept, fold_in(seed, -2)),
        random_slice(sentences.pieces, b_start, b_end, b_kept, fold_in(seed, -3)),
    )


def random_slice(pieces, start, end, kept, seed):
    """Ragged rows pieces[start:end], cut to `kept`: each surplus token from a random end."""
    start += coin_flips(end - start - kept, seed)
    return tf.gather(pieces, tf.ragged.range(start, start + kept))
