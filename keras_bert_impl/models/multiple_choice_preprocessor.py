"""A text and its choices to the inputs of the multiple-choice model."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.data.packing import pack
from keras_bert_impl.models.preprocessor import TextPreprocessor, as_backend_tensors, as_strings


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertMultipleChoicePreprocessor(TextPreprocessor):
    """A text with each of its choices to rows `[CLS] text [SEP] choice [SEP]`.

    Rows may have different numbers of choices. Empty strings after the last choice of a row are
    no choices, so that such rows can stand in one rectangle; an absent choice is a row of padding.

    Args:
        tokenizer, sequence_length, truncation, padding: as in `TextPreprocessor`; the text is
            the first, each choice the second of a pair.

    Call arguments:
        x: `{"text_a": (batch,) strings, "choices": (batch, num_choices) strings}`; choices may
            also be nested lists with rows of different lengths, or a ragged tensor.
        y, sample_weight: passed through.

    Returns:
        The dict of (batch, num_choices, length) tensors, or a tuple of it with `y` and
        `sample_weight` where these are given.

    Raises:
        ValueError: for inputs of other names or ranks, and as `TextPreprocessor`.
        tf.errors.InvalidArgumentError: for a row without choices.

    Example:

    >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"])
    >>> x = {"text_a": ["a", "a"], "choices": [["b", "a b"], ["b"]]}
    >>> BertMultipleChoicePreprocessor(tokenizer)(x)["token_ids"].numpy().tolist()
    [[[2, 5, 3, 6, 3, 0], [2, 5, 3, 5, 6, 3]], [[2, 5, 3, 6, 3, 0], [0, 0, 0, 0, 0, 0]]]
    """

    def __init__(
        self,
        tokenizer,
        sequence_length: int = 512,
        truncation: str = "longest_first",
        padding: str = "longest",
        **kwargs,
    ):
        super().__init__(
            tokenizer,
            sequence_length=sequence_length,
            pair=True,
            truncation=truncation,
            padding=padding,
            **kwargs,
        )

    @property
    def text_names(self):
        return ("text_a", "choices")

    @property
    def text_specs(self):
        return {
            "text_a": tf.TensorSpec([None], tf.string),
            "choices": tf.TensorSpec([None, None], tf.string),
        }

    def texts(self, x) -> tuple[tf.Tensor, ...]:
        """(batch,) and (batch, num_choices) strings; of a single row () and (num_choices,)."""
        if not isinstance(x, dict) or set(x) != set(self.text_names):
            got = f"a dict with keys {sorted(x)}" if isinstance(x, dict) else type(x).__name__
            raise ValueError(
                'This preprocessor packs a text with its choices: pass {"text_a": (batch,) '
                f'strings, "choices": (batch, num_choices) strings}}. Received {got}.'
            )
        text, choices = as_strings(x["text_a"]), x["choices"]
        if isinstance(choices, tf.RaggedTensor):
            choices = choices.to_tensor("")
        elif not isinstance(choices, tf.Tensor) and text.shape.rank == 1:
            choices = pad_choices(choices)
        choices = tf.convert_to_tensor(choices)
        if choices.dtype != tf.string or choices.shape.rank != text.shape.rank + 1:
            raise ValueError(
                "Expected choices to be strings of shape (batch, num_choices) for text_a of shape "
                f"(batch,), but received {choices.dtype.name} of shape {choices.shape} for text_a "
                f"of shape {text.shape}."
            )
        return text, choices

    def texts_to_inputs(self, texts: tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        """What `texts` gives to the model's inputs."""
        text, choices = texts
        if text.shape.rank == 0:
            inputs = self.texts_to_inputs((text[tf.newaxis], choices[tf.newaxis]))
            return {name: row[0] for name, row in inputs.items()}
        batch, num_choices = tf.unstack(tf.shape(choices))
        ids = self.tokenizer.tokenize(tf.concat([text, tf.reshape(choices, [-1])], axis=0))
        inputs = pack(
            tf.gather(ids, tf.repeat(tf.range(batch), num_choices)),  # each text for each choice
            ids[batch:],
            sequence_length=self.sequence_length,
            tokenizer=self.tokenizer,
            truncation=self.truncation,
            pad_to=self.padding,
        )

        def by_choice(rows):  # (batch, num_choices, length)
            shape = [*choices.shape, rows.shape[1]]
            return tf.ensure_shape(tf.reshape(rows, [batch, num_choices, tf.shape(rows)[1]]), shape)

        inputs = {name: by_choice(rows) for name, rows in inputs.items()}
        present = present_choices(choices)[:, :, tf.newaxis]
        pad = tf.cast(self.tokenizer.pad_token_id, tf.int32)
        return {
            "token_ids": tf.where(present, inputs["token_ids"], pad),
            "segment_ids": tf.where(present, inputs["segment_ids"], 0),
            "padding_mask": present & inputs["padding_mask"],
        }

    def call(self, x, y=None, sample_weight=None):
        x = self.texts_to_inputs(self.texts(x))
        return as_backend_tensors(keras.utils.pack_x_y_sample_weight(x, y, sample_weight))

    def get_config(self):
        config = super().get_config()
        config.pop("pair")
        return config


def present_choices(choices: tf.Tensor) -> tf.Tensor:
    """(batch, num_choices) bool: false on the empty strings after a row's last choice.

    Raises:
        tf.errors.InvalidArgumentError: for a row without choices.
    """
    filled = tf.cast(tf.not_equal(choices, ""), tf.int32)
    present = tf.cumsum(filled, axis=1, reverse=True) > 0
    without = tf.where(~tf.reduce_any(present, axis=1))[:, 0]
    check = tf.debugging.Assert(
        tf.equal(tf.size(without), 0),
        ["Each row needs at least one choice. Rows without:", without],
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(present)


def pad_choices(choices) -> np.ndarray:
    """(rows, num_choices) strings of rows with any numbers of choices; `""` fills them up.

    Args:
        choices: nested lists, an array of strings of rank 2 or of lists, or a ragged tensor.

    Raises:
        ValueError: for a row that is a string and no list of choices.
    """
    if isinstance(choices, tf.RaggedTensor):
        choices = choices.to_tensor("")
    if getattr(choices, "ndim", None) == 2:
        return np.asarray(choices)
    rows = list(choices)
    for row, texts in enumerate(rows):
        if isinstance(texts, str | bytes):
            raise ValueError(
                f"Row {row} of choices is the string {texts!r}, but must be a list of choices."
            )
    # Of Python's strings: numpy's own would give every text the room of the longest.
    padded = np.full((len(rows), max(map(len, rows), default=0)), "", dtype=object)
    for row, texts in enumerate(rows):
        padded[row, : len(texts)] = texts
    return padded
