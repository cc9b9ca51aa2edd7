import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl as kbi
from tests import small

ASK = pathlib.Path(__file__).with_name("ask.py")
NAMES = ["no", "yes", "maybe"]


def strings(count=1000):
    """Empty, 5,000 words, of many scripts, not a character that a vocabulary knows, and plain."""
    draw = np.random.default_rng(0)
    words = [word for word in small.VOCABULARY[5:] if not word.startswith("##")]
    special = [
        "",
        " \t\n",
        " ".join(draw.choice(words, 5000)),
        "x" * 10_000,
        "Ελληνικά, русский, עברית, العربية, हिन्दी, ไทย, 한국어, 日本語 中文",
        "Café naïve ẞ ſ İstanbul \u0301 \u200d\ufffd\x00 a\x00b",
        "👩‍👩‍👧 🙂cat🙂 \U0002b820",
        "[CLS] [SEP] [MASK] [PAD]",
    ]
    # Letters of Latin, Greek, Cyrillic, Arabic, Devanagari, Hangul, CJK.
    blocks = [(0x41, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x620, 0x64A)]
    blocks += [(0x904, 0x939), (0xAC00, 0xD7A3), (0x4E00, 0x9FFF)]
    texts = list(special)
    while len(texts) < count:
        if draw.random() < 0.5:
            texts.append(" ".join(draw.choice(words, draw.integers(1, 30))))
        else:
            low, high = blocks[draw.integers(len(blocks))]
            points = draw.integers(low, high + 1, draw.integers(1, 40))
            texts.append("".join(" " if draw.random() < 0.2 else chr(p) for p in points))
    return texts


