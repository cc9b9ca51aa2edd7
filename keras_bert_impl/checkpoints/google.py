"""Google's TF1 checkpoints: bert_config.json, vocab.txt, bert_model.ckpt.*; in and out.

Names as google-research/bert's modeling.py, run_pretraining.py and run_classifier.py make them.
"""

import json
import os
import pathlib
import re

import numpy as np
import tensorflow as tf

from keras_bert_impl.checkpoints import parts
from keras_bert_impl.checkpoints.checkpoint import Checkpoint, TokenizerFiles, logger, warn
from keras_bert_impl.checkpoints.hugging_face_config import read_json
from keras_bert_impl.checkpoints.hugging_face_tokenizer import capitals
from keras_bert_impl.checkpoints.parts import CheckpointError, Tensor
from keras_bert_impl.text.vocabulary import read_vocabulary, save_vocabulary

CONFIG = "bert_config.json"
VOCABULARY = "vocab.txt"
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
# What TensorFlow's reader raises for damaged files.
_READ_ERRORS = (tf.errors.OpError, ValueError, IndexError, RuntimeError)
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


def google_name(part: str) -> str | None:
    """The name of a part in google-research/bert's graph, or None for heads it does not have.

    Example:

    >>> google_name("encoder/0/attention/query/kernel")
    'bert/encoder/layer_0/attention/self/query/kernel'
    """
    if part in _NAMES:
        return _NAMES[part]
    layer, leaf = part.rsplit("/", 1)
    if layer in _LAYERS:
        return f"{_LAYERS[layer]}/{_LEAVES[leaf]}"
    if not layer.startswith("encoder/"):
        return None
    _, i, layer = layer.split("/", 2)
    return f"bert/encoder/layer_{i}/{_ENCODER_LAYERS[layer]}/{_LEAVES[leaf]}"


def _is_transposed(part: str) -> bool:
    """The reference multiplies these by the transpose: they are (out, in) there."""
    return (google_name(part) or "").endswith("output_weights")


def find_prefix(folder: pathlib.Path) -> str:
    """The path of the TensorFlow checkpoint in a folder, without `.index`.

    Raises:
        CheckpointError: where there is none, or where it is not clear which is meant.
    """
    prefixes = sorted(str(path.with_suffix("")) for path in folder.glob("*.index"))
    latest = tf.train.latest_checkpoint(folder) if (folder / "checkpoint").is_file() else None
    if latest in prefixes:
        return latest
    if len(prefixes) != 1:
        found = ", ".join(map(os.path.basename, prefixes)) or "none"
        raise CheckpointError(
            f"{folder}: expected one TensorFlow checkpoint such as {PREFIX}.index and "
            f"{PREFIX}.data-00000-of-00001, but found {found}."
        )
    return prefixes[0]


def open_tensorflow(prefix: str):
    """A reader of a TensorFlow checkpoint, after a look at whether its files are whole.

    Raises:
        CheckpointError: naming the file.
    """
    shards = sorted(pathlib.Path(prefix).parent.glob(f"{pathlib.Path(prefix).name}.data-*"))
    expected = int(shards[0].name[-5:]) if shards else 1
    if len(shards) != expected:
        raise CheckpointError(
            f"{prefix}.data-*: {len(shards)} of {expected} files are there. Copy all of the "
            "checkpoint's files."
        )
    try:
        return tf.train.load_checkpoint(prefix)
    except _READ_ERRORS as error:
        raise CheckpointError(
            f"{prefix}.index: not a whole TensorFlow checkpoint ({_first_line(error)}). Copy it "
            "again."
        ) from None


def tensorflow_tensor(reader, prefix: str, name: str) -> Tensor:
    """A tensor of a TensorFlow checkpoint, read when asked for."""

    def read():
        try:
            return reader.get_tensor(name)
        except _READ_ERRORS as error:
            raise CheckpointError(
                f"{prefix}: tensor {name!r} cannot be read ({_first_line(error)}). The file is "
                "truncated or corrupt: copy it again."
            ) from None

    return Tensor(prefix, name, tuple(reader.get_variable_to_shape_map()[name]), read)


