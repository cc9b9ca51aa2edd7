import keras
import numpy as np
import pytest

from keras_bert_impl.layers.scalar_mix import ScalarMix
from tests.layers.configs import check_every_option_survives


def layers(count=3, shape=(2, 4, 5)):
    draw = np.random.default_rng(0)
    # The second layer's vectors are ten times as long.
    return [draw.normal(1, 10**i, shape).astype("float32") for i in range(count)]


def trained(states, **options):
    mix = ScalarMix(**options)
    mix.build([state.shape for state in states])
    mix.weight_logits.assign(np.log([1.0, 2.0, 5.0]))
    mix.gamma.assign(1.5)
    return mix


def test_equation_1():
    first, second, third = layers()
    mix = trained(layers())
    np.testing.assert_allclose(mix.layer_weights(), [0.125, 0.25, 0.625], atol=1e-6)
    expected = 1.5 * (0.125 * first + 0.25 * second + 0.625 * third)
    np.testing.assert_allclose(mix([first, second, third]), expected, rtol=1e-4, atol=1e-4)


def test_starts_as_the_mean():
    states = layers()
    np.testing.assert_allclose(ScalarMix()(states), np.mean(states, axis=0), rtol=1e-4, atol=1e-4)


def test_layer_norm_gives_each_vector_mean_0_and_variance_1_first():
    states = np.stack(layers()).astype("float64")
    normalized = (states - states.mean(-1, keepdims=True)) / states.std(-1, keepdims=True)
    expected = 1.5 * np.tensordot([0.125, 0.25, 0.625], normalized, axes=1)
    mix = trained(layers(), layer_norm=True)
    np.testing.assert_allclose(mix(layers()), expected, atol=1e-4)


def test_one_tensor_and_a_list_are_mixed_alike():
    states = layers()
    mix = trained(states)
    np.testing.assert_array_equal(mix(np.stack(states)), mix(states))
    stacked = ScalarMix()
    stacked(np.stack(states))
    assert stacked.weight_logits.shape == (3,)


def test_symbolic_shapes():
    inputs = [keras.Input((None, 5)) for _ in range(2)]
    assert ScalarMix()(inputs).shape == (None, None, 5)
    assert ScalarMix().compute_output_shape((3, None, 7, 5)) == (None, 7, 5)


def test_another_number_of_layers_is_refused():
    mix = ScalarMix(name="mix")
    mix(layers(3))
    with pytest.raises(ValueError, match="mix mixes 3 layers, but received 2"):
        mix(layers(2))
    with pytest.raises(ValueError, match="counts the layers, so it must be known"):
        ScalarMix().build((None, 2, 4, 5))


def test_half_precision_mixes_in_float32():
    """3 * 30000 is beyond float16, the mean is not."""
    states = [np.full((1, 1, 2), 30000, "float16")] * 3
    mix = ScalarMix(dtype="mixed_float16")
    mixed = mix(states)
    assert mixed.dtype == "float16"
    assert np.array(mixed).tolist() == [[[30000, 30000]]]
    mix.weight_logits.assign([100, 0, 0])
    assert np.array(mix(states)).tolist() == [[[30000, 30000]]]


def test_it_learns_which_layer_to_take():
    keras.utils.set_random_seed(0)
    states = [np.random.default_rng(i).normal(size=(64, 3, 4)).astype("float32") for i in range(3)]
    inputs = [keras.Input((3, 4)) for _ in states]
    mix = ScalarMix()
    model = keras.Model(inputs, mix(inputs))
    model.compile(keras.optimizers.Adam(0.3), "mse")
    model.fit(states, 2 * states[1], epochs=60, batch_size=64, verbose=0)
    assert float(mix.layer_weights()[1]) > 0.95
    assert float(mix.gamma) == pytest.approx(2, abs=0.1)


def test_comes_back_from_a_file(tmp_path):
    inputs = [keras.Input((4, 5)) for _ in range(3)]
    mix = ScalarMix(layer_norm=True)
    model = keras.Model(inputs, mix(inputs))
    mix.weight_logits.assign([1, 2, 3])
    mix.gamma.assign(0.5)
    model.save(tmp_path / "mix.keras")
    again = keras.saving.load_model(tmp_path / "mix.keras")
    np.testing.assert_array_equal(
        again.predict(layers(), verbose=0), model.predict(layers(), verbose=0)
    )


def test_every_option_survives_the_config():
    check_every_option_survives(ScalarMix, {}, {"layer_norm": True})
