"""TF Model Garden's TF2 checkpoints of BertEncoder and BertPretrainerV2; in.

Their keys depend on how the model was reached from the object that was saved, so the object graph
inside the checkpoint is walked instead (tensorflow/models, official/nlp/modeling).
"""

import functools
import os
import pathlib

import numpy as np
from tensorflow.core.protobuf import trackable_object_graph_pb2

from keras_bert_impl.checkpoints import parts
from keras_bert_impl.checkpoints.casing import read_google_tokenizer
from keras_bert_impl.checkpoints.checkpoint import Checkpoint
from keras_bert_impl.checkpoints.google import CONFIG, config_of_google
from keras_bert_impl.checkpoints.hugging_face_config import read_json
from keras_bert_impl.checkpoints.parts import CheckpointError
from keras_bert_impl.checkpoints.tensorflow_file import (
    find_prefix,
    open_tensorflow,
    tensorflow_tensor,
)

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

_LEAVES = {"kernel": "kernel", "bias": "bias", "scale": "gamma", "shift": "beta"}
_ENCODER_LAYERS = {
    "attention/query": "_attention_layer/_query_dense",
    "attention/key": "_attention_layer/_key_dense",
    "attention/value": "_attention_layer/_value_dense",
    "attention/output": "_attention_layer/_output_dense",
    "attention_layer_norm": "_attention_layer_norm",
    "intermediate": "_intermediate_dense",
    "output": "_output_dense",
    "output_layer_norm": "_output_layer_norm",
}


class _Graph:
    """The objects of a checkpoint, walked by the names that one gives another."""

    def __init__(self, serialized: bytes):
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(serialized)
        self._nodes = graph.nodes

    def child(self, node: int | None, *names: str) -> int | None:
        """The object at the end of a path, or None."""
        for name in names:
            if node is None:
                return None
            children = self._nodes[node].children
            node = next((c.node_id for c in children if c.local_name == name), None)
        return node

    def first(self, node: int | None, *paths: str) -> int | None:
        """The object at the end of the first path that leads anywhere."""
        found = (self.child(node, *path.split("/")) for path in paths)
        return next((node for node in found if node is not None), None)

    def key(self, node: int | None) -> str | None:
        """Where the checkpoint keeps a variable's value."""
        attributes = () if node is None else self._nodes[node].attributes
        return next((a.checkpoint_key for a in attributes if a.name == "VARIABLE_VALUE"), None)

    def encoder(self) -> int | None:
        """The encoder: what holds the tables and the layers."""
        paths = (
            "model/encoder_network",
            "encoder",
            "model/encoder",
            "model",
            "encoder_network",
        )
        for path in paths:
            node = self.first(0, path)
            if self.first(node, "_embedding_layer", "layer_with_weights-4") is not None:
                return node
        return 0 if self.first(0, "layer_with_weights-4") is not None else None


def read_model_garden(folder: str | os.PathLike, lowercase: bool | None = None) -> Checkpoint:
    """Open a folder with a TF2 checkpoint of Model Garden's BERT.

    Args:
        folder: str or path. Holds the checkpoint, and bert_config.json and vocab.txt where the
            release has them. Without bert_config.json sizes are those of the tensors, and
            activation, dropout and epsilon Model Garden's defaults.
        lowercase: bool, optional. As in `read_google`.

    Returns:
        A `Checkpoint`. Of a pretrainer, the pooler is the next-sentence head's, which was
        trained; the encoder's own is left over.

    Raises:
        CheckpointError: for missing or damaged files, or a checkpoint of another model.

    Example:

    >>> checkpoint = read_model_garden("uncased_L-12_H-768_A-12_tf2")
    """
    folder = pathlib.Path(folder)
    prefix = find_prefix(folder)
    reader = open_tensorflow(prefix)
    shapes = reader.get_variable_to_shape_map()
    if GRAPH not in shapes:
        raise CheckpointError(f"{prefix}: no TF2 checkpoint: it holds no object graph.")
    graph = _Graph(reader.get_tensor(GRAPH))
    encoder = graph.encoder()
    if encoder is None:
        raise CheckpointError(
            f"{prefix}: holds no BertEncoder. Its first variables are "
            f"{', '.join(sorted(shapes)[1:4])}."
        )
    keys = _keys(graph, encoder)
    found = {part: key for part, key in keys.items() if key is not None and key in shapes}
    config = _config(folder, found, shapes)
    expected = parts.all_shapes(config)
    tensors = {}
    for part, key in found.items():
        tensor = tensorflow_tensor(reader, prefix, key)
        shape = expected.get(part)
        if shape is None or np.prod(shape) != np.prod(tensor.shape):
            raise CheckpointError(
                f"{tensor} has the shape {list(tensor.shape)}, which is not that of {part}, "
                f"{None if shape is None else list(shape)}."
            )
        # Attention keeps heads apart there: (hidden, heads, head_dim).
        tensors[part] = tensor.relaid(shape, functools.partial(np.reshape, shape=shape))
    used = set(found.values()) | {GRAPH}
    return Checkpoint(
        str(folder),
        config,
        tensors,
        left_over=sorted(set(shapes) - used),
        tokenizer=read_google_tokenizer(folder, {}, lowercase, folder.resolve().name),
    )


