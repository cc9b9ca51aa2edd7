"""Marks of pieces that travel with them: an id and some bits in one number.

Pairing, cutting and packing move pieces about and know no marks. So a piece's marks go into its
number, `id + vocabulary_size * bits`, before, and come out again after. What packing adds, special
tokens and padding, is marked 0.
"""

from collections.abc import Sequence

import tensorflow as tf


def mark(ids, bits, vocabulary_size: int):
    """Ids and their marks as one int32 each.

    Args:
        ids: int tensor, dense or ragged, of ids below vocabulary_size.
        bits: int or bool tensor of the same shape, not negative.
        vocabulary_size: int.

    Returns:
        A tensor of the shape of `ids`, int32: ids + vocabulary_size * bits.

    Raises:
        ValueError: if int32 has no room for a single bit beside such a vocabulary.
        tf.errors.InvalidArgumentError: for ids outside of the vocabulary, or bits that int32 has no
            room for.

    Example:

    >>> mark(tf.constant([5, 6, 7]), tf.constant([0, 1, 3]), vocabulary_size=10).numpy().tolist()
    [5, 16, 37]
    """
    most = 2 ** room_for_bits(vocabulary_size) - 1
    if isinstance(ids, tf.RaggedTensor):
        if isinstance(bits, tf.RaggedTensor):
            bits = bits.flat_values
        return ids.with_flat_values(mark(ids.flat_values, bits, vocabulary_size))
    ids, bits = tf.cast(ids, tf.int32), tf.cast(bits, tf.int32)
    checks = [
        tf.debugging.Assert(
            tf.reduce_all((ids >= 0) & (ids < vocabulary_size)),
            [f"An id is outside of a vocabulary of {vocabulary_size} pieces. Ids:", ids],
        ),
        tf.debugging.Assert(
            tf.reduce_all((bits >= 0) & (bits <= most)),
            [
                f"Marks must be from 0 to {most}: beside a vocabulary of {vocabulary_size} pieces "
                "int32 has room for no more. Use fewer marks. Marks:",
                bits,
            ],
        ),
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):
        return ids + vocabulary_size * bits


def unmark(marked, vocabulary_size: int):
    """Ids and bits of what `mark` made.

    Args:
        marked: int tensor, dense or ragged.
        vocabulary_size: int, as in `mark`.

    Returns:
        ids: int32 tensor of the same shape.
        bits: int32 tensor of the same shape.

    Example:

    >>> [x.numpy().tolist() for x in unmark(tf.constant([5, 16, 37]), vocabulary_size=10)]
    [[5, 6, 7], [0, 1, 3]]
    """
    if isinstance(marked, tf.RaggedTensor):
        ids, bits = unmark(marked.flat_values, vocabulary_size)
        return marked.with_flat_values(ids), marked.with_flat_values(bits)
    marked = tf.cast(marked, tf.int32)
    return marked % vocabulary_size, marked // vocabulary_size


def room_for_bits(vocabulary_size: int) -> int:
    """How many bits a mark may have beside ids of a vocabulary; 16 beside BERT's 30,522.

    Raises:
        ValueError: if there is none.

    Example:

    >>> room_for_bits(30522)
    16
    """
    room = (2**31 // vocabulary_size).bit_length() - 1 if vocabulary_size > 0 else 0
    if room < 1:
        raise ValueError(
            f"vocabulary_size={vocabulary_size} leaves no bit of an int32 for marks: it must be "
            f"from 1 to {2**30}."
        )
    return room


def join_bits(marks: Sequence, widths: Sequence[int]):
    """Several marks as one number.

    Args:
        marks: int or bool tensors of one shape, dense; or all ragged alike.
        widths: bits of each; marks[i] is below 2 ** widths[i].

    Returns:
        An int32 tensor of the same shape, the first mark in the lowest bits.

    Raises:
        ValueError: if there are not as many widths as marks.

    Example:

    >>> join_bits([tf.constant([1, 0]), tf.constant([2, 3])], widths=[1, 2]).numpy().tolist()
    [5, 6]
    """
    joined, shift = None, 0
    for part, width in zip(marks, widths, strict=True):
        part = tf.cast(part, tf.int32) * 2**shift
        joined = part if joined is None else joined + part
        shift += width
    return joined


def split_bits(bits, widths: Sequence[int]) -> list:
    """What `join_bits` joined: a list of int32 tensors.

    Example:

    >>> [x.numpy().tolist() for x in split_bits(tf.constant([5, 6]), widths=[1, 2])]
    [[1, 0], [2, 3]]
    """
    marks = []
    for width in widths:
        marks.append(bits % 2**width)
        bits = bits // 2**width
    return marks
