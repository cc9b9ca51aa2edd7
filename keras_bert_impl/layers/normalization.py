"""Layer norm with the dropout and addition that stand beside it, as one loop."""

import functools

from keras import ops

from keras_bert_impl.layers.dropout import drop, dropped, seeds_of
from keras_bert_impl.layers.fusion import fused, is_fusing


def add_and_normalize(x, transformed, layer_norm, dropout, training, bias=None):
    """`layer_norm(x + dropout(transformed + bias))` (Vaswani et al. 2017, section 5.4).

    Args:
        x, transformed: (batch, length, hidden_dim).
        layer_norm: `keras.layers.LayerNormalization`, built.
        dropout: `keras.layers.Dropout`.
        training: bool.
        bias: (hidden_dim,), optional.
    """
    if not is_fusing():
        transformed = transformed if bias is None else transformed + bias
        return layer_norm(x + drop(dropout, transformed, training))
    if bias is None:
        bias = ops.zeros((x.shape[-1],), x.dtype)
    function = _add_and_normalize(dropout.rate, layer_norm.epsilon)
    scale, shift = layer_norm.gamma, layer_norm.beta
    return function(x, transformed, bias, scale, shift, *seeds_of(dropout, training))


@functools.cache
def _add_and_normalize(rate: float, epsilon: float):
    # Cached, since each function is compiled for itself: all layers share one.
    def function(x, transformed, bias, gamma, beta, *seeds):
        transformed = ops.cast(transformed, "float32") + ops.cast(bias, "float32")
        if seeds:
            transformed = dropped(transformed, rate, seeds[0])
        # Rounded as it is kept, so that backward sees the same.
        total = ops.cast(ops.cast(x, "float32") + transformed, x.dtype)
        precise = ops.cast(total, "float32")
        mean, factor = moments(precise, epsilon)
        y = (precise - mean) * factor
        y = y * ops.cast(gamma, "float32") + ops.cast(beta, "float32")
        return ops.cast(y, x.dtype), total, mean, factor, gamma, *seeds

    def backward(dy, total, mean, factor, gamma, *seeds):
        """Ba et al. 2016 differentiated by hand: the sums of a row are taken once."""
        precise_dy = ops.cast(dy, "float32")
        normal = (ops.cast(total, "float32") - mean) * factor
        scaled = precise_dy * ops.cast(gamma, "float32")
        along_mean = ops.mean(scaled, axis=-1, keepdims=True)
        along_normal = ops.mean(scaled * normal, axis=-1, keepdims=True)
        dx = factor * (scaled - along_mean - normal * along_normal)
        dtransformed = dropped(dx, rate, seeds[0]) if seeds else dx
        rows = tuple(range(len(dy.shape) - 1))
        dgamma = ops.sum(precise_dy * normal, axis=rows)
        dbeta = ops.sum(precise_dy, axis=rows)
        return (
            ops.cast(dx, dy.dtype),
            ops.cast(dtransformed, dy.dtype),
            ops.cast(dgamma, gamma.dtype),
            ops.cast(dbeta, gamma.dtype),
        )

    return fused(function, backward, biases=((2, 1),))


def normalize_and_drop(x, layer_norm, dropout, training):
    """`dropout(layer_norm(x))`, as the embeddings end; arguments as in `add_and_normalize`."""
    if not is_fusing():
        return dropout(layer_norm(x), training=training)
    function = _normalize_and_drop(dropout.rate, layer_norm.epsilon)
    return function(x, layer_norm.gamma, layer_norm.beta, *seeds_of(dropout, training))


@functools.cache
def _normalize_and_drop(rate: float, epsilon: float):
    def function(x, gamma, beta, *seeds):
        y = ops.cast(normalized(ops.cast(x, "float32"), gamma, beta, epsilon), x.dtype)
        return dropped(y, rate, seeds[0]) if seeds else y

    return fused(function)


def normalized(x, gamma, beta, epsilon: float):
    """Layer norm (Ba et al. 2016) over the last axis, in float32.

    Args:
        x: (..., hidden_dim) float32.
        gamma, beta: (hidden_dim,).
        epsilon: float. Added to the variance.
    """
    mean, factor = moments(x, epsilon)
    return (x - mean) * factor * ops.cast(gamma, "float32") + ops.cast(beta, "float32")


def moments(x, epsilon: float):
    """Mean, and one over the standard deviation, of each row: (..., 1) each.

    Args:
        x, epsilon: as in `normalized`.
    """
    mean = ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(x - mean), axis=-1, keepdims=True)
    return mean, ops.rsqrt(variance + epsilon)
