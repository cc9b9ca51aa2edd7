"""Which of several texts goes with a text (paper, section 4.4)."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert_impl.data.batches import refuse_tuple
from keras_bert_impl.layers.initialization import dense
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.multiple_choice_preprocessor import (
    BertMultipleChoicePreprocessor,
    pad_choices,
)
from keras_bert_impl.models.reading import encoded_where_read
from keras_bert_impl.models.task import BertTask

# Of a choice that is not there: finite in float16, and so low that its probability is 0.
ABSENT_LOGIT = -3e4


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class FlattenChoices(keras.layers.Layer):
    """Each choice a row of its own: (batch, num_choices, length) to (batch * num_choices, length).

    Call arguments:
        inputs: a dict of such tensors.
    """

    def call(self, inputs):
        return {name: ops.reshape(x, (-1, ops.shape(x)[2])) for name, x in inputs.items()}

    def compute_output_spec(self, inputs):
        return {
            name: keras.KerasTensor((None, x.shape[2]), dtype=x.dtype) for name, x in inputs.items()
        }


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class ChoiceLogits(keras.layers.Layer):
    """The choices' logits side by side, with `ABSENT_LOGIT` where a row has no such choice.

    Call arguments:
        logits: (batch * num_choices, 1).
        padding_mask: (batch, num_choices, length) bool. All false on choices that are absent.

    Returns:
        (batch, num_choices), the dtype of logits.
    """

    def call(self, logits, padding_mask):
        logits = ops.reshape(logits, ops.shape(padding_mask)[:2])
        return ops.where(ops.any(padding_mask, axis=-1), logits, ABSENT_LOGIT)

    def compute_output_spec(self, logits, padding_mask):
        return keras.KerasTensor(padding_mask.shape[:2], dtype=logits.dtype)


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertMultipleChoice(BertTask):
    """A score for each choice: the pooled vector of text and choice, times one vector.

    Softmax is over the choices of a row (paper, section 4.4), which may be any number, and
    another one in each row.

    Args:
        backbone: a `BertBackbone`.
        preprocessor: a `BertMultipleChoicePreprocessor`, or None where ids come prepared.
        dropout: float in [0, 1), default the backbone's. On the pooled vector.

    Inputs: the backbone's, each with an axis of choices: (batch, num_choices, length). A choice
        of nothing but padding is absent.

    Outputs: (batch, num_choices) logits; `ABSENT_LOGIT` for absent choices.

    In `fit` and `evaluate`, y is the number of the right choice, (batch,) int. Choices may be
    nested lists with rows of different lengths; answers are as wide as the longest row. All
    batches of a dataset must have the same number of choices for `predict`, or their answers
    cannot be joined: fill up rows with `""`.

    Example:

    >>> model = BertMultipleChoice(backbone, BertMultipleChoicePreprocessor(tokenizer, 64))
    >>> x = {"text_a": ["some text", "a text"], "choices": [["more", "other", "less"], ["a", "b"]]}
    >>> history = model.fit(x, np.array([2, 0]), verbose=0)
    >>> model.predict(x, verbose=0).shape
    (2, 3)
    """

    backbone_cls = BertBackbone
    preprocessor_cls = BertMultipleChoicePreprocessor
    head_name = "multiple_choice"

    def __init__(self, backbone, preprocessor=None, dropout: float | None = None, **kwargs):
        dropout = backbone.dropout if dropout is None else dropout

        # Layers
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=backbone.dtype_policy, name="output_dropout"
        )
        self.output_dense = dense(backbone, 1, "output_dense")
        self.flatten_choices = FlattenChoices(name="flatten_choices")
        self.choice_logits = ChoiceLogits(dtype=backbone.dtype_policy, name="choice_logits")

        # Functional model
        inputs = {
            name: keras.Input((None, None), dtype=x.dtype, name=name)
            for name, x in backbone.input.items()
        }
        rows = self.flatten_choices(inputs)
        logits = self.logits(backbone(rows), inputs)
        super().__init__(inputs=inputs, outputs=logits, **kwargs)

        # Config
        self.dropout = dropout

    def call(self, inputs, training=None, mask=None, **kwargs):
        rows = self.flatten_choices(inputs)
        encoded, _ = encoded_where_read(self.backbone, rows, ("cls_positions",))
        return self.logits(encoded, inputs)

    def logits(self, encoded, inputs):
        logits = self.output_dense(self.output_dropout(encoded["pooled_output"]))
        return self.choice_logits(logits, inputs["padding_mask"])

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def default_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def fit(self, x=None, *args, **kwargs):
        return super().fit(_rectangular(x), *args, **kwargs)

    def prepared_dataset(self, x, y=None, sample_weight=None, batch_size=None, shuffle=False):
        if not isinstance(x, tf.data.Dataset):
            x = _rectangular(refuse_tuple(x))
            check_choices(x, y)
        return super().prepared_dataset(x, y, sample_weight, batch_size, shuffle)

    def answer(self, logits):
        """Logits to what a served model answers: probabilities, and the best choice's number."""
        logits = ops.cast(logits, "float32")
        return {"probabilities": ops.softmax(logits), "best": ops.argmax(logits, axis=-1)}

    def get_config(self):
        return {**super().get_config(), "dropout": self.dropout}


def check_choices(x, y=None) -> None:
    """Raise a ValueError naming the first row without choices, or whose label is none of them.

    Args:
        x: dict of arrays with `choices`, (rows, num_choices) strings, or `padding_mask`,
            (rows, num_choices, length).
        y: (rows,) int, or None.
    """
    if isinstance(x, dict) and "choices" in x:
        filled = np.vectorize(len, otypes=[bool])(x["choices"])
    elif isinstance(x, dict) and "padding_mask" in x:
        filled = np.asarray(x["padding_mask"]).any(axis=-1)
    else:
        return
    present = np.logical_or.accumulate(filled[:, ::-1], axis=1)[:, ::-1]  # none is after these
    counts = present.sum(axis=1)
    if not counts.all():
        raise ValueError(f"Row {int(np.argmin(counts))} has no choices, but needs at least one.")
    if y is None or len(y) != len(counts):  # unequal numbers of rows are refused where all are seen
        return
    labels = np.asarray(y).reshape(len(counts), -1)
    whole = labels.dtype.kind in "iub" or (
        labels.dtype.kind == "f" and np.array_equal(labels, np.round(labels))
    )
    if labels.shape[1] != 1 or not whole:
        raise ValueError(
            f"Labels are numbers of choices, one a row, but y holds {labels.dtype} of shape "
            f"{np.shape(y)}."
        )
    labels = labels[:, 0]
    wrong = np.flatnonzero((labels < 0) | (labels >= counts))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"The label in row {row} is {labels[row]}, but this row has {counts[row]} choices, so "
            f"that labels are 0..{counts[row] - 1}."
        )


def _rectangular(x):
    """`x` with choices as an array, where it is raw text."""
    if isinstance(x, dict) and "choices" in x:
        return {**x, "choices": pad_choices(x["choices"])}
    return x
