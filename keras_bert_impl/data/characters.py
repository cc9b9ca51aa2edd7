"""Words to the numbers of their characters, for a character CNN. A TensorFlow graph.

Characters are the bytes of UTF-8, so that there are few and none is unknown. The numbers are those
of allenai/bilm-tf, which trained ELMo: 0 for what is no word at all; each byte plus 1; then the
marks below plus 1.
"""

import tensorflow as tf

BEGIN_OF_SENTENCE = 257
END_OF_SENTENCE = 258
BEGIN_OF_WORD = 259
END_OF_WORD = 260
AFTER_WORD = 261  # fills a word up

NUM_CHARACTERS = 262
MAX_CHARACTERS = 50


def word_characters(words, max_characters: int = MAX_CHARACTERS) -> tf.RaggedTensor:
    """The characters of each word, between a mark for its begin and one for its end.

    Args:
        words: ragged (batch, None) strings.
        max_characters: int, at least 3. The two marks included; longer words lose their end.

    Returns:
        Ragged (batch, None, max_characters) int32, the last axis of one length. `.to_tensor()`
        puts zeros where there is no word.

    Raises:
        ValueError: for fewer than 3 characters.

    Example:

    >>> word_characters(tf.ragged.constant([["hi", ""]]), max_characters=5).to_list()
    [[[259, 105, 106, 260, 261], [259, 260, 261, 261, 261]]]
    """
    if max_characters < 3:
        raise ValueError(
            f"max_characters={max_characters} leaves no room beside a word's two marks."
        )
    with tf.device("cpu"):
        single = tf.strings.bytes_split(words.values)  # (words, None), a byte a string
        numbers = tf.cast(tf.io.decode_raw(single.values, tf.uint8), tf.int32) + 1
        numbers = single.with_values(tf.reshape(numbers, [-1]))[:, : max_characters - 2]
        ends = tf.ones([tf.size(words.values), 1], tf.int32)
        rows = tf.concat([ends * BEGIN_OF_WORD, numbers, ends * END_OF_WORD], axis=1)
        return words.with_values(rows.to_tensor(AFTER_WORD, shape=[None, max_characters]))


def mark_characters(mark: int, max_characters: int = MAX_CHARACTERS) -> tf.Tensor:
    """The characters of the word that begins or ends a sentence.

    Args:
        mark: int. `BEGIN_OF_SENTENCE` or `END_OF_SENTENCE`.
        max_characters: int, as in `word_characters`.

    Returns:
        (max_characters,) int32.
    """
    numbers = [BEGIN_OF_WORD, mark, END_OF_WORD]
    return tf.constant(numbers + [AFTER_WORD] * (max_characters - 3), tf.int32)


def sentence_characters(
    words: tf.RaggedTensor, max_characters: int = MAX_CHARACTERS, length: int | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Sentences to the inputs of an `ElmoBackbone`: a mark before each, its words, a mark after.

    Args:
        words: ragged (batch, None) strings. A sentence without words is its two marks.
        max_characters: int, as in `word_characters`.
        length: int, optional. Words and marks of every row, default the longest row's; more are
            cut off.

    Returns:
        characters: (batch, words + 2, max_characters) int32, 0 beyond a row's end.
        padding_mask: (batch, words + 2) bool, true on words and marks. Word i is at i + 1.

    Example:

    >>> words = tf.ragged.constant([["a", "cat"], ["b"]])
    >>> characters, padding_mask = sentence_characters(words)
    >>> tuple(characters.shape), padding_mask.numpy().sum(axis=1).tolist()
    ((2, 4, 50), [4, 3])
    """
    words = words.with_row_splits_dtype(tf.int64)
    inner = word_characters(words, max_characters)

    def every_row(mark):
        one = mark_characters(mark, max_characters)[tf.newaxis]
        return tf.RaggedTensor.from_row_lengths(
            tf.repeat(one, words.nrows(), axis=0), tf.ones([words.nrows()], tf.int64)
        )

    rows = tf.concat([every_row(BEGIN_OF_SENTENCE), inner, every_row(END_OF_SENTENCE)], axis=1)
    characters = rows.to_tensor(0, shape=[None, length, max_characters])
    padding_mask = tf.sequence_mask(words.row_lengths() + 2, tf.shape(characters)[1])
    padding_mask.set_shape(characters.shape[:2])
    return characters, padding_mask
