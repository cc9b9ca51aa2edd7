"""The config.json of transformers' BERT: each key that changes numbers, honoured or refused."""

import json
import pathlib
from collections.abc import Mapping

from keras_bert_impl.checkpoints import parts
from keras_bert_impl.checkpoints.checkpoint import Checkpoint, warn
from keras_bert_impl.checkpoints.parts import CheckpointError

# transformers' activations to ours; each formula on the left is that on the right.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_approximate",
    "gelu_fast": "gelu_approximate",
    "gelu_pytorch_tanh": "gelu_approximate",
    "gelu_python_tanh": "gelu_approximate",
    "gelu_accurate": "gelu_approximate",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "mish": "mish",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "linear": "linear",
}
_THEIR_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_approximate": "gelu_new",
    **{name: name for name in ("relu", "silu", "mish", "tanh", "sigmoid", "linear")},
}
# Keys whose other values would be another model.
REQUIRED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
}
_SIZES = {
    "vocabulary_size": ("vocab_size", 30522),
    "num_layers": ("num_hidden_layers", 12),
    "num_heads": ("num_attention_heads", 12),
    "hidden_dim": ("hidden_size", 768),
    "intermediate_dim": ("intermediate_size", 3072),
    "max_sequence_length": ("max_position_embeddings", 512),
    "num_segments": ("type_vocab_size", 2),
    "dropout": ("hidden_dropout_prob", 0.1),
    "attention_dropout": ("attention_probs_dropout_prob", 0.1),
    "layer_norm_epsilon": ("layer_norm_eps", 1e-12),
    "initializer_range": ("initializer_range", 0.02),
}
_CLASSIFIERS = {
    "BertForSequenceClassification": parts.CLASSIFIER,
    "BertForTokenClassification": parts.TOKEN_CLASSIFIER,
    "BertForMultipleChoice": parts.MULTIPLE_CHOICE,
}
# The heads of each class, its pooler too. BertForPreTraining and the others come first that
# hold most, so that the first fit is the best.
_ARCHITECTURES = {
    "BertForPreTraining": {parts.POOLER, parts.MASKED_LM, parts.NEXT_SENTENCE},
    "BertForMaskedLM": {parts.MASKED_LM},
    "BertForNextSentencePrediction": {parts.POOLER, parts.NEXT_SENTENCE},
    "BertForSequenceClassification": {parts.POOLER, parts.CLASSIFIER},
    "BertForTokenClassification": {parts.TOKEN_CLASSIFIER},
    "BertForQuestionAnswering": {parts.QUESTION_ANSWERING},
    "BertForMultipleChoice": {parts.POOLER, parts.MULTIPLE_CHOICE},
    "BertModel": {parts.POOLER},
}


