"""Layer norm with the dropout and addition that stand beside it, as one loop."""

import functools

from keras import ops

from keras_bert_impl.layers.dropout import dropped, seeds_of
from keras_bert_impl.layers.fusion import fused, is_fusing


def add_and_normalize(x, transformed, layer_norm, dropout, training):
    """`layer_norm(x + dropout(transformed))` (paper's Transformer, Vaswani et al. 2017, 5.4).

    Args:
        x, transformed: (batch, length, hidden_dim).
        layer_norm: `keras.layers.LayerNormalization`, built.
        dropout: `keras.layers.Dropout`.
        training: bool.
    """
    if not is_fusing():
        return layer_norm(x + dropout(transformed, training=training))
    function = _add_and_normalize(dropout.rate, layer_norm.epsilon)
    return function(x, transformed, layer_norm.gamma, layer_norm.beta, *seeds_of(dropout, training))


@functools.cache
def _add_and_normalize(rate: float, epsilon: float):
    # Cached, since each function is compiled for itself: all layers share one.
    def function(x, transformed, gamma, beta, *seeds):
        if seeds:
            transformed = dropped(transformed, rate, seeds[0])
        total = ops.cast(x, "float32") + ops.cast(transformed, "float32")
        return ops.cast(normalized(total, gamma, beta, epsilon), x.dtype)

    return fused(function)


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
    mean = ops.mean(x, axis=-1, keepdims=True)
    centered = x - mean
    variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
    x = centered * ops.rsqrt(variance + epsilon)
    return x * ops.cast(gamma, "float32") + ops.cast(beta, "float32")
