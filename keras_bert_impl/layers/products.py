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


def product(layer: keras.layers.Dense, x, columns: slice = slice(None)):
    """`x @ kernel`, and the bias that is still to be added to it.

    Args:
        layer: built. Where it is more than product and bias, as with LoRA or in int8, its whole
            result comes back, and None.
        x: (..., inputs) of the layer's compute dtype.
        columns: of the kernel and bias; the others are not computed where the layer is no more.

    Returns:
        (..., outputs), and (outputs,) or None.
    """
    if not _is_plain(layer):
        return layer(x)[..., columns], None
    *outer, inputs = ops.shape(x)
    kernel, bias = _columns(layer, columns)
    y = ops.matmul(ops.reshape(x, (-1, inputs)), kernel)
    return ops.reshape(y, (*outer, kernel.shape[-1])), bias


def dense_result(
    layer: keras.layers.Dense,
    x,
    activation: str | None = None,
    training=False,
    columns: slice = slice(None),
):
    """`activation(layer(x))`.

    Args:
        layer, x, columns: as in `product`.
        activation: str. As `hidden_activation` takes; None for none.
        training: bool.
    """
    activate = hidden_activation(activation) if activation else lambda x: x
    if keras.backend.backend() != "tensorflow" or not _is_plain(layer):
        y, bias = product(layer, x, columns) if columns != slice(None) else (layer(x), None)
        return activate(y if bias is None else y + bias)
    if training and is_fusing() and activation:
        return _biased(activation)(*product(layer, x, columns))
    import tensorflow as tf

    *outer, inputs = ops.shape(x)
    kernel, bias = _columns(layer, columns)
    # Product, bias and activation in a row, without a reshape between: TensorFlow joins them.
    y = tf.nn.bias_add(tf.matmul(ops.reshape(x, (-1, inputs)), kernel), bias)
    return ops.reshape(_plain(activation)(y), (*outer, kernel.shape[-1]))


def _columns(layer, columns):
    """Some columns of a layer's kernel, and their biases."""
    kernel, bias = ops.convert_to_tensor(layer.kernel), ops.convert_to_tensor(layer.bias)
    return (kernel, bias) if columns == slice(None) else (kernel[:, columns], bias[columns])


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
