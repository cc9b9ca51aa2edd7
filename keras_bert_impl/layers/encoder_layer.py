"""One block of the encoder: attention, then a two-layer network, each added and normalized."""

import keras

from keras_bert_impl.layers.attention import SelfAttention
from keras_bert_impl.layers.fusion import is_fusing
from keras_bert_impl.layers.initialization import (
    INITIALIZER_RANGE,
    LAYER_NORM_EPSILON,
    dense,
    hidden_activation,
)
from keras_bert_impl.layers.normalization import add_and_normalize
from keras_bert_impl.layers.positions import gather_positions
from keras_bert_impl.layers.products import dense_result, product
from keras_bert_impl.layers.recompute import recomputed


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertEncoderLayer(keras.layers.Layer):
    """A post-norm Transformer encoder block (Vaswani et al. 2017, figure 1, left).

    Args:
        num_heads: int. Attention heads; must divide the input's last dimension.
        intermediate_dim: int. Width between the two dense layers; the papers' models
            take 4 times the hidden width.
        activation: str. Between the two dense layers; see `hidden_activation`.
        dropout: float in [0, 1). After each of the two parts.
        attention_dropout: float in [0, 1), default as `dropout`. On attention probabilities.
        layer_norm_epsilon: float. Added to the variance.
        initializer_range: float. Standard deviation of the initial weights.
        recompute: bool. Compute the block again in the backward pass instead of keeping what lies
            inside it, see `layers/recompute.py`.

    Call arguments:
        x: (batch, length, hidden_dim).
        attention_mask: bool from `make_attention_mask`, optional.
        positions: (batch, slots) int, optional. The positions whose results are wanted; nothing
            but keys and values is computed of the others.

    Returns:
        (batch, length, hidden_dim), or (batch, slots, hidden_dim).
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        activation: str = "gelu",
        dropout: float = 0.1,
        attention_dropout: float | None = None,
        layer_norm_epsilon: float = LAYER_NORM_EPSILON,
        initializer_range: float = INITIALIZER_RANGE,
        recompute: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.activation = activation
        self.dropout_rate = dropout
        self.attention_dropout = dropout if attention_dropout is None else attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.recompute = recompute
        hidden_activation(activation)  # an unknown name is an error at once

    def build(self, x_shape, attention_mask_shape=None, positions_shape=None):
        hidden_dim = x_shape[-1]

        def layer_norm(name):
            return keras.layers.LayerNormalization(
                epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
            )

        self.attention = SelfAttention(
            self.num_heads,
            dropout=self.attention_dropout,
            initializer_range=self.initializer_range,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.attention_layer_norm = layer_norm("attention_layer_norm")
        self.intermediate_dense = dense(self, self.intermediate_dim, "intermediate_dense")
        self.output_dense = dense(self, hidden_dim, "output_dense")
        self.output_layer_norm = layer_norm("output_layer_norm")
        self.dropout = keras.layers.Dropout(
            self.dropout_rate, dtype=self.dtype_policy, name="dropout"
        )

        self.attention.build(x_shape)
        self.attention_layer_norm.build(x_shape)
        self.intermediate_dense.build(x_shape)
        self.output_dense.build((*x_shape[:-1], self.intermediate_dim))
        self.output_layer_norm.build(x_shape)
        self.built = True

    def call(self, x, attention_mask=None, positions=None, training=None):
        def block(x):
            return self._block(x, attention_mask, positions, training)

        if self.recompute and training:
            dropouts = [(self.attention.dropout, 1), (self.dropout, 2)]
            return recomputed(block, x, self, dropouts)
        return block(x)

    def _block(self, x, attention_mask, positions, training):
        if is_fusing():
            attended, bias = self.attention.attend_in_loops(x, attention_mask, training, positions)
        else:
            attended = self.attention(
                x, attention_mask=attention_mask, positions=positions, training=training
            )
            bias = None
        if positions is not None:
            x = gather_positions(x, positions)
        return self._after_attention(x, attended, training, bias)

    def with_cache(self, x, cache, index, attention_mask):
        """As `call`, of new positions alone; arguments and results as `SelfAttention.with_cache`."""
        attended, cache = self.attention.with_cache(x, cache, index, attention_mask)
        return self._after_attention(x, attended, training=False), cache

    def _after_attention(self, x, attended, training, bias=None):
        x = add_and_normalize(x, attended, self.attention_layer_norm, self.dropout, training, bias)
        # (batch, length, intermediate_dim)
        transformed = dense_result(self.intermediate_dense, x, self.activation, training)
        if is_fusing():
            transformed, bias = product(self.output_dense, transformed)
        else:
            transformed, bias = dense_result(self.output_dense, transformed), None
        norm = self.output_layer_norm
        return add_and_normalize(x, transformed, norm, self.dropout, training, bias)

    def compute_output_shape(self, x_shape, attention_mask_shape=None, positions_shape=None):
        return (*(positions_shape or x_shape[:2]), x_shape[-1])

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "activation": self.activation,
            "dropout": self.dropout_rate,
            "attention_dropout": self.attention_dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "recompute": self.recompute,
        }
