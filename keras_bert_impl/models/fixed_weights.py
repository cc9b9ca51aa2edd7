"""Weights cast to the precision of computing once, for many batches that do not change them."""

import contextlib
from typing import TYPE_CHECKING, Any

import keras

from keras_bert_impl.layers.fusion import fusing
from keras_bert_impl.training.distribution import num_replicas

# A mixin: Keras's models cannot inherit from one class twice.
_Model: Any = keras.Model if TYPE_CHECKING else object


class PredictsFast(_Model):
    """A model whose `predict` fuses loops and casts weights once; a mixin of `keras.Model`s."""

    _fixed_weights: "FixedWeights | None" = None

    def predict_step(self, *args):
        fixed = self._fixed_weights
        with fusing(), contextlib.nullcontext() if fixed is None else fixed.scope():
            return super().predict_step(*args)

    def make_predict_function(self, force=False):
        # JAX hands weights to the step itself. Several devices would need copies each.
        if keras.backend.backend() == "tensorflow":
            is_new = self.predict_function is None or force
            if num_replicas() > 1:
                self._fixed_weights = None
            elif is_new or self._fixed_weights is None:
                self._fixed_weights = FixedWeights(self)
            else:
                self._fixed_weights.update()
        return super().make_predict_function(force)


class FixedWeights:
    """Copies of a model's matrices in the precision that its dense layers compute in.

    In lower precision each step casts each matrix, since steps change them. `predict` does not:
    it casts once, when it begins, and takes half the matrices' memory for it.

    Args:
        model: built.
    """

    def __init__(self, model: keras.Model):
        import tensorflow as tf

        self._pairs = [
            (kernel, tf.Variable(keras.ops.cast(kernel, dtype), trainable=False))
            for kernel, dtype in lowered_kernels(model)
        ]

    def update(self) -> None:
        """Cast again, after the weights may have changed."""
        for kernel, copy in self._pairs:
            copy.assign(keras.ops.cast(kernel, copy.dtype.name))

    def scope(self):
        """Where the layers see the copies. Variables must not be assigned in it."""
        return replaced(self._pairs)


def lowered_kernels(model: keras.Model) -> list[tuple[keras.Variable, str]]:
    """The matrices of plain dense layers that compute in less than float32, and their dtype then."""
    return [
        (layer.kernel, layer.compute_dtype)
        for layer in plain_dense_layers(model)
        if layer.compute_dtype != layer.variable_dtype
    ]


def plain_dense_layers(model: keras.Model) -> list[keras.layers.Dense]:
    """The dense layers that no LoRA and no int8 has changed."""
    return [
        layer
        for layer in model._flatten_layers()
        if type(layer) is keras.layers.Dense
        and layer.built
        and not layer.lora_enabled
        and getattr(layer, "quantization_mode", None) is None
    ]


def replaced(pairs):
    """The scope in which layers see for each variable what it is paired with."""
    if not pairs:
        return contextlib.nullcontext()
    scope = keras.StatelessScope()
    # Not as the constructor's argument, which would cast them back.
    scope.state_mapping.update((id(variable), value) for variable, value in pairs)
    return scope