def _keys(graph: _Graph, encoder: int) -> dict[str, str | None]:
    """Part to key. Layers beyond the last give None."""
    keys: dict[str, str | None] = {}

    def layer(name, node, leaves):
        for leaf in leaves:
            keys[f"{name}/{leaf}"] = graph.key(graph.child(node, _LEAVES[leaf]))

    tables = {
        "token": ("_embedding_layer", "layer_with_weights-0"),
        "position": ("_position_embedding_layer", "layer_with_weights-1"),
        "segment": ("_type_embedding_layer", "layer_with_weights-2"),
    }
    for name, paths in tables.items():
        table = graph.child(graph.first(encoder, *paths), "embeddings")
        keys[f"embeddings/{name}"] = graph.key(table)
    norm = graph.first(encoder, "_embedding_norm_layer", "layer_with_weights-3")
    layer("embeddings/layer_norm", norm, ("scale", "shift"))
    i = 0
    while (block := _block(graph, encoder, i)) is not None:
        for ours, theirs in _ENCODER_LAYERS.items():
            leaves = ("scale", "shift") if ours.endswith("norm") else ("kernel", "bias")
            node = graph.first(block, theirs)
            if node is None and ours == "attention/output":
                node = graph.first(block, "_attention_output_dense")  # until 2020
            layer(f"encoder/{i}/{ours}", node, leaves)
        i += 1
    root = graph.first(0, "model/masked_lm", "masked_lm")
    if root is not None:
        layer("masked_lm/transform", graph.child(root, "dense"), ("kernel", "bias"))
        layer("masked_lm/layer_norm", graph.child(root, "layer_norm"), ("scale", "shift"))
        keys["masked_lm/bias"] = graph.key(graph.child(root, "output_bias/bias")) or graph.key(
            graph.child(root, "bias")
        )
    head = graph.first(0, "model/classification_heads/0", "classification_heads/0")
    # A head of a pretrainer makes its own pooled vector; the encoder's pooler stays untrained.
    pooler = graph.child(head, "dense")
    if pooler is None:
        pooler = graph.child(0, "next_sentence.pooler_dense")
    if pooler is None:
        pooler = graph.first(encoder, "_pooler_layer", f"layer_with_weights-{i + 4}")
    layer("pooler", pooler, ("kernel", "bias"))
    if head is not None:
        layer("next_sentence", graph.child(head, "out_proj"), ("kernel", "bias"))
    return keys


def _block(graph: _Graph, encoder: int, i: int) -> int | None:
    node = graph.first(encoder, f"_transformer_layers/{i}", f"layer_with_weights-{i + 4}")
    return node if graph.child(node, "_attention_layer") is not None else None


def _config(folder, found, shapes) -> dict:
    config: dict = {}
    if (folder / CONFIG).is_file():
        # Model Garden's "gelu" is the tanh approximation.
        config = config_of_google(read_json(folder / CONFIG), folder / CONFIG, "gelu_approximate")

    def shape(part):
        if part not in found:
            raise CheckpointError(f"{folder}: the checkpoint lacks {part}.")
        return shapes[found[part]]

    query = shape("encoder/0/attention/query/kernel")
    sizes = {
        "vocabulary_size": shape("embeddings/token")[0],
        "hidden_dim": shape("embeddings/token")[1],
        "max_sequence_length": shape("embeddings/position")[0],
        "num_segments": shape("embeddings/segment")[0],
        "intermediate_dim": shape("encoder/0/intermediate/kernel")[1],
        "num_layers": sum(part.endswith("attention/query/kernel") for part in found),
        "num_heads": query[1] if len(query) == 3 else config.get("num_heads"),
    }
    for name, size in sizes.items():
        if config.get(name, size) != size:
            raise CheckpointError(
                f"{folder}: by {CONFIG} {name} is {config[name]}, but by the tensors {size}."
            )
    return {"activation": "gelu_approximate", **config, **sizes}
