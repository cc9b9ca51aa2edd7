"""The JAX backend: language models begun under TensorFlow train and write there as here."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import keras_bert_impl as kbi
from tests import small
from tests.end_to_end import language_models_under_jax as under_jax

ROOT = pathlib.Path(__file__).parents[2]


def causal_backbone():
    return small.backbone(num_layers=1, dropout=0.0, causal=True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(models as JAX got them, what JAX found)."""
    folder = tmp_path_factory.mktemp("jax")
    elmo = kbi.ElmoBackbone(
        lstm_units=6,
        projection_dim=4,
        num_layers=1,
        filters=((1, 4), (2, 5)),
        dropout=0.0,
        max_characters=8,
    )
    vocabulary = kbi.WordVocabulary.of_documents(under_jax.DOCUMENTS)
    preprocessor = kbi.BertCausalLMPreprocessor(small.tokenizer(), 12)
    models = {
        "causal_lm": kbi.BertCausalLM(causal_backbone(), preprocessor),
        "causal_classifier": kbi.BertCausalClassifier(causal_backbone(), num_classes=2),
        "bidirectional_lm": kbi.BidirectionalLM(elmo, vocabulary_size=len(vocabulary)),
    }
    for pooling in ("concat", "bilstm"):
        models[pooling] = kbi.BertCausalClassifier(causal_backbone(), 2, pooling=pooling)
    for name, model in models.items():
        model.save(folder / f"{name}.keras")
    subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.language_models_under_jax", folder],
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        check=True,
        cwd=ROOT,
    )
    result = json.loads((folder / "result.json").read_text())
    assert result["backend"] == "jax"
    return models, result


def test_the_likeliest_text_is_the_same_on_both_backends(trained):
    models, result = trained
    written = models["causal_lm"].generate(under_jax.PROMPTS, max_length=12)
    assert result["written"] == written
    assert written[0].startswith("the cat ")


def test_the_same_seed_draws_the_same_text(trained):
    assert trained[1]["seeds"] == [True, True]


def test_rows_are_pooled_alike_on_both_backends(trained):
    models, result = trained
    for name, logits in under_jax.logits(models).items():
        np.testing.assert_allclose(result["logits"][name], logits, atol=1e-5, err_msg=name)


def test_training_takes_the_same_steps_on_both_backends(trained):
    models, result = trained
    for name, losses in under_jax.fit(models).items():
        np.testing.assert_allclose(result["losses"][name], losses, atol=1e-3, err_msg=name)
        assert losses[-1] < losses[0]
