"""KerasHub's own BERT: presets and models in memory, both ways.

KerasHub's encoder computes GELU by tanh and layer norm with epsilon 1e-12, its masked-LM head by erf
and with 1e-5, whatever a checkpoint says. Weights pass unchanged; where ours computes otherwise, a
warning says so.
"""

import os
import pathlib

import keras_hub
import numpy as np
from keras import ops

from keras_bert_impl.checkpoints import parts
from keras_bert_impl.checkpoints.checkpoint import (
    Checkpoint,
    TokenizerFiles,
    check_bidirectional,
    of_model,
    warn,
    with_one_task,
)
from keras_bert_impl.checkpoints.hugging_face_config import read_json
from keras_bert_impl.checkpoints.parts import CheckpointError, Tensor
from keras_bert_impl.layers.initialization import LAYER_NORM_EPSILON

_CLASSES = ("BertBackbone", "BertMaskedLM", "BertTextClassifier")
_SIZES = (
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "dropout",
    "max_sequence_length",
    "num_segments",
)


def _variables(model) -> dict:
    """Part to the variable of a KerasHub model."""
    backbone = getattr(model, "backbone", model)
    found = {
        "embeddings/token": backbone.token_embedding.embeddings,
        "embeddings/position": backbone.position_embedding.position_embeddings,
        "embeddings/segment": backbone.segment_embedding.embeddings,
    }

    def dense(name, layer):
        found[f"{name}/kernel"], found[f"{name}/bias"] = layer.kernel, layer.bias

    def norm(name, layer):
        found[f"{name}/scale"], found[f"{name}/shift"] = layer.gamma, layer.beta

    norm("embeddings/layer_norm", backbone.embeddings_layer_norm)
    for i, layer in enumerate(backbone.transformer_layers):
        attention = layer._self_attention_layer
        for name in ("query", "key", "value", "output"):
            dense(f"encoder/{i}/attention/{name}", getattr(attention, f"{name}_dense"))
        norm(f"encoder/{i}/attention_layer_norm", layer._self_attention_layer_norm)
        dense(f"encoder/{i}/intermediate", layer._feedforward_intermediate_dense)
        dense(f"encoder/{i}/output", layer._feedforward_output_dense)
        norm(f"encoder/{i}/output_layer_norm", layer._feedforward_layer_norm)
    dense("pooler", backbone.pooled_dense)
    if isinstance(model, keras_hub.models.BertMaskedLM):
        head = model.masked_lm_head
        dense("masked_lm/transform", head._intermediate_dense)
        norm("masked_lm/layer_norm", head._intermediate_layer_norm)
        found["masked_lm/bias"] = head._bias
    if isinstance(model, keras_hub.models.BertTextClassifier):
        dense("classifier", model.output_dense)
    return found


def read_keras_hub(model_or_preset, lowercase: bool | None = None) -> Checkpoint:
    """Open a KerasHub BERT.

    Args:
        model_or_preset: a `keras_hub.models.BertBackbone`, `BertMaskedLM` or
            `BertTextClassifier`, or the folder of a preset of one.
        lowercase: bool, optional. Overrides the tokenizer's.

    Returns:
        A `Checkpoint`.

    Raises:
        CheckpointError: for a folder without weights.

    Example:

    >>> checkpoint = read_keras_hub(keras_hub.models.BertBackbone.from_preset("bert_tiny_en_uncased"))
    """
    model, tokenizer, source = model_or_preset, None, getattr(model_or_preset, "name", "")
    if isinstance(model_or_preset, (str, os.PathLike)):
        source = str(model_or_preset)
        model, tokenizer = _load_preset(pathlib.Path(model_or_preset))
    elif getattr(model, "preprocessor", None) is not None:
        tokenizer = model.preprocessor.tokenizer
    backbone = getattr(model, "backbone", model)
    config = {name: getattr(backbone, name) for name in _SIZES}
    config |= {"activation": "gelu_approximate", "layer_norm_epsilon": LAYER_NORM_EPSILON}
    shapes = parts.all_shapes(config, getattr(model, "num_classes", 2))
    tensors = {}
    for part, variable in _variables(model).items():
        shape = shapes[part]

        def read(variable=variable, shape=shape):
            # Their attention keeps heads apart: (hidden, heads, head_dim).
            return np.reshape(ops.convert_to_numpy(variable), shape)

        tensors[part] = Tensor(source, variable.path, shape, read)
    checkpoint = Checkpoint(source, config, tensors)
    if isinstance(model, keras_hub.models.BertMaskedLM):
        warn(
            f"{source}: KerasHub's masked-LM head computes GELU by erf and its layer norm with "
            "epsilon 1e-5, other than its encoder. Ours has the encoder's in both: logits differ "
            "by about 1e-3."
        )
    if isinstance(model, keras_hub.models.BertTextClassifier):
        checkpoint.num_classes = model.num_classes
        checkpoint.regression = model.num_classes == 1
        checkpoint.classifier_dropout = model.dropout
    if tokenizer is not None:
        checkpoint.tokenizer = _tokenizer_files(tokenizer, lowercase)
    return checkpoint


