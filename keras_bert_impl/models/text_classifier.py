"""Classification and regression of single texts and of pairs (paper, section 4.1)."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_bert_impl.layers.initialization import dense
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.preprocessor import BertPreprocessor
from keras_bert_impl.models.task import BertTask


def check_class_labels(y, num_classes: int) -> None:
    """Raise a ValueError naming the first row of `y` outside 0..num_classes - 1."""
    y = np.asarray(y)
    if y.dtype.kind not in "iub":
        whole = y.dtype.kind == "f" and np.array_equal(y, np.round(y))
        if not whole:
            raise ValueError(
                f"Labels are class numbers 0..{num_classes - 1}, but y holds {y.dtype} values such "
                f"as {y.flat[0].item()!r}. Map names to numbers first."
            )
    wrong = np.argwhere((y < 0) | (y >= num_classes))
    if len(wrong):
        row = int(wrong[0][0])
        raise ValueError(
            f"The label in row {row} is {y[tuple(wrong[0])]}, but with num_classes={num_classes} "
            f"labels are 0..{num_classes - 1}."
        )


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertTextClassifier(BertTask):
    """A dense layer on the pooled vector (paper, section 4.1 and figure 4, a and b).

    Args:
        backbone: a `BertBackbone`.
        num_classes: int. At least 2, or 1 with `regression=True`.
        preprocessor: a `BertPreprocessor` (`pair=True` for sentence pairs), or None where ids
            come prepared.
        class_names: sequence of str, optional. Names of the classes, in order; a served model
            answers with them.
        regression: bool. One real number a row, trained with the squared error (STS-B).
        dropout: float in [0, 1), default the backbone's. On the pooled vector.

    Outputs: (batch, num_classes) logits; (batch, 1) values under regression.

    Raises:
        ValueError: if `num_classes` does not fit `regression` or `class_names`.

    Example:

    >>> classifier = BertTextClassifier(
    ...     backbone, num_classes=2, preprocessor=BertPreprocessor(tokenizer, 64),
    ...     class_names=["bad", "good"])
    >>> history = classifier.fit(["good text", "bad text"], np.array([1, 0]), verbose=0)
    >>> classifier.predict(["some text"], verbose=0).shape
    (1, 2)
    """

    backbone_cls = BertBackbone
    preprocessor_cls = BertPreprocessor
    head_name = "classifier"
    packs_rows = True
    reads = ("cls_positions",)

    def __init__(
        self,
        backbone,
        num_classes: int,
        preprocessor=None,
        class_names: Sequence[str] | None = None,
        regression: bool = False,
        dropout: float | None = None,
        **kwargs,
    ):
        if regression and num_classes != 1:
            raise ValueError(f"Regression has num_classes=1, but num_classes={num_classes}.")
        if not regression and num_classes < 2:
            raise ValueError(
                f"num_classes={num_classes}: a classifier needs at least 2. For one real number a "
                "row pass num_classes=1 with regression=True."
            )
        if class_names is not None and len(class_names) != num_classes:
            raise ValueError(f"{len(class_names)} class_names for num_classes={num_classes}.")
        dropout = backbone.dropout if dropout is None else dropout

        # Layers
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=backbone.dtype_policy, name="output_dropout"
        )
        self.output_dense = dense(backbone, num_classes, "output_dense")

        # Functional model
        logits = self.logits(backbone(backbone.input), backbone.input)
        # Before super().__init__, which compiles by the task's own loss.
        self.num_classes = num_classes
        self.regression = regression
        super().__init__(inputs=backbone.input, outputs=logits, **kwargs)

        # Config
        self.class_names = None if class_names is None else tuple(class_names)
        self.dropout = dropout

    def logits(self, encoded, inputs):
        return self.output_dense(self.output_dropout(encoded["pooled_output"]))

    def default_loss(self):
        if self.regression:
            return keras.losses.MeanSquaredError()
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def default_metrics(self):
        if self.regression:
            return [keras.metrics.MeanSquaredError(name="mean_squared_error")]
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def check_labels(self, y):
        if not self.regression:
            check_class_labels(y, self.num_classes)

    def answer(self, logits):
        """Logits to what a served model answers: probabilities, or values under regression."""
        logits = ops.cast(logits, "float32")
        if self.regression:
            return {"values": logits[:, 0]}
        return {"probabilities": ops.softmax(logits)}

    def get_config(self):
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "class_names": self.class_names,
            "regression": self.regression,
            "dropout": self.dropout,
        }
