"""Token, position and segment vectors, summed and normalized (paper, section 3.1 and figure 2).

With a fourth table, of pretraining tasks, as in ERNIE 2.0 (Sun et al. 2019), section 4.1.
"""

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
    """Ids to vectors: `dropout(layer_norm(token + position + segment + task))`.

    Args:
        vocabulary_size: int. Rows of the token table.
        hidden_dim: int. Length of each vector.
        max_sequence_length: int. Rows of the position table, hence the longest input.
        num_segments: int. Rows of the segment table; 2 for sentence A and B.
        dropout: float in [0, 1). Share of components dropped while training.
        layer_norm_epsilon: float. Added to the variance.
        initializer_range: float. Standard deviation of the initial weights.
        num_tasks: int. Rows of the task table. Default 0, without one, as in BERT.

    Call arguments:
        token_ids: (batch, length) int.
        segment_ids: (batch, length) int, each below `num_segments`.
        position_ids: (batch, length) int, optional. Default 0, 1, 2, ... in each row;
            packed rows restart it at each example.
        task_ids: (batch, 1) int, optional, each below `num_tasks`; (batch, length) for rows of
            several tasks. Default `default_task_ids`.

    Returns:
        (batch, length, hidden_dim) of the layer's compute dtype.

    Raises:
        ValueError: if the rows are longer than the position table, or for a negative `num_tasks`.
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
        num_tasks: int = 0,
        **kwargs,
    ):
        # In lower precision Keras would cast the whole table to read a few rows of it.
        super().__init__(autocast=False, **kwargs)
        if num_tasks < 0:
            raise ValueError(f"num_tasks={num_tasks} must not be negative.")
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.dropout_rate = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.num_tasks = num_tasks

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
        self.task_embedding = (
            table(keras.layers.Embedding, num_tasks, "task_embedding") if num_tasks else None
        )
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm"
        )
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(
        self,
        token_ids_shape,
        segment_ids_shape=None,
        position_ids_shape=None,
        task_ids_shape=None,
    ):
        shape = tuple(token_ids_shape)
        self.token_embedding.build(shape)
        self.position_embedding.build(shape)
        self.segment_embedding.build(shape)
        if self.task_embedding is not None:
            self.task_embedding.build((shape[0], 1))
        self.layer_norm.build((*shape, self.hidden_dim))
        self.built = True

    def call(self, token_ids, segment_ids, position_ids=None, task_ids=None, training=None):
        length = token_ids.shape[1]
        if length is not None and length > self.max_sequence_length and position_ids is None:
            raise ValueError(
                f"token_ids has rows of {length} tokens, but the position table has "
                f"{self.max_sequence_length} rows. Truncate the input, or build the model with "
                f"max_sequence_length={length} or more."
            )
        if position_ids is None:
            position_ids = ops.arange(ops.shape(token_ids)[1])  # (length,)
        x = self._token_vectors(token_ids)  # (batch, length, hidden_dim)
        x = x + self.position_embedding(position_ids)
        x = x + self.segment_embedding(segment_ids)
        if self.task_embedding is not None:
            x = x + self.task_embedding(
                default_task_ids(token_ids) if task_ids is None else task_ids
            )
        return normalize_and_drop(x, self.layer_norm, self.dropout, training)

    def _token_vectors(self, token_ids):
        table = self.token_embedding
        if table.lora_enabled or getattr(table, "quantization_mode", None) is not None:
            return table(token_ids)
        rows = ops.take(table.embeddings, ops.cast(token_ids, "int32"), axis=0)
        return ops.cast(rows, self.compute_dtype)

    def compute_output_shape(
        self,
        token_ids_shape,
        segment_ids_shape=None,
        position_ids_shape=None,
        task_ids_shape=None,
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
            "num_tasks": self.num_tasks,
        }


def default_task_ids(token_ids):
    """The task ids of rows that come without: of the first task.

    Args:
        token_ids: (batch, length) int, or with more axes before the last.

    Returns:
        (batch, 1) zeros of the same dtype: an array of an array, a tensor of a tensor.
    """
    return 0 * token_ids[..., :1]


def with_task_ids(model, inputs):
    """A functional model's inputs, with `task_ids` if it takes them and they are not there.

    So what was pretrained with task embeddings is fine-tuned and asked as any other model.

    Args:
        model: functional model of a dict of inputs.
        inputs: what it is called with.
    """
    is_lacking = (
        isinstance(inputs, dict)
        and "task_ids" in model.input
        and "task_ids" not in inputs
        and "token_ids" in inputs
    )
    if not is_lacking:
        return inputs
    return {**inputs, "task_ids": default_task_ids(inputs["token_ids"])}