def classifier(pair=False, **options):
    options = {"num_classes": 3, "class_names": NAMES, **options}
    return kbi.BertTextClassifier(
        small.backbone(num_layers=1),
        preprocessor=kbi.BertPreprocessor(small.tokenizer(), 32, pair=pair),
        **options,
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """(folder, classifier by name, texts, ids, what a fresh process answered)."""
    folder = tmp_path_factory.mktemp("served")
    models = {"single": classifier(), "pair": classifier(pair=True)}
    texts, ids = strings(), small.prepared(rows=5)
    # So that every class is some text's likeliest.
    logits = models["single"].predict(texts, verbose=0)
    models["single"].output_dense.bias.assign(-logits.mean(axis=0))
    for name, model in models.items():
        model.export(folder / name)
    # As JSON, since numpy's strings end at a NUL.
    np.savez(folder / "questions.npz", texts=[json.dumps(text) for text in texts], **ids)
    # In the temporary folder, and without this repository on the path.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([sys.executable, str(ASK), folder], check=True, cwd=folder, env=environment)
    with np.load(folder / "answers.npz") as file:
        return folder, models, texts, ids, dict(file)


def probabilities(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


def test_a_fresh_process_without_this_package_answers_as_predict(served):
    _, models, texts, _, answers = served
    expected = probabilities(models["single"].predict(texts, verbose=0))
    assert len(texts) == 1000
    assert expected.std(axis=0).min() > 1e-2, "the texts were to differ in their answers"
    np.testing.assert_allclose(answers["all/probabilities"], expected, atol=1e-5)


def test_any_batch_size_is_answered(served):
    _, _, _, _, answers = served
    for name, rows in (("one", 1), ("seven", 7)):
        assert answers[f"{name}/probabilities"].shape == (rows, 3)
        np.testing.assert_allclose(
            answers[f"{name}/probabilities"], answers["all/probabilities"][:rows], atol=1e-5
        )


def test_labels_are_the_names_of_the_likeliest(served):
    _, _, _, _, answers = served
    best = answers["all/probabilities"].argmax(axis=1)
    assert answers["all/label"].tolist() == [NAMES[i].encode() for i in best]
    assert set(best) == {0, 1, 2}


def test_pairs_are_answered(served):
    _, models, texts, _, answers = served
    pairs = {"text_a": texts[:50], "text_b": texts[50:100]}
    expected = probabilities(models["pair"].predict(pairs, verbose=0))
    np.testing.assert_allclose(answers["pair/probabilities"], expected, atol=1e-5)


def test_ids_are_answered(served):
    _, models, _, ids, answers = served
    expected = probabilities(models["single"].predict(ids, verbose=0))
    np.testing.assert_allclose(answers["ids/probabilities"], expected, atol=1e-5)
    assert answers["ids/label"].shape == (5,)


# Of TF.Text's library of ops, which stock TF Serving links in whole (ops_lib in its
# model_servers/BUILD); docs/serving.md names them.
TF_TEXT_OPS = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}


def test_every_op_is_tensorflows_or_tf_texts(served):
    """Stock TF Serving registers no others; and none may need a Python interpreter."""
    _, _, _, _, answers = served
    assert "MatMul" in answers["ops"]
    assert not {"PyFunc", "PyFuncStateless", "EagerPyFunc"} & set(answers["ops"].tolist())
    assert set(answers["other_ops"].tolist()) == TF_TEXT_OPS


def test_the_vocabulary_is_an_asset(served):
    folder = served[0]
    assets = list((folder / "single" / "assets").iterdir())
    assert [asset.name for asset in assets] == ["vocab.txt"]
    assert assets[0].read_text().splitlines() == small.VOCABULARY


# TF Serving's REST API takes rows or columns and answers rows or columns:
# https://www.tensorflow.org/tfx/serving/api_rest


def by_rest(signature, body):
    """What TF Serving does with a request's body, for string inputs of shape (batch,)."""
    request = json.loads(body)
    names = list(signature.structured_input_signature[1])
    if "instances" in request:
        rows = [row if isinstance(row, dict) else {names[0]: row} for row in request["instances"]]
        columns = {name: [row[name] for row in rows] for name in names}
    else:
        columns = request["inputs"]
        columns = columns if isinstance(columns, dict) else {names[0]: columns}
    outputs = signature(**{name: tf.constant(values) for name, values in columns.items()})
    columns = {
        name: [v.decode() for v in value] if value.dtype == object else value.tolist()
        for name, value in ((name, output.numpy()) for name, output in outputs.items())
    }
    if "inputs" in request:
        return json.dumps({"outputs": columns})
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return json.dumps({"predictions": rows})


def test_rest_rows_and_columns_are_answered(served):
    folder, models, _, _, _ = served
    signature = tf.saved_model.load(str(folder / "pair")).signatures["serving_default"]
    rows = [{"text_a": "the cat", "text_b": "café"}, {"text_a": "", "text_b": "中文"}]
    columns = {name: [row[name] for row in rows] for name in ("text_a", "text_b")}
    expected = probabilities(models["pair"].predict(columns, verbose=0))

    answers = json.loads(by_rest(signature, json.dumps({"instances": rows})))["predictions"]
    assert [sorted(answer) for answer in answers] == [["label", "probabilities"]] * 2
    np.testing.assert_allclose([a["probabilities"] for a in answers], expected, atol=1e-5)
    assert [a["label"] for a in answers] == [NAMES[i] for i in expected.argmax(axis=1)]

    answers = json.loads(by_rest(signature, json.dumps({"inputs": columns})))["outputs"]
    np.testing.assert_allclose(answers["probabilities"], expected, atol=1e-5)


def test_rest_rows_of_one_text_may_be_bare_strings(served):
    folder, models, _, _, _ = served
    signature = tf.saved_model.load(str(folder / "single")).signatures["serving_default"]
    bare = by_rest(signature, '{"instances": ["the cat", "a dog"]}')
    assert bare == by_rest(signature, '{"instances": [{"text": "the cat"}, {"text": "a dog"}]}')
    expected = probabilities(models["single"].predict(["the cat", "a dog"], verbose=0))
    answers = [row["probabilities"] for row in json.loads(bare)["predictions"]]
    np.testing.assert_allclose(answers, expected, atol=1e-5)


def test_signatures_leave_batch_and_length_free(served):
    signatures = tf.saved_model.load(str(served[0] / "single")).signatures
    assert sorted(signatures) == ["ids", "serving_default"]
    specs = signatures["serving_default"].structured_input_signature[1]
    assert {n: (s.shape.as_list(), s.dtype) for n, s in specs.items()} == {
        "text": ([None], tf.string)
    }
    specs = signatures["ids"].structured_input_signature[1]
    assert {n: (s.shape.as_list(), s.dtype) for n, s in specs.items()} == {
        "token_ids": ([None, None], tf.int32),
        "segment_ids": ([None, None], tf.int32),
        "padding_mask": ([None, None], tf.bool),
    }


def test_regression_answers_values(tmp_path):
    model = classifier(num_classes=1, class_names=None, regression=True)
    model.export(tmp_path / "model")
    signature = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    outputs = signature(text=tf.constant(small.TEXTS))
    assert list(outputs) == ["values"]
    expected = model.predict(small.TEXTS, verbose=0)[:, 0]
    np.testing.assert_allclose(outputs["values"], expected, atol=1e-5)


# Errors


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="holds files already"):
        classifier().export(tmp_path)
    assert os.listdir(tmp_path) == ["note.txt"]


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        pathlib.Path(args[1]).mkdir()
        (pathlib.Path(args[1]) / "saved_model.pb").write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(OSError, match="No space left"):
        classifier().export(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_a_task_without_preprocessor_is_refused(tmp_path):
    model = kbi.BertTextClassifier(small.backbone(num_layers=1), num_classes=2)
    with pytest.raises(ValueError, match="has no preprocessor, so it cannot serve raw text"):
        model.export(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_a_task_without_answer_is_refused(tmp_path):
    model = kbi.BertMaskedLM(
        small.backbone(num_layers=1), kbi.BertMaskedLMPreprocessor(small.tokenizer())
    )
    with pytest.raises(ValueError, match="BertMaskedLM has no answer to raw text"):
        model.export(tmp_path / "model")


def test_another_backend_is_told_where_to_export(tmp_path, monkeypatch):
    model = classifier()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="jax is running. Save the task with save_to_preset"):
        kbi.export_saved_model(model, tmp_path / "model")
