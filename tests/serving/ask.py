"""Asks SavedModels in a process that knows TensorFlow and TF.Text alone.

    python ask.py FOLDER

FOLDER holds the SavedModels `single` and `pair`, and `questions.npz`; the answers go to
`answers.npz`. Run as a file, outside of the repository, so that the package cannot come along.
"""

import json
import pathlib
import sys

# An import of any of these would raise an ImportError.
for name in ("keras_bert_impl", "keras_hub", "keras_nlp", "tests"):
    sys.modules[name] = None

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402
from tensorflow.python.framework import op_def_registry  # noqa: E402


def ops_of(path):
    """Every op of a SavedModel's graphs, its functions' among them."""
    saved_model = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    ops = set()
    for meta_graph in saved_model.meta_graphs:
        graph = meta_graph.graph_def
        ops.update(node.op for node in graph.node)
        functions = {function.signature.name for function in graph.library.function}
        for function in graph.library.function:
            ops.update(node.op for node in function.node_def)
    return ops - functions


def main(folder):
    ops = set.union(*(ops_of(folder / name) for name in ("single", "pair")))
    # Before TF.Text is there: what TensorFlow registers by itself.
    others = sorted(op for op in ops if op_def_registry.get(op) is None)
    import tensorflow_text  # noqa: F401

    single, pair = (tf.saved_model.load(str(folder / name)) for name in ("single", "pair"))
    questions = dict(np.load(folder / "questions.npz", allow_pickle=False))
    texts = [json.loads(text) for text in questions["texts"]]
    answers = {"ops": np.array(sorted(ops)), "other_ops": np.array(others)}

    def add(name, outputs):
        answers.update({f"{name}/{key}": value.numpy() for key, value in outputs.items()})

    serve = single.signatures["serving_default"]
    add("all", serve(text=tf.constant(texts)))
    add("one", serve(text=tf.constant(texts[:1])))
    add("seven", serve(text=tf.constant(texts[:7])))
    add(
        "pair",
        pair.signatures["serving_default"](
            text_a=tf.constant(texts[:50]), text_b=tf.constant(texts[50:100])
        ),
    )
    names = ("token_ids", "segment_ids", "padding_mask")
    add("ids", single.signatures["ids"](**{name: tf.constant(questions[name]) for name in names}))
    for key, value in answers.items():
        if value.dtype == object:
            answers[key] = value.astype("S")
    np.savez(folder / "answers.npz", **answers)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
