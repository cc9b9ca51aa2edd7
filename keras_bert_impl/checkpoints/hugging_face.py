"""Hugging Face folders: config.json, safetensors or a PyTorch pickle, tokenizer files; in and out.

Names as in transformers' modeling_bert.py (versions 2 to 5) and pytorch-transformers before it.
"""

import json
import os
import pathlib
from collections.abc import Mapping

import numpy as np

from keras_bert_impl.checkpoints import hugging_face_config as configs
from keras_bert_impl.checkpoints import parts
from keras_bert_impl.checkpoints.checkpoint import Checkpoint, logger
from keras_bert_impl.checkpoints.hugging_face_tokenizer import read_tokenizer, write_tokenizer
from keras_bert_impl.checkpoints.parts import CheckpointError, Tensor
from keras_bert_impl.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert_impl.checkpoints.torch_file import read_torch_file

SAFETENSORS = "model.safetensors"
TORCH = "pytorch_model.bin"
CONFIG = "config.json"
INDEX = ".index.json"

# Our name of a layer to theirs. Those of the encoder stand under "bert." in a model with a head.
_ENCODER = {
    "embeddings/token": "embeddings.word_embeddings",
    "embeddings/position": "embeddings.position_embeddings",
    "embeddings/segment": "embeddings.token_type_embeddings",
    "embeddings/layer_norm": "embeddings.LayerNorm",
    "attention/query": "attention.self.query",
    "attention/key": "attention.self.key",
    "attention/value": "attention.self.value",
    "attention/output": "attention.output.dense",
    "attention_layer_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_layer_norm": "output.LayerNorm",
    "pooler": "pooler.dense",
}
_HEADS = {
    "masked_lm/transform": "cls.predictions.transform.dense",
    "masked_lm/layer_norm": "cls.predictions.transform.LayerNorm",
    "masked_lm": "cls.predictions",
    "next_sentence": "cls.seq_relationship",
    "classifier": "classifier",
    "token_classifier": "classifier",
    "multiple_choice": "classifier",
    "question_answering": "qa_outputs",
}
_LEAVES = {"kernel": "weight", "bias": "bias", "scale": "weight", "shift": "bias"}
# What torch modules hold beside weights, and the masked LM's second names of tied tensors.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
_TIED_TABLE = "cls.predictions.decoder.weight"
_TIED_BIAS = "cls.predictions.decoder.bias"
_BIAS = "cls.predictions.bias"


def hugging_face_name(part: str, prefix: str = "bert.") -> str:
    """The name of a part in transformers' BERT.

    Args:
        part: str. Such as `encoder/0/attention/query/kernel`.
        prefix: str. `"bert."` in a model with a head, `""` in a bare `BertModel`.

    Example:

    >>> hugging_face_name("encoder/0/attention/query/kernel")
    'bert.encoder.layer.0.attention.self.query.weight'
    """
    if part in ("embeddings/token", "embeddings/position", "embeddings/segment"):
        return f"{prefix}{_ENCODER[part]}.weight"
    layer, leaf = part.rsplit("/", 1)
    if layer in _HEADS:
        return f"{_HEADS[layer]}.{_LEAVES[leaf]}"
    if layer.startswith("encoder/"):
        _, i, layer = layer.split("/", 2)
        return f"{prefix}encoder.layer.{i}.{_ENCODER[layer]}.{_LEAVES[leaf]}"
    return f"{prefix}{_ENCODER[layer]}.{_LEAVES[leaf]}"


def read_hugging_face(folder: str | os.PathLike, lowercase: bool | None = None) -> Checkpoint:
    """Open a folder that transformers saved.

    Args:
        folder: str or path. Holds config.json, and model.safetensors or pytorch_model.bin,
            whole or in shards with an index.
        lowercase: bool, optional. Overrides the folder's tokenizer options.

    Returns:
        A `Checkpoint`.

    Raises:
        CheckpointError: for a model that is no BERT, options that the encoder does not have, or
            files that are missing or damaged.

    Example:

    >>> checkpoint = read_hugging_face("all-MiniLM-L6-v2")
    >>> checkpoint.config["num_layers"]
    6
    """
    folder = pathlib.Path(folder)
    theirs = configs.read_config(folder / CONFIG)
    found = _read_tensors(folder)
    checkpoint = configs.checkpoint_of_config(theirs, folder / CONFIG)
    checkpoint.source = str(folder)
    checkpoint.tokenizer = read_tokenizer(folder, lowercase)
    checkpoint.tensors, checkpoint.left_over = _by_part(checkpoint, theirs, found)
    return checkpoint


def _read_tensors(folder: pathlib.Path) -> dict[str, Tensor]:
    readers = {SAFETENSORS: read_safetensors, TORCH: read_torch_file}
    for name, read in readers.items():
        if (folder / name).is_file():
            return read(folder / name)
        if (folder / f"{name}{INDEX}").is_file():
            return _read_shards(folder, f"{name}{INDEX}", read)
    raise CheckpointError(
        f"{folder}: no weights. Looked for {SAFETENSORS} and {TORCH}, each whole or in shards with "
        f"{SAFETENSORS}{INDEX}. The folder has {', '.join(sorted(os.listdir(folder)))}."
    )


