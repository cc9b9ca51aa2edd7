"""One vector a text, for search, clustering and as features of other models."""

import keras
from keras import ops

from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.features import token_features
from keras_bert_impl.models.preprocessor import BertPreprocessor
from keras_bert_impl.models.task import BertTask

POOLINGS = ("cls", "mean", "max", "pooler")


def pool_tokens(x, padding_mask, pooling: str):
    """The vectors of a row's tokens to one.

    Args:
        x: (batch, length, dim); `[CLS]` stands first.
        padding_mask: (batch, length) bool, true on real tokens.
        pooling: str. `"cls"`: the first token's. `"mean"`, `"max"`: over the real tokens, each
            component by itself; a row without any gives zeros.

    Returns:
        (batch, dim), float32 at least.
    """
    x = _float32_at_least(x)  # the sum of 512 tokens has more digits than half precision
    if pooling == "cls":
        return x[:, 0]
    real = ops.cast(padding_mask, "bool")[:, :, None]  # (batch, length, 1)
    if pooling == "mean":
        total = ops.sum(ops.where(real, x, 0), axis=1)
        count = ops.sum(ops.cast(real, x.dtype), axis=1)  # (batch, 1)
        return total / ops.maximum(count, 1)
    largest = ops.max(ops.where(real, x, -1e30), axis=1)
    return ops.where(ops.any(real, axis=1), largest, 0)


def l2_normalize(x):
    """Each vector of (..., dim) divided by its length; zeros stay zeros, as does their gradient."""
    return x * ops.rsqrt(ops.maximum(ops.sum(ops.square(x), axis=-1, keepdims=True), 1e-24))


def _float32_at_least(x):
    return ops.cast(x, keras.backend.result_type(x.dtype, "float32"))


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertTextEmbedder(BertTask):
    """Texts to vectors: the encoder's token vectors, pooled (Reimers and Gurevych 2019, section 3).

    `predict(texts)` gives the vectors. With `normalize=True` the dot product of two is the cosine
    of their angle. A BERT that was never trained for it gives vectors that compare poorly; take
    the weights of a sentence encoder, or fine-tune.

    `fit(texts, vectors)` teaches it to give vectors that you have, such as another encoder's: the
    default loss is `keras.losses.CosineSimilarity`. Any other loss on (batch, dim) may be passed
    to `compile`; for regression or classification on top, use `BertTextClassifier`.

    Args:
        backbone: a `BertBackbone`.
        preprocessor: a `BertPreprocessor`, or None where ids come prepared.
        pooling: str. `"mean"` over the real tokens, the default, `"max"` over them, `"cls"` the
            vector at `[CLS]`, or `"pooler"`: that through the pooler's dense layer and tanh, as
            trained by next-sentence prediction.
        features: str. Which layers the token vectors are made of, by name as in `BertFeatures`.
        normalize: bool. Divide each vector by its length.

    Inputs: the backbone's.

    Outputs: (batch, dim), float32 at least. A row that is all padding gives a finite vector.

    Raises:
        ValueError: for an unknown pooling or features, for `"pooler"` on other features than the
            last layer, which it was trained on, or a backbone with too few layers.

    Example:

    >>> backbone = BertBackbone.from_size("tiny", vocabulary_size=tokenizer.vocabulary_size())
    >>> embedder = BertTextEmbedder(backbone, BertPreprocessor(tokenizer, 64), normalize=True)
    >>> vectors = embedder.predict(["some text", "more text"], verbose=0)
    >>> vectors.shape
    (2, 128)
    >>> similarity = vectors @ vectors.T
    """

    backbone_cls = BertBackbone
    preprocessor_cls = BertPreprocessor

    def __init__(
        self,
        backbone,
        preprocessor=None,
        pooling: str = "mean",
        features: str = "last",
        normalize: bool = False,
        **kwargs,
    ):
        if pooling not in POOLINGS:
            raise ValueError(f"Unknown pooling {pooling!r}. Choose one of {', '.join(POOLINGS)}.")
        if pooling == "pooler" and features != "last":
            raise ValueError(
                f"pooling='pooler' stands on the last layer, but features={features!r}. Pass "
                "features='last', or another pooling."
            )
        self.backbone = backbone
        self.preprocessor = preprocessor

        self.pooling = pooling
        self.normalize = normalize
        if features == "last" and pooling in ("cls", "pooler"):
            self.reads = ("cls_positions",)

        # Functional model
        encoded = backbone.output
        if features != "last":
            encoded = {"sequence_output": token_features(backbone, features)}
        vectors = self.logits(encoded, backbone.input)  # (batch, dim)
        super().__init__(inputs=backbone.input, outputs=vectors, **kwargs)

        # Config
        self.features = features
        # What checkpoints may lack: a pooler that no output depends on.
        self.uses_pooler = pooling == "pooler"

    def logits(self, encoded, inputs):
        if self.pooling == "pooler":
            pooled = _float32_at_least(encoded["pooled_output"])
        else:
            tokens = encoded["sequence_output"]  # (batch, length, dim)
            pooled = pool_tokens(tokens, inputs["padding_mask"], self.pooling)
        return l2_normalize(pooled) if self.normalize else pooled

    def default_loss(self):
        return keras.losses.CosineSimilarity(axis=-1)

    def default_metrics(self):
        return None

    def check_labels(self, y):
        if isinstance(self.loss, keras.losses.CosineSimilarity) and y.shape[1:] != (
            self.output_shape[-1],
        ):
            raise ValueError(
                f"y has the shape {y.shape}, but the loss compares with vectors of "
                f"{self.output_shape[-1]} numbers, one a text. Pass such vectors, or compile() "
                "with the loss for your labels."
            )

    def answer(self, vectors):
        """What a served model answers: `embedding`, (batch, dim) float32."""
        return {"embedding": ops.cast(vectors, "float32")}

    def get_config(self):
        return {
            **super().get_config(),
            "pooling": self.pooling,
            "features": self.features,
            "normalize": self.normalize,
        }
