"""The recipe for SWAG, as a user runs it."""

import csv
import json

import numpy as np
import pytest

import keras_bert_impl as kbi
from tests import small
from tests.recipes import processes

COLUMNS = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source"]
COLUMNS += ["ending0", "ending1", "ending2", "ending3", "label"]


def write(path, draw, rows, labeled=True):
    """The right ending has a cat; commas and quotes are in all."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS if labeled else COLUMNS[:-1])
        for i in range(rows):
            label = int(draw.integers(4))
            endings = [f'sat, "{"cat" if place == label else "dog"}".' for place in range(4)]
            row = [i, "v", i, "s", " ".join(draw.choice(small.LETTERS, 3)), "the", "gold", *endings]
            writer.writerow([*row, label] if labeled else row)


def read(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def test_endings_are_chosen_measured_and_written(tmp_path):
    draw = np.random.default_rng(0)
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    write(data / "train.csv", draw, 24)
    write(data / "val.csv", draw, 20)
    write(data / "test.csv", draw, 5, labeled=False)
    kbi.BertMaskedLM(
        small.backbone(num_layers=1), kbi.BertMaskedLMPreprocessor(small.tokenizer(), 16)
    ).save_to_preset(str(tmp_path / "start"))
    words = [f"--data={data}", f"--output={out}", f"--model={tmp_path / 'start'}"]
    done = processes.run("recipes/finetune_swag.py", *words, "--sequence_length=24")
    assert done.returncode == 0, done.stderr

    metrics = json.loads((out / "metrics.json").read_text())
    # the paper's
    assert metrics["setting"] == {"learning_rate": 2e-5, "batch_size": 16, "epochs": 3, "seed": 0}
    header, *rows = read(out / "dev_predictions.tsv")
    assert header == ["line", "label", "prediction", "p0", "p1", "p2", "p3"]
    assert [row[0] for row in rows] == [str(line) for line in range(2, 22)]
    right = [row[1] == row[2] for row in rows]
    assert metrics["accuracy"] == pytest.approx(sum(right) / 20)
    for row in rows:
        shares = [float(share) for share in row[3:]]
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert shares.index(max(shares)) == int(row[2])
    labels = read(out / "labels.tsv")
    assert [row[0] for row in labels] == ["label", "ending0", "ending1", "ending2", "ending3"]
    counts = [sum(row[1] == str(place) for row in rows) for place in range(4)]
    assert [int(row[4]) for row in labels[1:]] == counts

    # The kept model is the one whose answers were written.
    model = kbi.BertMultipleChoice.from_preset(str(out / "model"))
    test = kbi.read_swag(data / "test.csv", labeled=False)
    answers = model.predict(test.x, verbose=0).argmax(axis=-1)
    assert [row[:3] for row in read(out / "test_predictions.tsv")[1:]] == [
        [str(line), "", str(answer)] for line, answer in zip(test.table.lines, answers, strict=True)
    ]