def _load_preset(folder: pathlib.Path):
    """The model and the tokenizer of a preset."""
    task = folder / "task.json"
    name = read_json(task if task.is_file() else folder / "config.json").get("class_name")
    if name not in _CLASSES:
        raise CheckpointError(
            f"{folder}: a preset of {name}, but only those of {', '.join(_CLASSES)} are read."
        )
    if not list(folder.glob("model*.weights.*")):
        raise CheckpointError(f"{folder / 'model.weights.h5'}: this file is missing.")
    try:
        model = getattr(keras_hub.models, name).from_preset(str(folder))
        tokenizer = None
        if (folder / "tokenizer.json").is_file():
            tokenizer = keras_hub.tokenizers.BertTokenizer.from_preset(str(folder))
    except (OSError, KeyError, ValueError) as error:
        raise CheckpointError(f"{folder}: the preset cannot be read: {error}") from error
    return model, tokenizer


def _tokenizer_files(tokenizer, lowercase) -> TokenizerFiles:
    lower = bool(tokenizer.lowercase) if lowercase is None else lowercase
    # Theirs strips accents only where told to; ours, as the reference, where it lowercases.
    strip = bool(tokenizer.strip_accents)
    return TokenizerFiles(
        list(tokenizer.get_vocabulary()),
        lowercase=lower,
        strip_accents=None if strip == lower else strip,
        split_on_cjk=bool(tokenizer.split_on_cjk),
    )


def to_keras_hub(source):
    """A model of KerasHub with the weights of a model of ours, or of a checkpoint.

    Args:
        source: a `BertBackbone`, `BertMaskedLM`, `BertTextClassifier` or a `Checkpoint`.

    Returns:
        KerasHub's class for the same.

    Raises:
        CheckpointError: for heads that KerasHub has no class for, and for a causal model.

    Example:

    >>> to_keras_hub(backbone).save_to_preset("preset")
    """
    checkpoint = source if isinstance(source, Checkpoint) else of_model(source)
    check_bidirectional(checkpoint)
    checkpoint = with_one_task(checkpoint)
    config = checkpoint.config
    _warn_of_differences(checkpoint)
    backbone = keras_hub.models.BertBackbone(**{name: config[name] for name in _SIZES})
    heads = set(checkpoint.heads()) - {parts.POOLER}
    if not heads:
        model = backbone
    elif heads == {parts.MASKED_LM}:
        model = keras_hub.models.BertMaskedLM(backbone, _preprocessor(checkpoint, masked=True))
    elif heads == {parts.CLASSIFIER}:
        dropout = checkpoint.classifier_dropout
        model = keras_hub.models.BertTextClassifier(
            backbone,
            num_classes=checkpoint.num_classes,
            preprocessor=_preprocessor(checkpoint, masked=False),
            dropout=config["dropout"] if dropout is None else dropout,
        )
    else:
        raise CheckpointError(
            f"{checkpoint.source}: KerasHub has no class with the heads {', '.join(sorted(heads))}."
        )
    variables = _variables(model)
    for part, tensor in checkpoint.tensors.items():
        variables[part].assign(np.reshape(tensor.read(), variables[part].shape))
    return model


def _tokenizer(files: TokenizerFiles):
    return keras_hub.tokenizers.BertTokenizer(
        files.tokens(),
        lowercase=files.lowercase,
        strip_accents=files.lowercase if files.strip_accents is None else files.strip_accents,
        split_on_cjk=files.split_on_cjk,
    )


def _preprocessor(checkpoint: Checkpoint, masked: bool):
    if checkpoint.tokenizer is None:
        return None
    kind = "BertMaskedLMPreprocessor" if masked else "BertTextClassifierPreprocessor"
    return getattr(keras_hub.models, kind)(
        _tokenizer(checkpoint.tokenizer), sequence_length=checkpoint.config["max_sequence_length"]
    )


def write_keras_hub(checkpoint: Checkpoint, folder: str | os.PathLike) -> list[str]:
    """Write a KerasHub preset, tokenizer included.

    Returns:
        The paths of the variables written.
    """
    model = to_keras_hub(checkpoint)
    model.save_to_preset(str(folder))
    if model is getattr(model, "backbone", model) and checkpoint.tokenizer is not None:
        _tokenizer(checkpoint.tokenizer).save_to_preset(str(folder))
    variables = _variables(model)
    return [variables[part].path for part in checkpoint.tensors]


def _warn_of_differences(checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    theirs = {
        "activation": "gelu_approximate",
        "layer_norm_epsilon": LAYER_NORM_EPSILON,
        "attention_dropout": config["dropout"],
    }
    for name, value in theirs.items():
        if config.get(name, value) not in (value, None):
            warn(
                f"{checkpoint.source}: {name} is {config[name]!r}, but KerasHub's BERT has "
                f"{value!r} fixed: the weights are the same, the outputs are not."
            )
