"""Words and labels as users hold them, in lists, to flat tensors: checked, the row named."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def rows_of(nested: Any, name: str = "x") -> list:
    """The rows of nested lists, arrays or a ragged tensor, as a list of sequences.

    Args:
        nested: rank 2.
        name: str. For messages.

    Raises:
        ValueError: naming the first row that is no sequence, such as a text that was not cut into
            words.
    """
    if isinstance(nested, tf.RaggedTensor):
        nested = nested.to_list()
    elif isinstance(nested, tf.Tensor):
        nested = nested.numpy()
    rows = list(nested)
    for i, row in enumerate(rows):
        if isinstance(row, str | bytes):
            raise ValueError(
                f"Row {i} of {name} is one string, {row!r}. Pass each row as a list with an entry "
                "for each word, so that it is sure which words the labels belong to."
            )
        if not isinstance(row, list | tuple | np.ndarray):
            raise ValueError(
                f"Row {i} of {name} is {row!r}, but was to be a list with an entry for each word."
            )
    return rows


def array_of_rows(nested: Any) -> np.ndarray:
    """Rows of whatever lengths as (rows,) objects, so that they can be sliced."""
    rows = nested.to_list() if isinstance(nested, tf.RaggedTensor) else list(nested)
    array = np.empty([len(rows)], object)
    array[:] = rows
    return array


def ragged_words(x: Any) -> tf.RaggedTensor:
    """Words of each row as one tensor.

    Args:
        x: nested lists or arrays of str or bytes, or a string tensor of rank 2, ragged or dense.

    Returns:
        Ragged (rows, None) strings.

    Raises:
        ValueError: naming the first row, or word, that is not what it should be.

    Example:

    >>> ragged_words([["Jim", "went"], ["Ok"]])
    <tf.RaggedTensor [[b'Jim', b'went'], [b'Ok']]>
    """
    if isinstance(x, tf.Tensor):
        x = tf.RaggedTensor.from_tensor(x) if x.shape.rank == 2 else x.numpy()
    if isinstance(x, tf.RaggedTensor):
        if x.dtype != tf.string or x.shape.rank != 2:
            raise ValueError(
                f"Expected ragged strings of rank 2, but received {x.dtype.name} of rank "
                f"{x.shape.rank}."
            )
        return x.with_row_splits_dtype(tf.int64)
    rows = rows_of(x)
    words = [word for row in rows for word in row]
    if not all(isinstance(word, str | bytes) for word in words):
        row, position, word = next(
            (i, j, word)
            for i, row in enumerate(rows)
            for j, word in enumerate(row)
            if not isinstance(word, str | bytes)
        )
        raise ValueError(f"Word {position} of row {row} is {word!r}, but words are strings.")
    return tf.RaggedTensor.from_row_lengths(
        tf.constant(words, tf.string, shape=[len(words)]),
        np.array([len(row) for row in rows], "int64"),
    )


def ragged_batches(rows: Any, batch_size: int, shuffle: bool | str = False) -> tf.data.Dataset:
    """Batches of ragged rows, the last one maybe smaller.

    Args:
        rows: a ragged tensor, or a tuple of some with equal numbers of rows.
        batch_size: int. Rows of each batch.
        shuffle: bool, or `"once"`. Another order each time the dataset is read, or the same one.

    Returns:
        A dataset of the same structure.
    """
    num_rows = tf.nest.flatten(rows)[0].nrows()
    dataset = tf.data.Dataset.range(num_rows)
    if shuffle:
        dataset = dataset.shuffle(num_rows, reshuffle_each_iteration=shuffle != "once")
    return dataset.batch(batch_size).map(
        lambda numbers: tf.nest.map_structure(lambda part: tf.gather(part, numbers), rows)
    )


def word_labels(
    y: Any, lengths: Sequence[int], num_classes: int, class_names: Sequence[str] | None
) -> np.ndarray:
    """Class numbers of the words of all rows, one after the other.

    Args:
        y: nested lists, arrays or a ragged tensor: of each word its class number, or its name.
        lengths: how many words each row has.
        num_classes: int.
        class_names: the names in order, or None where labels are numbers only.

    Returns:
        (words,) int32.

    Raises:
        ValueError: naming the first row with more or fewer labels than words, or the first label
            that is no class.

    Example:

    >>> word_labels([["O", "B-PER"], ["O"]], [2, 1], 2, ["O", "B-PER"])
    array([0, 1, 0], dtype=int32)
    """
    rows = _of_lengths(y, lengths, "labels")
    numbers = {name: i for i, name in enumerate(class_names or ())}
    labels = np.empty([sum(lengths)], "int32")
    filled = 0
    for i, row in enumerate(rows):
        for j, label in enumerate(row):
            label = label.decode() if isinstance(label, bytes) else label
            number = numbers.get(label, -1) if isinstance(label, str) else label
            if number not in range(num_classes):
                raise ValueError(
                    f"The label of word {j} in row {i} is {label!r}, but must be "
                    f"{_classes(num_classes, class_names)}. A word without a label has the "
                    "sample_weight 0, and any class."
                )
            labels[filled] = number
            filled += 1
    return labels


def word_weights(sample_weight: Any, lengths: Sequence[int]) -> np.ndarray:
    """Weights of the words of all rows, one after the other.

    Args:
        sample_weight: (rows,) numbers, each for all words of its row; or nested, a number for
            each word; or None for 1.
        lengths: how many words each row has.

    Returns:
        (words,) float32.

    Raises:
        ValueError: naming the first row with more or fewer weights than words, or where the rows
            differ in number.
    """
    if sample_weight is None:
        return np.ones([sum(lengths)], "float32")
    if not isinstance(sample_weight, tf.RaggedTensor):
        sample_weight = list(sample_weight)
        if all(np.ndim(weight) == 0 for weight in sample_weight):
            _check_rows(len(sample_weight), len(lengths), "weights")
            return np.repeat(np.array(sample_weight, "float32"), lengths)
    rows = _of_lengths(sample_weight, lengths, "weights")
    return np.array([weight for row in rows for weight in row], "float32")


def _of_lengths(nested, lengths, name) -> list:
    rows = rows_of(nested, name)
    _check_rows(len(rows), len(lengths), name)
    for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        if len(row) != length:
            raise ValueError(f"Row {i} has {length} words, but {len(row)} {name}.")
    return rows


def _check_rows(rows, expected, name) -> None:
    if rows != expected:
        raise ValueError(f"There are {expected} rows of words, but {rows} of {name}.")


def _classes(num_classes, class_names) -> str:
    numbers = f"a number from 0 to {num_classes - 1}"
    return numbers if class_names is None else f"{numbers} or one of {', '.join(class_names)}"
