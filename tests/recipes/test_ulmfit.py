"""ULMFiT's three stages, tiny: each is done once, and the next begins where it ended."""

import json

import numpy as np
import pytest
from absl import app

import keras_bert_impl as kbi
from tests import small
from tests.recipes.in_process import recipe, run


@pytest.fixture(scope="module")
def ulmfit():
    with recipe("ulmfit") as module:
        yield module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ulmfit")
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(small.LETTERS, 5)) for _ in range(24)]
    (folder / "text.txt").write_text("\n\n".join(texts) + "\n")
    kbi.save_vocabulary(small.VOCABULARY, folder / "vocab.txt")
    rows = [f"{text} {animal}\t{animal}" for text, animal in zip(texts, ["cat", "dog"] * 12)]  # noqa: B905
    (folder / "table.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return folder


def flags_of(folder, **overrides):
    return {
        "output": folder / "out",
        "general": folder / "text.txt",
        "vocabulary": folder / "vocab.txt",
        "train": folder / "table.tsv",
        "dev": folder / "table.tsv",
        "unlabelled": folder / "text.txt",
        "size": "tiny",
        "num_layers": 1,
        "general_steps": 2,
        "lm_batch_size": 8,
        "target_epochs": 1,
        "sequence_length": 16,
        "batch_sizes": 8,
        "epochs": 2,
        **overrides,
    }


def test_three_stages_each_done_once(ulmfit, folder, monkeypatch):
    run(ulmfit, **flags_of(folder))
    out = folder / "out"
    general, target = (
        kbi.BertCausalLM.from_preset(out / stage / "model") for stage in ("general_lm", "target_lm")
    )
    model = kbi.BertCausalClassifier.from_preset(out / "model")
    assert (model.pooling, model.lm_weight, model.class_names) == ("concat", 0, ("cat", "dog"))
    # 24 rows of the table and 24 of the unlabelled text, 8 a step.
    log = kbi.read_table(out / "target_lm" / "log.csv", ["epoch"])
    assert len(log.lines) == 1
    tables, layers = (
        [np.array(weights_of(m.backbone)) for m in (general, target, model)]
        for weights_of in (
            lambda backbone: backbone.token_embedding.get_weights()[0],
            lambda backbone: backbone.encoder_layers[-1].get_weights()[0],
        )
    )
    assert np.any(tables[0] != tables[1])
    # Two epochs of a model of one layer: the head, then that layer. The table has not joined.
    assert np.array_equal(tables[1], tables[2])
    assert np.any(layers[1] != layers[2])
    metrics = json.loads((out / "metrics.json").read_text())
    assert 0 <= metrics["accuracy"] <= 1

    monkeypatch.setattr(kbi, "fit_steps", None)
    monkeypatch.setattr(kbi.BertCausalClassifier, "fit", None)
    run(ulmfit, **flags_of(folder))
    assert json.loads((out / "metrics.json").read_text()) == metrics


def test_what_is_missing_is_named_before_anything_is_trained(ulmfit, folder):
    with pytest.raises(app.UsageError, match="Pass --general and --vocabulary, or a trained"):
        run(ulmfit, **flags_of(folder, output=folder / "other", general=""))
    with pytest.raises(app.UsageError, match="leave --regression out"):
        run(ulmfit, **flags_of(folder, output=folder / "other", regression="true"))
    assert not (folder / "other").exists()
