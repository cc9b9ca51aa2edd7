"""What stands on the encoder in pretraining: masked-LM and next-sentence logits."""

import keras
from keras import ops

from keras_bert_impl.layers.initialization import (
    INITIALIZER_RANGE,
    LAYER_NORM_EPSILON,
    dense,
    hidden_activation,
)
from keras_bert_impl.layers.positions import gather_positions


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class MaskedLMHead(keras.layers.Layer):
    """Scores over the vocabulary at the masked positions only (paper, section 3.1, task 1).

    `layer_norm(activation(dense(x))) @ table^T + bias`: the token table of the embeddings
    is used again, so the head adds only a dense layer, a layer norm and one bias a token.

    Args:
        token_embedding: the embeddings' reversible token table.
        activation: str. Of the transform; the reference takes the encoder's.
        layer_norm_epsilon: float. Added to the variance.
        initializer_range: float. Standard deviation of the initial weights.

    Call arguments:
        x: (batch, length, hidden_dim), the encoder's output.
        mask_positions: (batch, slots) int. Empty slots point anywhere; their loss weighs 0.

    Returns:
        (batch, slots, vocabulary_size) logits.
    """

    def __init__(
        self,
        token_embedding,
        activation: str = "gelu",
        layer_norm_epsilon: float = LAYER_NORM_EPSILON,
        initializer_range: float = INITIALIZER_RANGE,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.token_embedding = token_embedding
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self._activate = hidden_activation(activation)

    def build(self, x_shape, mask_positions_shape=None):
        hidden_dim = x_shape[-1]
        self.transform_dense = dense(self, hidden_dim, "transform_dense")
        self.transform_layer_norm = keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name="transform_layer_norm"
        )
        self.transform_dense.build(x_shape)
        self.transform_layer_norm.build(x_shape)
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.token_embedding.input_dim,),
            initializer="zeros",
        )
        self.built = True

    def call(self, x, mask_positions):
        x = gather_positions(x, mask_positions)  # (batch, slots, hidden_dim)
        x = self.transform_layer_norm(self._activate(self.transform_dense(x)))
        logits = self.token_embedding(x, reverse=True)  # (batch, slots, vocabulary_size)
        return logits + ops.cast(self.output_bias, logits.dtype)

    def compute_output_shape(self, x_shape, mask_positions_shape):
        return (*mask_positions_shape, self.token_embedding.input_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "token_embedding": keras.saving.serialize_keras_object(self.token_embedding),
            "activation": self.activation,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        config["token_embedding"] = keras.saving.deserialize_keras_object(config["token_embedding"])
        return cls(**config)


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class NextSentenceHead(keras.layers.Layer):
    """Does B follow A? Two logits from the pooled vector (paper, section 3.1, task 2).

    Class 0: B is the next sentence. Class 1: B was taken at random. As the reference.

    Args:
        initializer_range: float. Standard deviation of the initial weights.

    Call arguments:
        pooled: (batch, hidden_dim), the pooler's output; of packed rows (batch, examples,
            hidden_dim).

    Returns:
        (batch, 2) logits, or (batch, examples, 2).
    """

    def __init__(self, initializer_range: float = INITIALIZER_RANGE, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range

    def build(self, pooled_shape):
        self.dense = dense(self, 2, "dense")
        self.dense.build(pooled_shape)
        self.built = True

    def call(self, pooled):
        return self.dense(pooled)

    def compute_output_shape(self, pooled_shape):
        return (*pooled_shape[:-1], 2)

    def get_config(self):
        return {**super().get_config(), "initializer_range": self.initializer_range}


def masked_lm_head(backbone) -> MaskedLMHead:
    """The head for a backbone: its table, its activation, its precision."""
    return MaskedLMHead(
        backbone.token_embedding,
        activation=backbone.activation,
        layer_norm_epsilon=backbone.layer_norm_epsilon,
        initializer_range=backbone.initializer_range,
        dtype=backbone.dtype_policy,
        name="masked_lm_head",
    )


def next_sentence_head(backbone) -> NextSentenceHead:
    """The head for a backbone, in its precision."""
    return NextSentenceHead(
        initializer_range=backbone.initializer_range,
        dtype=backbone.dtype_policy,
        name="next_sentence_head",
    )
