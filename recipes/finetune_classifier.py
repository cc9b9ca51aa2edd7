r"""Fine-tune a classifier of single texts or of pairs on a table of your own (paper, section 4.1).

    python recipes/finetune_classifier.py --model=runs/mine/model --output=runs/classifier \
        --train=train.tsv --dev=dev.tsv --text=sentence --label=label

Tables are TSV, CSV (first row: column names) or JSONL (keys: column names), told by the file's
ending. For pairs name the second text's column with --text_pair. Labels may be names or numbers;
with --regression they are real numbers. More than one value for --learning_rates, --batch_sizes,
--epochs, and --seeds above 1, try all combinations and keep the best on --dev.
"""

import pathlib

import fine_tuning
import numpy as np
from absl import app, flags

import keras_bert_impl as kbi

_TRAIN = flags.DEFINE_string("train", None, "Table to train on.", required=True)
_DEV = flags.DEFINE_string("dev", None, "Table to measure on after each epoch.", required=True)
_TEXT = flags.DEFINE_string("text", "text", "Column of the text.")
_TEXT_PAIR = flags.DEFINE_string("text_pair", None, "Column of the second text of pairs.")
_LABEL = flags.DEFINE_string("label", "label", "Column of the label.")
_CLASS_NAMES = flags.DEFINE_list("class_names", None, "Labels in order; default sorted from train.")
_REGRESSION = flags.DEFINE_bool("regression", False, "Labels are real numbers.")
_METRIC = flags.DEFINE_string("metric", None, "To choose by; default accuracy or pearson.")
_BALANCED = flags.DEFINE_bool("balanced", False, "Give every class the same weight in all.")


def main(_):
    def load(**options):
        return fine_tuning.load(kbi.BertTextClassifier, regression=_REGRESSION.value, **options)

    train(load)


def train(load):
    """Train and measure by the flags; `load` makes a task from its options."""
    columns = [c for c in (_TEXT.value, _TEXT_PAIR.value, _LABEL.value) if c is not None]
    tables = {"train": kbi.read_table(_TRAIN.value, columns)}
    tables["dev"] = kbi.read_table(_DEV.value, columns)
    class_names: list[str] | None = None
    if not _REGRESSION.value:
        class_names = _CLASS_NAMES.value or sorted(set(tables["train"].columns[_LABEL.value]))
    data = {
        name: (texts_of(table), labels_of(table, class_names)) for name, table in tables.items()
    }
    labels = data["dev"][1]

    def make_task():
        return load(
            num_classes=len(class_names) if class_names else 1,
            class_names=class_names,
            pair=_TEXT_PAIR.value is not None,
        )

    def measure(predictions):
        if class_names is None:
            return {
                "mean_squared_error": float(np.mean((predictions[:, 0] - labels) ** 2)),
                **kbi.measure_answers(["pearson", "spearman"], predictions[:, 0], labels),
            }
        names = ["accuracy", "matthews", *(["f1"] if len(class_names) == 2 else [])]
        metrics = kbi.measure_answers(names, predictions.argmax(axis=-1), labels)
        return {**metrics, "majority_accuracy": float(np.bincount(labels).max() / len(labels))}

    _, predictions = fine_tuning.fine_tune(
        make_task,
        train=data["train"],
        dev=data["dev"],
        measure=measure,
        metric=_METRIC.value or ("accuracy" if class_names else "pearson"),
        sample_weight=fine_tuning.balanced_weights(data["train"][1]) if _BALANCED.value else None,
    )

    output = pathlib.Path(fine_tuning.FLAGS.output)
    dev = tables["dev"]
    if class_names is None:
        answers = predictions[:, 0].tolist()
    else:
        numbers = predictions.argmax(axis=-1)
        answers = [class_names[number] for number in numbers]
        fine_tuning.warn_if_collapsed(answers)
        table = kbi.confusion_table(numbers, labels, class_names)
        fine_tuning.write_table(output / "confusion.tsv", *table)
        fine_tuning.write_table(
            output / "labels.tsv", *kbi.label_table(numbers, labels, class_names)
        )
    fine_tuning.write_table(
        output / "dev_predictions.tsv",
        ["line", "label", "prediction"],
        zip(dev.lines, dev.columns[_LABEL.value], answers, strict=True),
    )


def texts_of(table):
    """The texts of a table as the preprocessor takes them."""

    def texts(column):
        # Of Python's strings: numpy's own would give every text the room of the longest.
        return np.array(table.columns[column], object)

    if _TEXT_PAIR.value is None:
        return texts(_TEXT.value)
    return {"text_a": texts(_TEXT.value), "text_b": texts(_TEXT_PAIR.value)}


def labels_of(table, class_names):
    """The labels of a table: class numbers, or real numbers where there are no classes."""
    if class_names is None:
        return np.array(kbi.check_numbers(table, _LABEL.value), "float32")
    return np.array(kbi.check_labels(table, _LABEL.value, class_names=class_names))


if __name__ == "__main__":
    app.run(main)
