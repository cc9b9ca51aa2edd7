"""Raw text to a model's inputs: tokenize, pack, and for pretraining mask. A TensorFlow graph."""

import inspect

import keras
import keras_hub
import tensorflow as tf

from keras_bert_impl.data.batches import refuse_tuple
from keras_bert_impl.data.masking import DynamicMasker
from keras_bert_impl.data.packing import PADDINGS, check_truncation, pack, room_for_text
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.text.tokenizer import BertTokenizer

# KerasHub's `from_preset` of a tokenizer asks whose it is; text/ knows no model.
BertTokenizer.backbone_cls = BertBackbone


class TextPreprocessor(keras_hub.models.Preprocessor):
    """What all preprocessors share: strings to `token_ids`, `segment_ids` and `padding_mask`.

    The same TensorFlow graph runs eagerly, inside `tf.data` and inside a SavedModel. Those of
    the tasks are siblings, not each other's subclasses: a preset of one task would otherwise hand
    its preprocessor to another.

    Args:
        tokenizer: a `BertTokenizer`.
        sequence_length: int. Longest row in tokens, `[CLS]` and `[SEP]` included.
        pair: bool. False packs `[CLS] text [SEP]`, true `[CLS] a [SEP] b [SEP]`.
        truncation: str. Which text gives way when both do not fit: `"longest_first"`
            (the reference's rule), `"round_robin"`, `"only_first"` or `"only_second"`.
        padding: str. `"longest"` pads to the longest row of the batch, so that nothing is
            computed on needless padding; `"max_length"` always to `sequence_length`, for
            devices that compile once per shape.

    Raises:
        ValueError: for an unknown truncation or padding, a row too short for the special
            tokens, or inputs that do not fit `pair`.
    """

    backbone_cls = BertBackbone
    tokenizer_cls = BertTokenizer

    def __init__(
        self,
        tokenizer,
        sequence_length: int = 512,
        pair: bool = False,
        truncation: str = "longest_first",
        padding: str = "longest",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_truncation(truncation)
        if padding not in PADDINGS:
            raise ValueError(f"Unknown padding {padding!r}. Choose one of {', '.join(PADDINGS)}.")
        room_for_text(sequence_length, num_texts=2 if pair else 1)
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.pair = pair
        self.truncation = truncation
        self.padding = padding
        self.built = True  # no weights; Keras warns of layers with parts that do not say so

    def __call__(self, *args, **kwargs):
        refuse_tuple(args[0] if args else kwargs.get("x"))
        return super().__call__(*args, **kwargs)

    @property
    def text_names(self) -> tuple[str, ...]:
        """The names of the texts that make one row."""
        return ("text_a", "text_b") if self.pair else ("text",)

    @property
    def text_specs(self) -> dict[str, tf.TensorSpec]:
        """Name, shape and dtype of the raw texts that a served model takes."""
        return {name: tf.TensorSpec([None], tf.string) for name in self.text_names}

    def texts(self, x) -> tuple[tf.Tensor, ...]:
        """The string tensors in `x`, one or two, checked against `pair`."""
        if self.pair:
            if not isinstance(x, dict) or set(x) != {"text_a", "text_b"}:
                got = f"a dict with keys {sorted(x)}" if isinstance(x, dict) else type(x).__name__
                raise ValueError(
                    'This preprocessor packs pairs: pass {"text_a": strings, "text_b": strings}. '
                    f"Received {got}."
                )
            return as_strings(x["text_a"]), as_strings(x["text_b"])
        if isinstance(x, dict):
            if set(x) != {"text"}:
                raise ValueError(
                    f"This preprocessor packs single texts, but received a dict with keys "
                    f"{sorted(x)}. Pass strings, or build it with pair=True for text_a and text_b."
                )
            x = x["text"]
        return (as_strings(x),)

    def texts_to_inputs(self, texts: tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        """String tensors of one shape, () or (batch,), to the model's inputs."""
        scalar = texts[0].shape.rank == 0
        if scalar:
            texts = tuple(text[tf.newaxis] for text in texts)
        inputs = pack(
            *(self.tokenizer.tokenize(text) for text in texts),
            sequence_length=self.sequence_length,
            tokenizer=self.tokenizer,
            truncation=self.truncation,
            pad_to=self.padding,
        )
        return {name: row[0] for name, row in inputs.items()} if scalar else inputs

    def get_config(self):
        return {
            **super().get_config(),
            "tokenizer": keras.layers.serialize(self.tokenizer),
            "sequence_length": self.sequence_length,
            "pair": self.pair,
            "truncation": self.truncation,
            "padding": self.padding,
        }


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertPreprocessor(TextPreprocessor):
    """Strings to the inputs of a classifier or of next-sentence prediction.

    Args:
        tokenizer, sequence_length, pair, truncation, padding: as in `TextPreprocessor`.

    Call arguments:
        x: strings (a string, a list, an array or tensor); with `pair=True` a dict
            `{"text_a": strings, "text_b": strings}`. A tuple is refused: whether it means a
            pair or `(x, y)` cannot be told.
        y, sample_weight: passed through.

    Returns:
        The dict of (batch, length) tensors, or a tuple of it with `y` and `sample_weight`
        where these are given.

    Example:

    >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"])
    >>> BertPreprocessor(tokenizer, pair=True)({"text_a": ["a"], "text_b": ["b b"]})["token_ids"]
    <tf.Tensor: shape=(1, 6), dtype=int32, numpy=array([[2, 5, 3, 6, 6, 3]], dtype=int32)>
    """

    def call(self, x, y=None, sample_weight=None):
        x = self.texts_to_inputs(self.texts(x))
        return as_backend_tensors(keras.utils.pack_x_y_sample_weight(x, y, sample_weight))


class MaskingPreprocessor(TextPreprocessor):
    """What both preprocessors with masked-LM targets share: tokenize, pack, mask.

    Args:
        tokenizer, sequence_length, pair, truncation, padding: as in `TextPreprocessor`.
        mask_rate, max_predictions, whole_word: as in `DynamicMasker`.
        seed: int. Masks are a function of this and of `step` alone.
    """

    def __init__(
        self,
        tokenizer,
        sequence_length: int = 512,
        pair: bool = False,
        mask_rate: float = 0.15,
        max_predictions: int = 20,
        whole_word: bool = False,
        seed: int = 0,
        **kwargs,
    ):
        super().__init__(tokenizer, sequence_length=sequence_length, pair=pair, **kwargs)
        self.mask_rate = mask_rate
        self.max_predictions = max_predictions
        self.whole_word = whole_word
        self.seed = seed
        self._masker: DynamicMasker | None = None

    @property
    def masker(self) -> DynamicMasker:
        """The masker for the tokenizer's vocabulary, which may be loaded after construction."""
        if self._masker is None:
            self._masker = DynamicMasker.for_tokenizer(
                self.tokenizer,
                mask_rate=self.mask_rate,
                max_predictions=self.max_predictions,
                whole_word=self.whole_word,
            )
        return self._masker

    def mask(self, inputs, step):
        """Packed rows to (masked inputs, original ids, weights)."""
        scalar = inputs["token_ids"].shape.rank == 1
        if scalar:
            inputs = {name: row[tf.newaxis] for name, row in inputs.items()}
        masked = self.masker(inputs["token_ids"], inputs["padding_mask"], seed=(self.seed, step))
        x = {
            **inputs,
            "token_ids": masked["token_ids"],
            "mask_positions": masked["mask_positions"],
        }
        outputs = (x, masked["mask_ids"], masked["mask_weights"])
        return tf.nest.map_structure(lambda t: t[0], outputs) if scalar else outputs

    def without_targets(self, x, *labels):
        """The inputs of raw x, unmasked, and the labels that came with it."""
        inputs = self.texts_to_inputs(self.texts(refuse_tuple(x)))
        return (inputs, *labels) if labels else inputs

    def with_targets(self, inputs, y=None, sample_weight=None, step=0):
        """Unmasked inputs to what `call` returns; arguments as there."""
        raise NotImplementedError

    def get_config(self):
        return {
            **super().get_config(),
            "mask_rate": self.mask_rate,
            "max_predictions": self.max_predictions,
            "whole_word": self.whole_word,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertMaskedLMPreprocessor(MaskingPreprocessor):
    """Strings to inputs and targets of the masked LM.

    Args:
        As in `MaskingPreprocessor`.

    Call arguments:
        x: as in `BertPreprocessor`.
        step: int or scalar tensor. Number of the batch; another step, other masks.

    Returns:
        `(x, y, sample_weight)`: x has also `mask_positions`; y is the (batch, slots) int32
        original ids; sample_weight the (batch, slots) float32 1 at masked tokens.
    """

    def call(self, x, y=None, sample_weight=None, step=0):
        inputs = self.texts_to_inputs(self.texts(x))
        return as_backend_tensors(self.with_targets(inputs, y, sample_weight, step))

    def with_targets(self, inputs, y=None, sample_weight=None, step=0):
        if y is not None or sample_weight is not None:
            raise ValueError("The masked LM makes its own targets: pass no y and no sample_weight.")
        return self.mask(inputs, step)


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertPretrainerPreprocessor(MaskingPreprocessor):
    """Sentence pairs and their labels to inputs and targets of both pretraining tasks.

    Args:
        As in `MaskingPreprocessor`; `pair` is true by default.

    Call arguments:
        x: `{"text_a": strings, "text_b": strings}`.
        y: (batch,) int. 0: B follows A; 1: B was taken at random.
        step: int or scalar tensor. Number of the batch.

    Returns:
        `(x, y, sample_weight)`, y and sample_weight dicts of `masked_lm` and `next_sentence`.
    """

    def __init__(self, tokenizer, sequence_length: int = 512, pair: bool = True, **kwargs):
        super().__init__(tokenizer, sequence_length=sequence_length, pair=pair, **kwargs)

    def call(self, x, y=None, sample_weight=None, step=0):
        inputs = self.texts_to_inputs(self.texts(x))
        return as_backend_tensors(self.with_targets(inputs, y, sample_weight, step))

    def with_targets(self, inputs, y=None, sample_weight=None, step=0):
        if y is None:
            raise ValueError(
                "Pass y: for each pair 0 where B follows A, 1 where it was taken at random. "
                "To make pairs from documents use pretraining_dataset()."
            )
        x, mask_ids, mask_weights = self.mask(inputs, step)
        y = tf.cast(y, tf.int32)
        weights = tf.ones_like(y, tf.float32) if sample_weight is None else sample_weight
        return (
            x,
            {"masked_lm": mask_ids, "next_sentence": y},
            {"masked_lm": mask_weights, "next_sentence": weights},
        )


def pop_options(preprocessor_cls, arguments: dict) -> dict:
    """Take the arguments that are a preprocessor's out of a dict.

    Args:
        preprocessor_cls: a preprocessor's class.
        arguments: argument names and values; those of the preprocessor's constructor and of its
            bases, but for the tokenizer, are removed.

    Returns:
        The dict of what was removed.
    """
    base = keras_hub.models.Preprocessor
    ours = [c for c in preprocessor_cls.__mro__ if issubclass(c, base) and c is not base]
    names = {name for c in ours for name in inspect.signature(c.__init__).parameters}
    names -= {"self", "tokenizer", "args", "kwargs"}
    return {name: arguments.pop(name) for name in names & set(arguments)}


def as_strings(x) -> tf.Tensor:
    x = tf.convert_to_tensor(x)
    if x.dtype != tf.string:
        raise ValueError(f"Expected strings, but received {x.dtype.name} of shape {x.shape}.")
    if x.shape.rank is not None and x.shape.rank > 1:
        raise ValueError(
            f"Expected one string a row, shape () or (batch,), but received shape {x.shape}."
        )
    return x


def as_backend_tensors(nested):
    """TensorFlow tensors as they are in a graph; eagerly, tensors of the Keras backend."""
    if not tf.executing_eagerly() or keras.backend.backend() == "tensorflow":
        return nested

    def convert(x):
        return keras.ops.convert_to_tensor(x.numpy()) if isinstance(x, tf.Tensor) else x

    return tf.nest.map_structure(convert, nested)
