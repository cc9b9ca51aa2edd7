"""Words to the inputs of a token classifier, and their labels to its targets."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.data.packing import pack, room_for_text
from keras_bert_impl.data.tagged_words import ragged_words
from keras_bert_impl.data.word_alignment import (
    AlignedWords,
    align_words,
    at_first_pieces,
    split_words,
)
from keras_bert_impl.models.preprocessor import TextPreprocessor, as_backend_tensors

UNCUT_ERROR = (
    "Labels are of words, but x has one string a row. Pass each row as a list of words, so that it "
    "is sure which word a label belongs to."
)


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertTokenClassifierPreprocessor(TextPreprocessor):
    """Words to rows `[CLS] pieces [SEP]`, with labels on the first piece of each word.

    Words are tokenized one by one and their pieces joined (paper, section 5.3). A sentence of
    more pieces than a row holds becomes several rows, windows that overlap; each word's label
    counts in one of them, where the word has most context.

    Args:
        tokenizer: a `BertTokenizer`.
        sequence_length: int. Longest row in tokens, `[CLS]` and `[SEP]` included.
        stride: int. Pieces from one window's start to the next's, default half of those that a
            row holds: then each word has at least a quarter row of context on each side, or all
            that there is.
        padding: str, as in `TextPreprocessor`.

    Call arguments:
        x: words of each sentence: nested lists of str, or a string tensor of rank 2, ragged or
            dense. Without labels also one string for each sentence, cut at white space as by
            Python's `str.split()`.
        y: int class number of each word, as long as x, optional.
        sample_weight: float weight of each word, as long as x, or (batch,), optional.

    Returns:
        The dict of (rows, length) tensors; with labels a tuple of it, the (rows, length) int32
        labels and their float32 weights, which are 0 where no word is read.

    Raises:
        ValueError: for a stride that is not between 1 and the pieces that a row holds, labels of
            texts that are not cut into words, and as `TextPreprocessor`.
        tf.errors.InvalidArgumentError: where words and labels differ in number.

    Example:

    >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"])
    >>> x, y, weights = BertTokenClassifierPreprocessor(tokenizer)([["ab", "a"]], [[1, 2]])
    >>> x["token_ids"].numpy().tolist(), y.numpy().tolist(), weights.numpy().tolist()
    ([[2, 5, 6, 5, 3]], [[0, 1, 0, 2, 0]], [[0.0, 1.0, 0.0, 1.0, 0.0]])
    """

    def __init__(
        self,
        tokenizer,
        sequence_length: int = 512,
        stride: int | None = None,
        padding: str = "longest",
        **kwargs,
    ):
        super().__init__(tokenizer, sequence_length=sequence_length, padding=padding, **kwargs)
        self.room = room_for_text(sequence_length, num_texts=1)
        if stride is not None and not 1 <= stride <= self.room:
            raise ValueError(
                f"stride={stride}, but with sequence_length={sequence_length} windows hold "
                f"{self.room} pieces: the stride must be from 1 to that, or words would be "
                "skipped."
            )
        self.stride = stride

    def words(self, x) -> tf.RaggedTensor:
        """The words of each sentence, ragged (batch, None), of whatever `x` may be."""
        if not are_texts(x):
            return ragged_words(x)
        if isinstance(x, list) and not all(isinstance(text, str | bytes) for text in x):
            row = next(i for i, text in enumerate(x) if not isinstance(text, str | bytes))
            raise ValueError(
                f"Row 0 of x is one string, but row {row} is {x[row]!r}. Pass strings alone, or a "
                "list of words for each row."
            )
        texts = self.texts(x)[0]
        if texts.shape.rank == 0:
            raise ValueError("x is a single text. Wrap it in a list: the first axis is the batch.")
        return split_words(texts)

    def align(self, words: tf.RaggedTensor) -> AlignedWords:
        """Windows over the words' pieces; see `align_words`."""
        return align_words(words, self.tokenizer, self.room, self.stride or max(self.room // 2, 1))

    def pack(self, ids: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        """Pieces of windows to the model's inputs; the piece at i comes to stand at i + 1."""
        return pack(
            ids,
            sequence_length=self.sequence_length,
            tokenizer=self.tokenizer,
            pad_to=self.padding,
        )

    def pack_targets(
        self, ids: tf.RaggedTensor, labels: tf.RaggedTensor, weights: tf.RaggedTensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]:
        """As `pack`, with the labels and weights of the pieces put at the same places."""
        length = self.sequence_length if self.padding == "max_length" else None

        def beside(values):
            special = tf.zeros([values.nrows(), 1], values.dtype)  # of [CLS], and of [SEP]
            return tf.concat([special, values, special], axis=1).to_tensor(shape=[None, length])

        return self.pack(ids), beside(labels), beside(weights)

    def texts_to_inputs(self, texts: tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        """(batch,) strings to the inputs of all their windows."""
        return self.pack(self.align(split_words(texts[0])).ids)

    def call(self, x, y=None, sample_weight=None):
        words = self.words(x)
        aligned = self.align(words)
        if y is None:
            return as_backend_tensors(self.pack(aligned.ids))
        if are_texts(x):
            raise ValueError(UNCUT_ERROR)
        labels = _of_words(y, words, tf.int32, "labels")
        weights = tf.ones_like(labels, tf.float32)
        if sample_weight is not None:
            weights = _of_words(sample_weight, words, tf.float32, "weights")
        labels, weights = (at_first_pieces(aligned, values) for values in (labels, weights))
        return as_backend_tensors(self.pack_targets(aligned.ids, labels, weights))

    def get_config(self):
        config = {**super().get_config(), "stride": self.stride}
        for name in ("pair", "truncation"):  # windows leave nothing to cut, and take one text
            config.pop(name)
        return config


def are_texts(x) -> bool:
    """Whether `x` has one string a sentence, not cut into words."""
    if isinstance(x, dict):
        return True
    if isinstance(x, tf.Tensor | tf.RaggedTensor):
        return x.shape.rank is not None and x.shape.rank < 2
    if isinstance(x, np.ndarray) and x.dtype != object:
        return x.ndim < 2
    return isinstance(x, str | bytes) or (len(x) > 0 and isinstance(x[0], str | bytes))


def _of_words(values, words: tf.RaggedTensor, dtype, name) -> tf.Tensor:
    """(words,) of `values`, which has as many for each sentence as it has words."""
    if not isinstance(values, tf.Tensor | tf.RaggedTensor):
        values = tf.ragged.constant(list(values), dtype, row_splits_dtype=tf.int64)
    values = tf.cast(values, dtype)
    if values.shape.rank == 1:
        return tf.repeat(values, words.row_lengths())
    if not isinstance(values, tf.RaggedTensor):
        values = tf.RaggedTensor.from_tensor(values)
    check = tf.debugging.assert_equal(
        tf.cast(values.row_lengths(), tf.int64),
        words.row_lengths(),
        message=f"Sentences differ in their numbers of {name} and of words. By sentence:",
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(values.flat_values)
