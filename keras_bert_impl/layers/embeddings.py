"""Token, position and segment vectors, summed and normalized (paper, section 3.1 and figure 2)."""

import keras
import keras_hub
from keras import ops

from keras_bert_impl.layers.initialization import (
    INITIALIZER_RANGE,
    LAYER_NORM_EPSILON,
    kernel_initializer,
)
from keras_bert_impl.layers.normalization import normalize_and_drop


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertEmbeddings(keras.layers.Layer):
    """Ids to vectors: `dropout(layer_norm(token + position + segment))`.

    Args:
        vocabulary_size: int. Rows of the token table.
        hidden_dim: int. Length of each vector.
        max_sequence_length: int. Rows of the position table, hence the longest input.
        num_segments: int. Rows of the segment table; 2 for sentence A and B.
        dropout: float in [0, 1). Share of components dropped while training.
        layer_norm_epsilon: float. Added to the variance.
        initializer_range: float. Standard deviation of the initial weights.

    Call arguments:
        token_ids: (batch, length) int.
        segment_ids: (batch, length) int, each below `num_segments`.
        position_ids: (batch, length) int, optional. Default 0, 1, 2, ... in each row;
            packed rows restart it at each example.

    Returns:
        (batch, length, hidden_dim) of the layer's compute dtype.

    Raises:
        ValueError: if the rows are longer than the position table.
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        max_sequence_length: int = 512,
        num_segments: int = 2,
        dropout: float = 0.1,
        layer_norm_epsilon: float = LAYER_NORM_EPSILON,
        initializer_range: float = INITIALIZER_RANGE,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.dropout_rate = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range

        def table(layer_class, rows, name):
            return layer_class(
                rows,
                hidden_dim,
                embeddings_initializer=kernel_initializer(initializer_range),
                dtype=self.dtype_policy,
                name=name,
            )

        # Reversible, since the masked-LM head reads the same table backwards.
        self.token_embedding = table(
            keras_hub.layers.ReversibleEmbedding, vocabulary_size, "token_embedding"
        )
        self.position_embedding = table(
            keras.layers.Embedding, max_sequence_length, "position_embedding"
        )
        self.segment_embedding = table(keras.layers.Embedding, num_segments, "segment_embedding")
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm"
        )
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, token_ids_shape, segment_ids_shape=None, position_ids_shape=None):
        shape = tuple(token_ids_shape)
        self.token_embedding.build(shape)
        self.position_embedding.build(shape)
        self.segment_embedding.build(shape)
        self.layer_norm.build((*shape, self.hidden_dim))
        self.built = True

    def call(self, token_ids, segment_ids, position_ids=None, training=None):
        length = token_ids.shape[1]
        if length is not None and length > self.max_sequence_length and position_ids is None:
            raise ValueError(
                f"token_ids has rows of {length} tokens, but the position table has "
                f"{self.max_sequence_length} rows. Truncate the input, or build the model with "
                f"max_sequence_length={length} or more."
            )
        if position_ids is None:
            position_ids = ops.arange(ops.shape(token_ids)[1])  # (length,)
        x = self.token_embedding(token_ids)  # (batch, length, hidden_dim)
        x = x + self.position_embedding(position_ids)
        x = x + self.segment_embedding(segment_ids)
        return normalize_and_drop(x, self.layer_norm, self.dropout, training)

    def compute_output_shape(
        self, token_ids_shape, segment_ids_shape=None, position_ids_shape=None
    ):
        return (*token_ids_shape, self.hidden_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "max_sequence_length": self.max_sequence_length,
            "num_segments": self.num_segments,
            "dropout": self.dropout_rate,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
        }
