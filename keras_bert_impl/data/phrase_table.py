"""A list of phrases and entities, found in the pieces of texts: the longest first, from the left.

The phrases' pieces make a tree. Its edges are one sorted list of numbers, so that all places of all
texts go down the tree at once, a piece a step.
"""

import gzip
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.masking_units import reached
from keras_bert_impl.data.sources import check_text_file
from keras_bert_impl.data.word_units import ENTITY, PHRASE, unit_marks
from keras_bert_impl.text.vocabulary import CONTINUATION


class PhraseTable:
    """Marks phrases and entities in pieces.

    A phrase is found where its pieces stand, from the beginning of a word to the end of one; so
    with an uncased tokenizer in any case of letters. At a place the longest counts, and an entity
    before an equal phrase; the search goes on behind it. Phrases of a single piece can be found too.

    Args:
        tokenizer: a `BertTokenizer`.
        phrases: texts, such as the lines of a file (`read_phrases`).
        entities: texts.

    Call arguments:
        pieces: ragged (batch, pieces) int ids. No phrase reaches over a row's end.

    Returns:
        Ragged (batch, pieces) int32 marks (`data/word_units.py`).

    Raises:
        ValueError: for a text without pieces, or if none is left. A text with an unknown word is
            left out, since it would be found with any other in its place; `left_out` has these.

    Example:

    >>> tokenizer = BertTokenizer([*SPECIAL_TOKENS, "new", "york", "is", "big"])
    >>> table = PhraseTable(tokenizer, entities=["New York"])
    >>> table(tokenizer(["New York is new"])).to_list()
    [[5, 4, 0, 0]]
    """

    def __init__(self, tokenizer: Any, phrases: Sequence[str] = (), entities: Sequence[str] = ()):
        vocabulary = tokenizer.get_vocabulary()
        self._num_ids = len(vocabulary)
        self._continues = np.array([piece.startswith(CONTINUATION) for piece in vocabulary])
        self.left_out: list[str] = []
        edges: dict[tuple[int, int], int] = {}  # (node, piece) to node
        kinds: dict[int, int] = {}  # node where a phrase ends to its kind
        self._longest = 0
        for kind, texts in ((PHRASE, phrases), (ENTITY, entities)):
            texts = list(texts)
            rows = tokenizer.tokenize(texts).to_list() if texts else []
            for text, pieces in zip(texts, rows, strict=True):
                if not pieces:
                    raise ValueError(f"The phrase {text!r} has no pieces. Leave it out.")
                if tokenizer.unk_token_id in pieces:
                    self.left_out.append(text)
                    continue
                node = 0
                for piece in pieces:
                    node = edges.setdefault((node, piece), len(edges) + 1)
                kinds[node] = kind
                self._longest = max(self._longest, len(pieces))
        if not kinds:
            raise ValueError(
                f"There are no phrases. {len(self.left_out)} were left out, since they have words "
                "that are unknown to the tokenizer."
            )
        # Node numbers are those of the edges that lead there, from 1.
        keys = np.array([node * self._num_ids + piece for node, piece in edges], "int64")
        order = np.argsort(keys)
        self._keys, self._nodes = keys[order], np.array(list(edges.values()), "int64")[order]
        self._kinds = np.zeros([len(edges) + 1], "int32")
        self._kinds[list(kinds)] = list(kinds.values())

    def __call__(self, pieces: tf.RaggedTensor) -> tf.RaggedTensor:
        ids = tf.cast(pieces.values, tf.int64)
        place = tf.range(tf.size(ids))
        row_end = tf.cast(tf.gather(pieces.row_limits(), pieces.value_rowids()), tf.int32)
        continues = tf.gather(tf.constant(self._continues), ids)
        # a word ends where the next piece of the row continues none
        ends_word = ~tf.concat([continues[1:], [False]], axis=0)[: tf.size(ids)]
        ends_word |= place + 1 == row_end

        def one_piece_down(depth, node, size, kind):
            at = tf.minimum(place + depth, tf.size(ids) - 1)
            node = tf.where(place + depth < row_end, self._child(node, tf.gather(ids, at)), -1)
            found = tf.where(node > 0, tf.gather(tf.constant(self._kinds), tf.maximum(node, 0)), 0)
            found = tf.where(tf.gather(ends_word, at), found, 0)
            size = tf.where(found > 0, depth + 1, size)
            return depth + 1, node, size, tf.where(found > 0, found, kind)

        root = tf.where(continues, tf.constant(-1, tf.int64), 0)  # none begins within a word
        _, _, size, kind = tf.while_loop(
            lambda depth, node, *_: (depth < self._longest) & tf.reduce_any(node >= 0),
            one_piece_down,
            [tf.constant(0), root, tf.zeros_like(place), tf.zeros_like(place)],
            parallel_iterations=1,
        )  # (pieces,): of the longest phrase that begins there

        # From each row's first piece, over a phrase or to the next piece, to the row's end.
        next_place = place + tf.maximum(size, 1)
        jump = tf.where(next_place < row_end, next_place, tf.size(ids))
        first = tf.equal(
            place, tf.cast(tf.gather(pieces.row_starts(), pieces.value_rowids()), tf.int32)
        )
        begins = reached(first, jump) & (size > 0)
        unit = tf.cumsum(tf.cast(begins, tf.int32))
        bounds = tf.boolean_mask(tf.stack([place, place + size, kind]), begins, axis=1)
        bounds = tf.pad(bounds, [[0, 0], [1, 0]])  # before the first unit
        _, unit_end, unit_kind = tf.unstack(tf.gather(bounds, unit, axis=1))
        return pieces.with_values(unit_marks(tf.where(place < unit_end, unit_kind, 0), begins))

    def _child(self, node, piece):
        """(pieces,) int64: the node below, or -1 where there is none."""
        key = node * self._num_ids + piece
        index = tf.minimum(tf.searchsorted(tf.constant(self._keys), key), len(self._keys) - 1)
        is_edge = (node >= 0) & (tf.gather(tf.constant(self._keys), index) == key)
        return tf.where(is_edge, tf.gather(tf.constant(self._nodes), index), -1)


def read_phrases(path: str | os.PathLike) -> list[str]:
    """Phrases of a file, a line each; blank lines are none. `.gz` is unpacked on the way.

    Raises:
        FileNotFoundError, ValueError: as `check_text_file`, or for a file without phrases.

    Example:

    >>> table = PhraseTable(tokenizer, phrases=read_phrases("phrases.txt"))
    """
    check_text_file(path)
    path = os.fspath(path)
    opener: Any = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8-sig") as file:
        phrases = [line.strip() for line in file if line.strip()]
    if not phrases:
        raise ValueError(f"{path} has no phrases: all of its lines are blank.")
    return phrases
