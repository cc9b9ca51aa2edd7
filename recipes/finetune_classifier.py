r"""Fine-tune a classifier of single texts or of pairs on a table of your own (paper, section 4.1).

    python recipes/finetune_classifier.py --model=runs/mine/model --output=runs/classifier \
        --train=train.tsv --dev=dev.tsv --text=sentence --label=label

Tables are TSV, CSV (first row: column names) or JSONL (keys: column names), told by the file's
ending. For pairs name the second text's column with --text_pair. Labels may be names or numbers;
with --regression they are real numbers.
"""

import csv
import json
import math
import pathlib

import keras
import numpy as np
from absl import app, flags

import keras_bert_impl as kbi

_MODEL = flags.DEFINE_string("model", None, "Preset folder to start from.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "Folder for log, metrics, model.", required=True)
_TRAIN = flags.DEFINE_string("train", None, "Table to train on.", required=True)
_DEV = flags.DEFINE_string("dev", None, "Table to measure on after each epoch.", required=True)
_TEXT = flags.DEFINE_string("text", "text", "Column of the text.")
_TEXT_PAIR = flags.DEFINE_string("text_pair", None, "Column of the second text of pairs.")
_LABEL = flags.DEFINE_string("label", "label", "Column of the label.")
_CLASS_NAMES = flags.DEFINE_list("class_names", None, "Labels in order; default sorted from train.")
_REGRESSION = flags.DEFINE_bool("regression", False, "Labels are real numbers.")

_SEQUENCE_LENGTH = flags.DEFINE_integer("sequence_length", 128, "Longest row, in tokens.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Rows of each step, over all devices.")
_EPOCHS = flags.DEFINE_integer("epochs", 3, "Times through the training table.")
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
_WARMUP = flags.DEFINE_float("warmup", 0.1, "Share of steps with rising learning rate.")
_PRECISION = flags.DEFINE_enum(
    "precision", "float32", ["float32", "mixed_bfloat16", "mixed_float16"], "Of computation."
)
_DISTRIBUTION = flags.DEFINE_enum(
    "distribution", "auto", ["none", "mirrored", "multi_worker", "tpu", "auto"], "Devices."
)
_SEED = flags.DEFINE_integer("seed", 0, "Of the head's weights, dropout and row order.")


def main(_):
    output = pathlib.Path(_OUTPUT.value)
    output.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(_SEED.value)
    keras.config.set_dtype_policy(_PRECISION.value)

    columns = [c for c in (_TEXT.value, _TEXT_PAIR.value, _LABEL.value) if c is not None]
    tables = {"train": kbi.read_table(_TRAIN.value, columns)}
    tables["dev"] = kbi.read_table(_DEV.value, columns)
    class_names: list[str] | None = None
    if not _REGRESSION.value:
        class_names = _CLASS_NAMES.value or sorted(set(tables["train"].columns[_LABEL.value]))
    x = {name: texts_of(table) for name, table in tables.items()}
    y = {name: labels_of(table, class_names) for name, table in tables.items()}
    num_steps = _EPOCHS.value * math.ceil(len(y["train"]) / _BATCH_SIZE.value)

    with kbi.distribution_scope(_DISTRIBUTION.value):
        kbi.check_batch_size(_BATCH_SIZE.value)
        classifier = kbi.BertTextClassifier.from_preset(
            _MODEL.value,
            num_classes=len(class_names) if class_names else 1,
            class_names=class_names,
            regression=_REGRESSION.value,
            sequence_length=_SEQUENCE_LENGTH.value,
            pair=_TEXT_PAIR.value is not None,
            init_missing=True,  # the head is what this run trains
        )
        schedule = kbi.WarmupLinearDecay(
            _LEARNING_RATE.value, num_steps, round(_WARMUP.value * num_steps)
        )
        classifier.compile(optimizer=kbi.BertAdamW(schedule))
        classifier.fit(
            x["train"],
            y["train"],
            batch_size=_BATCH_SIZE.value,
            epochs=_EPOCHS.value,
            validation_data=(x["dev"], y["dev"]),
            callbacks=[kbi.Stopwatch(), keras.callbacks.CSVLogger(output / "log.csv")],
        )
    classifier.save_to_preset(str(output / "model"))

    predictions = classifier.predict(x["dev"])
    metrics = measure(predictions, y["dev"])
    text = json.dumps(metrics, indent=2)
    (output / "metrics.json").write_text(text)
    print(text)
    write_predictions(output / "dev_predictions.tsv", tables["dev"], predictions, class_names)


def texts_of(table):
    """The texts of a table as the preprocessor takes them."""
    if _TEXT_PAIR.value is None:
        return np.array(table.columns[_TEXT.value])
    return {
        "text_a": np.array(table.columns[_TEXT.value]),
        "text_b": np.array(table.columns[_TEXT_PAIR.value]),
    }


def labels_of(table, class_names):
    """The labels of a table: class numbers, or real numbers where there are no classes."""
    if class_names is None:
        return np.array(kbi.check_numbers(table, _LABEL.value), "float32")
    return np.array(kbi.check_labels(table, _LABEL.value, class_names=class_names))


def measure(predictions, y):
    """Accuracy beside that of always naming the most frequent class; under regression, errors."""
    if _REGRESSION.value:
        return {
            "mean_squared_error": float(np.mean((predictions[:, 0] - y) ** 2)),
            "pearson": float(np.corrcoef(predictions[:, 0], y)[0, 1]),
        }
    answers = predictions.argmax(axis=-1)
    if len(set(answers)) == 1:
        print(
            "Every answer is the same class: the run collapsed. Try another seed or a lower rate."
        )
    return {
        "accuracy": float(np.mean(answers == y)),
        "majority_accuracy": float(np.bincount(y).max() / len(y)),
    }


def write_predictions(path, table, predictions, class_names):
    """A row for each row of the table: its line there, its label, the answer."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["line", "label", "prediction"])
        for line, label, row in zip(
            table.lines, table.columns[_LABEL.value], predictions, strict=True
        ):
            writer.writerow([line, label, class_names[row.argmax()] if class_names else row[0]])


if __name__ == "__main__":
    app.run(main)
