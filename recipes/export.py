r"""Write a fine-tuned task as a SavedModel that takes raw strings (docs/serving.md).

python recipes/export.py --model=runs/classifier/model --output=runs/served/1

--weights=bfloat16 halves the file; what that costs in accuracy is told for classifiers with

    --check=dev.tsv --text=sentence --label=label
"""

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the ops of what is served)
import tqdm
from absl import app, flags

import keras_bert_impl as kbi

_MODEL = flags.DEFINE_string("model", None, "Preset folder of the task.", required=True)
_OUTPUT = flags.DEFINE_string(
    "output", None, "New folder; TF Serving wants it named by a version number.", required=True
)
_WEIGHTS = flags.DEFINE_enum(
    "weights", None, ["float32", "bfloat16"], "What to keep and multiply matrices in."
)
_CONSTANTS = flags.DEFINE_bool(
    "constants", False, "Matrices as constants: faster on a CPU, and more memory."
)
_CHECK = flags.DEFINE_string("check", None, "Table to measure the model on, before and after.")
_TEXT = flags.DEFINE_string("text", "text", "Column of the text.")
_TEXT_PAIR = flags.DEFINE_string("text_pair", None, "Column of the second text of pairs.")
_LABEL = flags.DEFINE_string("label", "label", "Column of the label.")
BATCH_SIZE = 32


def main(_):
    task = kbi.load_task(_MODEL.value)
    data = read(task, _CHECK.value) if _CHECK.value else None
    task.export(_OUTPUT.value, weights=_WEIGHTS.value, constants=_CONSTANTS.value)
    print(f"Wrote {_OUTPUT.value}")
    if data is None:
        return
    texts, labels = data
    names = np.array(task.class_names)
    before = names[task.predict(texts).argmax(axis=-1)]
    after = ask(texts)
    accuracy = {"the model": np.mean(before == labels), "what is served": np.mean(after == labels)}
    for name, value in accuracy.items():
        print(f"Accuracy of {name}: {100 * value:.2f} % of {len(labels)}")
    print(f"Other answers than the model's: {np.sum(before != after)}")


def read(task, path):
    """(texts as `fit` takes them, labels) of the table to check."""
    if not getattr(task, "class_names", None) or not isinstance(task, kbi.BertTextClassifier):
        raise ValueError("--check is for a BertTextClassifier with class names.")
    columns = [column for column in (_TEXT.value, _TEXT_PAIR.value) if column is not None]
    table = kbi.read_table(path, [*columns, _LABEL.value])
    texts = [np.array(table.columns[column], dtype=object) for column in columns]
    pair = {"text_a": texts[0], "text_b": texts[-1]}
    return (pair if len(texts) > 1 else texts[0]), np.array(table.columns[_LABEL.value])


def ask(texts):
    """The labels that the written model answers with."""
    serve = tf.saved_model.load(_OUTPUT.value).signatures["serving_default"]
    columns = texts if isinstance(texts, dict) else {"text": texts}
    answers = []
    for first in tqdm.trange(0, len(next(iter(columns.values()))), BATCH_SIZE, desc="asked"):
        rows = slice(first, first + BATCH_SIZE)
        asked = {name: tf.constant(column[rows].tolist()) for name, column in columns.items()}
        answers += [label.decode() for label in serve(**asked)["label"].numpy()]
    return np.array(answers)


if __name__ == "__main__":
    app.run(main)
