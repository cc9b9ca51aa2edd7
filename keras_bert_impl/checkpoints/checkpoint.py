"""A checkpoint of any format, opened: what model it is of, and its parts by our names."""

import dataclasses
import inspect
import logging
import pathlib
import warnings
from collections.abc import Mapping

import numpy as np

from keras_bert_impl.checkpoints.parts import (
    POOLER,
    SEGMENTS,
    SIZED_HEADS,
    TASKS,
    CheckpointError,
    Tensor,
    head_of,
    slots,
    uses_pooler,
)
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.text.vocabulary import read_vocabulary

logger = logging.getLogger("keras_bert_impl")


@dataclasses.dataclass
class TokenizerFiles:
    """What a checkpoint says about its tokenizer.

    Attributes:
        vocabulary: list of str by id, or the path of a vocabulary file.
        lowercase, strip_accents, split_on_cjk: as in `BertTokenizer`.
        own_options: further arguments of `BertTokenizer`, which no other format has.
    """

    vocabulary: list[str] | pathlib.Path
    lowercase: bool = True
    strip_accents: bool | None = None
    split_on_cjk: bool = True
    own_options: dict = dataclasses.field(default_factory=dict)

    def tokens(self) -> list[str]:
        """The tokens by id.

        Raises:
            ValueError: as `read_vocabulary`.
        """
        if isinstance(self.vocabulary, pathlib.Path):
            self.vocabulary = read_vocabulary(self.vocabulary)
        return self.vocabulary


@dataclasses.dataclass
class Checkpoint:
    """An opened checkpoint. Tensors are read when asked for.

    Attributes:
        source: str. The file or folder, for messages.
        config: the arguments of `BertBackbone`.
        tensors: part to `Tensor`.
        left_over: names of tensors in the file that are no part of a BERT.
        tokenizer: `TokenizerFiles`, or None where the checkpoint brings no vocabulary.
        num_classes: int, or None where it holds no classifier of texts or of tokens.
        class_names: tuple of str, or None.
        regression: bool. The classifier gives one real number.
        classifier_dropout: float, or None for the encoder's.
    """

    source: str
    config: dict
    tensors: dict[str, Tensor]
    left_over: list[str] = dataclasses.field(default_factory=list)
    tokenizer: TokenizerFiles | None = None
    num_classes: int | None = None
    class_names: tuple[str, ...] | None = None
    regression: bool = False
    classifier_dropout: float | None = None

    def heads(self) -> list[str]:
        """Pooler and heads that the checkpoint holds."""
        return list(dict.fromkeys(filter(None, map(head_of, self.tensors))))

    def without_heads(self) -> "Checkpoint":
        """The encoder and its pooler; the heads are left over."""
        kept = {p: t for p, t in self.tensors.items() if head_of(p) in (None, POOLER)}
        dropped = [t.name for part, t in self.tensors.items() if part not in kept]
        return dataclasses.replace(
            self, tensors=kept, left_over=[*dropped, *self.left_over], num_classes=None
        )

    def check_vocabulary(self) -> None:
        """Raise where the tokenizer could make ids that the table has no row for.

        Outside of the table a gather on a GPU or TPU gives zeros or NaN, and no error.
        """
        if self.tokenizer is None:
            return
        count, rows = len(self.tokenizer.tokens()), self.config["vocabulary_size"]
        if count > rows:
            raise CheckpointError(
                f"{self.source}: the vocabulary has {count} tokens, but the model's table has "
                f"{rows} rows. Use the vocabulary that the model was trained with."
            )


def check_bidirectional(checkpoint: Checkpoint) -> None:
    """Raise for a causal model: another package would let its positions see what comes after."""
    if checkpoint.config.get("causal"):
        raise CheckpointError(
            f"{checkpoint.source} is causal, but other packages' BERT is not: it would read the "
            "same weights as another model. Keep it with save_to_preset()."
        )


def with_one_task(checkpoint: Checkpoint) -> Checkpoint:
    """The same model for rows of task 0, without a task table, which other packages' BERT lacks.

    Each token has one segment's vector and one task's, so task 0's goes into the segments'.
    """
    if TASKS not in checkpoint.tensors:
        return checkpoint
    tensors = dict(checkpoint.tensors)
    tasks = tensors.pop(TASKS)
    segments = tensors[SEGMENTS]
    tensors[SEGMENTS] = segments.relaid(segments.shape, lambda table: table + tasks.read()[:1])
    if tasks.shape[0] > 1:
        warn(
            f"{checkpoint.source} has vectors of {tasks.shape[0]} tasks. Without a task table that "
            "of task 0 alone is kept, as part of the segments' vectors; the others are left out. "
            "save_to_preset() keeps all."
        )
    return dataclasses.replace(
        checkpoint, config={**checkpoint.config, "num_tasks": 0}, tensors=tensors
    )


