"""Words to windows of pieces, and which piece speaks for which word (paper, section 5.3).

Each word is tokenized on its own and read at its first piece. A sentence that does not fit into
one row is cut into windows that overlap, and each word is read in the window where its first
piece has most context.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from keras_bert_impl.data.windows import cut_windows, is_best_window, windows

# What Python's str.split() takes for white space, as an RE2 class.
_WHITE_SPACE = r"[\s\x0b\x1c-\x1f\x{85}\pZ]+"


class AlignedWords(NamedTuple):
    """Windows over sentences, and where their words are read.

    Attributes:
        ids: ragged (windows, None). The pieces of each window, without `[CLS]` and `[SEP]`.
        word: (read,) int64. Numbers of the words that have a piece, counted through the batch,
            rising. A word that is nothing to the tokenizer, such as U+200B, is not among them.
        window: (read,) int64. The window where each of these is read.
        position: (read,) int64. The place of its first piece in that window.
    """

    ids: tf.RaggedTensor
    word: tf.Tensor
    window: tf.Tensor
    position: tf.Tensor


def split_words(texts: tf.Tensor) -> tf.RaggedTensor:
    r"""Cut texts into words at white space, as Python's `str.split()`.

    Args:
        texts: (batch,) strings in UTF-8.

    Returns:
        Ragged (batch, None) strings.

    Example:

    >>> split_words(tf.constant(["Jim went\u3000home ", ""]))
    <tf.RaggedTensor [[b'Jim', b'went', b'home'], []]>
    """
    with tf.device("cpu"):
        return tf.strings.split(tf.strings.regex_replace(texts, _WHITE_SPACE, " "))


def align_words(words: tf.RaggedTensor, tokenizer: Any, room: int, stride: int) -> AlignedWords:
    """Tokenize words, lay windows over their pieces, and choose where each word is read.

    Args:
        words: ragged (batch, None) strings.
        tokenizer: a `BertTokenizer`.
        room: int. Most pieces that a window holds.
        stride: int. Pieces from the start of a window to that of the next.

    Returns:
        `AlignedWords`. A sentence without pieces has one window, an empty one.

    Example:

    >>> aligned = align_words(tf.ragged.constant([["ab", "a"]]), tokenizer, room=9, stride=4)
    >>> [x.tolist() for x in (aligned.ids.numpy(), aligned.word.numpy(), aligned.position.numpy())]
    [[[5, 7, 5]], [0, 1], [0, 2]]
    """
    with tf.device("cpu"):
        pieces = tokenizer.tokenize(words)  # ragged (batch, words, pieces)
        word_splits = pieces.values.row_splits
        splits = tf.gather(word_splits, pieces.row_splits)  # of the sentences, in pieces
        lengths = splits[1:] - splits[:-1]

        slides = windows(lengths, room, stride)
        numbers = tf.range(tf.size(pieces.flat_values, tf.int64))
        piece = cut_windows(tf.RaggedTensor.from_row_splits(numbers, splits), slides)
        ids = piece.with_values(tf.gather(pieces.flat_values, piece.values))

        is_best = is_best_window(slides, lengths).values
        best_window = tf.scatter_nd(
            tf.boolean_mask(piece.values, is_best)[:, tf.newaxis],
            tf.boolean_mask(piece.value_rowids(), is_best),
            tf.shape(numbers, tf.int64),
        )  # (pieces,)

        word = tf.where(word_splits[1:] > word_splits[:-1])[:, 0]
        first_piece = tf.gather(word_splits, word)
        window = tf.gather(best_window, first_piece)
        window_start = tf.gather(splits, slides.row) + slides.start
        position = first_piece - tf.gather(window_start, window)
        return AlignedWords(ids, word, window, position)


def at_first_pieces(aligned: AlignedWords, values: tf.Tensor) -> tf.RaggedTensor:
    """Values of words on the pieces where the words are read, and 0 on all other pieces.

    Args:
        aligned: from `align_words`.
        values: (words,), one for each word of the batch, labels or weights.

    Returns:
        Ragged (windows, None) of the values' dtype, as long as `aligned.ids`.
    """
    piece = tf.gather(aligned.ids.row_splits, aligned.window) + aligned.position
    return aligned.ids.with_values(
        tf.scatter_nd(
            piece[:, tf.newaxis],
            tf.gather(values, aligned.word),
            tf.shape(aligned.ids.values, tf.int64),
        )
    )


def at_words(rows: Any, aligned: AlignedWords) -> tf.Tensor:
    """What rows of windows hold where the words are read.

    Args:
        rows: (windows, length, ...), of the windows with `[CLS]` before them.
        aligned: from `align_words`.

    Returns:
        (read, ...).
    """
    return tf.gather_nd(rows, tf.stack([aligned.window, aligned.position + 1], axis=1))


def likeliest_classes(
    logits: Any, aligned: AlignedWords, words: tf.RaggedTensor, unread: int
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """The likeliest class of each word.

    Args:
        logits: (read, classes), of the words that are read.
        aligned: from `align_words`.
        words: ragged (batch, None), those that were aligned.
        unread: int. The class of words without pieces.

    Returns:
        Class numbers, int32, and these classes' probabilities, float32, 0 for words without
        pieces; both ragged (batch, None), as the words.
    """
    logits = tf.cast(logits, tf.float32)
    likeliest = tf.argmax(logits, axis=-1, output_type=tf.int32)
    probabilities = tf.reduce_max(tf.nn.softmax(logits), axis=-1)
    num_words, word = tf.shape(words.flat_values, tf.int64), aligned.word[:, tf.newaxis]
    numbers = tf.tensor_scatter_nd_update(tf.fill(num_words, unread), word, likeliest)
    probabilities = tf.scatter_nd(word, probabilities, num_words)
    return words.with_flat_values(numbers), words.with_flat_values(probabilities)
