"""Phrases and entities, marked piece by piece so that masking can choose them whole.

ERNIE 1.0 (Sun et al. 2019), section 3.2, "Knowledge integration". Units come from text that is
marked (here), from a list of phrases (`data/phrase_table.py`), or from a segmenter, which marks text
ahead (`segment_lines`). A piece's mark is `2 * kind + 1` where a unit begins, `2 * kind` where it
goes on, and 0 outside; it travels as `data/marked_pieces.py` tells.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

PHRASE = 1
ENTITY = 2
UNIT_BITS = 3  # of a mark

# A unit is a stretch without brackets between these, by kind.
_BRACKETS = {PHRASE: (r"\[\[", r"\]\]"), ENTITY: (r"\{\{", r"\}\}")}
# What brackets become in the graph, by kind. Control characters are nothing to the tokenizer.
_OPEN, _CLOSE = {PHRASE: 0x01, ENTITY: 0x02}, {PHRASE: 0x03, ENTITY: 0x04}


def unit_marks(kind, begins):
    """int32 marks of pieces: `kind` 0 outside of units, `begins` true where a unit begins."""
    inside = tf.cast(kind, tf.int32)
    return 2 * inside + tf.cast(tf.cast(begins, tf.bool) & (inside > 0), tf.int32)


def unit_kind(units):
    """int32: 0 outside, `PHRASE` or `ENTITY`."""
    return tf.cast(units, tf.int32) // 2


def begins_unit(units):
    """bool: true on the first piece of a unit."""
    return tf.cast(units, tf.int32) % 2 == 1


def strip_marks(texts) -> tf.Tensor:
    """Marked texts as they read without their marks.

    Args:
        texts: strings of any shape, as `pieces_of_marked_text` takes them.

    Returns:
        Strings of the same shape.

    Example:

    >>> strip_marks("[[New York]] is big, says {{Kim}}. [[").numpy()
    b'New York is big, says Kim. [['
    """
    return tf.strings.regex_replace(_with_control_characters(texts), r"[\x01-\x04]", "")


def pieces_of_marked_text(texts, tokenizer: Any) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Pieces of texts in which units are marked, and the units' marks.

    `[[New York]]` is a phrase, `{{Kim}}` an entity. A unit holds no brackets, so there is none
    within another; brackets that make no such pair are text. (Text's own `[[`, which would make
    one, can be written `[ [`: the pieces are the same.) A piece is of the unit that its first
    character is of.

    Args:
        texts: (batch,) strings.
        tokenizer: a `BertTokenizer`.

    Returns:
        ids: ragged (batch, pieces) int32, those of the text without the marks.
        units: ragged (batch, pieces) int32 marks.

    Example:

    >>> tokenizer = BertTokenizer([*SPECIAL_TOKENS, "new", "york", "is", "big"])
    >>> ids, units = pieces_of_marked_text(["[[New York]] is {{big}}"], tokenizer)
    >>> ids.to_list(), units.to_list()
    ([[5, 6, 7, 8]], [[3, 2, 0, 5]])
    """
    with tf.device("cpu"):
        texts = _with_control_characters(texts)
        tokens = tokenizer.tokenize_with_offsets(texts)
        points = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        character = tf.gather(points.row_starts(), tokens.ids.value_rowids()) + tokens.starts.values

        # Of each character: the kind of unit it is in, and how many units began up to it.
        kind, number = tf.zeros_like(points.values), tf.zeros_like(points.values)
        for of_kind in _BRACKETS:
            opened = tf.cumsum(tf.cast(points.values == _OPEN[of_kind], tf.int32))
            closed = tf.cumsum(tf.cast(points.values == _CLOSE[of_kind], tf.int32))
            kind += of_kind * (opened - closed)
            number += opened
        kind, number = tf.gather(kind, character), tf.gather(number, character)
        before = tf.concat([[0], number[:-1]], axis=0)[: tf.size(number)]
        return tokens.ids, tokens.ids.with_values(unit_marks(kind, number != before))


def segment_lines(lines: Iterable[str], segmenter: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Lines of text with a segmenter's words marked as phrases.

    BERT cuts Chinese into characters; so marked, words are chosen whole with
    `DynamicMasker(unit="phrase")`. Run ahead, on files: a segmenter is no TensorFlow graph.

    Args:
        lines: texts without marks.
        segmenter: a function of a text that gives its words, which joined are the text, such as
            `jieba.lcut` (`pip install 'keras_bert_impl[chinese]'`).

    Yields:
        A text a line, in which words of two characters or more are marked. Blank lines stay, so
        documents do. Brackets of the text that look like marks are put apart by a space, which
        changes no piece.

    Raises:
        ValueError: naming the first line that the segmenter changed.

    Example:

    >>> list(segment_lines(["\u5317\u4eac\u5927", ""], lambda text: [text[:2], text[2:]]))
    ['[[\u5317\u4eac]]\u5927', '']
    """
    for number, line in enumerate(lines, start=1):
        line = re.sub(r"([\[{])(?=\1)", r"\1 ", line.rstrip("\r\n"))
        words = list(segmenter(line))
        if "".join(words) != line:
            raise ValueError(
                f"Line {number}: the segmenter gave the words {' / '.join(words)!r}, which joined "
                f"are not the text {line!r}. It must leave out and change nothing."
            )
        yield "".join(f"[[{word}]]" if _can_be_unit(word) else word for word in words)


def _can_be_unit(word: str) -> bool:
    if len(word) < 2 or any(c.isspace() or c in "[]{}" for c in word):
        return False
    return any(c.isalnum() for c in word)


def _with_control_characters(texts):
    texts = tf.strings.regex_replace(texts, r"[\x01-\x04]", "")
    for kind, (left, right) in _BRACKETS.items():
        texts = tf.strings.regex_replace(
            texts,
            rf"{left}([^\[\]{{}}\x01-\x04]+){right}",
            rf"{chr(_OPEN[kind])}\1{chr(_CLOSE[kind])}",
        )
    return texts
