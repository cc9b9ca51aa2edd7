"""Numbers every BERT layer shares: initial weights, layer-norm epsilon, activation names."""

from collections.abc import Callable

import keras

from keras_bert_impl.layers.fusion import fused, is_fusing

# google-research/bert, modeling.py: BertConfig.initializer_range, layer_norm().
INITIALIZER_RANGE = 0.02
LAYER_NORM_EPSILON = 1e-12


def kernel_initializer(stddev: float = INITIALIZER_RANGE) -> keras.initializers.Initializer:
    """Truncated normal around 0, as the reference's `create_initializer`."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def dense(parent: keras.layers.Layer, units: int, name: str, **options) -> keras.layers.Dense:
    """A dense layer inside another: its `initializer_range`, its precision.

    Args:
        parent: the layer that it is a part of.
        units: int. Its outputs.
        name: str.
        **options: further arguments of `keras.layers.Dense`.
    """
    return keras.layers.Dense(
        units,
        kernel_initializer=kernel_initializer(parent.initializer_range),
        dtype=parent.dtype_policy,
        name=name,
        **options,
    )


def _gelu(approximate: bool):
    @fused
    def in_one_loop(x):
        # In float32, since nothing of it is kept in memory.
        return keras.ops.cast(keras.ops.gelu(keras.ops.cast(x, "float32"), approximate), x.dtype)

    def gelu(x):
        return in_one_loop(x) if is_fusing() else keras.ops.gelu(x, approximate)

    return gelu


# The paper's first release computed GELU with erf; later commits of the same
# repository, and checkpoints called "gelu_new", with the tanh approximation.
_GELU = {"gelu": _gelu(approximate=False), "gelu_approximate": _gelu(approximate=True)}


def hidden_activation(name: str) -> Callable:
    """The function between two dense layers of the encoder, by name.

    Args:
        name: `"gelu"` (x * Phi(x), exact through erf), `"gelu_approximate"`
            (its tanh approximation), or any name of `keras.activations`.

    Raises:
        ValueError: if no such activation exists.
    """
    if name in _GELU:
        return _GELU[name]
    try:
        return keras.activations.get(name)
    except ValueError as error:
        raise ValueError(
            f"Unknown activation {name!r}. Use 'gelu', 'gelu_approximate' or a name of "
            "keras.activations such as 'relu'."
        ) from error
