"""The parts of a BERT, by one name each: what all checkpoint formats are translated to and from.

A part is a tensor as the paper's formulas have it: a dense layer's `kernel` is (in, out), query,
key and value are apart, and no head dimension is split off. A name reads `encoder/3/output/bias`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import keras
import numpy as np

SEGMENTS = "embeddings/segment"
# Of models with task embeddings; no other package's format has a place for it.
TASKS = "embeddings/task"
POOLER = "pooler"
MASKED_LM = "masked_lm"
NEXT_SENTENCE = "next_sentence"
CLASSIFIER = "classifier"
# Heads that other packages' checkpoints bring. They are told apart by name, so that a
# token classifier's weights never land in a text classifier of the same shape.
TOKEN_CLASSIFIER = "token_classifier"
QUESTION_ANSWERING = "question_answering"
MULTIPLE_CHOICE = "multiple_choice"
# Whose number of outputs is the user's choice.
SIZED_HEADS = (CLASSIFIER, TOKEN_CLASSIFIER)
# What may be started anew where a checkpoint lacks it; the encoder may not.
HEADS = (
    POOLER,
    MASKED_LM,
    NEXT_SENTENCE,
    CLASSIFIER,
    TOKEN_CLASSIFIER,
    QUESTION_ANSWERING,
    MULTIPLE_CHOICE,
)


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: the message names the file, the tensor and what to do."""


class Tensor(NamedTuple):
    """A part as it lies in a checkpoint, read when asked for.

    Attributes:
        file: str. Where it lies, for messages.
        name: str. Its name there.
        shape: tuple of int, in the part's own layout.
        read: gives the array.
    """

    file: str
    name: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]

    def relaid(self, shape: tuple[int, ...], relay: Callable[[np.ndarray], np.ndarray]) -> "Tensor":
        """The same numbers in another layout."""
        return self._replace(shape=shape, read=lambda: relay(self.read()))

    def __str__(self) -> str:
        return f"{self.file}: tensor {self.name!r}"


def encoder_shapes(config: Mapping) -> dict[str, tuple[int, ...]]:
    """The parts of an encoder without its pooler, with their shapes; not `TASKS`.

    Args:
        config: the arguments of `BertBackbone`.
    """
    hidden, wide = config["hidden_dim"], config["intermediate_dim"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings/token": (config["vocabulary_size"], hidden),
        "embeddings/position": (config["max_sequence_length"], hidden),
        SEGMENTS: (config["num_segments"], hidden),
        **_norm("embeddings/layer_norm", hidden),
    }
    for i in range(config["num_layers"]):
        for name in ("query", "key", "value", "output"):
            shapes |= _dense(f"encoder/{i}/attention/{name}", hidden, hidden)
        shapes |= _norm(f"encoder/{i}/attention_layer_norm", hidden)
        shapes |= _dense(f"encoder/{i}/intermediate", hidden, wide)
        shapes |= _dense(f"encoder/{i}/output", wide, hidden)
        shapes |= _norm(f"encoder/{i}/output_layer_norm", hidden)
    return shapes


def head_shapes(head: str, config: Mapping, num_classes: int = 2) -> dict[str, tuple[int, ...]]:
    """The parts of one head, or of the pooler, with their shapes.

    Args:
        head: str. One of `HEADS`.
        config: the arguments of `BertBackbone`.
        num_classes: int. Outputs of a classifier.
    """
    hidden = config["hidden_dim"]
    if head == MASKED_LM:
        return {
            **_dense(f"{head}/transform", hidden, hidden),
            **_norm(f"{head}/layer_norm", hidden),
            f"{head}/bias": (config["vocabulary_size"],),
        }
    outputs = {POOLER: hidden, NEXT_SENTENCE: 2, QUESTION_ANSWERING: 2, MULTIPLE_CHOICE: 1}
    return _dense(head, hidden, outputs.get(head, num_classes))


def all_shapes(config: Mapping, num_classes: int = 2) -> dict[str, tuple[int, ...]]:
    """Encoder, pooler and every head."""
    shapes = encoder_shapes(config)
    for head in HEADS:
        shapes |= head_shapes(head, config, num_classes)
    return shapes


