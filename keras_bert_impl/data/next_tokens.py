"""Targets of a causal language model: at each token the one after it."""

from collections.abc import Mapping

import tensorflow as tf


def next_tokens(inputs: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """What each position of a row is to predict.

    Args:
        inputs: `token_ids` (batch, length) int and `padding_mask` (batch, length) bool, true on
            real tokens, as `pack` makes them.

    Returns:
        next_ids: (batch, length) int32. The token after each; 0 where there is none.
        weights: (batch, length) float32. 1 where both the position and the one after it are real
            tokens, else 0: on the last token, `[SEP]`, and on padding.

    Example:

    >>> inputs = {"token_ids": [[2, 5, 3, 0]], "padding_mask": [[True, True, True, False]]}
    >>> [x.numpy().tolist() for x in next_tokens(inputs)]
    [[[5, 3, 0, 0]], [[1.0, 1.0, 0.0, 0.0]]]
    """
    ids = tf.cast(inputs["token_ids"], tf.int32)
    real = tf.cast(inputs["padding_mask"], tf.bool)
    both_real = real & _shifted(real)
    return tf.where(both_real, _shifted(ids), 0), tf.cast(both_real, tf.float32)


def _shifted(rows: tf.Tensor) -> tf.Tensor:
    """Each row without its first entry, and a zero at its end."""
    return tf.concat([rows[:, 1:], tf.zeros_like(rows[:, :1])], axis=1)