def read_json(path: pathlib.Path) -> dict:
    """A JSON object from a file.

    Raises:
        CheckpointError: where the file is missing or holds no JSON object.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: this file is missing.")
    try:
        value = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({error}).") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object, but found {type(value).__name__}.")
    return value


def read_config(path: pathlib.Path) -> dict:
    """The configuration, refused where it is of another model than a BERT encoder.

    Raises:
        CheckpointError: naming the key.
    """
    config = read_json(path)
    if config.get("model_type", "bert") != "bert":
        raise CheckpointError(
            f"{path}: model_type is {config['model_type']!r}, but only 'bert' is read."
        )
    for key, value in REQUIRED.items():
        if config.get(key, value) != value:
            raise CheckpointError(
                f"{path}: {key} is {config[key]!r}, but this encoder has only {value!r}."
            )
    if any((config.get("pruned_heads") or {}).values()):
        raise CheckpointError(f"{path}: pruned_heads is set, but layers have all their heads here.")
    width = config.get("embedding_size", config.get("hidden_size"))
    if width != config.get("hidden_size"):
        raise CheckpointError(f"{path}: embedding_size differs from hidden_size: no BERT.")
    return config


def checkpoint_of_config(theirs: Mapping, path: pathlib.Path) -> Checkpoint:
    """A `Checkpoint` without tensors: the model that a configuration describes."""
    missing = [key for key, _ in list(_SIZES.values())[:5] if key not in theirs]
    if missing:
        raise CheckpointError(f"{path}: lacks {', '.join(missing)}.")
    config = {ours: theirs.get(key, default) for ours, (key, default) in _SIZES.items()}
    name = theirs.get("hidden_act", "gelu")
    if name not in ACTIVATIONS:
        raise CheckpointError(
            f"{path}: hidden_act is {name!r}, but only {', '.join(ACTIVATIONS)} are known."
        )
    checkpoint = Checkpoint(str(path), {**config, "activation": ACTIVATIONS[name]}, {})
    if classifier_of(theirs) in parts.SIZED_HEADS:
        _read_labels(checkpoint, theirs, path)
    return checkpoint


def _read_labels(checkpoint, theirs, path) -> None:
    labels = theirs.get("id2label")
    count = theirs.get("num_labels", len(labels) if labels else 2)
    checkpoint.num_classes = count
    checkpoint.classifier_dropout = theirs.get("classifier_dropout")
    problem = theirs.get("problem_type")
    checkpoint.regression = count == 1 and classifier_of(theirs) == parts.CLASSIFIER
    if problem == "multi_label_classification":
        warn(
            f"{path}: problem_type is multi_label_classification. The logits are the same, but a "
            "BertTextClassifier answers with a softmax over them."
        )
    if labels and len(labels) == count:
        names = tuple(labels[key] for key in sorted(labels, key=int))
        if names != tuple(f"LABEL_{i}" for i in range(count)) and len(set(names)) == count:
            checkpoint.class_names = names


def classifier_of(theirs: Mapping) -> str:
    """Which head `classifier.weight` is: three classes of transformers call theirs so."""
    for architecture in theirs.get("architectures") or ():
        if architecture in _CLASSIFIERS:
            return _CLASSIFIERS[architecture]
    return parts.CLASSIFIER


def architecture_of(heads: list[str], source: str) -> str:
    """The class of transformers that has just these heads.

    Raises:
        CheckpointError: where there is none.
    """
    wanted = set(heads)
    for architecture, its in _ARCHITECTURES.items():
        if its - {parts.POOLER} == wanted - {parts.POOLER} and its - wanted <= {parts.POOLER}:
            if parts.POOLER in its and parts.POOLER not in wanted and architecture != "BertModel":
                continue
            return architecture
    raise CheckpointError(
        f"{source}: no class of transformers has the heads {', '.join(heads)} together."
    )


def config_of_checkpoint(checkpoint: Checkpoint, architecture: str) -> dict:
    """What transformers' config.json says for a checkpoint."""
    ours = checkpoint.config
    activation = ours.get("activation", "gelu")
    if activation not in _THEIR_ACTIVATIONS:
        raise CheckpointError(
            f"{checkpoint.source}: transformers' BERT has no activation {activation!r}."
        )
    config = {key: ours.get(name, default) for name, (key, default) in _SIZES.items()}
    config |= {
        "architectures": [architecture],
        "model_type": "bert",
        "hidden_act": _THEIR_ACTIVATIONS[activation],
        "pad_token_id": 0,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    if checkpoint.num_classes is not None and _CLASSIFIERS.get(architecture) in parts.SIZED_HEADS:
        count = checkpoint.num_classes
        names = checkpoint.class_names or [f"LABEL_{i}" for i in range(count)]
        config["id2label"] = {str(i): name for i, name in enumerate(names)}
        config["label2id"] = {name: i for i, name in enumerate(names)}
        config["classifier_dropout"] = checkpoint.classifier_dropout
    if checkpoint.num_classes is not None and architecture == "BertForSequenceClassification":
        config["problem_type"] = (
            "regression" if checkpoint.regression else "single_label_classification"
        )
    return config
