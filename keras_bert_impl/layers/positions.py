"""Vectors at chosen positions of each row."""

from keras import ops


def gather_positions(x, positions):
    """The vectors at the given positions of each row.

    Args:
        x: (batch, length, hidden_dim).
        positions: (batch, slots) int, each below length.

    Returns:
        (batch, slots, hidden_dim).
    """
    return ops.take_along_axis(x, ops.cast(positions, "int32")[:, :, None], axis=1)
