"""Did a word begin with a capital before it was lowercased?

ERNIE 2.0 (Sun et al. 2019), section 4.2.1, "Capitalization Prediction Task". The ids are those of an
uncased model; the answer is a mark kept aside (`data/marked_pieces.py`).
"""

from typing import Any

import keras
import tensorflow as tf

from keras_bert_impl.objectives.base import TokenObjective, is_text

# RE2's classes of upper case letters, and of those like U+01C5 that are one as a word's first
_CAPITAL = r"[\p{Lu}\p{Lt}]"


def capitalized_pieces(texts, tokenizer: Any) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Pieces of texts, and of each whether its word begins with a capital in the text.

    A word is what the tokenizer cuts into pieces: "O'Neil" is three. What counts is the first
    character of the original: a word that begins with a digit is not capitalized, and in a script
    without capitals none is.

    Args:
        texts: (batch,) strings.
        tokenizer: a `BertTokenizer`, cased or not.

    Returns:
        ids: ragged (batch, pieces) int32.
        capitalized: ragged (batch, pieces) int32, 0 or 1, the same for all pieces of a word.

    Example:

    >>> tokenizer = BertTokenizer([*SPECIAL_TOKENS, "new", "##ton", "fell"])
    >>> ids, capitalized = capitalized_pieces(["Newton fell"], tokenizer)
    >>> ids.to_list(), capitalized.to_list()
    ([[5, 6, 7]], [[1, 1, 0]])
    """
    with tf.device("cpu"):
        texts = tf.convert_to_tensor(texts)
        tokens = tokenizer.tokenize_with_offsets(texts)
        # Offsets are of characters without the bytes that are not UTF-8; so are these.
        characters = tf.strings.unicode_split(texts, "UTF-8", errors="ignore")
        is_capital = tf.strings.regex_full_match(characters.values, _CAPITAL)

        text = tokens.ids.value_rowids()  # (pieces,)
        character = tf.gather(characters.row_starts(), text) + tokens.starts.values
        capital = tf.gather(is_capital, character)

        # The first piece of a word speaks for the others.
        word = tokens.word_ids.values
        changes = (text[1:] != text[:-1]) | (word[1:] != word[:-1])
        begins = tf.concat([tf.ones([tf.minimum(tf.size(word), 1)], tf.bool), changes], axis=0)
        first_of_word = tf.boolean_mask(capital, begins)
        capital = tf.gather(first_of_word, tf.cumsum(tf.cast(begins, tf.int64)) - 1)
        return tokens.ids, tokens.ids.with_values(tf.cast(capital, tf.int32))


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class Capitalization(TokenObjective):
    """Was the word of a token capitalized? Asked of all tokens of texts, of masked ones too.

    Args:
        weight: float, as in `Objective`.
    """

    name = "capitalization"

    def num_bits(self, sequence_length):
        return 1

    def marks(self, lines):
        return capitalized_pieces(lines.plain, lines.tokenizer)[1].flat_values

    def targets(self, rows, marks, *, tokenizer, seed):
        asked = is_text(rows["token_ids"], rows["padding_mask"], tokenizer)
        return {}, marks, tf.cast(asked, tf.float32)