def of_model(model, with_unused: bool = False) -> Checkpoint:
    """A model of ours as a checkpoint, to be written in another format.

    Args:
        model: a `BertBackbone` or a task on one. A task's preprocessor gives the tokenizer.
        with_unused: bool. Keep a pooler that the model's outputs do not depend on.
    """
    backbone = getattr(model, "backbone", model)
    # Precision, name and the like are this model's own, not the checkpoint's.
    arguments = set(inspect.signature(BertBackbone).parameters) - {"dtype", "kwargs"}
    config = {name: value for name, value in backbone.get_config().items() if name in arguments}
    places = slots(model)
    if not (uses_pooler(model) or with_unused):
        # Its outputs never depended on it: nobody can tell a trained pooler from a random one.
        places = {part: slot for part, slot in places.items() if head_of(part) != POOLER}
    tensors = {
        part: Tensor(model.name, part, slot.shape, slot.read) for part, slot in places.items()
    }
    tokenizer = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    files = None if tokenizer is None else files_of_tokenizer(tokenizer)
    checkpoint = Checkpoint(model.name, config, tensors, tokenizer=files)
    if getattr(model, "head_name", None) in SIZED_HEADS:
        checkpoint.num_classes = model.num_classes
        checkpoint.class_names = model.class_names
        checkpoint.regression = getattr(model, "regression", False)
        checkpoint.classifier_dropout = model.dropout
    return checkpoint


def files_of_tokenizer(tokenizer) -> TokenizerFiles:
    """What is kept of a `BertTokenizer`."""
    names = ("special_tokens_in_strings", "preserve_unused_tokens", "max_chars_per_word")
    return TokenizerFiles(
        list(tokenizer.get_vocabulary()),
        tokenizer.lowercase,
        tokenizer.strip_accents,
        tokenizer.split_on_cjk,
        {name: getattr(tokenizer, name) for name in names},
    )


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What a load did, each tensor by name.

    Attributes:
        source: str. The checkpoint.
        loaded: part to the name it has in the checkpoint.
        newly_initialized: parts that the checkpoint lacks and that are random now, or zeros
            (a task table).
        left_over: names in the checkpoint that the model has no place for.
    """

    source: str
    loaded: Mapping[str, str]
    newly_initialized: tuple[str, ...]
    left_over: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.source}: loaded {len(self.loaded)} tensors"]
        if self.newly_initialized:
            lines.append(f"newly initialized: {', '.join(self.newly_initialized)}")
        if self.left_over:
            lines.append(f"left over in the checkpoint: {', '.join(self.left_over)}")
        return "; ".join(lines)


def load_into(model, checkpoint: Checkpoint, init_missing: bool = False) -> LoadReport:
    """Set a model's weights from a checkpoint: all of them, or an error.

    Args:
        model: a `BertBackbone` or a task on one.
        checkpoint: an opened checkpoint.
        init_missing: bool. Let a head or pooler that the checkpoint lacks keep its random
            start. What the model's outputs do not depend on (a masked LM's pooler) needs no
            leave, and nor does a task table: zeros, so that the outputs are the checkpoint's.

    Returns:
        A `LoadReport`.

    Raises:
        CheckpointError: where parts are missing, have another shape or hold NaN.
    """
    places = slots(model)
    present = {part: t for part, t in checkpoint.tensors.items() if part in places}
    resized = [p for p, tensor in present.items() if tuple(tensor.shape) != places[p].shape]
    if init_missing and resized and all(head_of(part) in SIZED_HEADS for part in resized):
        # Another number of classes: the classifier is started anew as a whole.
        present = {part: t for part, t in present.items() if head_of(part) not in SIZED_HEADS}
    elif resized:
        part, tensor = resized[0], present[resized[0]]
        hint = ", or pass init_missing=True to start a classifier of another size"
        raise CheckpointError(
            f"{tensor} has the shape {list(tensor.shape)}, but {part} of the model has "
            f"{list(places[part].shape)}. The configuration does not belong to these weights"
            f"{hint if head_of(part) in SIZED_HEADS else ''}."
        )
    missing = [part for part in places if part not in present]
    unused = [] if uses_pooler(model) else [part for part in missing if head_of(part) == POOLER]
    random = [part for part in missing if part not in (*unused, TASKS)]
    _check_missing(model, checkpoint, random, init_missing)
    for part, tensor in present.items():
        places[part].assign(_finite(tensor))
    if TASKS in missing:
        places[TASKS].assign(np.zeros(places[TASKS].shape, "float32"))
    no_place = [tensor.name for p, tensor in checkpoint.tensors.items() if p not in present]
    report = LoadReport(
        checkpoint.source,
        {part: tensor.name for part, tensor in present.items()},
        tuple(missing),
        (*no_place, *checkpoint.left_over),
    )
    logger.log(logging.WARNING if random else logging.INFO, "%s", report)
    return report


def _check_missing(model, checkpoint, missing, init_missing) -> None:
    encoder = [part for part in missing if head_of(part) is None]
    if encoder:
        raise CheckpointError(
            f"{checkpoint.source}: the encoder is not complete, it lacks {', '.join(encoder)}. "
            "The file is damaged, or its configuration belongs to other weights."
        )
    if missing and not init_missing:
        raise CheckpointError(
            f"{checkpoint.source} lacks {', '.join(missing)}, which {type(model).__name__} needs. "
            f"It holds: {', '.join(['encoder', *checkpoint.heads()])}. Pass init_missing=True to "
            "start these from random weights, or load another class."
        )


def _finite(tensor: Tensor) -> np.ndarray:
    value = np.asarray(tensor.read(), "float32")
    # A minimum carries NaN and infinity along, without a second array.
    if value.size and not (np.isfinite(value.min()) and np.isfinite(value.max())):
        count = int(value.size - np.isfinite(value).sum())
        raise CheckpointError(
            f"{tensor} holds {count} values that are NaN or infinite, of {value.size}. "
            "The training that wrote it had diverged, or the file is damaged."
        )
    return value


def warn(message: str) -> None:
    """A warning that points at the caller of the package."""
    warnings.warn(message, UserWarning, stacklevel=4)
