"""Words to WordPiece ids: greedy longest match first, by tensorflow-text's own op."""

from collections.abc import Sequence

import tensorflow as tf

from keras_bert_impl.text.vocabulary import CONTINUATION, UNK_TOKEN

# A code point is at most so many bytes in UTF-8.
MAX_BYTES_PER_CHARACTER = 4


class WordPiece:
    """Cuts normalized words into pieces (BERT paper, section 3; Song et al. 2020).

    Args:
        vocabulary: list of str, by id.
        max_chars_per_word: int. A longer word becomes one unknown token.

    Raises:
        ImportError: where tensorflow-text is not installed.
    """

    def __init__(self, vocabulary: Sequence[str], max_chars_per_word: int):
        try:
            import tensorflow_text
        except ImportError as error:
            raise ImportError(
                "A BertTokenizer needs tensorflow-text in tensorflow's own version "
                f"({tf.__version__}): pip install tensorflow-text. Models run on prepared ids "
                "without it."
            ) from error
        self.max_chars_per_word = max_chars_per_word
        max_bytes = max_chars_per_word * MAX_BYTES_PER_CHARACTER
        with tf.device("cpu"), tf.init_scope():
            self._op = tensorflow_text.FastWordpieceTokenizer(
                list(vocabulary),
                suffix_indicator=CONTINUATION,
                max_bytes_per_word=max_bytes,
                token_out_type=tf.int32,
                unknown_token=UNK_TOKEN,
                no_pretokenization=True,
            )
            # Stands in for a word of too many characters, which may be of few enough bytes.
            self._long_word = tf.constant("a" * (max_bytes + 1))

    def __call__(self, words: tf.RaggedTensor):
        """Cut words.

        Args:
            words: RaggedTensor (words, None) int32. Each word's code points.

        Returns:
            RaggedTensors (words, None): int32 ids, and in bytes of the word where each piece
            starts and ends. Those of a word that is too long mean nothing.
        """
        strings = tf.strings.unicode_encode(words, "UTF-8")
        too_long = words.row_lengths() > self.max_chars_per_word
        return self._op.tokenize_with_offsets(tf.where(too_long, self._long_word, strings))
