"""The recipe for GLUE, as a user runs it, on small files in each task's own layout."""

import json
import math

import numpy as np
import pytest

import keras_bert_impl as kbi
from tests import small
from tests.recipes import processes

WORDS = ["the", "a", "dog", "sat", "ran", "mat", '"the', "on", 'dog"', "unaffable"]
MNLI = "index\tpromptID\tpairID\tgenre\tp1\tp2\tp3\tp4\tsentence1\tsentence2"
STSB = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
NLI = ["entailment", "neutral", "contradiction"]


def write(path, *lines):
    """Without a line end at the end, as some downloads have it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


def read(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue_data")
    draw = np.random.default_rng(0)

    def text():
        return " ".join(draw.choice(WORDS, draw.integers(2, 6)))

    for split, rows in (("train", 40), ("dev", 16)):
        # "cat" makes a sentence acceptable, so that there is something to learn.
        write(
            folder / f"CoLA/{split}.tsv",
            *(f"gj04\t{i % 2}\t*\t{text()} {'cat' if i % 2 else 'dog'}" for i in range(rows)),
        )
        write(
            folder / f"STS-B/{split}.tsv",
            f"{STSB}\tscore",
            *(f"{i}\ta\tb\t2012\tc\td\te\t{text()}\t{text()}\t{i % 6}.0" for i in range(rows)),
        )
    write(folder / "CoLA/test.tsv", "index\tsentence", *(f"{i}\t{text()}" for i in range(5)))

    def mnli(labels, *between):
        fields = "\t".join("abcdefg")
        return [
            "\t".join([str(i), fields, text(), text(), *between, label])
            for i, label in enumerate(labels)
        ]

    write(folder / "MNLI/train.tsv", f"{MNLI}\tlabel1\tgold_label", *mnli(NLI * 6 + ["-"], "x"))
    dev = f"{MNLI}\tlabel1\tlabel2\tgold_label"
    write(folder / "MNLI/dev_matched.tsv", dev, *mnli([*NLI, "-", *NLI * 4], "x", "y"))
    write(folder / "MNLI/dev_mismatched.tsv", dev, *mnli(NLI[1:] * 5, "x", "y"))
    diagnostic = (f"{i}\t{text()}\t{text()}" for i in range(3))
    write(folder / "diagnostic/diagnostic.tsv", "index\tsentence1\tsentence2", *diagnostic)
    return folder


def run(data, output, task, start=None):
    words = [f"--data={data}", f"--output={output}", f"--task={task}", f"--model={start}"]
    words += ["--learning_rates=1e-2", "--batch_sizes=8", "--sequence_length=16"]
    return processes.run("recipes/finetune_glue.py", *words)


@pytest.fixture(scope="module")
def done(data, tmp_path_factory):
    """(output folder, what was printed)"""
    folder = tmp_path_factory.mktemp("glue")
    kbi.BertMaskedLM(
        small.backbone(num_layers=1), kbi.BertMaskedLMPreprocessor(small.tokenizer(), 16)
    ).save_to_preset(str(folder / "start"))
    done = run(data, folder / "out", "CoLA,STS-B,MNLI", folder / "start")
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stdout


def predictions(folder, split):
    """Labels and answers as they were written."""
    rows = read(folder / f"{split}_predictions.tsv")
    assert rows[0] == ["line", "label", "prediction"]
    labels, answers = zip(*(row[1:] for row in rows[1:]), strict=True)
    return labels, answers


def metrics(folder, split):
    values = json.loads((folder / f"{split}_metrics.json").read_text())
    best = json.loads((folder / "metrics.json").read_text())
    assert split == "dev_mismatched" or values.items() <= best.items()
    assert best["setting"] == {"learning_rate": 1e-2, "batch_size": 8, "epochs": 3, "seed": 0}
    return values


def test_cola_is_measured_by_matthews(done):
    out, printed = done
    labels, answers = predictions(out / "CoLA", "dev")
    assert labels == ("0", "1") * 8
    both = list(zip(labels, answers, strict=True))
    true_1, false_1 = both.count(("1", "1")), both.count(("0", "1"))
    false_0, true_0 = both.count(("1", "0")), both.count(("0", "0"))
    assert true_1 + false_1 and true_0 + false_0, "the model was to give both answers"
    squares = (true_1 + false_1) * (true_0 + false_0) * 8 * 8
    expected = (true_1 * true_0 - false_1 * false_0) / math.sqrt(squares)
    assert metrics(out / "CoLA", "dev") == {"matthews": pytest.approx(expected)}
    assert f"CoLA dev matthews {expected:.4f}" in printed
    confusion = [["0", f"{true_0}", f"{false_1}"], ["1", f"{false_0}", f"{true_1}"]]
    assert read(out / "CoLA" / "dev_confusion.tsv") == [["label", "0", "1"], *confusion]
    recalls = [float(row[2]) for row in read(out / "CoLA" / "dev_labels.tsv")[1:]]
    assert recalls == pytest.approx([true_0 / 8, true_1 / 8])


def test_stsb_is_measured_by_correlations(done):
    out, _ = done
    labels, answers = (np.float64(column) for column in predictions(out / "STS-B", "dev"))
    assert len(set(answers)) > 8, "the answers were to differ"

    def correlation(a, b):
        a, b = a - a.mean(), b - b.mean()
        return (a * b).sum() / math.sqrt((a**2).sum() * (b**2).sum())

    def ranks(values):  # of ties their mean
        return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])

    assert metrics(out / "STS-B", "dev") == {
        "spearman": pytest.approx(correlation(ranks(answers), ranks(labels))),
        "pearson": pytest.approx(correlation(answers, labels)),
    }
    assert not (out / "STS-B" / "dev_confusion.tsv").exists()


@pytest.mark.parametrize("split", ["dev_matched", "dev_mismatched"])
def test_mnli_is_measured_on_both_development_sets(done, split):
    out, printed = done
    labels, answers = predictions(out / "MNLI", split)
    expected = {"dev_matched": NLI * 5, "dev_mismatched": NLI[1:] * 5}[split]
    assert list(labels) == expected
    assert set(answers) <= set(NLI)
    right = sum(label == answer for label, answer in zip(labels, answers, strict=True))
    accuracy = right / len(labels)
    assert metrics(out / "MNLI", split) == {"accuracy": pytest.approx(accuracy)}
    assert f"MNLI {split} accuracy {accuracy:.4f}" in printed
    assert "dev_matched: 15 rows, 1 lines skipped" in printed
    counts = [row[1:] for row in read(out / "MNLI" / f"{split}_confusion.tsv")[1:]]
    assert sum(int(count) for row in counts for count in row) == len(labels)
    assert sum(int(counts[i][i]) for i in range(3)) == right


def test_what_the_kept_model_answers_is_submitted(done, data):
    out, _ = done
    written = {path.name: read(path) for path in (out / "submission").iterdir()}
    assert set(written) == {"CoLA.tsv", "AX.tsv"}
    model = kbi.BertTextClassifier.from_preset(str(out / "MNLI" / "model"))
    logits = model.predict(kbi.read_glue(data, "MNLI", "test_diagnostic").x, verbose=0)
    names = [model.class_names[i] for i in logits.argmax(axis=-1)]
    rows = [[str(i), name] for i, name in enumerate(names)]
    assert written["AX.tsv"] == [["index", "prediction"], *rows]
    assert [row[0] for row in written["CoLA.tsv"]] == ["index", *"01234"]
    assert {row[1] for row in written["CoLA.tsv"][1:]} <= {"0", "1"}


def test_files_that_are_missing_stop_the_run_before_any_training(data, tmp_path):
    stopped = run(data, tmp_path / "out", "CoLA,RTE")
    assert stopped.returncode != 0
    assert "lacks RTE/dev.tsv, RTE/train.tsv" in stopped.stdout + stopped.stderr
    assert not (tmp_path / "out").exists()
