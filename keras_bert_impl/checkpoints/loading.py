"""From whatever BERT you have to a model, and back: recognize, open, load, report."""

import inspect
import json
import os
import pathlib

import keras
import keras_hub

from keras_bert_impl.checkpoints import google, hugging_face, model_garden, parts
from keras_bert_impl.checkpoints import keras_hub as keras_hub_format
from keras_bert_impl.checkpoints.checkpoint import (
    Checkpoint,
    check_bidirectional,
    files_of_tokenizer,
    load_into,
    of_model,
    with_one_task,
)
from keras_bert_impl.checkpoints.hugging_face_config import read_json
from keras_bert_impl.checkpoints.locations import local_folder
from keras_bert_impl.checkpoints.parts import CheckpointError
from keras_bert_impl.checkpoints.tensorflow_file import find_prefix, open_tensorflow
from keras_bert_impl.models.preprocessor import pop_options
from keras_bert_impl.text.tokenizer import BertTokenizer

OURS = "keras_bert_impl"
HUGGING_FACE = "hugging_face"
GOOGLE = "google"
KERAS_HUB = "keras_hub"
MODEL_GARDEN = "model_garden"

WRITERS = {
    HUGGING_FACE: hugging_face.write_hugging_face,
    GOOGLE: google.write_google,
    KERAS_HUB: keras_hub_format.write_keras_hub,
}

_OF_THE_BACKBONE = ("dtype", "activation", "causal", "num_tasks", "recompute")


