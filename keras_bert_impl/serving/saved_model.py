"""A task to a SavedModel that takes raw strings, for TF Serving or plain TensorFlow."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

import keras
import tensorflow as tf

from keras_bert_impl.serving.served_weights import in_precision, served_weights

# The ids signature's name; the strings signature is TF Serving's default one.
IDS_SIGNATURE = "ids"
STRINGS_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def export_saved_model(task, path, weights: str | None = None, constants: bool = False) -> None:
    """Write a trained task as a SavedModel.

    Signatures, batch and length free in both:

    - `serving_default`: the preprocessor's `text_specs`: string tensors, of shape (batch,) and
      named `text`, or `text_a` and `text_b` for pairs, in most tasks. Text is tokenized,
      truncated and padded inside. Answers as the task's `serve`.
    - `ids`: the model's own inputs, such as `token_ids`, `segment_ids` and `padding_mask`.
      Answers as the task's `serve_ids`.

    The vocabulary lies in the folder's assets. All ops are TensorFlow's or TF.Text's, which
    stock TF Serving carries; a Python program must `import tensorflow_text` before loading.

    Args:
        task: a task with a preprocessor and an `answer` to raw text. It stays as it is.
        path: str. A folder that does not exist yet or is empty.
        weights: str. `"float32"` or `"bfloat16"`: what matrices and token table are kept and
            multiplied in; bfloat16 takes half the space, and less time where the processor has
            it. Default as the task computes.
        constants: bool. Matrices are constants of the graph: answers in less time on CPUs with
            oneDNN, small requests most, at several times the memory.

    Raises:
        ValueError: if the backend is not TensorFlow, the task has no preprocessor or no
            answer to serve; for unknown weights, or other weights of a task with LoRA or int8.
        FileExistsError: if the folder holds files.
    """
    path = os.fspath(path)
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"A SavedModel is written by the TensorFlow backend, but {keras.backend.backend()} is "
            "running. Save the task with save_to_preset(), then load and export it in a process "
            "with KERAS_BACKEND=tensorflow: the weights are the same."
        )
    if getattr(task, "preprocessor", None) is None:
        raise ValueError("The task has no preprocessor, so it cannot serve raw text.")
    if not hasattr(task, "answer"):
        raise ValueError(
            f"{type(task).__name__} has no answer to raw text. Export a fine-tuned task such as "
            "BertTextClassifier."
        )
    if os.path.isdir(path) and os.listdir(path):
        raise FileExistsError(f"{path} holds files already. Choose a new folder, or empty it.")

    parent = os.path.dirname(os.path.abspath(path))
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=".export-") as beside:
        vocabulary_folder = os.path.join(beside, "vocabulary")
        os.makedirs(vocabulary_folder)
        task.preprocessor.tokenizer.save_assets(vocabulary_folder)
        served = _ServedTask(in_precision(task, weights), vocabulary_folder, constants)
        written = os.path.join(beside, "model")
        tf.saved_model.save(served, written, signatures=served.signatures())
        # Renamed only when whole: a serving process watches for the folder to appear.
        if os.path.isdir(path):
            os.rmdir(path)
        shutil.move(written, path)


class _ServedTask(tf.Module):
    """What the SavedModel tracks: the weights, the vocabulary file, the two functions."""

    def __init__(self, task, vocabulary_folder, constants):
        super().__init__()
        self.assets = [
            tf.saved_model.Asset(os.path.join(vocabulary_folder, name))
            for name in sorted(os.listdir(vocabulary_folder))
        ]
        ids = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in task.input.items()}
        with served_weights(task, constants), _called_as_one(task, ids), _shortest_rows(task):
            strings = tf.function(lambda **texts: task.serve(texts), autograph=False)
            self.strings = strings.get_concrete_function(**_named(task.preprocessor.text_specs))
            of_ids = tf.function(lambda **inputs: task.serve_ids(inputs), autograph=False)
            self.ids = of_ids.get_concrete_function(**_named(ids))
            # What is served and no more: no dropout's state, no head or pooler that is not asked.
            variables = [*self.strings.graph.variables, *self.ids.graph.variables]
            self.weights = list({id(variable): variable for variable in variables}.values())

    def signatures(self):
        return {STRINGS_SIGNATURE: self.strings, IDS_SIGNATURE: self.ids}


@contextlib.contextmanager
def _called_as_one(task, specs) -> Iterator[None]:
    """The scope in which the model is one function, so that the file holds its constants once."""
    call = type(task).call
    model = tf.function(
        lambda inputs: call(task, inputs, training=False),
        input_signature=[_named(specs)],
        autograph=False,
    )
    task.call = lambda inputs, training=None, mask=None: model(inputs)
    try:
        yield
    finally:
        del task.call


@contextlib.contextmanager
def _shortest_rows(task) -> Iterator[None]:
    """The scope in which rows are no longer than the batch needs, also where `fit` wants them so."""
    padding = task.preprocessor.padding
    task.preprocessor.padding = "longest"
    try:
        yield
    finally:
        task.preprocessor.padding = padding


def _named(specs: dict[str, tf.TensorSpec]) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec(s.shape, s.dtype, name=name) for name, s in specs.items()}
