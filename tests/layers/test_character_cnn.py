import keras
import numpy as np
import pytest

from keras_bert_impl.layers.character_cnn import ELMO_FILTERS, CharacterCNN, Highway
from tests.layers.configs import check_every_option_survives

FILTERS = ((1, 3), (2, 4), (5, 6))


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def highway(x, layer):
    kernel, bias = (np.array(w) for w in layer.transform.weights)
    gate_kernel, gate_bias = (np.array(w) for w in layer.gate.weights)
    gate = sigmoid(x @ gate_kernel + gate_bias)
    return gate * np.maximum(x @ kernel + bias, 0) + (1 - gate) * x


def test_a_highway_mixes_what_it_made_with_what_came():
    layer, x = Highway(), random(2, 3, 4)
    layer.build(x.shape)
    assert np.array(layer.gate.bias).tolist() == [-2] * 4
    layer.gate.bias.assign(random(4, seed=1))
    layer.transform.bias.assign(random(4, seed=2))
    np.testing.assert_allclose(layer(x), highway(x, layer), atol=1e-5)


def test_convolution_maximum_highway_projection():
    layer = CharacterCNN(20, embedding_dim=5, filters=FILTERS, num_highways=2, projection_dim=7)
    characters = np.random.default_rng(0).integers(0, 20, (2, 3, 8))
    layer.build(characters.shape)
    for i, convolution in enumerate(layer.convolutions):
        convolution.bias.assign(random(*convolution.bias.shape, seed=i))
    embedded = np.array(layer.embedding.embeddings)[characters]  # (2, 3, 8, 5)
    parts = []
    for (width, _), convolution in zip(FILTERS, layer.convolutions, strict=True):
        kernel, bias = (np.array(w) for w in convolution.weights)  # (width, 5, number)
        places = [
            np.einsum("bwce,cen->bwn", embedded[:, :, i : i + width], kernel) + bias
            for i in range(8 - width + 1)
        ]
        parts.append(np.maximum(np.max(places, axis=0), 0))
    x = np.concatenate(parts, axis=-1)
    for each in layer.highways:
        x = highway(x, each)
    kernel, bias = (np.array(w) for w in layer.projection.weights)
    np.testing.assert_allclose(layer(characters), x @ kernel + bias, atol=1e-5)


def test_a_word_does_not_depend_on_its_neighbours():
    layer = CharacterCNN(20, filters=FILTERS, projection_dim=7)
    characters = np.random.default_rng(0).integers(0, 20, (2, 3, 8))
    apart = np.array(layer(characters[:, 1:2]))
    np.testing.assert_allclose(np.array(layer(characters))[:, 1:2], apart, atol=1e-5)


def test_symbolic_shapes():
    layer = CharacterCNN(20, filters=FILTERS, projection_dim=7)
    assert layer(keras.Input((None, 8), dtype="int32")).shape == (None, None, 7)


def test_elmos_filters_are_as_published():
    assert [width for width, _ in ELMO_FILTERS] == [1, 2, 3, 4, 5, 6, 7]
    assert sum(number for _, number in ELMO_FILTERS) == 2048


def test_half_precision_is_close():
    characters = np.random.default_rng(0).integers(0, 20, (2, 3, 8))
    whole = CharacterCNN(20, filters=FILTERS, projection_dim=7)
    half = CharacterCNN(20, filters=FILTERS, projection_dim=7, dtype="mixed_float16")
    expected = np.array(whole(characters))
    half.build(characters.shape)
    half.set_weights(whole.get_weights())
    output = half(characters)
    assert output.dtype == "float16"
    np.testing.assert_allclose(np.array(output, "float32"), expected, atol=0.02)


def test_filters_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="filters is empty"):
        CharacterCNN(20, filters=())
    with pytest.raises(ValueError, match="Words of 4 characters are shorter than .* filter, 5"):
        CharacterCNN(20, filters=FILTERS).build((None, None, 4))


def test_every_option_survives_the_config():
    changes = {
        "embedding_dim": 4,
        "filters": ((1, 2), (2, 3)),
        "num_highways": 1,
        "projection_dim": 8,
    }
    check_every_option_survives(CharacterCNN, {"num_characters": 20}, changes)
