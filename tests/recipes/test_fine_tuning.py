"""The grid of fine-tuning runs: each done once, the best kept, its numbers told."""

import json

import numpy as np
import pytest

import keras_bert_impl as kbi
from tests import small
from tests.recipes import processes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fine_tuning")
    kbi.BertTextClassifier(
        small.backbone(num_layers=1), 2, preprocessor=kbi.BertPreprocessor(small.tokenizer(), 16)
    ).save_to_preset(str(folder / "start"))
    draw = np.random.default_rng(0)
    rows = ["text\tlabel"]
    for _ in range(20):
        label = draw.choice(["cats", "dogs"])
        rows.append(f"{' '.join(draw.choice(small.LETTERS, 4))} {label[:-1]}\t{label}")
    (folder / "table.tsv").write_text("\n".join(rows) + "\n")
    return folder


def run(folder, **flags):
    flags = {
        "model": folder / "start",
        "output": folder / "out",
        "train": folder / "table.tsv",
        "dev": folder / "table.tsv",
        "sequence_length": 16,
        "epochs": 1,
        "batch_sizes": 8,
        **flags,
    }
    return processes.run("recipes/finetune_classifier.py", eager=True, **flags)


def test_a_grid_goes_on_where_it_was_and_keeps_the_best(folder):
    first = run(folder, learning_rates="1e-2,1e-7")
    assert first.returncode == 0, first.stderr
    out = folder / "out"
    with (out / "runs.jsonl").open("a") as file:
        file.write('{"setting": {"learning_ra')  # killed while it wrote
    second = run(folder, learning_rates="1e-2,1e-7", seeds=2)
    assert second.returncode == 0, second.stderr
    assert second.stdout.count("Done already") == 2

    runs = [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]
    settings = [(run["setting"]["learning_rate"], run["setting"]["seed"]) for run in runs]
    assert sorted(settings) == [(1e-7, 0), (1e-7, 1), (1e-2, 0), (1e-2, 1)]
    metrics = json.loads((out / "metrics.json").read_text())
    accuracies = [run["metrics"]["accuracy"] for run in runs]
    assert metrics["accuracy"] == max(accuracies)
    assert metrics["setting"] == runs[int(np.argmax(accuracies))]["setting"]
    fast = [run["metrics"]["accuracy"] for run in runs if run["setting"]["learning_rate"] == 1e-2]
    told = next(s for s in metrics["settings"] if s["learning_rate"] == 1e-2)
    assert told["seeds"] == 2
    assert told["mean"]["accuracy"] == pytest.approx(np.mean(fast))
    assert told["spread"]["accuracy"] == pytest.approx(np.std(fast))

    # The kept model is the best run's: it gives the predictions that were written.
    predictions = (out / "dev_predictions.tsv").read_text().splitlines()[1:]
    labels, answers = zip(*(row.split("\t")[1:] for row in predictions), strict=True)
    right = [label == answer for label, answer in zip(labels, answers, strict=True)]
    assert np.mean(right) == metrics["accuracy"]
    table = kbi.read_table(folder / "table.tsv", ["text"])
    model = kbi.BertTextClassifier.from_preset(out / "model")
    again = model.predict(np.array(table.columns["text"]), verbose=0).argmax(-1)
    assert tuple(model.class_names[i] for i in again) == answers
    confusion = [row.split("\t") for row in (out / "confusion.tsv").read_text().splitlines()]
    assert sum(int(row[i + 1]) for i, row in enumerate(confusion[1:])) == sum(right)
    assert (out / "curves.png").stat().st_size > 1000


def test_a_folder_with_runs_of_other_flags_is_refused(folder):
    done = run(folder, learning_rates="1e-2,1e-7", sequence_length=8)
    assert done.returncode != 0
    assert "holds runs with another --sequence_length: 16" in done.stderr


def test_every_aid_at_once(folder):
    done = run(
        folder,
        output=folder / "aids",
        epochs=3,
        learning_rates="1e-3",
        schedule="slanted_triangle",
        layer_decay=0.4,
        gradual_unfreezing=True,
        patience=1,
        balanced=True,
    )
    assert done.returncode == 0, done.stderr
    frozen = run(folder, output=folder / "frozen", freeze_layers=1, learning_rates="1e-2")
    assert frozen.returncode == 0, frozen.stderr
    start = kbi.BertTextClassifier.from_preset(folder / "start")
    end = kbi.BertTextClassifier.from_preset(folder / "frozen" / "model")
    for name in ("embeddings", "encoder_layers"):
        parts = [getattr(task.backbone, name) for task in (start, end)]
        weights = [p[0].get_weights() if isinstance(p, list) else p.get_weights() for p in parts]
        for before, after in zip(*weights, strict=True):
            np.testing.assert_array_equal(before, after)
    before, after = (np.array(task.output_dense.kernel) for task in (start, end))
    assert np.abs(before - after).max() > 1e-4


def test_a_collapsed_run_says_so(folder):
    (folder / "one.tsv").write_text("text\tlabel\n" + "a cat\tcats\n" * 8 + "dog\tdogs\n")
    done = run(
        folder,
        output=folder / "collapsed",
        train=folder / "one.tsv",
        dev=folder / "one.tsv",
        learning_rates="1e-1",
        epochs=2,
    )
    assert done.returncode == 0, done.stderr
    assert "Every answer is 'cats': the run collapsed" in done.stdout
