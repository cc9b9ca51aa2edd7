import doctest
import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl as kbi
from keras_bert_impl.data.word_alignment import split_words
from keras_bert_impl.models import elmo
from keras_bert_impl.models.elmo import ELMO_SIZES, ElmoBackbone

SMALL = {
    "lstm_units": 6,
    "projection_dim": 4,
    "filters": ((1, 4), (2, 5), (3, 6)),
    "num_highways": 1,
    "dropout": 0.0,
    "max_characters": 8,
}
SENTENCES = ["the cat sat", "a dog", "", "unaffable"]


def make(**changes):
    return ElmoBackbone(**{**SMALL, **changes})


def inputs(sentences=SENTENCES):
    words = split_words(tf.constant(sentences))
    characters, padding_mask = kbi.sentence_characters(words, SMALL["max_characters"])
    return {"characters": characters.numpy(), "padding_mask": padding_mask.numpy()}


def test_states_are_the_words_and_each_layer_of_both_directions():
    backbone, x = make(num_layers=3), inputs()
    words = np.array(backbone.character_cnn(x["characters"]))
    expected = [np.concatenate([words, words], axis=-1)]
    left, right = words, words
    for i in range(3):
        new_left = np.array(backbone.forward_layers[i](left, x["padding_mask"]))
        new_right = np.array(backbone.backward_layers[i](right, x["padding_mask"]))
        # The first layer has no skip: its input is another thing than its output.
        left, right = (new_left, new_right) if i == 0 else (left + new_left, right + new_right)
        expected.append(np.concatenate([left, right], axis=-1))
    states = backbone(x)["states"]
    assert len(states) == 4
    for state, other in zip(states, expected, strict=True):
        np.testing.assert_allclose(state, other, atol=1e-5)


def test_directions_have_weights_of_their_own():
    backbone = make()
    assert len(backbone.trainable_weights) == 1 + 3 * 2 + 4 + 2 + 4 * 4


def test_padding_changes_nothing():
    backbone, x = make(), inputs()
    longer = {
        "characters": np.pad(x["characters"], [(0, 0), (0, 3), (0, 0)]),
        "padding_mask": np.pad(x["padding_mask"], [(0, 0), (0, 3)]),
    }
    for state, other in zip(backbone(x)["states"], backbone(longer)["states"], strict=True):
        mask = x["padding_mask"]
        np.testing.assert_allclose(
            np.array(state)[mask], np.array(other)[:, : mask.shape[1]][mask], atol=1e-5
        )


def test_rows_of_padding_alone_stay_finite():
    x = {name: np.zeros_like(rows) for name, rows in inputs().items()}
    for state in make()(x)["states"]:
        assert np.isfinite(state).all()


def parameters(lstm_units, projection_dim, filters, characters=262, embedding_dim=16):
    total = sum(number for _, number in filters)
    cnn = characters * embedding_dim + sum(n * (w * embedding_dim + 1) for w, n in filters)
    highways = 2 * 2 * (total * total + total)
    projection = total * projection_dim + projection_dim
    gates = 2 * projection_dim * 4 * lstm_units + 4 * lstm_units
    return cnn + highways + projection + 2 * 2 * (gates + lstm_units * projection_dim)


def test_sizes_have_the_papers_parameters():
    assert ElmoBackbone().count_params() == parameters(**ELMO_SIZES["small"])
    assert ElmoBackbone.from_size("small").get_config()["filters"] == elmo.SMALL_FILTERS
    # Published as 93.6 million.
    assert round(parameters(**ELMO_SIZES["elmo"]) / 1e6, 1) == 93.6


CHANGES = {
    "lstm_units": 5,
    "projection_dim": 3,
    "num_layers": 1,
    "filters": ((1, 2),),
    "embedding_dim": 3,
    "num_highways": 2,
    "dropout": 0.3,
    "cell_clip": None,
    "projection_clip": 1.5,
    "max_characters": 9,
    "num_characters": 300,
    "dtype": "mixed_float16",
}


@pytest.mark.parametrize("option", CHANGES)
def test_every_option_survives_the_config(option):
    options = set(inspect.signature(ElmoBackbone.__init__).parameters) - {"self", "kwargs"}
    assert options == set(CHANGES), "an option is not tested"
    changed = make(**{option: CHANGES[option]})
    again = ElmoBackbone.from_config(changed.get_config())
    assert again.get_config() == changed.get_config()
    assert [(w.path, w.shape) for w in again.weights] == [
        (w.path, w.shape) for w in changed.weights
    ]
    if option == "dtype":
        assert again.dtype_policy.name == "mixed_float16"
    else:
        assert getattr(again, option) == CHANGES[option] != getattr(make(), option)


def test_comes_back_from_a_file_and_a_preset(tmp_path):
    backbone, x = make(), inputs()
    backbone.save(tmp_path / "elmo.keras")
    backbone.save_to_preset(str(tmp_path / "elmo"))
    for again in (
        keras.saving.load_model(tmp_path / "elmo.keras"),
        ElmoBackbone.from_preset(str(tmp_path / "elmo")),
    ):
        assert type(again) is ElmoBackbone
        for state, other in zip(again(x)["states"], backbone(x)["states"], strict=True):
            np.testing.assert_array_equal(state, other)


def test_sizes_that_make_no_model_are_refused():
    with pytest.raises(ValueError, match="lstm_units must be at least 1, but is 0"):
        make(lstm_units=0)
    with pytest.raises(ValueError, match="Words of 8 characters are shorter"):
        make(filters=((9, 2),))
    with pytest.raises(ValueError, match="Unknown size 'huge'. Known sizes: small, elmo"):
        ElmoBackbone.from_size("huge")


def test_a_tagger_on_the_weighted_sum_of_fixed_states():
    """What docs/language_models.md shows: the tag of a word is whether another follows it."""
    keras.utils.set_random_seed(0)
    backbone, x = make(lstm_units=16, projection_dim=8), inputs(SENTENCES * 8)
    backbone.trainable = False
    mix = kbi.ScalarMix(name="mix")(backbone.output["states"])
    lstm = keras.layers.LSTM(8, return_sequences=True)
    hidden = keras.layers.Bidirectional(lstm)(mix, mask=backbone.input["padding_mask"])
    tagger = keras.Model(backbone.input, keras.layers.Dense(2)(hidden))
    tags = (x["padding_mask"] & np.pad(x["padding_mask"], [(0, 0), (0, 1)])[:, 1:]).astype(int)
    tagger.compile(keras.optimizers.Adam(0.02), kbi.MaskedLMLoss(), weighted_metrics=["accuracy"])
    before = [np.array(w) for w in backbone.weights]
    weights = x["padding_mask"].astype("float32")
    tagger.fit(x, tags, sample_weight=weights, epochs=15, batch_size=32, verbose=0)
    loss, accuracy = tagger.evaluate(x, tags, sample_weight=weights, verbose=0)
    assert accuracy > 0.95
    for weight, other in zip(backbone.weights, before, strict=True):
        np.testing.assert_array_equal(np.array(weight), other)
    assert np.abs(np.array(tagger.get_layer("mix").weight_logits)).max() > 0


def test_docstring_examples():
    names = {"tf": tf, "split_words": split_words}
    names["sentence_characters"] = kbi.sentence_characters
    assert doctest.testmod(elmo, extraglobs=names) == (0, 5)
