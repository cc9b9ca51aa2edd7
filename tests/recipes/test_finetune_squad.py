"""The recipe for SQuAD, as a user runs it, on small files in SQuAD's format."""

import json
import subprocess
import sys

import numpy as np
import pytest

import keras_bert_impl as kbi
from tests import small
from tests.recipes import processes

WORDS = ["the", "dog", "sat", "ran", "mat", ".", "on"]


def question(draw, id, has_answer):
    """The answer is always "cat", after a word that the question does not tell."""
    words = list(draw.choice(WORDS, draw.integers(3, 12)))
    answers = []
    if has_answer:
        place = int(draw.integers(len(words)))
        words.insert(place, "cat")
        start = len(" ".join(words[:place])) + (place > 0)
        answers = [{"text": "cat", "answer_start": start}]
    qa = {"id": id, "question": "who ran", "answers": answers, "is_impossible": not has_answer}
    return {"context": " ".join(words), "qas": [qa]}


def write(path, paragraphs):
    path.write_text(
        json.dumps({"version": "x", "data": [{"title": "t", "paragraphs": paragraphs}]})
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Files of both versions, and a model to start from."""
    folder = tmp_path_factory.mktemp("squad")
    draw = np.random.default_rng(0)
    train = [question(draw, f"t{i}", has_answer=True) for i in range(200)]
    # One answer that does not stand where it is said to.
    train[7]["qas"][0]["answers"][0]["answer_start"] += 1
    write(folder / "train-v1.json", train)
    dev = [question(draw, f"d{i}", has_answer=True) for i in range(8)]
    # Beside "cat" other words are gold, so that the model that has learned is not always right.
    for paragraph, texts in zip(dev, (["big cat"], ["dog", "The cat!"], ["mat"]), strict=False):
        paragraph["qas"][0]["answers"] = [{"text": t, "answer_start": 0} for t in texts]
    write(folder / "dev-v1.json", dev)
    write(
        folder / "train-v2.json",
        [question(draw, f"t{i}", has_answer=i % 2 == 0) for i in range(300)],
    )
    write(
        folder / "dev-v2.json",
        [question(draw, f"d{i}", has_answer=i % 2 == 0) for i in range(12)],
    )
    kbi.BertMaskedLM(
        small.backbone(num_layers=1), kbi.BertMaskedLMPreprocessor(small.tokenizer(), 16)
    ).save_to_preset(str(folder / "start"))
    return folder


def run(data, output, version, *words):
    words = [
        f"--train={data}/train-v{version}.json",
        f"--dev={data}/dev-v{version}.json",
        f"--output={output}",
        f"--model={data}/start",
        "--sequence_length=16",
        "--doc_stride=6",
        "--max_question_length=4",
        "--learning_rates=2e-2",
        "--batch_sizes=16",
        *words,
    ]
    return processes.run("recipes/finetune_squad.py", *words)


def read(path):
    return json.loads(path.read_text())


def test_answers_that_are_always_there(data, tmp_path):
    done = run(data, tmp_path / "out", 1, "--epochs=3", "--n_best=5")
    assert done.returncode == 0, done.stderr
    assert "1 of 200 questions are skipped" in done.stdout
    assert "as that of 't7'" in done.stdout
    predictions = read(tmp_path / "out" / "predictions.json")
    assert predictions == {f"d{i}": "cat" for i in range(8)}
    # "big cat" 0 and 2/3, "The cat!" 1, "mat" 0, and five times right.
    metrics = read(tmp_path / "out" / "metrics.json")
    assert metrics["exact_match"] == pytest.approx(100 * 6 / 8)
    assert metrics["f1"] == pytest.approx(100 * (2 / 3 + 6) / 8)
    assert metrics["setting"]["epochs"] == 3
    n_best = read(tmp_path / "out" / "nbest.json")
    assert list(n_best) == list(predictions)
    for listed in n_best.values():
        assert listed[0]["text"] == "cat"
        assert 1 <= len(listed) <= 5
        assert sum(each["probability"] for each in listed) == pytest.approx(1, abs=1e-5)
    config = read(tmp_path / "out" / "config.json")
    assert (config["doc_stride"], config["version_2"]) == (6, False)


def test_answers_that_may_be_missing(data, tmp_path):
    out = tmp_path / "out"
    done = run(data, out, 2, "--version_2", "--epochs=3")
    assert done.returncode == 0, done.stderr
    predictions = read(out / "predictions.json")
    assert predictions == {f"d{i}": "" if i % 2 else "cat" for i in range(12)}
    metrics = read(out / "metrics.json")
    assert metrics["best_f1"] == metrics["best_exact"] == 100
    assert metrics["HasAns_total"] == metrics["NoAns_total"] == 6
    assert read(out / "dev_metrics.json")["f1"] == 100
    differences = read(out / "null_odds.json")
    answered = [differences[id] for id, text in predictions.items() if text]
    assert max(answered) == metrics["best_f1_thresh"]
    assert min(differences[id] for id, text in predictions.items() if not text) > max(answered)
    # The model that was saved has the threshold.
    saved = kbi.BertQuestionAnswering.from_preset(str(out / "model"))
    assert saved.null_threshold == metrics["best_f1_thresh"]
    dev = kbi.read_squad(data / "dev-v2.json")
    answers = saved.predict(kbi.squad_inputs(dev), verbose=0)
    assert [answer.text for answer in answers] == list(predictions.values())


def test_the_papers_settings_are_the_defaults():
    program = (
        "import sys; sys.path.insert(0, 'recipes')\n"
        "import finetune_squad as recipe\n"
        "from fine_tuning import FLAGS, set_defaults\n"
        "import unittest.mock as mock\n"
        "def stop(*_): raise SystemExit\n"
        "for words in ([], ['--version_2'], ['--version_2', '--epochs=7']):\n"
        "    FLAGS(['x', '--model=m', '--output=o', '--train=t', '--dev=d', *words])\n"
        "    with mock.patch.object(recipe.kbi, 'read_squad', stop):\n"
        "        try: recipe.main(None)\n"
        "        except SystemExit: pass\n"
        "    print(FLAGS.learning_rates, FLAGS.batch_sizes, FLAGS.epochs, FLAGS.sequence_length)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=processes.ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['5e-05', '3e-05', '2e-05'] ['32'] ['3'] 384",
        "['5e-05'] ['48'] ['2'] 384",
        "['5e-05'] ['48'] ['7'] 384",
    ]
