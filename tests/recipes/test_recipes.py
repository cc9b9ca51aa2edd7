"""The recipes as a user runs them: commands on files, each in a process of its own."""

import json
import os
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS, save_vocabulary
from tests.recipes.processes import command, run
from tests.workers import worker_configs

WORDS = ["the", "a", "cat", "dog", "bird", "sat", "ran", "flew"]
WORDS += ["on", "under", "over", "mat", "tree", "house", ".", ","]


def pretraining_flags(folder, output, **overrides):
    return {
        "input": folder / "text.txt",
        "vocabulary": folder / "vocab.txt",
        "output": folder / output,
        "size": "tiny",
        "num_layers": 1,
        "hidden_dim": 16,
        "num_heads": 2,
        "sequence_length": 24,
        "max_predictions": 4,
        "batch_size": 8,
        "num_steps": 40,
        "warmup": 0.1,
        "learning_rate": 1e-2,
        "epoch_steps": 4,
        "save_every": 3,
        **overrides,
    }


def fine_tuning_flags(folder, pretrained, output, **overrides):
    return {
        "model": pretrained / "model",
        "output": folder / output,
        "train": folder / "pairs.tsv",
        "dev": folder / "pairs.tsv",
        "text": "first",
        **overrides,
    }


def weights_of(preset):
    arrays = {}
    with h5py.File(preset / "model.weights.h5") as file:
        file.visititems(
            lambda name, node: (
                arrays.update({name: np.array(node)}) if isinstance(node, h5py.Dataset) else None
            )
        )
    assert arrays
    return arrays


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes")
    draw = np.random.default_rng(0)
    documents = [
        "\n".join(" ".join(draw.choice(WORDS, 6)) for _ in range(draw.integers(2, 6)))
        for _ in range(30)
    ]
    (folder / "text.txt").write_text("\n\n".join(documents) + "\n")
    save_vocabulary([*SPECIAL_TOKENS, *WORDS], folder / "vocab.txt")
    rows = ["first\tsecond\tlabel"]
    for _ in range(24):
        first = " ".join(draw.choice(WORDS, 4))
        same = draw.random() < 0.5
        rows.append(f"{first}\t{first if same else 'a dog'}\t{'same' if same else 'other'}")
    (folder / "pairs.tsv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="module")
def pretrained(folder):
    done = run(
        "recipes/pretrain.py",
        **pretraining_flags(folder, "whole", held_out=folder / "text.txt"),
    )
    assert done.returncode == 0, done.stderr
    return folder / "whole"


def test_pretraining_measures_itself_against_the_unigram_baseline(pretrained):
    metrics = json.loads((pretrained / "metrics.json").read_text())
    # 16 words, drawn evenly: the unigram loss is about ln 16, and so is any model's.
    assert metrics["unigram_loss"] == pytest.approx(np.log(16), abs=0.15)
    assert metrics["masked_lm_loss"] == pytest.approx(np.log(16), abs=0.5)
    assert metrics["tokens"] < 40 * 8 * 24


def test_a_run_does_not_go_on_with_another_batch_size(folder, pretrained):
    done = run("recipes/pretrain.py", **pretraining_flags(folder, "whole", batch_size=4))
    assert done.returncode != 0
    assert "batch_size=8, but now batch_size=4" in done.stderr


def test_pretraining_for_other_objectives(folder):
    rows = ["query\ttitle\tclicked"]
    rows += [f"{word} cat\tthe {word}\t{i % 2}" for i, word in enumerate(WORDS)]
    (folder / "clicks.tsv").write_text("\n".join(rows) + "\n")
    (folder / "phrases.txt").write_text("the cat\non the\n")
    flags = {
        "objectives": "masked_lm,sentence_order,ir_relevance",
        "task_schedule": "continual",
        "task_steps": "4,3",
        "task_embeddings": True,
        "click_log": folder / "clicks.tsv",
        "mask_unit": "phrase",
        "phrases": folder / "phrases.txt",
        "held_out_steps": 2,
    }
    flags = pretraining_flags(folder, "others", held_out=folder / "text.txt", **flags)
    del flags["num_steps"]  # 7 by the tasks
    done = run("recipes/pretrain.py", **flags)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((folder / "others" / "metrics.json").read_text())
    assert {"masked_lm_loss", "sentence_order_accuracy"} <= set(metrics)
    assert not [name for name in metrics if name.startswith("ir_relevance")]  # of a file
    config = json.loads((folder / "others" / "model" / "config.json").read_text())
    assert config["config"]["num_tasks"] == 3
    states = folder / "others" / "states"
    assert sorted(states.glob("step-*.json"))[-1].name.startswith("step-00000007")
    done = run("recipes/pretrain.py", **{**flags, "task_steps": "3,4"})
    assert done.returncode != 0
    assert "tasks" in done.stderr.strip().splitlines()[-1]


@pytest.mark.thorough
def test_pretraining_runs_on_two_mirrored_devices(folder, pretrained):
    flag_values = pretraining_flags(
        folder, "mirrored", dropout=0, distribution="mirrored", num_steps=4
    )
    done = run("recipes/pretrain.py", devices=2, **flag_values)
    assert done.returncode == 0, done.stderr
    alone = run(
        "recipes/pretrain.py",
        **pretraining_flags(folder, "alone", dropout=0, distribution="none", num_steps=4),
    )
    assert alone.returncode == 0, alone.stderr
    one, two = (weights_of(folder / name / "model") for name in ("alone", "mirrored"))
    for name, array in one.items():
        np.testing.assert_allclose(array, two[name], atol=1e-5, err_msg=name)


def test_pretraining_from_prepared_rows_in_streams(folder):
    prepared = folder / "rows"
    done = run(
        "tools/prepare_pretraining.py",
        input=folder / "text.txt",
        vocabulary=folder / "vocab.txt",
        output=prepared,
        sequence_length=24,
        num_files=4,
        copies=1,
    )
    assert done.returncode == 0, done.stderr
    flag_values = pretraining_flags(
        folder,
        "from_rows",
        prepared=prepared,
        streams=2,
        num_steps=8,
        held_out=folder / "text.txt",
        held_out_steps=2,
    )
    del flag_values["input"]
    done = run("recipes/pretrain.py", **flag_values)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((folder / "from_rows" / "metrics.json").read_text())
    assert 0 < metrics["unigram_loss"] < 10 and metrics["tokens"] <= 8 * 8 * 24
    assert len((folder / "from_rows" / "log.csv").read_text().splitlines()) == 3
    both = run("recipes/pretrain.py", input=folder / "text.txt", **flag_values)
    assert both.returncode and "Pass either --input or --prepared" in both.stderr


def start_workers(folder, output, **overrides):
    """Two processes on this machine that train one model together."""
    flag_values = pretraining_flags(folder, output, distribution="multi_worker", **overrides)
    return [
        subprocess.Popen(
            [sys.executable, *command("recipes/pretrain.py", **flag_values)],
            env={**os.environ, "TF_CONFIG": config},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for config in worker_configs()
    ]


@pytest.mark.thorough
def test_when_a_worker_is_killed_both_go_on_to_the_same_weights(folder):
    whole = start_workers(folder, "workers")
    assert [process.wait(timeout=300) for process in whole] == [0, 0]

    first, second = start_workers(folder, "workers_killed")
    states = folder / "workers_killed" / "states"
    deadline = time.monotonic() + 200
    while not list(states.glob("step-*.json")) and time.monotonic() < deadline:
        time.sleep(0.01)
    second.kill()
    # The other one notices that its peer is gone.
    assert first.wait(timeout=200) != 0
    assert list(states.glob("step-*.json"))
    assert not (folder / "workers_killed" / "model").exists(), "the run was over before the kill"
    again = start_workers(folder, "workers_killed")
    assert [process.wait(timeout=300) for process in again] == [0, 0]
    one, two = (weights_of(folder / name / "model") for name in ("workers", "workers_killed"))
    for name, array in one.items():
        np.testing.assert_array_equal(array, two[name], err_msg=name)


def test_fine_tuning_export_and_a_process_that_knows_tensorflow_alone(folder, pretrained):
    done = run(
        "recipes/finetune_classifier.py",
        **fine_tuning_flags(
            folder, pretrained, "classifier", text_pair="second", epochs=2, batch_sizes=8
        ),
    )
    assert done.returncode == 0, done.stderr
    metrics = json.loads((folder / "classifier" / "metrics.json").read_text())
    assert 0 <= metrics["accuracy"] <= 1
    assert metrics["majority_accuracy"] >= 0.5
    predictions = (folder / "classifier" / "dev_predictions.tsv").read_text().splitlines()
    assert len(predictions) == 25
    assert predictions[0] == "line\tlabel\tprediction"
    assert predictions[1].split("\t")[0] == "2"  # below the names of the columns

    served = folder / "served" / "1"
    flag_values = {"check": folder / "pairs.tsv", "text": "first", "text_pair": "second"}
    exported = run(
        "recipes/export.py",
        model=folder / "classifier" / "model",
        output=served,
        weights="bfloat16",
        **flag_values,
    )
    assert exported.returncode == 0, exported.stderr
    accuracy = 100 * metrics["accuracy"]
    assert f"Accuracy of the model: {accuracy:.2f} % of 24" in exported.stdout
    assert "Accuracy of what is served: " in exported.stdout
    pairs = ["the cat", "the cat", "a dog", "the tree"]
    asked = subprocess.run(
        [sys.executable, *command("recipes/ask_served.py", served, *pairs)],
        capture_output=True,
        text=True,
    )
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.count("-> same") + asked.stdout.count("-> other") == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.txt", None, "missing.txt"),
        ("empty.txt", b"", "empty.txt is empty"),
        ("latin.txt", b"one\ntwo\ncaf\xe9\n", "latin.txt:3"),
    ],
)
def test_text_that_cannot_be_read_is_named(folder, name, content, message):
    if content is not None:
        (folder / name).write_bytes(content)
    done = run("recipes/pretrain.py", **pretraining_flags(folder, "bad", input=folder / name))
    assert done.returncode != 0
    assert message in done.stderr.strip().splitlines()[-1]


def test_an_unknown_column_is_named_with_those_there_are(folder, pretrained):
    done = run(
        "recipes/finetune_classifier.py",
        **fine_tuning_flags(folder, pretrained, "bad", text="sentence"),
    )
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "sentence" in last
    assert "first" in last


def test_a_label_that_is_no_class_is_named_with_its_line(folder, pretrained):
    done = run(
        "recipes/finetune_classifier.py",
        **fine_tuning_flags(folder, pretrained, "bad", class_names="same,different"),
    )
    assert done.returncode != 0
    assert "pairs.tsv:" in done.stderr
    assert "must be one of same, different" in done.stderr
