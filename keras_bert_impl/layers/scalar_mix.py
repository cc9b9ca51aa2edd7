"""One vector a token from all layers of an encoder: a learned weighted sum."""

import keras
from keras import ops

from keras_bert_impl.layers.initialization import LAYER_NORM_EPSILON


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class ScalarMix(keras.layers.Layer):
    """`gamma * sum_k softmax(w)_k h_k` (Peters et al. 2018, ELMo, arXiv:1802.05365, equation 1).

    At its start all layers weigh the same and gamma is 1, so the result is their mean.

    Args:
        layer_norm: bool. Normalize each vector of each layer (Ba et al. 2016, without scale and
            shift) before it is weighed, so that layers whose vectors are long do not drown the
            others (section 3.2 there).

    Call arguments:
        states: list of (batch, length, hidden_dim), or one (layers, batch, length, hidden_dim).

    Returns:
        (batch, length, hidden_dim) of the layer's compute dtype.

    Raises:
        ValueError: if the number of layers is unknown, or another than at first.

    Example:

    >>> mix = ScalarMix()
    >>> mix([keras.ops.ones((2, 5, 8)), 3 * keras.ops.ones((2, 5, 8))])[0, 0, 0]
    <tf.Tensor: shape=(), dtype=float32, numpy=2.0>
    """

    def __init__(self, layer_norm: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.layer_norm = layer_norm

    def build(self, states_shape):
        self.num_layers = len(states_shape) if _is_list(states_shape) else states_shape[0]
        if self.num_layers is None:
            raise ValueError(
                f"The first axis of {tuple(states_shape)} counts the layers, so it must be known. "
                "Pass a list of layers otherwise."
            )
        # Vectors: weight decay leaves them alone.
        self.weight_logits = self.add_weight(
            name="weight_logits", shape=(self.num_layers,), initializer="zeros"
        )
        self.gamma = self.add_weight(name="gamma", shape=(), initializer="ones")
        self.built = True

    def layer_weights(self):
        """The share of each layer, (layers,), summing to 1."""
        logits = ops.convert_to_tensor(self.weight_logits)
        return ops.softmax(ops.cast(logits, keras.backend.result_type(logits.dtype, "float32")))

    def call(self, states):
        count = len(states) if isinstance(states, (list, tuple)) else states.shape[0]
        if count != self.num_layers:
            raise ValueError(f"{self.name} mixes {self.num_layers} layers, but received {count}.")
        weights = self.layer_weights()
        mixed = 0
        for layer in range(self.num_layers):
            state = ops.cast(states[layer], weights.dtype)
            if self.layer_norm:
                state = ops.layer_normalization(state, epsilon=LAYER_NORM_EPSILON)
            mixed = mixed + weights[layer] * state  # (batch, length, hidden_dim)
        return ops.cast(ops.cast(self.gamma, weights.dtype) * mixed, self.compute_dtype)

    def compute_output_shape(self, states_shape):
        return tuple(states_shape[0] if _is_list(states_shape) else states_shape[1:])

    def get_config(self):
        return {**super().get_config(), "layer_norm": self.layer_norm}


def _is_list(states_shape) -> bool:
    """Whether these are shapes of several tensors, not of one."""
    return isinstance(states_shape[0], (list, tuple))
