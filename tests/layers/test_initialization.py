import math

import numpy as np
import pytest

from keras_bert_impl.layers.initialization import (
    LAYER_NORM_EPSILON,
    hidden_activation,
    kernel_initializer,
)

X = [-6.0, -3.0, -1.0, -0.1, 0.0, 0.5, 1.0, 2.5, 6.0]


def test_gelu_is_x_times_the_normal_distribution_function():
    expected = [x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in X]
    np.testing.assert_allclose(hidden_activation("gelu")(np.float32(X)), expected, atol=1e-6)


def test_approximate_gelu_is_the_tanh_formula():
    expected = [
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) for x in X
    ]
    result = np.array(hidden_activation("gelu_approximate")(np.float32(X)))
    np.testing.assert_allclose(result, expected, atol=1e-6)
    assert np.abs(result - np.array(hidden_activation("gelu")(np.float32(X)))).max() > 1e-4


def test_other_activations_are_keras():
    assert np.array(hidden_activation("relu")(np.float32([-1, 2]))).tolist() == [0, 2]


def test_an_unknown_activation_is_named():
    with pytest.raises(ValueError, match="Unknown activation 'gelo'. Use 'gelu'"):
        hidden_activation("gelo")


def test_weights_are_cut_off_at_two_deviations():
    weights = np.array(kernel_initializer(0.02)((200, 200)))
    assert np.abs(weights).max() <= 0.04
    assert np.abs(weights).max() > 0.038
    # What a normal cut at two deviations keeps of its deviation.
    assert weights.std() == pytest.approx(0.8796 * 0.02, rel=0.01)


def test_the_references_epsilon():
    assert LAYER_NORM_EPSILON == 1e-12