def recognize(folder: str | os.PathLike) -> str:
    """Whose format a folder is in, by its contents.

    Args:
        folder: str or path.

    Returns:
        `"keras_bert_impl"`, `"keras_hub"`, `"hugging_face"`, `"google"` or `"model_garden"`.

    Raises:
        FileNotFoundError: where there is no such folder.
        CheckpointError: where it is none of these, with what was looked for.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder.")
    config_path = folder / "config.json"
    if config_path.is_file():
        try:
            config = json.loads(config_path.read_text("utf-8"))
        except ValueError as error:
            raise CheckpointError(f"{config_path}: not JSON ({error}).") from None
        if "class_name" in config and "config" in config:
            return OURS if config.get("registered_name", "").startswith(f"{OURS}>") else KERAS_HUB
        if hugging_face.is_hugging_face(config):
            return HUGGING_FACE
    if list(folder.glob("*.index")):
        reader = open_tensorflow(find_prefix(folder))
        if model_garden.GRAPH in reader.get_variable_to_shape_map():
            return MODEL_GARDEN
        return GOOGLE
    if (folder / google.CONFIG).is_file():
        raise CheckpointError(
            f"{folder}: has {google.CONFIG}, but {google.PREFIX}.index is missing. Copy all of the "
            "checkpoint's files."
        )
    raise CheckpointError(
        f"{folder}: no checkpoint is recognized in it. Looked for config.json (Hugging Face, "
        f"KerasHub, this package) and for {google.CONFIG} with {google.PREFIX}.index (Google). It "
        f"has {', '.join(sorted(os.listdir(folder))) or 'no files'}."
    )


def read_checkpoint(folder: str | os.PathLike, lowercase: bool | None = None) -> Checkpoint:
    """Open a folder of any of the foreign formats, or a preset of this package.

    Args:
        folder: str or path.
        lowercase: bool, optional. Overrides what the folder says or lets guess about casing.

    Returns:
        A `Checkpoint`.

    Raises:
        FileNotFoundError, CheckpointError: as `recognize` and the readers.

    Example:

    >>> read_checkpoint("uncased_L-2_H-128_A-2").heads()
    ['pooler', 'masked_lm', 'next_sentence']
    """
    kind = recognize(folder)
    if kind == OURS:
        return _read_ours(pathlib.Path(folder))
    readers = {
        HUGGING_FACE: hugging_face.read_hugging_face,
        GOOGLE: google.read_google,
        MODEL_GARDEN: model_garden.read_model_garden,
        KERAS_HUB: keras_hub_format.read_keras_hub,
    }
    return readers[kind](folder, lowercase=lowercase)


def _read_ours(folder: pathlib.Path) -> Checkpoint:
    model = _class_of_ours(folder).from_preset(str(folder))
    checkpoint = of_model(model)
    has_tokenizer = (folder / "tokenizer.json").is_file()
    if checkpoint.tokenizer is None and has_tokenizer:
        checkpoint.tokenizer = files_of_tokenizer(BertTokenizer.from_preset(str(folder)))
    return checkpoint


def _class_of_ours(folder: pathlib.Path):
    """The class that a preset of this package was saved from."""
    task = folder / "task.json"
    config = read_json(task if task.is_file() else folder / "config.json")
    return keras.saving.get_registered_object(config["registered_name"])


def load_task(preset: str | os.PathLike, **kwargs):
    """A preset of this package as whatever it was saved from.

    Args:
        preset: as in `BertBackbone.from_preset`, but of this package.
        **kwargs: as in that class's `from_preset`.

    Returns:
        The task, or the backbone.

    Raises:
        FileNotFoundError: where nothing is there.
        CheckpointError: for another package's format, which does not say what is to be made of it.

    Example:

    >>> load_task("my_classifier").export("served/1")
    """
    with local_folder(preset) as folder:
        if recognize(folder) != OURS:
            raise CheckpointError(
                f"{preset}: not a preset of this package. Say what it is to become: "
                "BertTextClassifier.from_preset, say."
            )
        return _class_of_ours(pathlib.Path(folder)).from_preset(str(folder), **kwargs)


def settle_classes(preset: str | os.PathLike, kwargs: dict) -> None:
    """Make arguments for another number of classes an explicit choice, for a preset of ours.

    KerasHub starts the head anew as soon as `num_classes` is passed, whatever it is.

    Args:
        preset: the folder of a preset saved from the class that is loaded.
        kwargs: arguments of `from_preset`; changed in place.

    Raises:
        ValueError: where the number differs and `init_missing` is not passed.
    """
    may_init = kwargs.pop("init_missing", False)
    task = pathlib.Path(preset) / "task.json"
    if "num_classes" not in kwargs or not task.is_file():
        return
    count = read_json(task)["config"].get("num_classes")
    if kwargs["num_classes"] == count:
        del kwargs["num_classes"]
    elif may_init:
        kwargs.setdefault("class_names", None)
    else:
        raise ValueError(
            f"{preset}: has a head of {count} classes, but num_classes={kwargs['num_classes']}. "
            "Pass init_missing=True to start a new head."
        )


def save_checkpoint(source, folder: str | os.PathLike, format: str) -> list[str]:
    """Write a model, or an opened checkpoint, in another package's format.

    Args:
        source: a `BertBackbone`, a task on one, or a `Checkpoint`.
        folder: str or path. Made where it does not exist.
        format: str. `"hugging_face"`, `"google"` or `"keras_hub"`.

    Returns:
        The names of the tensors written, as that format has them.

    Raises:
        ValueError: for an unknown format.
        CheckpointError: for what the format cannot hold, such as a causal model.

    Example:

    >>> names = save_checkpoint(masked_lm, "bert_for_transformers", "hugging_face")
    """
    if format not in WRITERS:
        raise ValueError(f"Unknown format {format!r}. Choose one of {', '.join(WRITERS)}.")
    checkpoint = source if isinstance(source, Checkpoint) else of_model(source)
    check_bidirectional(checkpoint)
    return WRITERS[format](with_one_task(checkpoint), folder)


def is_foreign(cls, preset) -> bool:
    """Whether `cls.from_preset` has to translate. Needs no network.

    Only a preset of this package that was saved from the same class needs no translation (any
    such preset gives its backbone). What a handle leads to is known only once it is here.
    """
    if not isinstance(preset, (str, os.PathLike)):
        return False
    path = pathlib.Path(preset)
    if not (path.is_dir() and (path / "config.json").is_file() and recognize(path) == OURS):
        return True
    is_backbone = issubclass(cls, keras_hub.models.Backbone)
    return not (is_backbone or _class_of_ours(path) is cls)


def from_preset(
    cls,
    preset: str | os.PathLike,
    load_weights: bool = True,
    init_missing: bool = False,
    lowercase: bool | None = None,
    **kwargs,
):
    """What `BertX.from_preset` does with anything but a preset of this package.

    Args:
        cls: `BertBackbone` or a task.
        preset: as `local_folder`.
        load_weights: bool. False builds the same model with random weights.
        init_missing: bool. Let a head or pooler that the checkpoint lacks start from random
            weights; otherwise that is an error.
        lowercase: bool, optional. Overrides what the checkpoint says or lets guess about casing.
        **kwargs: arguments of the class, and `dtype`, `activation`, `causal`, `num_tasks` and
            `recompute` of the backbone. A task's `preprocessor` may be given, or None; its arguments, such as
            `sequence_length`, go to the one that is made otherwise.

    Returns:
        The model. Its `load_report` names what was loaded, newly initialized and left over.

    Raises:
        FileNotFoundError: where nothing is at the path.
        CheckpointError: for damaged files, other models, or missing heads.
    """
    with local_folder(preset) as folder:
        if not is_foreign(cls, folder):  # a preset of this package, fetched or unpacked
            if not issubclass(cls, keras_hub.models.Backbone):
                kwargs["init_missing"] = init_missing
            return cls.from_preset(folder, load_weights, **kwargs)
        checkpoint = read_checkpoint(folder, lowercase)
        checkpoint.check_vocabulary()
        model = build(cls, checkpoint, kwargs)
        if load_weights:
            model.load_report = load_into(model, checkpoint, init_missing)
    return model


def build(cls, checkpoint: Checkpoint, kwargs: dict):
    """A model of a class for a checkpoint, with random weights."""
    if issubclass(cls, keras_hub.models.Backbone):
        return cls(**{**checkpoint.config, **kwargs})
    kwargs = dict(kwargs)
    overrides = {name: kwargs.pop(name) for name in _OF_THE_BACKBONE if name in kwargs}
    given = kwargs.pop("backbone", None)
    backbone = given or cls.backbone_cls(**{**checkpoint.config, **overrides})
    options = pop_options(cls.preprocessor_cls, kwargs)
    if "preprocessor" not in kwargs:
        kwargs["preprocessor"] = _preprocessor(cls, checkpoint, options)
    if "num_classes" in inspect.signature(cls).parameters:
        _fill_classes(cls, kwargs, checkpoint)
    return cls(backbone, **kwargs)


def _preprocessor(cls, checkpoint: Checkpoint, options: dict):
    if checkpoint.tokenizer is None:
        return None
    options.setdefault("sequence_length", checkpoint.config["max_sequence_length"])
    return cls.preprocessor_cls(make_tokenizer(checkpoint), **options)


def make_tokenizer(checkpoint: Checkpoint) -> BertTokenizer:
    """The tokenizer of a checkpoint that brings a vocabulary."""
    files = checkpoint.tokenizer
    if files is None:
        raise CheckpointError(f"{checkpoint.source}: brings no vocabulary (vocab.txt).")
    return BertTokenizer(
        files.tokens(),
        lowercase=files.lowercase,
        strip_accents=files.strip_accents,
        split_on_cjk=files.split_on_cjk,
        **files.own_options,
    )


def load_tokenizer(preset: str | os.PathLike, lowercase: bool | None = None) -> BertTokenizer:
    """The tokenizer alone, from whatever `from_preset` reads.

    Args:
        preset: as in `BertBackbone.from_preset`.
        lowercase: bool, optional. Overrides what the checkpoint says or lets guess about casing.

    Returns:
        A `BertTokenizer`.

    Raises:
        FileNotFoundError: where nothing is there.
        ValueError: for a checkpoint that brings no vocabulary, or a damaged one.

    Example:

    >>> tokenizer = load_tokenizer("uncased_L-12_H-768_A-12")
    """
    with local_folder(preset) as folder:
        if recognize(folder) == OURS and (pathlib.Path(folder) / "tokenizer.json").is_file():
            # As it was saved, with every option, and without its model's weights.
            options = {} if lowercase is None else {"lowercase": lowercase}
            return BertTokenizer.from_preset(str(folder), **options)
        return make_tokenizer(read_checkpoint(folder, lowercase))


def _fill_classes(cls, kwargs: dict, checkpoint: Checkpoint) -> None:
    """The classifier's outputs: as asked for, else as in the checkpoint."""
    bias = checkpoint.tensors.get(f"{cls.head_name}/bias")
    count: int | None
    if bias is not None:
        count = bias.shape[0]
    else:  # a configuration may name classes that no head was trained for
        others = set(parts.SIZED_HEADS) & set(checkpoint.heads())
        count = None if others else checkpoint.num_classes
    if kwargs.get("class_names"):
        kwargs.setdefault("num_classes", len(kwargs["class_names"]))
    if kwargs.setdefault("num_classes", count) is None:
        raise CheckpointError(
            f"{checkpoint.source}: holds no classifier. Pass num_classes= for a new one, and "
            "init_missing=True."
        )
    if kwargs["num_classes"] == count:
        kwargs.setdefault("class_names", checkpoint.class_names)
        kwargs.setdefault("dropout", checkpoint.classifier_dropout)
        if "regression" in inspect.signature(cls).parameters:
            kwargs.setdefault("regression", checkpoint.regression)
