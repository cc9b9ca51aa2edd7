import doctest

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.layers.auxiliary_loss import mean_next_token_loss
from keras_bert_impl.models import causal_classifier
from keras_bert_impl.models.causal_classifier import (
    CAUSAL_POOLINGS,
    BertCausalClassifier,
    last_token,
)
from keras_bert_impl.models.preprocessor import BertPreprocessor
from keras_bert_impl.models.text_classifier import BertTextClassifier
from keras_bert_impl.training.optimizers import BertAdamW
from tests import small

LABELS = np.array([0, 1, 1, 0])


def make(num_classes=2, pair=None, **options):
    backbone = small.backbone(num_layers=1, dropout=0.0, causal=True)
    if pair is not None:
        options["preprocessor"] = BertPreprocessor(small.tokenizer(), 20, pair=pair)
    return BertCausalClassifier(backbone, num_classes=num_classes, **options)


def test_the_last_real_token_is_read():
    model, x = make(3), small.prepared()
    kernel, bias = (np.array(w) for w in model.output_dense.weights)
    hidden = np.array(model.backbone(x)["sequence_output"])
    last = x["padding_mask"].sum(axis=1) - 1
    assert len(set(last)) > 1
    np.testing.assert_allclose(model(x), hidden[range(4), last] @ kernel + bias, atol=1e-5)


def test_padding_on_the_left_or_everywhere_does_no_harm():
    x = np.arange(12.0).reshape(2, 3, 2)
    mask = np.array([[False, True, True], [False, False, False]])
    assert np.array(last_token(x, mask)).tolist() == [[4, 5], [6, 7]]
    rows = {name: np.zeros_like(value) for name, value in small.prepared().items()}
    assert np.isfinite(make()(rows)).all()


@pytest.mark.parametrize("pair", [False, True])
def test_that_token_is_the_last_separator(pair):
    model = make(pair=pair)
    raw = {"text_a": small.TEXTS, "text_b": small.TEXTS[::-1]} if pair else small.TEXTS
    x = {name: np.array(rows) for name, rows in model.preprocessor(raw).items()}
    last = x["padding_mask"].sum(axis=1) - 1
    assert x["token_ids"][range(4), last].tolist() == [3] * 4
    np.testing.assert_allclose(model.predict(raw, verbose=0), model(x), atol=1e-5)


@pytest.mark.parametrize("weight", [0.5, 0.0, 2.0])
def test_the_language_models_loss_is_added(weight):
    model, x = make(lm_weight=weight), small.prepared()
    logits = np.array(model(x))
    shares = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    of_classes = -shares[range(4), LABELS].mean()
    hidden = np.array(model.backbone(x)["sequence_output"])
    scores = hidden @ np.array(model.backbone.token_embedding.embeddings).T
    of_tokens = float(mean_next_token_loss(scores, x["token_ids"], x["padding_mask"]))
    result = model.evaluate(x, LABELS, verbose=0, return_dict=True)
    assert result["loss"] == pytest.approx(of_classes + weight * of_tokens, abs=1e-4)
    assert result["accuracy"] == (logits.argmax(axis=1) == LABELS).mean()


def test_learns_which_texts_have_a_cat():
    texts = ["the cat sat", "the dog sat", "a cat ran", "a dog ran", "cat on mat", "dog on mat"]
    labels = np.array([1, 0, 1, 0, 1, 0])
    keras.utils.set_random_seed(0)
    model = make(pair=False)
    model.compile(BertAdamW(1e-2))
    history = model.fit(texts * 40, np.tile(labels, 40), batch_size=8, epochs=2, verbose=0).history
    assert model.evaluate(texts, labels, verbose=0)[1] == 1
    assert history["loss"][1] < history["loss"][0]
    probabilities = np.array(model.answer(model.predict(texts, verbose=0))["probabilities"])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert probabilities.argmax(axis=1).tolist() == labels.tolist()


