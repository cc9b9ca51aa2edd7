"""Raw text to the inputs and targets of a causal language model. A TensorFlow graph."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from keras_bert_impl.data.next_tokens import next_tokens
from keras_bert_impl.models.preprocessor import TextPreprocessor, as_backend_tensors
from keras_bert_impl.text.vocabulary import CONTINUATION


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertCausalLMPreprocessor(TextPreprocessor):
    """Strings to rows `[CLS] text [SEP]`, and at each token the one after it.

    `[CLS]` is the start token, which nothing precedes, and `[SEP]` the end of the text. A text
    that is too long is cut, and its `[SEP]` stands where it was cut.

    Args:
        tokenizer, sequence_length, pair, truncation, padding: as in `TextPreprocessor`.

    Call arguments:
        x: as in `BertPreprocessor`.

    Returns:
        `(x, y, sample_weight)`: y is the (batch, length) int32 next ids; sample_weight (batch,
        length) float32, 0 on the last token and on padding.

    Raises:
        ValueError: as `TextPreprocessor`; and where y or sample_weight are passed.

    Example:

    >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"])
    >>> x, y, sample_weight = BertCausalLMPreprocessor(tokenizer)(["a b", "a"])
    >>> x["token_ids"].numpy().tolist(), y.numpy().tolist()
    ([[2, 5, 6, 3], [2, 5, 3, 0]], [[5, 6, 3, 0], [5, 3, 0, 0]])
    """

    def call(self, x, y=None, sample_weight=None):
        if y is not None or sample_weight is not None:
            raise ValueError("The causal LM makes its own targets: pass no y and no sample_weight.")
        inputs = self.texts_to_inputs(self.texts(x))
        scalar = inputs["token_ids"].shape.rank == 1
        rows = tf.nest.map_structure(lambda t: t[tf.newaxis], inputs) if scalar else inputs
        targets = next_tokens(rows)
        if scalar:
            targets = tuple(target[0] for target in targets)
        return as_backend_tensors((inputs, *targets))

    def prompts(self, texts: Sequence[str], max_length: int) -> dict[str, tf.Tensor]:
        """Rows `[CLS] prompt`, open at their end.

        Args:
            texts: strings; an empty one is `[CLS]` alone.
            max_length: int. Length of all rows.

        Returns:
            token_ids: (batch, max_length) int32.
            padding_mask: (batch, max_length) bool, true on `[CLS]` and the prompt.

        Raises:
            ValueError: naming the first prompt that leaves no room for a token after it; and
                where the preprocessor packs pairs.
        """
        if self.pair:
            raise ValueError("A prompt is a single text: build the preprocessor with pair=False.")
        pieces = tf.cast(self.tokenizer.tokenize(tf.constant(texts, tf.string)), tf.int32)
        lengths = pieces.row_lengths().numpy() + 1
        for text, length in zip(texts, lengths, strict=True):
            if length >= max_length:
                raise ValueError(
                    f"The prompt {text[:50]!r} has {length} tokens with [CLS], so that "
                    f"max_length={max_length} leaves no room after it. Shorten it, or pass a larger "
                    "max_length."
                )
        cls = tf.fill([len(texts), 1], tf.cast(self.tokenizer.cls_token_id, tf.int32))
        rows = tf.concat([cls, pieces], axis=1)
        return {
            "token_ids": rows.to_tensor(self.tokenizer.pad_token_id, shape=[None, max_length]),
            "padding_mask": tf.sequence_mask(lengths, max_length),
        }

    def continued(self, text: str, ids: Sequence[int]) -> str:
        """A prompt with what was generated after it.

        Args:
            text: the prompt. It stays as it is, but for white space at its end.
            ids: the ids after it, up to the first `[SEP]` or to the end.
        """
        ids = list(ids)
        if self.tokenizer.sep_token_id in ids:
            ids = ids[: ids.index(self.tokenizer.sep_token_id)]
        if not ids:
            return text
        more = self.tokenizer.detokenize(ids).numpy().decode("utf-8")
        joined = self.tokenizer.id_to_token(ids[0]).startswith(CONTINUATION) or not text.strip()
        return f"{text.rstrip()}{'' if joined else ' '}{more}"