def _first_line(error) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


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
    for part, shape in parts.all_shapes(config).items():
        name_there = google_name(part)
        if name_there is None or name_there not in names:
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
    return Checkpoint(
        str(folder),
        config,
        tensors,
        left_over=sorted(names),
        tokenizer=read_google_tokenizer(folder, extra, lowercase, name or folder.resolve().name),
        num_classes=tensors["classifier/bias"].shape[0] if "classifier/bias" in tensors else None,
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


def read_google_tokenizer(folder, extra, lowercase, name) -> TokenizerFiles | None:
    """The vocabulary, with the casing that the caller, our own entry or a guess gives."""
    if not (folder / VOCABULARY).is_file():
        return None
    options = dict(extra.get("tokenizer", {}))
    tokens = read_vocabulary(folder / VOCABULARY)
    if lowercase is not None:
        options["lowercase"] = lowercase
    elif "lowercase" not in options:
        options["lowercase"] = guess_lowercase(name, tokens)
    return TokenizerFiles(tokens, **options)


def guess_lowercase(name: str, tokens: list[str]) -> bool:
    """Whether a model is uncased, by its vocabulary; warns where its name says otherwise.

    Only a cased model's vocabulary holds capitals. Google's scripts look at the name, which
    anyone may change.
    """
    by_vocabulary = capitals(tokens) <= 0.01 * len(tokens)
    match = re.search(r"(?:^|[^a-z])(un)?cased", name.lower())
    if match and (match[1] is not None) != by_vocabulary:
        warn(
            f"The name {name!r} says {match[0].strip('_-./')}, but {capitals(tokens)} of "
            f"{len(tokens)} tokens of the vocabulary have capitals: taken as "
            f"{'uncased' if by_vocabulary else 'cased'}. Pass lowercase=True or lowercase=False to "
            "say which."
        )
    return by_vocabulary


def write_google(checkpoint: Checkpoint, folder: str | os.PathLike) -> list[str]:
    """Write a folder that google-research/bert's scripts open.

    Args:
        checkpoint: from a reader, or `of_model(model)`.
        folder: str or path. Made where it does not exist.

    Returns:
        The names of the variables written.

    Raises:
        CheckpointError: for a head that google-research/bert does not have.
    """
    folder = pathlib.Path(folder)
    names = {part: google_name(part) for part in checkpoint.tensors}
    if None in names.values():
        homeless = ", ".join(part for part, name in names.items() if name is None)
        raise CheckpointError(f"{checkpoint.source}: google-research/bert has no {homeless}.")
    folder.mkdir(parents=True, exist_ok=True)
    _save_tensorflow(checkpoint, str(folder / PREFIX))
    (folder / CONFIG).write_text(json.dumps(_google_config(checkpoint), indent=2) + "\n", "utf-8")
    if checkpoint.tokenizer is not None:
        save_vocabulary(checkpoint.tokenizer.tokens(), folder / VOCABULARY)
    logger.info("%s: wrote %d variables", folder, len(checkpoint.tensors))
    return [name for name in names.values() if name]


def _save_tensorflow(checkpoint: Checkpoint, prefix: str, group_bytes: int = 1 << 26) -> None:
    """Write the variables, a group at a time so that memory holds no second model."""
    groups: list[list[str]] = [[]]
    size = 0
    for part, tensor in checkpoint.tensors.items():
        bytes_ = 4 * int(np.prod(tensor.shape))
        if groups[-1] and size + bytes_ > group_bytes:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += bytes_

    temporary = [f"{prefix}_part_{i}" for i in range(len(groups))]
    for path, group in zip(temporary, groups, strict=True):
        values = []
        for part in group:
            value = np.asarray(checkpoint.tensors[part].read(), "float32")
            values.append(tf.constant(value.T if _is_transposed(part) else value))
        names = [google_name(part) for part in group]
        tf.raw_ops.SaveV2(
            prefix=path, tensor_names=names, shape_and_slices=[""] * len(names), tensors=values
        )
    for old in pathlib.Path(prefix).parent.glob(f"{pathlib.Path(prefix).name}.data-*"):
        old.unlink()
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=temporary, destination_prefix=prefix, delete_old_dirs=False
    )


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
    return {**config, EXTRA: extra}