def head_of(part: str) -> str | None:
    """The head that a part belongs to, or None for the encoder's."""
    head = part.split("/")[0]
    return head if head in HEADS else None


def _dense(name, inputs, outputs):
    return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def _norm(name, size):
    return {f"{name}/scale": (size,), f"{name}/shift": (size,)}


class Slot(NamedTuple):
    """Where a part stands in a Keras model: a variable, or some columns of one."""

    variable: keras.Variable
    columns: slice | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        shape = tuple(self.variable.shape)
        if self.columns is None:
            return shape
        return (*shape[:-1], self.columns.stop - self.columns.start)

    def read(self) -> np.ndarray:
        """The part, a float32 array."""
        value = keras.ops.convert_to_numpy(self.variable)
        if self.columns is not None:
            value = value[..., self.columns]
        return np.ascontiguousarray(value, "float32")

    def assign(self, value: np.ndarray) -> None:
        """Replace the part; other columns of the variable stay."""
        if self.columns is not None:
            whole = np.array(keras.ops.convert_to_numpy(self.variable))
            whole[..., self.columns] = value
            value = whole
        self.variable.assign(value)


def slots(model) -> dict[str, Slot]:
    """The parts of a `BertBackbone` or of a task on one, with the place of each.

    Args:
        model: a `BertBackbone` or a task on one.
    """
    backbone = getattr(model, "backbone", model)
    places = dict(_encoder_slots(backbone))
    places.update(_dense_slots(POOLER, backbone.pooler.dense))
    if hasattr(model, "masked_lm_head"):
        head = model.masked_lm_head
        places.update(_dense_slots(f"{MASKED_LM}/transform", head.transform_dense))
        places.update(_norm_slots(f"{MASKED_LM}/layer_norm", head.transform_layer_norm))
        places[f"{MASKED_LM}/bias"] = Slot(head.output_bias)
    if hasattr(model, "next_sentence_head"):
        places.update(_dense_slots(NEXT_SENTENCE, model.next_sentence_head.dense))
    head_name = getattr(model, "head_name", None)
    if head_name is not None:
        places.update(_dense_slots(head_name, model.output_dense))
    return places


def uses_pooler(model) -> bool:
    """Whether a model's outputs depend on the pooler. A masked LM's do not."""
    return getattr(model, "uses_pooler", True)


def _encoder_slots(backbone) -> Iterator[tuple[str, Slot]]:
    tables = backbone.embeddings
    for name in ("token", "position", "segment"):
        yield f"embeddings/{name}", Slot(getattr(tables, f"{name}_embedding").embeddings)
    if tables.task_embedding is not None:
        yield TASKS, Slot(tables.task_embedding.embeddings)
    yield from _norm_slots("embeddings/layer_norm", tables.layer_norm)
    hidden = backbone.hidden_dim
    for i, layer in enumerate(backbone.encoder_layers):
        fused = layer.attention.query_key_value
        for place, name in enumerate(("query", "key", "value")):
            columns = slice(place * hidden, (place + 1) * hidden)
            yield from _dense_slots(f"encoder/{i}/attention/{name}", fused, columns)
        yield from _dense_slots(f"encoder/{i}/attention/output", layer.attention.output_dense)
        yield from _norm_slots(f"encoder/{i}/attention_layer_norm", layer.attention_layer_norm)
        yield from _dense_slots(f"encoder/{i}/intermediate", layer.intermediate_dense)
        yield from _dense_slots(f"encoder/{i}/output", layer.output_dense)
        yield from _norm_slots(f"encoder/{i}/output_layer_norm", layer.output_layer_norm)


def _dense_slots(name, layer, columns=None):
    # With LoRA `kernel` is the sum of the layer's own and what was learned on top.
    yield f"{name}/kernel", Slot(layer.kernel, columns)
    yield f"{name}/bias", Slot(layer.bias, columns)


def _norm_slots(name, layer):
    yield f"{name}/scale", Slot(layer.gamma)
    yield f"{name}/shift", Slot(layer.beta)