def _read_shards(folder, index, read) -> dict[str, Tensor]:
    try:
        weight_map = json.loads((folder / index).read_text("utf-8"))["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{folder / index}: no index of shards ({type(error).__name__}: {error})."
        ) from None
    shards = {}
    for shard in sorted(set(weight_map.values())):
        # The name comes out of a file: it may not lead out of the folder.
        path = folder / pathlib.PurePath(shard).name
        if not path.is_file():
            raise CheckpointError(f"{path}: this shard is missing. {index} names it.")
        shards[shard] = read(path)
    found = {}
    for name, shard in weight_map.items():
        if name not in shards[shard]:
            raise CheckpointError(
                f"{folder / shard}: lacks the tensor {name!r} that {index} names."
            )
        found[name] = shards[shard][name]
    return found


def _by_part(checkpoint, theirs, found) -> tuple[dict[str, Tensor], list[str]]:
    """Their tensors by part, and the names of those that are none."""
    # Old names of a layer norm's scale and shift.
    modern = {
        name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
            "LayerNorm.beta", "LayerNorm.bias"
        ): tensor
        for name, tensor in found.items()
    }
    prefix = "bert." if any(name.startswith("bert.") for name in modern) else ""
    modern = {n: t for n, t in modern.items() if n.removeprefix(prefix) not in _BUFFERS}
    tied_table, tied_bias = modern.pop(_TIED_TABLE, None), modern.pop(_TIED_BIAS, None)
    if tied_bias is not None:
        modern.setdefault(_BIAS, tied_bias)

    tensors = {}
    head = configs.classifier_of(theirs)
    for part in parts.all_shapes(checkpoint.config):
        if part.startswith(("classifier/", "token_classifier/", "multiple_choice/")) and (
            parts.head_of(part) != head
        ):
            continue
        tensor = modern.pop(hugging_face_name(part, prefix), None)
        if tensor is not None:
            tensors[part] = _ours(part, tensor)
    if tied_table is not None and "embeddings/token" in tensors:
        _check_tied(tied_table, tensors["embeddings/token"])
    _check_encoder_shapes(checkpoint, tensors)
    return tensors, [tensor.name for tensor in modern.values()]


def _ours(part: str, tensor: Tensor) -> Tensor:
    if part.endswith("/kernel") and len(tensor.shape) == 2:
        return tensor.relaid(tensor.shape[::-1], np.transpose)  # theirs is (out, in)
    return tensor


def _check_tied(output_table: Tensor, table: Tensor) -> None:
    if not np.array_equal(output_table.read(), table.read()):
        raise CheckpointError(
            f"{output_table} differs from {table.name!r}. A masked-LM head with a table of its own "
            "is not supported: BERT's reads the token table backwards (tie_word_embeddings)."
        )


def _check_encoder_shapes(checkpoint, tensors) -> None:
    for part, shape in parts.encoder_shapes(checkpoint.config).items():
        if part in tensors and tuple(tensors[part].shape) != shape:
            raise CheckpointError(
                f"{tensors[part]} has the shape {list(tensors[part].shape)} as our {part}, but by "
                f"{CONFIG} it has {list(shape)}. The two do not belong together."
            )


def write_hugging_face(checkpoint: Checkpoint, folder: str | os.PathLike) -> list[str]:
    """Write a folder that transformers opens.

    Args:
        checkpoint: from a reader, or `of_model(model)`.
        folder: str or path. Made where it does not exist.

    Returns:
        The names of the tensors written.

    Raises:
        CheckpointError: for heads that no class of transformers has together, or an activation
            that transformers does not have.
    """
    folder = pathlib.Path(folder)
    architecture = configs.architecture_of(checkpoint.heads(), checkpoint.source)
    tensors = checkpoint.tensors
    if architecture == "BertForMaskedLM":
        # That class has no pooler, and complains about one.
        tensors = {part: t for part, t in tensors.items() if parts.head_of(part) != parts.POOLER}
    prefix = "" if architecture == "BertModel" else "bert."
    named = {hugging_face_name(part, prefix): (part, t) for part, t in tensors.items()}
    shapes = {name: _their_shape(part, t.shape) for name, (part, t) in named.items()}

    def read(name):
        part, tensor = named[name]
        value = np.asarray(tensor.read(), "float32")
        return value.T if part.endswith("/kernel") else value

    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / SAFETENSORS, shapes, read)
    config = configs.config_of_checkpoint(checkpoint, architecture)
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
    if checkpoint.tokenizer is not None:
        write_tokenizer(checkpoint.tokenizer, folder, checkpoint.config["max_sequence_length"])
    logger.info("%s: wrote %s with %d tensors", folder, architecture, len(named))
    return list(named)


def _their_shape(part: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[::-1] if part.endswith("/kernel") else shape


def is_hugging_face(config: Mapping) -> bool:
    """Whether the contents of a config.json are transformers'."""
    return "model_type" in config or "architectures" in config or "hidden_size" in config
