import doctest
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl as kbi
from keras_bert_impl.models import bidirectional_lm
from keras_bert_impl.models.bidirectional_lm import BidirectionalLM
from tests.models import test_elmo

DOCUMENTS = [["the cat sat on the mat .", "a dog ran ."], ["the dog sat .", ""]] * 4
VOCABULARY = kbi.WordVocabulary.of_documents(DOCUMENTS, max_words=8)


def make(**changes):
    backbone = test_elmo.make(lstm_units=16, projection_dim=8, **changes)
    return BidirectionalLM(backbone, vocabulary_size=len(VOCABULARY))


def data(batch_size=4, **options):
    options = {"max_words": 8, "max_characters": test_elmo.SMALL["max_characters"], **options}
    return kbi.bidirectional_pretraining_dataset(
        DOCUMENTS, VOCABULARY, batch_size=batch_size, **options
    )


def log_softmax(logits):
    logits = np.asarray(logits, "float64")
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_the_loss_is_half_of_each_directions_mean():
    model = make()
    x, y, weights = next(data().as_numpy_iterator())
    states = np.array(model.backbone(x)["states"][-1])
    kernel, bias = (np.array(w) for w in model.softmax.weights)
    losses = {"forward": [], "backward": []}
    for row, length in enumerate(x["padding_mask"].sum(axis=1)):
        # The word at i is the next one's `backward` target and the previous one's `forward`.
        ids = [1, *y["backward"][row, 2:length], 2]
        left = log_softmax(states[row, :, :8] @ kernel + bias)
        right = log_softmax(states[row, :, 8:] @ kernel + bias)
        losses["forward"] += [-left[i, ids[i + 1]] for i in range(length - 1)]
        losses["backward"] += [-right[i, ids[i - 1]] for i in range(1, length)]
    result = model.test_on_batch(x, y, weights, return_dict=True)
    expected = (np.mean(losses["forward"]) + np.mean(losses["backward"])) / 2
    assert result["loss"] == pytest.approx(expected, abs=1e-4)
    assert abs(np.mean(losses["forward"]) - np.mean(losses["backward"])) > 1e-3
    outputs = model(x)
    np.testing.assert_allclose(outputs["forward"], states[..., :8] @ kernel + bias, atol=1e-4)
    np.testing.assert_allclose(outputs["backward"], states[..., 8:] @ kernel + bias, atol=1e-4)


def test_no_word_sees_what_it_is_to_guess():
    """Neither direction's scores at i depend on a word beyond i; on those before they do."""
    model = make()
    words = tf.ragged.constant([["b", "c", "d", "e", "f"]])
    characters, padding_mask = kbi.sentence_characters(words, 8)
    x = {"characters": characters, "padding_mask": padding_mask}
    # Each word's one letter is a row of the characters' table that no other word has.
    rows = characters[0, 1:-1, 1].numpy()
    table = model.backbone.character_cnn.embedding.embeddings
    direction = np.random.default_rng(0).normal(size=(len(VOCABULARY), 1)).astype("float32")
    with tf.GradientTape(persistent=True) as tape:
        outputs = model(x, training=False)
        sums = {
            name: [(logits[0, i : i + 1] @ direction)[0, 0] for i in range(1, 6)]
            for name, logits in outputs.items()
        }
    for name, values in sums.items():
        for i, value in enumerate(values):
            gradient = tf.convert_to_tensor(tape.gradient(value, table.value))
            moved = np.abs(gradient.numpy()[rows]).max(axis=-1)
            seen, unseen = (moved[: i + 1], moved[i + 1 :])
            if name == "backward":
                seen, unseen = (moved[i:], moved[:i])
            assert (unseen == 0).all(), (name, i)
            assert (seen > 0).all(), (name, i)


def test_learns_its_text_and_goes_on_where_it_was(tmp_path):
    keras.utils.set_random_seed(0)
    model = make()
    model.compile(kbi.BertAdamW(2e-2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = model.fit(data(), epochs=3, steps_per_epoch=10, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    model.save(tmp_path / "lm.keras")
    again = keras.saving.load_model(tmp_path / "lm.keras")
    assert type(again) is BidirectionalLM
    batch = next(data().as_numpy_iterator())
    for ours, theirs in zip(
        *(keras.tree.flatten(m(batch[0])) for m in (model, again)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert int(again.optimizer.iterations) == 30
    assert type(again.optimizer) is kbi.BertAdamW
    for ours, theirs in zip(model.optimizer.variables, again.optimizer.variables, strict=True):
        np.testing.assert_array_equal(np.array(ours), np.array(theirs), err_msg=ours.path)


def test_the_default_optimizer_is_the_published_one():
    model = make(num_layers=1)
    assert type(model.optimizer) is keras.optimizers.Adagrad
    history = model.fit(data(), steps_per_epoch=4, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
    assert {"forward_accuracy", "backward_accuracy"} <= set(history)


def test_a_preset_gives_the_model_and_its_backbone(tmp_path):
    model, (x, _, _) = make(), next(data().as_numpy_iterator())
    model.save_to_preset(str(tmp_path / "lm"))
    again = BidirectionalLM.from_preset(str(tmp_path / "lm"))
    np.testing.assert_array_equal(again(x)["forward"], model(x)["forward"])
    backbone = kbi.ElmoBackbone.from_preset(str(tmp_path / "lm"))
    np.testing.assert_array_equal(backbone(x)["states"][2], model.backbone(x)["states"][2])


def test_survives_its_config():
    model = BidirectionalLM(test_elmo.make(), vocabulary_size=7, dropout=0.4)
    again = BidirectionalLM.from_config(model.get_config())
    assert (again.vocabulary_size, again.dropout) == (7, 0.4)
    assert again.backbone.get_config() == model.backbone.get_config()


def test_no_words_are_refused():
    with pytest.raises(ValueError, match="vocabulary_size=0 must be at least 1"):
        BidirectionalLM(test_elmo.make(), vocabulary_size=0)


def test_rows_of_padding_alone_stay_finite():
    model, (x, y, weights) = make(num_layers=1), next(data().as_numpy_iterator())
    nothing = keras.tree.map_structure(np.zeros_like, (x, y, weights))
    loss = model.train_on_batch(*nothing, return_dict=True)["loss"]
    assert loss == 0
    assert all(np.isfinite(np.array(w)).all() for w in model.weights)


def test_docstring_examples():
    names = {
        "WordVocabulary": kbi.WordVocabulary,
        "bidirectional_pretraining_dataset": kbi.bidirectional_pretraining_dataset,
    }
    assert doctest.testmod(bidirectional_lm, extraglobs=names) == (0, 6)
