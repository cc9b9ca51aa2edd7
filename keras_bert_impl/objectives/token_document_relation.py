"""Does a token of a text come again elsewhere in the document that the text is from?

ERNIE 2.0 (Sun et al. 2019), section 4.2.1, "Token-Document Relation Prediction Task": such words are
the key words of a document.

Exactly: a piece of a text, A or B of a row, is labelled 1 if its id is among the pieces of the
original document outside of this text. The other text of the row, if it is of the same document, is
outside, and so is what was cut off.

What will be in a text is not known before pairs are made, and the document is not known after. So
each piece takes along, as a mark (`data/marked_pieces.py`), how often its id is in its document: it
comes again elsewhere if that is more often than in the text.
"""

import keras
import tensorflow as tf

from keras_bert_impl.data.document_walk import as_window
from keras_bert_impl.objectives.base import TokenObjective


def document_counts(window: tf.RaggedTensor, sequence_length: int) -> tf.RaggedTensor:
    """How often each piece's id is in its document.

    Args:
        window: ragged (documents, sentences, pieces) ids, without marks.
        sequence_length: int. Longest row. Counts stop here, since a text is shorter: as a mark
            they take `sequence_length.bit_length()` bits, 8 for 128 and 10 for 512.

    Returns:
        Ragged (documents, sentences, pieces) int32, as the window.

    Raises:
        ValueError: for a window of another rank.

    Example:

    >>> window = tf.ragged.constant([[[5, 6], [6, 6]], [[5]]])
    >>> document_counts(window, sequence_length=128).to_list()
    [[[1, 3], [3, 3]], [[1]]]
    """
    window = as_window(window)
    ids = tf.cast(window.flat_values, tf.int64)
    document = tf.gather(window.value_rowids(), window.values.value_rowids())  # (pieces,)
    num_ids = tf.reduce_max(tf.concat([ids, [0]], axis=0)) + 1
    _, index, counts = tf.unique_with_counts(document * num_ids + ids)
    return window.with_flat_values(tf.minimum(tf.gather(counts, index), sequence_length))


def occurs_elsewhere(token_ids, counts, segment_ids) -> tf.Tensor:
    """Of each token of packed rows: is its id in its document outside of its text?

    Args:
        token_ids: (batch, length) int, without marks and before masking.
        counts: (batch, length) int. The marks of `document_counts`, 0 on special tokens and
            padding.
        segment_ids: (batch, length) int. Which text of the row each token is of.

    Returns:
        (batch, length) bool; false on special tokens and padding, which ask for no weight:
        `counts > 0` tells which tokens do.

    Example:

    >>> rows = [[2, 5, 6, 3, 6, 3]], [[0, 1, 3, 0, 3, 0]], [[0, 0, 0, 0, 1, 1]]
    >>> occurs_elsewhere(*rows).numpy().tolist()
    [[False, False, True, False, True, False]]
    """
    token_ids, counts = tf.convert_to_tensor(token_ids), tf.cast(counts, tf.int32)
    segment_ids = tf.convert_to_tensor(segment_ids)
    same = token_ids[:, :, tf.newaxis] == token_ids[:, tf.newaxis]  # (batch, length, length)
    same &= segment_ids[:, :, tf.newaxis] == segment_ids[:, tf.newaxis]
    same &= counts[:, tf.newaxis] > 0
    return counts > tf.reduce_sum(tf.cast(same, tf.int32), axis=2)


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class TokenDocumentRelation(TokenObjective):
    """Does a token come again elsewhere in its document? Asked of all tokens of texts.

    Rows that are not made of documents' pieces, as those of `DiscourseRelation`, have no weight.

    Args:
        weight: float, as in `Objective`.
    """

    name = "token_document_relation"

    def num_bits(self, sequence_length):
        return sequence_length.bit_length()

    def marks(self, lines):
        if lines.pieces.ragged_rank < 2:
            return tf.zeros_like(lines.pieces.flat_values)
        return document_counts(lines.pieces, lines.sequence_length).flat_values

    def targets(self, rows, marks, *, tokenizer, seed):
        label = occurs_elsewhere(rows["token_ids"], marks, rows["segment_ids"])
        return {}, tf.cast(label, tf.int32), tf.cast(marks > 0, tf.float32)
