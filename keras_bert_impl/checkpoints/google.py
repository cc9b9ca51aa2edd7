"""Google's TF1 checkpoints: bert_config.json, vocab.txt, bert_model.ckpt.*; in and out.

Names as google-research/bert's modeling.py, run_pretraining.py and run_classifier.py make them.
"""

import json
import os
import pathlib

import numpy as np

from keras_bert_impl.checkpoints import parts
from keras_bert_impl.checkpoints.casing import VOCABULARY, read_google_tokenizer
from keras_bert_impl.checkpoints.checkpoint import Checkpoint, logger
from keras_bert_impl.checkpoints.hugging_face_config import read_json
from keras_bert_impl.checkpoints.parts import CheckpointError
from keras_bert_impl.checkpoints.tensorflow_file import (
    find_prefix,
    open_tensorflow,
    save_tensorflow,
    tensorflow_tensor,
)
from keras_bert_impl.text.vocabulary import save_vocabulary

CONFIG = "bert_config.json"
PREFIX = "bert_model.ckpt"
# Our own entry in bert_config.json, for what its keys cannot say. Google's reader keeps
# keys that it does not know.
EXTRA = "keras_bert_impl"

_NAMES = {
    "embeddings/token": "bert/embeddings/word_embeddings",
    "embeddings/position": "bert/embeddings/position_embeddings",
    "embeddings/segment": "bert/embeddings/token_type_embeddings",
    "masked_lm/bias": "cls/predictions/output_bias",
    "next_sentence/kernel": "cls/seq_relationship/output_weights",
    "next_sentence/bias": "cls/seq_relationship/output_bias",
    "classifier/kernel": "output_weights",
    "classifier/bias": "output_bias",
    "question_answering/kernel": "cls/squad/output_weights",
    "question_answering/bias": "cls/squad/output_bias",
}
_LAYERS = {
    "embeddings/layer_norm": "bert/embeddings/LayerNorm",
    "pooler": "bert/pooler/dense",
    "masked_lm/transform": "cls/predictions/transform/dense",
    "masked_lm/layer_norm": "cls/predictions/transform/LayerNorm",
}
_ENCODER_LAYERS = {
    "attention/query": "attention/self/query",
    "attention/key": "attention/self/key",
    "attention/value": "attention/self/value",
    "attention/output": "attention/output/dense",
    "attention_layer_norm": "attention/output/LayerNorm",
    "intermediate": "intermediate/dense",
    "output": "output/dense",
    "output_layer_norm": "output/LayerNorm",
}
_LEAVES = {"kernel": "kernel", "bias": "bias", "scale": "gamma", "shift": "beta"}
# bert_config.json to the arguments of BertBackbone.
_CONFIG = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
}


# Theirs are all the one dense layer of run_classifier.py; which it is, our entry says.
_UNNAMED = (parts.TOKEN_CLASSIFIER, parts.MULTIPLE_CHOICE)


def google_name(part: str) -> str:
    """The name of a part in google-research/bert's graph.

    Its scripts tag no tokens and choose among no texts; forks that do call the layer as
    run_classifier.py does.

    Example:

    >>> google_name("encoder/0/attention/query/kernel")
    'bert/encoder/layer_0/attention/self/query/kernel'
    """
    head, _, rest = part.partition("/")
    if head in _UNNAMED:
        part = f"{parts.CLASSIFIER}/{rest}"
    if part in _NAMES:
        return _NAMES[part]
    layer, leaf = part.rsplit("/", 1)
    if layer in _LAYERS:
        return f"{_LAYERS[layer]}/{_LEAVES[leaf]}"
    _, i, layer = layer.split("/", 2)
    return f"bert/encoder/layer_{i}/{_ENCODER_LAYERS[layer]}/{_LEAVES[leaf]}"


def _is_transposed(part: str) -> bool:
    """The reference multiplies these by the transpose: they are (out, in) there."""
    return google_name(part).endswith("output_weights")


