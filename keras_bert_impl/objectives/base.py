"""What an objective is: rows or marks of its own, a head, a loss, metrics and a weight.

An objective is one of two kinds, as in ERNIE 2.0 (Sun et al. 2019), section 4.2:

TextObjective   makes rows of documents and asks for the class of each row
TokenObjective  asks something of single tokens, in rows that any objective makes

`objectives_dataset` joins the examples of several, `BertPretrainer` their heads and losses.
"""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert_impl.layers.initialization import dense
from keras_bert_impl.training.losses import WeightedMeanLoss


class Lines(NamedTuple):
    """Texts and their pieces, as token objectives see them when they mark pieces."""

    texts: tf.Tensor  # (lines,) strings, as they came
    plain: tf.Tensor  # (lines,) strings, without the marks of units
    pieces: tf.RaggedTensor  # (documents, sentences, pieces), or (lines, pieces) of no document
    tokenizer: Any
    sequence_length: int


class Objective:
    """What a model is trained for.

    Args:
        weight: float. Of its loss in the sum of losses. Default 1.

    Raises:
        ValueError: for a weight that is not above 0.
    """

    name: str  # subclasses: of the model's output and of the labels
    uses_pooler = True  # subclasses: does the head read the pooler's vector?
    reads_mask_positions = False  # subclasses: is mask_positions an input of the head?
    # Subclasses: does `logits` read sequence_output elsewhere than at mask_positions? Where no
    # objective does, it holds no more than the vectors that are read.
    reads_all_tokens = True

    def __init__(self, weight: float = 1.0):
        if not weight > 0:
            raise ValueError(f"weight={weight} must be above 0.")
        self.weight = weight

    def head(self, backbone) -> keras.layers.Layer:
        """A new layer for a backbone, named after the objective."""
        raise NotImplementedError

    def logits(self, head, encoded, inputs):
        """The head's logits of a backbone's outputs and the model's inputs, dicts by name."""
        raise NotImplementedError

    def loss(self) -> keras.losses.Loss:
        """A mean over targets by weight: 0 for a batch without rows of this objective."""
        return WeightedMeanLoss()

    def metrics(self) -> list:
        """Weighted metrics."""
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, fit for JSON."""
        return {"weight": self.weight}

    @classmethod
    def from_config(cls, config: dict[str, Any]):
        """An objective from what `get_config` returned."""
        return cls(**config)


class TextObjective(Objective):
    """Asks for the class of a row, by a dense layer on the pooler's vector."""

    num_classes: int
    reads_all_tokens = False
    # Subclasses: a dataset of documents to make rows of instead of those it is trained with.
    documents: tf.data.Dataset | None = None

    def rows(self, texts, to_pieces, *, max_tokens, short_sequence_probability, seed):
        """The rows of a window of documents.

        Args:
            texts: ragged (documents, sentences) strings.
            to_pieces: function of such a tensor to ragged (documents, sentences, pieces), or of
                (lines,) strings to ragged (lines, pieces).
            max_tokens: function of the number of texts in a row, 1 or 2, to the most pieces of
                them together.
            short_sequence_probability: as in `pairs_from_documents`.
            seed: (2,) int64. The rows are a function of it and the texts.

        Returns:
            first: ragged (rows, pieces).
            second: the same, or None where a row is one text.
            label: (rows,) int32, below `num_classes`.
        """
        raise NotImplementedError

    def head(self, backbone):
        return class_layer(backbone, self.num_classes, self.name)

    def logits(self, head, encoded, inputs):
        return head(encoded["pooled_output"])  # (batch, classes)


class TokenObjective(Objective):
    """Asks something of single tokens, by a dense layer on each; of two classes by default.

    Marks are what is known of a piece before rows are made: they travel with it
    (`data/marked_pieces.py`).
    """

    num_classes = 2
    uses_pooler = False

    def plain(self, texts):
        """(lines,) strings without what only this objective reads in them."""
        return texts

    def num_bits(self, sequence_length: int) -> int:
        """How many bits a mark has; 0 for none."""
        return 0

    def marks(self, lines: Lines):
        """(pieces,) int32: the marks of `lines.pieces.flat_values`, below 2 ** num_bits."""
        raise NotImplementedError

    def targets(self, rows, marks, *, tokenizer, seed):
        """What is asked of packed rows.

        Args:
            rows: dict of token_ids, segment_ids, padding_mask, as `pack` gives.
            marks: (batch, length) int32; 0 on special tokens and padding.
            tokenizer: a `BertTokenizer`.
            seed: pair of ints, (seed, step).

        Returns:
            inputs: dict of what the model's inputs get instead, or besides.
            labels: int32, (batch, length), or (batch, slots) for a head that chooses positions.
            weights: float32 of the same shape.
        """
        raise NotImplementedError

    def head(self, backbone):
        return class_layer(backbone, self.num_classes, self.name)

    def logits(self, head, encoded, inputs):
        return head(encoded["sequence_output"])  # (batch, length, classes)


def class_layer(backbone, num_classes: int, name: str) -> keras.layers.Layer:
    """A dense layer to the logits of an objective's classes, in the backbone's precision."""
    return dense(backbone, num_classes, f"{name}_head")


def is_text(token_ids, padding_mask, tokenizer):
    """(batch, length) bool: true on pieces of texts, not on `[CLS]`, `[SEP]` and padding."""
    is_special = (token_ids == tokenizer.cls_token_id) | (token_ids == tokenizer.sep_token_id)
    return padding_mask & ~is_special


def check_objectives(objectives) -> tuple[Objective, ...]:
    """The objectives, if they can be trained together.

    Raises:
        ValueError: if there is none, for two of one name, or for what is no objective.
    """
    objectives = tuple(objectives)
    if not objectives:
        raise ValueError("There are no objectives.")
    for objective in objectives:
        if not isinstance(objective, Objective):
            raise ValueError(
                f"{objective!r} is no objective. Pass instances, such as SentenceOrder()."
            )
    names = [objective.name for objective in objectives]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"There are two objectives {name!r}. Leave one out.")
    return objectives
