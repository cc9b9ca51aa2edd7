import math

import numpy as np
import pytest

from keras_bert_impl.layers.attention import make_attention_mask
from keras_bert_impl.layers.encoder_layer import BertEncoderLayer
from tests.layers.configs import check_every_option_survives


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def encoder_layer(**options):
    layer = BertEncoderLayer(2, 12, **{"initializer_range": 0.5, **options})
    layer.build((None, None, 8))
    for i, variable in enumerate(layer.trainable_variables):
        if len(variable.shape) == 1:
            variable.assign(1 + 0.3 * random(*variable.shape, seed=i))
    return layer


def layer_norm(x, layer, epsilon=1e-12):
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * np.array(layer.gamma) + np.array(layer.beta)


def dense(x, layer):
    return x @ np.array(layer.kernel) + np.array(layer.bias)


ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_approximate": lambda x: (
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "relu": lambda x: max(x, 0.0),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_each_part_is_added_and_then_normalized(activation):
    layer = encoder_layer(activation=activation)
    x, mask = random(2, 5, 8), make_attention_mask(np.arange(5) < np.array([[5], [3]]))
    attended = np.array(layer.attention(x, attention_mask=mask))
    middle = layer_norm(x + attended, layer.attention_layer_norm)
    wide = np.vectorize(ACTIVATIONS[activation])(dense(middle, layer.intermediate_dense))
    expected = layer_norm(middle + dense(wide, layer.output_dense), layer.output_layer_norm)
    np.testing.assert_allclose(layer(x, attention_mask=mask), expected, atol=2e-5)


def test_without_dropout_training_is_inference():
    layer = encoder_layer(dropout=0.0)
    x = random(2, 5, 8)
    np.testing.assert_array_equal(layer(x, training=True), layer(x, training=False))


@pytest.mark.parametrize(
    "rates",
    [{"dropout": 0.5, "attention_dropout": 0.0}, {"dropout": 0.0, "attention_dropout": 0.5}],
)
def test_either_dropout_is_on_in_training_alone(rates):
    layer = encoder_layer(**rates)
    x = random(2, 5, 8)
    np.testing.assert_array_equal(layer(x), layer(x, training=False))
    assert np.abs(np.array(layer(x, training=True)) - np.array(layer(x))).max() > 1e-3


def test_attention_drops_as_the_rest_unless_told():
    assert BertEncoderLayer(2, 12, dropout=0.3).attention_dropout == 0.3
    assert BertEncoderLayer(2, 12, dropout=0.3, attention_dropout=0.0).attention_dropout == 0.0


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_a_row_of_padding_alone_stays_finite(dtype):
    layer = encoder_layer(dtype=dtype)
    mask = make_attention_mask(np.array([[True] * 5, [False] * 5]))
    output = np.array(layer(20 * random(2, 5, 8), attention_mask=mask), "float32")
    assert np.isfinite(output).all()


def test_an_unknown_activation_is_named():
    with pytest.raises(ValueError, match="Unknown activation 'swoosh'"):
        BertEncoderLayer(2, 12, activation="swoosh")


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="hidden_dim=8 is not divisible by num_heads=3"):
        BertEncoderLayer(3, 12).build((None, None, 8))


def test_every_option_survives_the_config():
    check_every_option_survives(
        BertEncoderLayer,
        {"num_heads": 2, "intermediate_dim": 12},
        {
            "activation": "gelu_approximate",
            "dropout": 0.3,
            "attention_dropout": 0.2,
            "layer_norm_epsilon": 1e-6,
            "initializer_range": 0.1,
            "recompute": True,
        },
    )
