import keras
import numpy as np
import pytest

from keras_bert_impl.layers.lstm_with_projection import ProjectedLSTM, ProjectedLSTMCell
from tests.layers.configs import check_every_option_survives

MASK = np.arange(6) < np.array([[6], [3], [0]])


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, layer):
    """The outputs of one row without padding, (length, projection_dim), from the left."""
    kernel, bias = (np.array(w) for w in layer.input_dense.weights)
    cell_layer = layer.recurrence.cell
    recurrent = np.array(cell_layer.recurrent_kernel)
    projection = np.array(cell_layer.projection_kernel)
    output, cell, outputs = np.zeros(layer.projection_dim), np.zeros(layer.units), []
    for vector in x:
        i, f, g, o = np.split(vector @ kernel + bias + output @ recurrent, 4)
        cell = sigmoid(f + 1) * cell + sigmoid(i) * np.tanh(g)
        if layer.cell_clip is not None:
            cell = np.clip(cell, -layer.cell_clip, layer.cell_clip)
        output = (sigmoid(o) * np.tanh(cell)) @ projection
        if layer.projection_clip is not None:
            output = np.clip(output, -layer.projection_clip, layer.projection_clip)
        outputs.append(output)
    return np.array(outputs)


def make(**options):
    layer = ProjectedLSTM(units=5, projection_dim=3, **options)
    layer.build((None, None, 4))
    for i, weight in enumerate(layer.weights):
        weight.assign(random(*weight.shape, seed=i + 1))
    return layer


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("clips", [{}, {"cell_clip": 0.5, "projection_clip": 0.3}])
def test_the_formula_from_either_side_over_real_words(backward, clips):
    layer, x = make(backward=backward, **clips), 2 * random(3, 6, 4)
    output = np.array(layer(x, MASK))
    for row, length in enumerate((6, 3)):
        real = x[row, :length]
        expected = lstm(real[::-1], layer)[::-1] if backward else lstm(real, layer)
        np.testing.assert_allclose(output[row, :length], expected, atol=1e-5)
    assert np.isfinite(output).all()
    if clips:
        assert np.abs(output).max() == pytest.approx(0.3), "the clip was to matter"


@pytest.mark.parametrize("backward", [False, True])
def test_padding_changes_nothing(backward):
    layer, x = make(backward=backward), random(3, 6, 4)
    other = np.where(MASK[..., None], x, 100).astype("float32")
    ours, theirs = (np.array(layer(rows, MASK))[MASK] for rows in (x, other))
    np.testing.assert_array_equal(ours, theirs)


def test_a_new_cell_remembers():
    """With weights of zero the forget gate stands at sigmoid(1)."""
    cell = ProjectedLSTMCell(2, 2)
    cell.build((1, 8))
    cell.recurrent_kernel.assign(np.zeros((2, 8)))
    _, (_, state) = cell(np.zeros((1, 8)), [np.zeros((1, 2)), np.ones((1, 2))])
    np.testing.assert_allclose(state, [[sigmoid(1)] * 2], atol=1e-6)


def test_symbolic_shapes():
    layer = ProjectedLSTM(5, 3)
    output = layer(keras.Input((None, 4)), keras.Input((None,), dtype="bool"))
    assert output.shape == (None, None, 3)


def test_sizes_that_make_no_layer_are_refused():
    with pytest.raises(ValueError, match="projection_dim must be at least 1, but is 0"):
        ProjectedLSTM(5, 0)


def test_every_option_survives_the_config():
    required = {"units": 5, "projection_dim": 3}
    changes = {"backward": True, "cell_clip": 2.0, "projection_clip": 1.0}
    check_every_option_survives(ProjectedLSTM, required, changes)
    check_every_option_survives(
        ProjectedLSTMCell, required, {"cell_clip": 2.0, "projection_clip": 1.0}
    )
