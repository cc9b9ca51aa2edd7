"""A dense layer's matrix product and its bias apart, so that the bias goes with what follows.

TensorFlow joins product, bias and GELU to one kernel where they stand as it expects them, and
where no gradient needs what lies between. In training the bias goes into the loop of
`layers/fusion.py` that reads the product anyway. JAX compiles whole steps and needs none of it.
"""

import functools

import keras
from keras import ops

from keras_bert_impl.layers.fusion import fused, is_fusing
from keras_bert_impl.layers.initialization import hidden_activation


def product(layer: keras.layers.Dense, x):
    """`x @ kernel`, and the bias that is still to be added to it.

    Args:
        layer: built. Where it is more than product and bias, as with LoRA or in int8, its whole
            result comes back, and None.
        x: (..., inputs) of the layer's compute dtype.

    Returns:
        (..., outputs), and (outputs,) or None.
    """
    if not _is_plain(layer):
        return layer(x), None
    *outer, inputs = ops.shape(x)
    y = ops.matmul(ops.reshape(x, (-1, inputs)), layer.kernel)
    return ops.reshape(y, (*outer, layer.units)), ops.convert_to_tensor(layer.bias)


def dense_result(layer: keras.layers.Dense, x, activation: str | None = None, training=False):
    """`activation(layer(x))`.

    Args:
        layer, x: as in `product`.
        activation: str. As `hidden_activation` takes; None for none.
        training: bool.
    """
    activate = hidden_activation(activation) if activation else lambda x: x
    if keras.backend.backend() != "tensorflow" or not _is_plain(layer):
        return activate(layer(x))
    if training and is_fusing() and activation:
        return _biased(activation)(*product(layer, x))
    import tensorflow as tf

    *outer, inputs = ops.shape(x)
    # Product, bias and activation in a row, without a reshape between: TensorFlow joins them.
    y = tf.matmul(ops.reshape(x, (-1, inputs)), ops.convert_to_tensor(layer.kernel))
    y = tf.nn.bias_add(y, ops.convert_to_tensor(layer.bias))
    return ops.reshape(_plain(activation)(y), (*outer, layer.units))


def _is_plain(layer) -> bool:
    return (
        type(layer) is keras.layers.Dense
        and layer.use_bias
        and layer.activation is keras.activations.linear
        and not layer.lora_enabled
        and getattr(layer, "quantization_mode", None) is None
    )


def _plain(activation):
    if activation is None:
        return lambda x: x
    if activation in ("gelu", "gelu_approximate"):
        return lambda x: ops.gelu(x, approximate=activation == "gelu_approximate")
    return hidden_activation(activation)


@functools.cache
def _biased(activation: str):
    """activation(x + bias), in float32, since nothing of it is kept in memory."""
    activate = _plain(activation)

    def function(x, bias):
        y = activate(ops.cast(x, "float32") + ops.cast(bias, "float32"))
        return ops.cast(y, x.dtype)

    return fused(function, biases=((1, 0),))
