"""Sliding windows over rows that are too long to be read at once.

google-research/bert, run_squad.py, `doc_spans` and `_check_is_max_context`.
"""

from typing import NamedTuple

import tensorflow as tf


class Windows(NamedTuple):
    """Pieces of rows, ordered by row and within a row by start; each (windows,) int64."""

    row: tf.Tensor
    start: tf.Tensor
    length: tf.Tensor


def windows(lengths, room, stride: int) -> Windows:
    """Windows that together cover each row, each of `room` tokens but the last of a row.

    Starts are 0, stride, 2 * stride and so on; the last window is the first that reaches the
    row's end. A stride larger than the room is cut to it, as in the reference, so that no token is
    skipped. An empty row has one empty window.

    Args:
        lengths: (rows,) int. Tokens of each row.
        room: int, or (rows,) int where it differs. Most tokens that a window has, at least 1.
        stride: int. Tokens from one start to the next, at least 1.

    Returns:
        `Windows`, at least one for each row.

    Raises:
        ValueError: for a stride below 1.
        tf.errors.InvalidArgumentError: for a room below 1.

    Example:

    >>> [x.numpy().tolist() for x in windows([5, 2], room=3, stride=1)]
    [[0, 0, 0, 1], [0, 1, 2, 0], [3, 3, 3, 2]]
    """
    if stride < 1:
        raise ValueError(f"stride={stride} must be at least 1.")
    lengths = tf.cast(lengths, tf.int64)
    room = tf.cast(room, tf.int64)
    check = tf.debugging.assert_positive(room, message="Windows have no room for a token. Room:")
    with tf.control_dependencies([check] if check is not None else []):
        room = tf.broadcast_to(room, tf.shape(lengths))
    step = tf.minimum(room, stride)

    left_over = tf.maximum(lengths - room, 0)  # tokens that the first window does not reach
    counts = 1 + (left_over + step - 1) // step
    row = tf.repeat(tf.range(tf.size(lengths, tf.int64)), counts)
    start = tf.ragged.range(counts).values * tf.gather(step, row)
    length = tf.minimum(tf.gather(room, row), tf.gather(lengths, row) - start)
    return Windows(row, start, length)


def cut_windows(rows: tf.RaggedTensor, windows: Windows) -> tf.RaggedTensor:
    """The values of each window.

    Args:
        rows: ragged (rows, tokens).
        windows: as made from the rows' lengths.

    Returns:
        Ragged (windows, tokens).

    Example:

    >>> rows = tf.ragged.constant([[5, 6, 7], [8]])
    >>> cut_windows(rows, windows(rows.row_lengths(), room=2, stride=1)).to_list()
    [[5, 6], [6, 7], [8]]
    """
    first = tf.gather(tf.cast(rows.row_starts(), tf.int64), windows.row) + windows.start
    position = tf.ragged.range(first, first + windows.length)
    return position.with_values(tf.gather(rows.values, position.values))


def is_best_window(windows: Windows, lengths) -> tf.RaggedTensor:
    """For each token of each window: is this the window that shows most of what is around it?

    A token's score in a window is the smaller number of tokens on either side of it there, plus a
    hundredth of the window's length, as in the reference; the first window with the highest score
    is the token's own. So every token has one.

    Args:
        windows: as made from `lengths`.
        lengths: (rows,) int. Tokens of each row.

    Returns:
        Ragged (windows, tokens) bool.

    Example:

    >>> is_best_window(windows([4], room=3, stride=1), [4]).to_list()
    [[True, True, False], [False, True, True]]
    """
    lengths = tf.cast(lengths, tf.int64)
    offset = tf.ragged.range(windows.length)  # (windows, tokens)
    window = offset.value_rowids()
    start, length, row = (
        tf.gather(x, window) for x in (windows.start, windows.length, windows.row)
    )
    left, right = offset.values, length - 1 - offset.values
    # float64 and in this order, so that equal scores are those that the reference finds equal.
    score = tf.cast(tf.minimum(left, right), tf.float64) + 0.01 * tf.cast(length, tf.float64)

    token = tf.gather(tf.cumsum(lengths, exclusive=True), row) + start + offset.values
    num_tokens = tf.reduce_sum(lengths)
    best = tf.math.unsorted_segment_max(score, token, num_tokens)
    is_best = score == tf.gather(best, token)
    first_best = tf.math.unsorted_segment_min(
        tf.where(is_best, window, window.dtype.max), token, num_tokens
    )
    return offset.with_values(window == tf.gather(first_best, token))
