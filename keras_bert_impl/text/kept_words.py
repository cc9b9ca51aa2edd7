"""Words that are taken as they stand: special tokens and unused tokens written in a text."""

import re
from collections.abc import Sequence

import tensorflow as tf

from keras_bert_impl.text.normalization import CJK, LENGTH_MASK, MARK, SPACE
from keras_bert_impl.text.wordpiece import WordPiece

UNUSED_TOKEN = re.compile(r"\[unused\d+\]")


def special_tokens_in(points: tf.RaggedTensor, tokens: Sequence[str]) -> tf.Tensor:
    """Find tokens wherever they stand in texts, even inside a word.

    Args:
        points: RaggedTensor (texts, None) int32. Code points.
        tokens: list of str, none of which overlaps another.

    Returns:
        (points,) int32: 0, or in a token the index of its first code point, from 1.
    """
    flat = points.flat_values
    text = points.value_rowids()
    kept = tf.zeros_like(flat)
    for token in tokens:
        length = len(token)
        padded = tf.pad(flat, [[0, length]])
        row = tf.pad(text, [[0, length]], constant_values=-1)
        hit = row[length - 1 : -1] == text
        for place, character in enumerate(token):
            hit &= padded[place : place - length] == ord(character)
        starts = tf.where(hit)  # (tokens found, 1)
        places = starts + tf.range(length, dtype=starts.dtype)  # (tokens found, length)
        numbers = tf.broadcast_to(tf.cast(starts, flat.dtype) + 1, tf.shape(places))
        kept = tf.tensor_scatter_nd_update(kept, places[..., tf.newaxis], numbers)
    return kept


def unused_tokens_in(
    points: tf.RaggedTensor, entries: tf.Tensor, is_unused: tf.Tensor, wordpiece: WordPiece
) -> tf.Tensor:
    """Find tokens such as `[unused1]` that stand between spaces (or CJK ideographs).

    Args:
        points: RaggedTensor (texts, None) int32. Code points.
        entries: (points,) int32. The normalization table's entries.
        is_unused: (vocabulary_size,) bool. Which ids are of unused tokens.
        wordpiece: cuts words.

    Returns:
        As `special_tokens_in`.
    """
    flat = points.flat_values
    text = points.value_rowids()
    stretch = text + tf.cumsum(tf.cast(entries & SPACE != 0, text.dtype))
    seen = tf.where(entries & (LENGTH_MASK | MARK) != 0)[:, 0]
    apart = tf.gather(entries & CJK != 0, seen)
    place = tf.gather(stretch, seen)
    opens = apart[1:] | apart[:-1] | (place[1:] != place[:-1])
    opens = tf.concat([tf.ones_like(apart[:1]), opens], 0)
    words = tf.RaggedTensor.from_row_starts(
        tf.gather(flat, seen), tf.where(opens)[:, 0], validate=False
    )
    ids, _, _ = wordpiece(words)
    # Only a word that is an unused token as a whole starts with that token's piece, as '[' and
    # ']' stand nowhere else in it.
    first = ids[:, :1].to_tensor(default_value=0, shape=[None, 1])[:, 0]
    whole = tf.gather(is_unused, first) & (ids.row_lengths() == 1)
    first_place = tf.gather(seen, words.row_starts())
    number = tf.where(whole, tf.cast(first_place, flat.dtype) + 1, 0)
    number = tf.pad(tf.gather(number, words.value_rowids()), [[1, 0]])
    # A dropped character inside a token takes the number of the one before it.
    is_seen = tf.cast(entries & (LENGTH_MASK | MARK) != 0, tf.int32)
    return tf.gather(number, tf.cumsum(is_seen))