def test_a_served_model_answers_texts_with_probabilities(tmp_path):
    model = make(pair=False, class_names=["bad", "good"])
    model.export(tmp_path / "served")
    served = tf.saved_model.load(tmp_path / "served").signatures["serving_default"]
    answers = served(text=tf.constant(small.TEXTS))
    expected = np.array(model.answer(model.predict(small.TEXTS, verbose=0))["probabilities"])
    np.testing.assert_allclose(answers["probabilities"], expected, atol=1e-5)
    names = [["bad", "good"][i].encode() for i in expected.argmax(axis=1)]
    assert answers["label"].numpy().tolist() == names


def test_concat_pooling_reads_last_largest_and_mean_of_real_tokens():
    model, x = make(3, pooling="concat"), small.prepared()
    kernel, bias = (np.array(w) for w in model.output_dense.weights)
    hidden, logits = np.array(model.backbone(x)["sequence_output"]), np.array(model(x))
    for row, length in enumerate(x["padding_mask"].sum(axis=1)):
        real = hidden[row, :length]
        pooled = np.concatenate([real[-1], real.max(axis=0), real.mean(axis=0)])
        np.testing.assert_allclose(logits[row], pooled @ kernel + bias, atol=1e-5)


@pytest.mark.parametrize("pooling", CAUSAL_POOLINGS)
def test_more_padding_changes_no_pooling(pooling):
    model, x = make(pooling=pooling), small.prepared()
    longer = {name: np.pad(rows, ((0, 0), (0, 5))) for name, rows in x.items()}
    longer["token_ids"][~longer["padding_mask"]] = 7
    np.testing.assert_allclose(model(x), model(longer), atol=1e-5)
    nothing = {name: np.zeros_like(rows) for name, rows in x.items()}
    assert np.isfinite(model(nothing)).all()


def test_a_bilstm_reads_the_row_from_both_ends():
    model, x = make(pooling="bilstm", lm_weight=0), small.prepared()
    hidden = np.array(model.backbone(x)["sequence_output"])
    length = x["padding_mask"][0].sum()
    both = model.bilstm(hidden[:1, :length])  # without padding there is nothing to mask
    np.testing.assert_allclose(model(x)[:1], model.output_dense(both), atol=1e-5)


def test_short_and_empty_texts_train():
    history = (
        make(pair=False, pooling="concat")
        .fit(["", "a", "the cat"], np.array([0, 1, 1]), verbose=0)
        .history
    )
    assert np.isfinite(history["loss"]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_classes": 1}, "num_classes=1: a classifier needs at least 2"),
        ({"class_names": ["a", "b", "c"]}, "3 class_names for num_classes=2"),
        ({"lm_weight": -1}, "lm_weight=-1 must not be negative"),
        ({"pooling": "first"}, "Unknown pooling 'first'. Choose one of last, concat, bilstm"),
    ],
)
def test_heads_that_fit_no_task_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_backbones_are_refused_where_they_do_not_fit():
    with pytest.raises(ValueError, match="BertCausalClassifier needs a backbone.*causal=False"):
        BertCausalClassifier(small.backbone(), num_classes=2)
    with pytest.raises(ValueError, match="BertTextClassifier reads the vector of the first"):
        BertTextClassifier(small.backbone(causal=True), num_classes=2)


def test_every_option_survives_the_config():
    for options in (
        {"class_names": ["a", "b"]},
        {"dropout": 0.4},
        {"lm_weight": 0.2},
        {"pooling": "concat"},
    ):
        again = BertCausalClassifier.from_config(make(**options).get_config())
        for name, value in options.items():
            assert np.array_equal(getattr(again, name), value)
        assert again.backbone.causal is True


def test_docstring_examples():
    names = {
        "backbone": small.backbone(num_layers=1, causal=True),
        "tokenizer": small.tokenizer(),
        "np": np,
    }
    assert doctest.testmod(causal_classifier, extraglobs=names) == (0, 4)
