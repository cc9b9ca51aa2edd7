"""The language model's loss beside another one, in fine-tuning (Radford et al. 2018, section 3.2)."""

import keras
from keras import ops


def mean_next_token_loss(logits, token_ids, padding_mask):
    """The mean over rows of each row's mean cross entropy of its next tokens.

    The mean of means, as the code that Radford et al. published with their paper.

    Args:
        logits: (batch, length, vocabulary_size). At each token the scores of the one after it.
        token_ids: (batch, length) int.
        padding_mask: (batch, length) bool, true on real tokens.

    Returns:
        float32 scalar. A row without two real tokens counts with 0.
    """
    real = ops.cast(padding_mask, "bool")
    weights = ops.cast(ops.logical_and(real[:, :-1], real[:, 1:]), "float32")
    losses = ops.sparse_categorical_crossentropy(
        token_ids[:, 1:], ops.cast(logits[:, :-1], "float32"), from_logits=True
    )  # (batch, length - 1)
    counts = ops.maximum(ops.sum(weights, axis=1), 1.0)
    return ops.mean(ops.sum(weights * losses, axis=1) / counts)


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class AuxiliaryNextTokenLoss(keras.layers.Layer):
    """Hands vectors on as they are, and adds the next tokens' loss to the model's.

    Args:
        token_embedding: the embeddings' reversible token table.
        weight: float. Times the loss; 0.5 in the paper.

    Call arguments:
        x: (batch, length, hidden_dim), the output of a causal encoder.
        token_ids: (batch, length) int.
        padding_mask: (batch, length) bool, true on real tokens.

    Returns:
        x.
    """

    def __init__(self, token_embedding, weight: float = 0.5, **kwargs):
        super().__init__(**kwargs)
        self.token_embedding = token_embedding
        self.weight = weight

    def build(self, x_shape, token_ids_shape=None, padding_mask_shape=None):
        self.built = True

    def call(self, x, token_ids, padding_mask):
        logits = self.token_embedding(x, reverse=True)  # (batch, length, vocabulary_size)
        self.add_loss(self.weight * mean_next_token_loss(logits, token_ids, padding_mask))
        return x

    def compute_output_shape(self, x_shape, token_ids_shape=None, padding_mask_shape=None):
        return x_shape

    def get_config(self):
        return {
            **super().get_config(),
            "token_embedding": keras.saving.serialize_keras_object(self.token_embedding),
            "weight": self.weight,
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        config["token_embedding"] = keras.saving.deserialize_keras_object(config["token_embedding"])
        return cls(**config)
