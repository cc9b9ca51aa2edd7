"""Rows that are given, such as a click log's, in the form of documents.

So they are shuffled, repeated and left out by step as rows made of text are.
"""

from collections.abc import Sequence

import tensorflow as tf


def documents_of_rows(columns: Sequence, by: int | None = None) -> tf.data.Dataset:
    """A dataset of documents whose "sentences" are the rows' strings, one row after another.

    Args:
        columns: (rows,) string tensors or lists of strings.
        by: int or None. The number of a column: rows that agree in it make one document, so that
            they meet in the same window. None makes each row a document.

    Returns:
        A dataset of string tensors, documents in the order of their first rows.

    Raises:
        ValueError: without rows, or for columns of different length.

    Example:

    >>> documents = documents_of_rows([["a", "b", "a"], ["x", "y", "z"]], by=0)
    >>> [document.numpy().tolist() for document in documents]
    [[b'a', b'x', b'a', b'z'], [b'b', b'y']]
    """
    columns = [tf.convert_to_tensor(column, tf.string).numpy().tolist() for column in columns]
    if len({len(column) for column in columns}) != 1 or not columns[0]:
        raise ValueError(
            f"The columns have {[len(column) for column in columns]} rows. All must have as many, "
            "and at least one."
        )
    documents: dict[int | bytes, list[bytes]] = {}
    for number, row in enumerate(zip(*columns, strict=True)):
        documents.setdefault(number if by is None else row[by], []).extend(row)
    ragged = tf.ragged.constant(list(documents.values()), dtype=tf.string, ragged_rank=1)
    return tf.data.Dataset.from_tensor_slices(ragged)


def rows_of_window(window: tf.RaggedTensor, num_columns: int) -> list[tf.Tensor]:
    """The columns, (rows,) strings each, of a window of such documents.

    Example:

    >>> window = tf.ragged.constant([["a", "x", "a", "z"], ["b", "y"]])
    >>> [column.numpy().tolist() for column in rows_of_window(window, 2)]
    [[b'a', b'a', b'b'], [b'x', b'z', b'y']]
    """
    return tf.unstack(tf.reshape(window.flat_values, [-1, num_columns]), axis=1)