def read_google(
    folder: str | os.PathLike, lowercase: bool | None = None, name: str | None = None
) -> Checkpoint:
    """Open a folder in the layout of Google's 2018-2020 releases.

    Args:
        folder: str or path. Holds bert_config.json and a TensorFlow checkpoint; vocab.txt too
            where text is to be read.
        lowercase: bool, optional. The files do not say whether a model is cased. Given, it
            holds; else what we wrote ourselves, else the vocabulary, else the folder's name.
        name: str, optional. What the release was called, where the folder's name is another.

    Returns:
        A `Checkpoint`; slots of an optimizer and the global step are left over.

    Raises:
        CheckpointError: for missing or damaged files.

    Example:

    >>> checkpoint = read_google("uncased_L-12_H-768_A-12")
    >>> checkpoint.heads()
    ['pooler', 'masked_lm', 'next_sentence']
    """
    folder = pathlib.Path(folder)
    theirs = read_json(folder / CONFIG)
    extra = theirs.get(EXTRA, {})
    config = config_of_google(theirs, folder / CONFIG, gelu="gelu") | extra.get("config", {})
    prefix = find_prefix(folder)
    reader = open_tensorflow(prefix)
    names = set(reader.get_variable_to_shape_map())
    tensors = {}
    head = extra.get("head", parts.CLASSIFIER)
    for part, shape in parts.all_shapes(config).items():
        name_there = google_name(part)
        is_other = parts.head_of(part) in {parts.CLASSIFIER, *_UNNAMED} - {head}
        if is_other or name_there not in names:
            continue
        tensor = tensorflow_tensor(reader, prefix, name_there)
        if _is_transposed(part):
            tensor = tensor.relaid(tensor.shape[::-1], np.transpose)
        if parts.head_of(part) is None and tensor.shape != shape:
            raise CheckpointError(
                f"{tensor} has the shape {list(tensor.shape)}, but by {CONFIG} it has "
                f"{list(shape)}. The two do not belong together."
            )
        tensors[part] = tensor
        names.remove(name_there)
    labels = extra.get("classifier", {})
    bias = tensors.get(f"{head}/bias")
    return Checkpoint(
        str(folder),
        config,
        tensors,
        left_over=sorted(names),
        tokenizer=read_google_tokenizer(
            folder, extra.get("tokenizer", {}), lowercase, name or folder.resolve().name
        ),
        num_classes=bias.shape[0] if bias is not None and head in parts.SIZED_HEADS else None,
        class_names=tuple(labels["class_names"]) if labels.get("class_names") else None,
        regression=labels.get("regression", False),
        classifier_dropout=labels.get("dropout"),
    )


def config_of_google(theirs: dict, path: pathlib.Path, gelu: str) -> dict:
    """The arguments of `BertBackbone` that a bert_config.json gives.

    Args:
        theirs: its contents.
        path: for messages.
        gelu: str. What `"gelu"` means: erf at the time of the releases, tanh later.
    """
    missing = [key for key in list(_CONFIG.values())[:6] if key not in theirs]
    if missing:
        raise CheckpointError(f"{path}: lacks {', '.join(missing)}.")
    config = {ours: theirs[key] for ours, key in _CONFIG.items() if key in theirs}
    config.setdefault("num_segments", 16)  # BertConfig's default
    activations = {"gelu": gelu, "relu": "relu", "tanh": "tanh", "linear": "linear"}
    activation = theirs.get("hidden_act", "gelu")
    if activation not in activations:
        raise CheckpointError(
            f"{path}: hidden_act is {activation!r}, but modeling.py knows {', '.join(activations)}."
        )
    return {**config, "activation": activations[activation]}


def write_google(checkpoint: Checkpoint, folder: str | os.PathLike) -> list[str]:
    """Write a folder that google-research/bert's scripts open.

    Args:
        checkpoint: from a reader, or `of_model(model)`.
        folder: str or path. Made where it does not exist.

    Returns:
        The names of the variables written.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    parts_of = {google_name(part): part for part in checkpoint.tensors}

    def read(name):
        value = checkpoint.tensors[parts_of[name]].read()
        return value.T if _is_transposed(parts_of[name]) else value

    shapes = {
        name: shape[::-1] if _is_transposed(part) else shape
        for name, part in parts_of.items()
        for shape in [checkpoint.tensors[part].shape]
    }
    save_tensorflow(str(folder / PREFIX), shapes, read)
    (folder / CONFIG).write_text(json.dumps(_google_config(checkpoint), indent=2) + "\n", "utf-8")
    if checkpoint.tokenizer is not None:
        save_vocabulary(checkpoint.tokenizer.tokens(), folder / VOCABULARY)
    logger.info("%s: wrote %d variables", folder, len(checkpoint.tensors))
    return list(parts_of)


def _google_config(checkpoint: Checkpoint) -> dict:
    ours = checkpoint.config
    config = {key: ours[name] for name, key in _CONFIG.items() if ours.get(name) is not None}
    activation = ours.get("activation", "gelu")
    config["hidden_act"] = "gelu" if activation == "gelu_approximate" else activation
    extra: dict = {
        "config": {
            name: ours[name] for name in ("activation", "layer_norm_epsilon") if name in ours
        }
    }
    if checkpoint.tokenizer is not None:
        files = checkpoint.tokenizer
        extra["tokenizer"] = {
            "lowercase": files.lowercase,
            "strip_accents": files.strip_accents,
            "split_on_cjk": files.split_on_cjk,
        }
    if checkpoint.num_classes is not None:
        extra["classifier"] = {
            "class_names": checkpoint.class_names,
            "regression": checkpoint.regression,
            "dropout": checkpoint.classifier_dropout,
        }
    head = next((head for head in checkpoint.heads() if head in _UNNAMED), None)
    if head is not None:
        extra["head"] = head
    return {**config, EXTRA: extra}
