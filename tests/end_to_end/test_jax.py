"""The JAX backend: a classifier begun under TensorFlow, trained there, and taken back."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bert_impl as kbi
from tests import small
from tests.end_to_end import under_jax

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(folder, classifier as JAX got it, what JAX found)."""
    folder = tmp_path_factory.mktemp("jax")
    classifier = kbi.BertTextClassifier(
        small.backbone(num_layers=1, dropout=0.0),
        num_classes=2,
        # One shape for text and ids, as JAX compiles for each.
        preprocessor=kbi.BertPreprocessor(small.tokenizer(), 12, padding="max_length"),
    )
    classifier.save(folder / "start.keras")
    subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.under_jax", folder],
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        check=True,
        cwd=ROOT,
    )
    result = json.loads((folder / "result.json").read_text())
    assert result["backend"] == "jax"
    return folder, classifier, result


def test_training_takes_the_same_steps_on_both_backends(trained):
    folder, classifier, result = trained
    np.testing.assert_allclose(under_jax.fit(classifier), result["losses"], atol=1e-4)
    np.testing.assert_allclose(
        classifier.predict(small.TEXTS, verbose=0), result["predictions"], atol=1e-3
    )
    assert result["losses"][3] < result["losses"][0]


def test_what_jax_saved_predicts_the_same_under_tensorflow(trained):
    folder, classifier, result = trained
    for again in (
        keras.saving.load_model(folder / "trained.keras"),
        kbi.BertTextClassifier.from_preset(str(folder / "trained")),
    ):
        for x, expected in ((small.TEXTS, "predictions"), (small.prepared(), "of_ids")):
            np.testing.assert_allclose(again.predict(x, verbose=0), result[expected], atol=1e-5)


def test_pretraining_and_masked_lm_train(trained):
    result = trained[2]
    assert np.isfinite(result["pretraining"] + result["masked_lm"]).all()


@pytest.mark.parametrize(
    "name", ["token_classifier", "question_answering", "multiple_choice", "text_embedder"]
)
def test_the_other_heads_learn_from_ids(trained, name):
    losses = trained[2]["tasks"][name]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


def test_jax_says_where_to_export(trained):
    folder, _, result = trained
    assert "jax is running. Save the task with save_to_preset()" in result["export"]
    assert not (folder / "exported").exists()


def test_jax_says_how_to_use_several_machines(trained):
    assert "call keras.distribution.initialize()" in trained[2]["multi_worker"]
