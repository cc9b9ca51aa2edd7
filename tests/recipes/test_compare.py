"""The comparison, tiny: every way and seed once, its numbers told as they came out."""

import json

import numpy as np
import pytest
from absl import app

import keras_bert_impl as kbi
from tests import small
from tests.recipes.in_process import recipe, run

WAYS = ["none", "ulmfit", "elmo"]


@pytest.fixture(scope="module")
def compare():
    with recipe("compare") as module:
        yield module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    draw = np.random.default_rng(0)
    sentences = [" ".join(draw.choice(small.LETTERS, 5)) for _ in range(60)]
    text = "\n\n".join("\n".join(sentences[i : i + 4]) for i in range(0, 60, 4))
    (folder / "text.txt").write_text(text + "\n")
    kbi.save_vocabulary(small.VOCABULARY, folder / "vocab.txt")
    rows = ["label\tfirst\tsecond"]
    rows += [f"{draw.choice(['a', 'b'])}\t{text}\t{text[::-1]}" for text in sentences[:9]]
    (folder / "twin_train.tsv").write_text("\n".join(rows) + "\n")
    return folder


def flags_of(folder, **overrides):
    return {
        "output": folder / "out",
        "input": folder / "text.txt",
        "vocabulary": folder / "vocab.txt",
        "train": folder / "twin_train.tsv",
        "dev": folder / "twin_train.tsv",
        "ways": ",".join(WAYS),
        "num_layers": 1,
        "num_steps": 2,
        "pretraining_batch_size": 4,
        "sequence_length": 16,
        "train_rows": 8,
        "batch_sizes": 8,
        "epochs": 1,
        "seeds": 1,
        **overrides,
    }


def test_each_way_and_seed_is_done_once_and_told(compare, folder, monkeypatch):
    run(compare, **flags_of(folder))
    out = folder / "out"
    runs = [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]
    assert [r["setting"]["way"] for r in runs] == WAYS
    tokens = {r["setting"]["way"]: r["pretraining"]["tokens"] for r in runs}
    general = json.loads((out / "pretrained/causal_lm-0/training.json").read_text())
    assert general["tokens"] == pytest.approx(tokens["elmo"], rel=0.3)
    # ULMFiT's own stage: 2 epochs of 8 rows, 4 a step, each of two texts and two marks.
    assert tokens["ulmfit"] - general["tokens"] == 4 * 4 * 12

    results = json.loads((out / "results.json").read_text())
    assert [way["way"] for way in results["ways"]] == WAYS
    table = (out / "table.md").read_text().splitlines()
    assert len(table) == 2 + len(WAYS) + 1
    shown = f"{100 * runs[0]['accuracy']:.1f} ± 0.0"
    assert table[2].split(" | ")[1] == shown
    assert (out / "chart.png").stat().st_size > 1000

    # Again: nothing is trained. What is told of two seeds is their mean and spread.
    monkeypatch.setattr(compare, "measure", None)
    run(compare, **flags_of(folder, ways="elmo"))
    other = {**runs[0], "setting": {**runs[0]["setting"], "seed": 1}, "accuracy": 0.0}
    told = compare.best_setting([runs[0], other], "none", "twin")
    assert told["mean"] == told["spread"] == pytest.approx(runs[0]["accuracy"] / 2)


def test_what_cannot_be_compared_is_named(compare, folder):
    with pytest.raises(app.UsageError, match="Unknown ways gru. There are none, bert"):
        run(compare, **flags_of(folder, ways="bert,gru"))
    with pytest.raises(app.UsageError, match="as many tables in --dev"):
        run(compare, **flags_of(folder, dev=""))
    (folder / "wide_train.tsv").write_text("a\tb\tc\tlabel\n")
    with pytest.raises(ValueError, match="wide_train.tsv: has the columns"):
        compare.columns_of(folder / "wide_train.tsv")


def test_rows_are_drawn_the_same_for_all(compare):
    x, y = {"text_a": np.arange(9), "text_b": np.arange(9) + 10}, np.arange(9)
    drawn, labels = compare.drawn((x, y), 4)
    assert labels.tolist() == drawn["text_a"].tolist() == (drawn["text_b"] - 10).tolist()
    assert len(set(labels)) == 4
    assert compare.drawn((x, y), 0)[1].tolist() == compare.drawn((x, y), 50)[1].tolist() == [*y]
