"""The recipe for named entities, as a user runs it."""

import json

import numpy as np
import pytest

import keras_bert_impl as kbi
from tests import small
from tests.recipes import processes


def write(path, sentences):
    lines = [f"{word} x {tag}\n" for row in sentences for word, tag in [*row, ("", "")]]
    path.write_text("".join("\n" if line == " x \n" else line for line in lines))


def sentences(draw, count, length=6):
    """Of words among which `un able` is one entity and `cat` another."""
    rows = []
    for _ in range(count):
        row = []
        while len(row) < length:
            word = draw.choice(["the", "dog", "sat", "unaffable", "cat", "un"])
            if word == "un":
                row += [("un", "B-ORG"), ("able", "I-ORG")]
            else:
                row.append((str(word), "B-CAT" if word == "cat" else "O"))
        rows.append(row)
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ner")
    vocabulary = [*small.VOCABULARY, "able"]
    kbi.BertMaskedLM(
        small.backbone(num_layers=1, dropout=0.0, vocabulary_size=len(vocabulary)),
        kbi.BertMaskedLMPreprocessor(kbi.BertTokenizer(vocabulary, lowercase=False), 16),
    ).save_to_preset(str(folder / "start"))
    draw = np.random.default_rng(0)
    write(folder / "train.txt", sentences(draw, 200))
    write(folder / "dev.txt", sentences(draw, 10))
    # Two sentences longer than a row, words parted from their tags by tabs.
    write(folder / "test.txt", sentences(draw, 2, length=30))
    text = (folder / "test.txt").read_text().replace(" ", "\t")
    (folder / "test.txt").write_text(f"-DOCSTART-\tx\tO\n\n{text}")
    return folder


def run(folder, **flags):
    flags = {
        "model": folder / "start",
        "output": folder / "out",
        "train": folder / "train.txt",
        "dev": folder / "dev.txt",
        "sequence_length": 16,
        "learning_rates": 2e-2,
        "batch_sizes": 8,
        **flags,
    }
    return processes.run("recipes/finetune_ner.py", **flags)


def test_entities_are_learned_measured_and_written(folder):
    done = run(folder, test=folder / "test.txt")
    assert done.returncode == 0, done.stderr
    out = folder / "out"
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["f1"] > 0.9
    assert metrics["setting"]["epochs"] == 3  # the paper's

    for name in ("dev", "test"):
        true = kbi.read_conll(folder / f"{name}.txt")
        path = out / f"{name}_predictions.conll"
        written = kbi.read_conll(path)
        assert written.words == true.words
        assert written.separator == true.separator
        assert kbi.read_conll(path, tag_column=1).tags == true.tags
        scores = kbi.entity_scores(true.tags, written.tags)
        table = [row.split("\t") for row in (out / f"{name}_types.tsv").read_text().splitlines()]
        assert [row[0] for row in table] == ["type", "CAT", "ORG", "all"]
        assert float(table[3][3]) == pytest.approx(scores.f1)
        assert int(table[1][4]) == sum(tag == "B-CAT" for row in true.tags for tag in row)
        if name == "dev":
            assert metrics["f1"] == pytest.approx(scores.f1)
            assert metrics["accuracy"] == pytest.approx(scores.accuracy)

    # The kept model is the one whose predictions were written.
    tagger = kbi.BertTokenClassifier.from_preset(str(out / "model"))
    assert tagger.class_names == ("O", "B-CAT", "B-ORG", "I-ORG")
    assert tagger.predict(true.words, verbose=0) == written.tags


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the x O\n\nof x B-LOC\n", "dev.txt:3: the tag 'B-LOC' is nowhere in "),
        ("the x O\ncat x NN\n", "dev.txt:2: 'NN' is no entity tag"),
    ],
)
def test_a_wrong_line_is_named(folder, tmp_path, text, message):
    (tmp_path / "dev.txt").write_text(text)
    done = run(folder, dev=tmp_path / "dev.txt", output=tmp_path / "out")
    assert done.returncode != 0
    assert message in done.stderr.strip().splitlines()[-1]
    assert not (tmp_path / "out").exists()
