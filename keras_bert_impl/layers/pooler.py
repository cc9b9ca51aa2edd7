"""One vector for the whole input: the first token's, through a dense layer and tanh."""

import keras

from keras_bert_impl.layers.initialization import INITIALIZER_RANGE, dense
from keras_bert_impl.layers.positions import gather_positions


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertPooler(keras.layers.Layer):
    """`tanh(W x[CLS] + b)` (paper, section 3.1: the aggregate representation C).

    Args:
        initializer_range: float. Standard deviation of the initial weights.

    Call arguments:
        x: (batch, length, hidden_dim); `[CLS]` stands first.
        cls_positions: (batch, examples) int, optional. Where each `[CLS]` of packed rows stands.

    Returns:
        (batch, hidden_dim); of packed rows (batch, examples, hidden_dim).
    """

    def __init__(self, initializer_range: float = INITIALIZER_RANGE, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range

    def build(self, x_shape, cls_positions_shape=None):
        self.dense = dense(self, x_shape[-1], "dense", activation="tanh")
        self.dense.build((x_shape[0], x_shape[-1]))
        self.built = True

    def call(self, x, cls_positions=None):
        if cls_positions is None:
            return self.dense(x[:, 0, :])
        return self.dense(gather_positions(x, cls_positions))

    def compute_output_shape(self, x_shape, cls_positions_shape=None):
        return (*(cls_positions_shape or x_shape[:1]), x_shape[-1])

    def get_config(self):
        return {**super().get_config(), "initializer_range": self.initializer_range}
