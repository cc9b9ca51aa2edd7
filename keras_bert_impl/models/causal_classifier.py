"""Classification of texts and pairs by a causal model: GPT's way of fine-tuning."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_bert_impl.layers.auxiliary_loss import AuxiliaryNextTokenLoss
from keras_bert_impl.layers.initialization import dense
from keras_bert_impl.layers.positions import gather_positions
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.causal_lm import check_causal
from keras_bert_impl.models.preprocessor import BertPreprocessor
from keras_bert_impl.models.task import BertTask
from keras_bert_impl.models.text_classifier import check_class_labels
from keras_bert_impl.models.text_embedder import pool_tokens

# How the vectors of a row's tokens become one.
CAUSAL_POOLINGS = ("last", "concat", "bilstm")


def last_token(x, padding_mask):
    """The vector of each row's last real token.

    Args:
        x: (batch, length, hidden_dim).
        padding_mask: (batch, length) bool.

    Returns:
        (batch, hidden_dim). Of a row of padding alone, the first vector.
    """
    real = ops.cast(padding_mask, "int32")
    places = real * (ops.cumsum(ops.ones_like(real), axis=1) - 1)  # (batch, length)
    last = ops.max(places, axis=1, keepdims=True)  # (batch, 1)
    return gather_positions(x, last)[:, 0]


def concat_pool(x, padding_mask):
    """The last real token's vector, their maximum and their mean, side by side.

    Howard and Ruder 2018 (ULMFiT), section 3.3, equation 4: what decides the class may stand
    anywhere in a long text.

    Args:
        x: (batch, length, hidden_dim).
        padding_mask: (batch, length) bool.

    Returns:
        (batch, 3 * hidden_dim), float32 at least. Of a row of padding alone, the first vector and
        zeros.
    """
    pooled = [pool_tokens(x, padding_mask, pooling) for pooling in ("max", "mean")]
    last = ops.cast(last_token(x, padding_mask), pooled[0].dtype)
    return ops.concatenate([last, *pooled], axis=-1)


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertCausalClassifier(BertTask):
    """A dense layer on a row's vector, its last token's (Radford et al. 2018, 3.2 and 3.3).

    The paper's input form, with this package's tokens: start, text, delimiter, text, extract are
    `[CLS] text_a [SEP] text_b [SEP]`, or `[CLS] text [SEP]` for single texts. The last `[SEP]` is
    the token whose vector is read: it alone has seen the whole row. While training, the loss of
    the next tokens is added `lm_weight` times, which the paper found to help generalization.

    Args:
        backbone: a `BertBackbone` with `causal=True`.
        num_classes: int, at least 2.
        preprocessor: a `BertPreprocessor` (`pair=True` for pairs), or None where ids come
            prepared.
        class_names: sequence of str, optional. Names of the classes, in order; a served model
            answers with them.
        lm_weight: float, default 0.5 as the paper. 0 leaves the language model's loss out.
        dropout: float in [0, 1), default the backbone's. On the vector that is read.
        pooling: str. Which vector that is. `"last"`: the last real token's, as GPT. `"concat"`:
            it, the largest value and the mean of each component over the real tokens, side by
            side, as ULMFiT (Howard and Ruder 2018, section 3.3). `"bilstm"`: the two last states
            of a bidirectional LSTM over the tokens, `hidden_dim` wide each way and fresh, as in
            BERT's paper, section 5.1, "LTR & No NSP + BiLSTM".

    Outputs: (batch, num_classes) logits. `fit` and `evaluate` report a loss that includes the
    language model's; `answer`, and so a served model, gives probabilities.

    Raises:
        ValueError: for a backbone with `causal=False`, fewer than 2 classes, names that do not
            fit their number, a negative weight, or an unknown pooling.

    Example:

    >>> classifier = BertCausalClassifier(
    ...     backbone, num_classes=2, preprocessor=BertPreprocessor(tokenizer, 64),
    ...     class_names=["bad", "good"])
    >>> history = classifier.fit(["good text", "bad text"], np.array([1, 0]), verbose=0)
    >>> logits = classifier.predict(["some text"], verbose=0)
    >>> tuple(classifier.answer(logits)["probabilities"].shape)
    (1, 2)
    """

    backbone_cls = BertBackbone
    preprocessor_cls = BertPreprocessor
    uses_pooler = False

    def __init__(
        self,
        backbone,
        num_classes: int,
        preprocessor=None,
        class_names: Sequence[str] | None = None,
        lm_weight: float = 0.5,
        dropout: float | None = None,
        pooling: str = "last",
        **kwargs,
    ):
        check_causal(backbone, type(self).__name__)
        if num_classes < 2:
            raise ValueError(f"num_classes={num_classes}: a classifier needs at least 2.")
        if class_names is not None and len(class_names) != num_classes:
            raise ValueError(f"{len(class_names)} class_names for num_classes={num_classes}.")
        if lm_weight < 0:
            raise ValueError(f"lm_weight={lm_weight} must not be negative.")
        if pooling not in CAUSAL_POOLINGS:
            raise ValueError(
                f"Unknown pooling {pooling!r}. Choose one of {', '.join(CAUSAL_POOLINGS)}."
            )
        dropout = backbone.dropout if dropout is None else dropout

        # Layers
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=backbone.dtype_policy, name="output_dropout"
        )
        self.output_dense = dense(backbone, num_classes, "output_dense")
        if pooling == "bilstm":
            lstm = keras.layers.LSTM(backbone.hidden_dim, dtype=backbone.dtype_policy)
            self.bilstm = keras.layers.Bidirectional(
                lstm, dtype=backbone.dtype_policy, name="bilstm"
            )

        # Functional model
        inputs = backbone.input
        x = backbone(inputs)["sequence_output"]  # (batch, length, hidden_dim)
        if lm_weight > 0:
            add_loss = AuxiliaryNextTokenLoss(
                backbone.token_embedding,
                weight=lm_weight,
                dtype=backbone.dtype_policy,
                name="auxiliary_loss",
            )
            x = add_loss(x, inputs["token_ids"], inputs["padding_mask"])
        if pooling == "bilstm":
            pooled = self.bilstm(x, mask=inputs["padding_mask"])  # (batch, 2 * hidden_dim)
        elif pooling == "concat":
            pooled = concat_pool(x, inputs["padding_mask"])  # (batch, 3 * hidden_dim)
        else:
            pooled = last_token(x, inputs["padding_mask"])  # (batch, hidden_dim)
        logits = self.output_dense(self.output_dropout(pooled))
        super().__init__(inputs=inputs, outputs=logits, **kwargs)

        # Config
        self.num_classes = num_classes
        self.class_names = None if class_names is None else tuple(class_names)
        self.lm_weight = lm_weight
        self.dropout = dropout
        self.pooling = pooling

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def default_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def check_labels(self, y):
        check_class_labels(y, self.num_classes)

    def answer(self, logits):
        """Logits to what a served model answers: (batch, num_classes) probabilities."""
        return {"probabilities": ops.softmax(ops.cast(logits, "float32"))}

    def get_config(self):
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "class_names": self.class_names,
            "lm_weight": self.lm_weight,
            "dropout": self.dropout,
            "pooling": self.pooling,
        }
