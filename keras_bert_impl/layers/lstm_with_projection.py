"""An LSTM whose output is projected to fewer numbers (Sak et al. 2014, arXiv:1402.1128)."""

import keras
from keras import ops


def _clip(x, limit: float | None):
    return x if limit is None else ops.clip(x, -limit, limit)


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class ProjectedLSTMCell(keras.layers.Layer):
    """One step; what the input adds to the gates is computed for all steps at once before.

    Args:
        units: int. Numbers of the cell's state.
        projection_dim: int. Numbers of the output.
        cell_clip, projection_clip: float, optional; see `ProjectedLSTM`.

    Call arguments:
        inputs: (batch, 4 * units). Input's part of the input, forget, cell and output gates.
        states: [output, cell state] of the step before.

    Returns:
        (batch, projection_dim), and the new states.
    """

    def __init__(
        self,
        units: int,
        projection_dim: int,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.projection_dim = projection_dim
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.state_size = [projection_dim, units]
        self.output_size = projection_dim

    def build(self, inputs_shape):
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel",
            shape=(self.projection_dim, 4 * self.units),
            initializer="glorot_uniform",
        )
        self.projection_kernel = self.add_weight(
            name="projection_kernel",
            shape=(self.units, self.projection_dim),
            initializer="glorot_uniform",
        )
        self.built = True

    def call(self, inputs, states, training=None):
        output, cell = states
        gates = inputs + ops.matmul(output, self.recurrent_kernel)  # (batch, 4 * units)
        let_in, keep, new, let_out = ops.split(gates, 4, axis=-1)
        # One is added so that a new cell remembers (Jozefowicz et al. 2015), as published.
        cell = ops.sigmoid(keep + 1) * cell + ops.sigmoid(let_in) * ops.tanh(new)
        cell = _clip(cell, self.cell_clip)
        output = ops.matmul(ops.sigmoid(let_out) * ops.tanh(cell), self.projection_kernel)
        output = _clip(output, self.projection_clip)  # (batch, projection_dim)
        return output, [output, cell]

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "projection_dim": self.projection_dim,
            "cell_clip": self.cell_clip,
            "projection_clip": self.projection_clip,
        }


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class ProjectedLSTM(keras.layers.Layer):
    """An LSTM layer with projection, read from the left or from the right.

    `c = sigmoid(f + 1) * c + sigmoid(i) * tanh(g)`, `h = (sigmoid(o) * tanh(c)) P`, where i, f, g,
    o are the four parts of `x W + h R + b`. P has no bias.

    Args:
        units: int. Numbers of the cell's state; 4096 in ELMo.
        projection_dim: int. Numbers of the output; 512 in ELMo.
        backward: bool. Read each row from its last real word to its first.
        cell_clip: float, optional. Cell states are cut to +-cell_clip; 3 in ELMo.
        projection_clip: float, optional. The same of the outputs; 3 in ELMo.

    Call arguments:
        x: (batch, length, dim).
        padding_mask: (batch, length) bool, true on real words. What stands at padding changes
            no other vector.

    Returns:
        (batch, length, projection_dim), in the order of x either way. Vectors at padding are
        finite and hold nothing of use.

    Raises:
        ValueError: for a size below 1.
    """

    def __init__(
        self,
        units: int,
        projection_dim: int,
        backward: bool = False,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        for name, size in {"units": units, "projection_dim": projection_dim}.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, but is {size}.")
        self.units = units
        self.projection_dim = projection_dim
        self.backward = backward
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip

    def build(self, x_shape, padding_mask_shape=None):
        policy = self.dtype_policy
        self.input_dense = keras.layers.Dense(4 * self.units, dtype=policy, name="input_dense")
        cell = ProjectedLSTMCell(
            self.units,
            self.projection_dim,
            cell_clip=self.cell_clip,
            projection_clip=self.projection_clip,
            dtype=policy,
            name="cell",
        )
        self.recurrence = keras.layers.RNN(
            cell, return_sequences=True, dtype=policy, name="recurrence"
        )
        self.input_dense.build(x_shape)
        self.recurrence.build((*x_shape[:-1], 4 * self.units))
        self.built = True

    def call(self, x, padding_mask):
        gates = self.input_dense(x)  # (batch, length, 4 * units)
        # Reversed, a row begins with its padding, over which the state stays at zero.
        if self.backward:
            gates, padding_mask = ops.flip(gates, axis=1), ops.flip(padding_mask, axis=1)
        output = self.recurrence(gates, mask=padding_mask)  # (batch, length, projection_dim)
        return ops.flip(output, axis=1) if self.backward else output

    def compute_mask(self, *_):
        """None: the mask is an input here, not something that Keras carries along."""

    def compute_output_shape(self, x_shape, padding_mask_shape=None):
        return (*x_shape[:-1], self.projection_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "projection_dim": self.projection_dim,
            "backward": self.backward,
            "cell_clip": self.cell_clip,
            "projection_clip": self.projection_clip,
        }
