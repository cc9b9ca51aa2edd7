"""A task to a SavedModel that takes raw strings, for TF Serving or plain TensorFlow."""

import os
import shutil
import tempfile

import keras
import tensorflow as tf

# The ids signature's name; the strings signature is TF Serving's default one.
IDS_SIGNATURE = "ids"
STRINGS_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def export_saved_model(task, path) -> None:
    """Write a trained task as a SavedModel.

    Signatures, batch and length free in both:

    - `serving_default`: string tensors of shape (batch,), named `text`, or `text_a` and
      `text_b` for a preprocessor of pairs. Text is tokenized, truncated and padded inside.
    - `ids`: `token_ids`, `segment_ids` int32 and `padding_mask` bool, (batch, length).

    Both answer what the task's `answer` gives (`probabilities`, or `values` under
    regression), and `label`, (batch,) string, where the task has class names. The
    vocabulary lies in the folder's assets. All ops are TensorFlow's or TF.Text's, which
    stock TF Serving carries; a Python program must `import tensorflow_text` before loading.

    Args:
        task: a task with a preprocessor and an `answer` method.
        path: str. A folder that does not exist yet or is empty.

    Raises:
        ValueError: if the backend is not TensorFlow, the task has no preprocessor or no
            answer to serve.
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
        served = _ServedTask(task, vocabulary_folder)
        written = os.path.join(beside, "model")
        tf.saved_model.save(served, written, signatures=served.signatures())
        # Renamed only when whole: a serving process watches for the folder to appear.
        if os.path.isdir(path):
            os.rmdir(path)
        shutil.move(written, path)


class _ServedTask(tf.Module):
    """What the SavedModel tracks: the weights, the vocabulary file, the two functions."""

    def __init__(self, task, vocabulary_folder):
        super().__init__()
        self.weights = [variable.value for variable in task.variables]
        self.assets = [
            tf.saved_model.Asset(os.path.join(vocabulary_folder, name))
            for name in sorted(os.listdir(vocabulary_folder))
        ]
        preprocessor = task.preprocessor
        class_names = getattr(task, "class_names", None)

        def answer(inputs):
            answers = task.answer(task(inputs, training=False))
            if class_names is not None and "probabilities" in answers:
                best = tf.argmax(answers["probabilities"], axis=-1)
                answers = {**answers, "label": tf.gather(tf.constant(class_names), best)}
            return answers

        def strings(**texts):
            return answer(
                preprocessor.texts_to_inputs(tuple(texts[n] for n in preprocessor.text_names))
            )

        def ids(token_ids, segment_ids, padding_mask):
            return answer(
                {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}
            )

        def spec(name, dtype, rank):
            return tf.TensorSpec([None] * rank, dtype, name=name)

        self.strings = tf.function(strings).get_concrete_function(
            **{name: spec(name, tf.string, 1) for name in preprocessor.text_names}
        )
        self.ids = tf.function(ids).get_concrete_function(
            token_ids=spec("token_ids", tf.int32, 2),
            segment_ids=spec("segment_ids", tf.int32, 2),
            padding_mask=spec("padding_mask", tf.bool, 2),
        )

    def signatures(self):
        return {STRINGS_SIGNATURE: self.strings, IDS_SIGNATURE: self.ids}
