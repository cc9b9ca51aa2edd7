"""One vector for the whole input: the first token's, through a dense layer and tanh."""

import keras

from keras_bert_impl.layers.initialization import INITIALIZER_RANGE, dense


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertPooler(keras.layers.Layer):
    """`tanh(W x[CLS] + b)` (paper, section 3.1: the aggregate representation C).

    Args:
        initializer_range: float. Standard deviation of the initial weights.

    Call arguments:
        x: (batch, length, hidden_dim); `[CLS]` stands first.

    Returns:
        (batch, hidden_dim).
    """

    def __init__(self, initializer_range: float = INITIALIZER_RANGE, **kwargs):
        super().__init__(**kwargs)
        self.initializer_range = initializer_range

    def build(self, x_shape):
        self.dense = dense(self, x_shape[-1], "dense", activation="tanh")
        self.dense.build((x_shape[0], x_shape[-1]))
        self.built = True

    def call(self, x):
        return self.dense(x[:, 0, :])

    def compute_output_shape(self, x_shape):
        return (x_shape[0], x_shape[-1])

    def get_config(self):
        return {**super().get_config(), "initializer_range": self.initializer_range}
