"""Served in lower precision: half the file, the answers of `predict` in that precision."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401

import keras_bert_impl as kbi
from tests import small

MATRICES = 4 + 1 + 1  # of the encoder layer, the pooler and the head


def classifier(dtype=None, hidden_dim=64):
    backbone = small.backbone(num_layers=1, hidden_dim=hidden_dim, dtype=dtype)
    return kbi.BertTextClassifier(
        backbone,
        3,
        class_names=["no", "yes", "maybe"],
        # The length that `fit` may want is not what is served.
        preprocessor=kbi.BertPreprocessor(small.tokenizer(), 32, padding="max_length"),
    )


def ask(folder):
    serve = tf.saved_model.load(str(folder)).signatures["serving_default"]
    return serve(text=tf.constant(small.TEXTS))["probabilities"].numpy()


def probabilities(task):
    logits = task.predict(np.array(small.TEXTS), verbose=0)
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


def bytes_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_bfloat16_is_half_and_answers_as_predict_in_it(tmp_path):
    task = classifier()
    before = probabilities(task)
    for weights in ("float32", "bfloat16"):
        task.export(tmp_path / weights, weights=weights)
    np.testing.assert_array_equal(probabilities(task), before)
    np.testing.assert_allclose(ask(tmp_path / "float32"), before, atol=1e-5)
    in_bfloat16 = classifier("mixed_bfloat16")
    in_bfloat16.set_weights(task.get_weights())
    expected = probabilities(in_bfloat16)
    assert np.abs(expected - before).max() > 1e-5
    served = ask(tmp_path / "bfloat16")
    # Its token table is rounded too.
    np.testing.assert_allclose(served, expected, atol=1e-2)
    np.testing.assert_allclose(served, before, atol=2e-2)


@pytest.mark.parametrize("weights", ["float32", "bfloat16"])
def test_constants_answer_as_variables_do(tmp_path, weights):
    task = classifier()
    answers, variables = {}, {}
    for constants in (False, True):
        folder = tmp_path / str(constants)
        task.export(folder, weights=weights, constants=constants)
        answers[constants] = ask(folder)
        variables[constants] = len(tf.saved_model.load(str(folder)).weights)
    np.testing.assert_allclose(answers[True], answers[False], atol=1e-6)
    assert variables[True] == variables[False] - MATRICES


def test_what_bfloat16_saves(tmp_path):
    task = classifier(hidden_dim=512)
    sizes = {}
    for weights in ("float32", "bfloat16"):
        task.export(tmp_path / weights, weights=weights)
        sizes[weights] = bytes_of(tmp_path / weights)
    matrices = sum(v.shape.num_elements() for v in task.backbone.weights if v.ndim > 1)
    assert 2 * matrices > 1e6
    assert sizes["float32"] - sizes["bfloat16"] > 0.9 * 2 * matrices


def test_a_request_is_no_longer_than_its_longest_text(tmp_path):
    task = classifier()
    task.export(tmp_path / "model")
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    strings, ids = (loaded.signatures[name] for name in ("serving_default", "ids"))
    short = tf.constant(["the cat"])
    # With rows of 32 the position table is read whole, of 4 it is not: NaN beyond tells.
    expected = strings(text=short)["probabilities"].numpy()
    (table,) = (v for v in loaded.weights if "position_embedding" in v.name)
    values = table.numpy()
    values[4:] = np.nan
    table.assign(values)
    np.testing.assert_array_equal(strings(text=short)["probabilities"], expected)
    padded = {name: tf.constant(np.array(x)) for name, x in task.preprocessor(["the cat"]).items()}
    assert np.isnan(ids(**padded)["probabilities"]).any()


def test_int8_by_keras(tmp_path):
    task = classifier()
    before = probabilities(task)
    task.quantize("int8")
    expected = probabilities(task)
    task.export(tmp_path / "model")
    served = ask(tmp_path / "model")
    np.testing.assert_allclose(served, expected, atol=1e-5)
    assert 1e-6 < np.abs(served - before).max() < 5e-2


def test_what_cannot_be(tmp_path):
    task = classifier()
    with pytest.raises(ValueError, match="Unknown weights 'int4'. Choose one of float32, bfloat16"):
        task.export(tmp_path / "model", weights="int4")
    with pytest.raises(ValueError, match="weights='bfloat16' is for tf_saved_model, not for onnx"):
        task.export(tmp_path / "model", format="onnx", weights="bfloat16")
    with pytest.raises(ValueError, match="constants=True is for tf_saved_model, not for onnx"):
        task.export(tmp_path / "model", format="onnx", constants=True)
    task.backbone.enable_lora(2)
    with pytest.raises(ValueError, match="merge LoRA by save_to_preset"):
        task.export(tmp_path / "model", weights="bfloat16")
    assert not (tmp_path / "model").exists()
