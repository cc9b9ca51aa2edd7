"""What BERT's text clean-up does to each code point, as one table applied in the graph.

Nearly all of it is a function of one code point: drop it, take it for a space, set it apart as a
word of its own (punctuation, CJK), or replace it by its lowercased, decomposed, accent-stripped
form. Two things are not, and are done here to the few texts that need them: a capital sigma is
lowered by what stands around it, and marks that outlive accent stripping are put in canonical
order. The table is made by tools/build_normalization_table.py.
"""

import functools
import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

CODE_POINTS = 0x110000
PAGE_SIZE = 128
PAGE_BITS = 7

# An entry is an int32: the number of characters that remain (2 bits), these flags, and a payload.
# Payload: what to add to the code point where one character remains, else where in `expansions`
# the characters stand.
MAX_LENGTH = 3
LENGTH_MASK = 3
SPACE = 1 << 2  # separates words
PUNCTUATION = 1 << 3  # a word of its own
CJK = 1 << 4  # a word of its own where split_on_cjk
MARK = 1 << 5  # stripped as an accent; belongs to the character before it
CASED = 1 << 6  # a letter with case, as the rule of the final sigma means it
IGNORABLE = 1 << 7  # looked through by the rule of the final sigma
STARTER = 1 << 8  # ends a run of marks that canonical ordering sorts
MOVABLE = 1 << 9  # a mark that stays and that canonical ordering may move
PAYLOAD_SHIFT = 10

CAPITAL_SIGMA, SMALL_SIGMA, FINAL_SIGMA = 0x3A3, 0x3C3, 0x3C2


class Words(NamedTuple):
    """Texts cut into words, each word's characters normalized.

    Attributes:
        characters: RaggedTensor (words, None) int32 code points; no word is empty.
        text: (words,) int64. Number of the text that each word stands in.
        source: (characters,) int64. Index, in the flat decoded texts, of the code point that
            each character comes from.
        entries: (points,) int32. The table's entry of each code point of the flat texts.
        stretch: (points,) int64. Differs between two code points that a space parts.
    """

    characters: tf.RaggedTensor
    text: tf.Tensor
    source: tf.Tensor
    entries: tf.Tensor
    stretch: tf.Tensor


def variant_name(lowercase: bool, strip_accents: bool) -> str:
    """The name in the file of the table for a choice of options."""
    return f"lowercase={int(lowercase)},strip_accents={int(strip_accents)}"


@functools.cache
def load_arrays() -> dict[str, np.ndarray]:
    """What the file holds, by name."""
    with np.load(pathlib.Path(__file__).with_name("normalization.npz")) as file:
        return dict(file)


def unicode_version() -> str:
    """The Unicode version that the table was made from, such as "14.0.0"."""
    return str(load_arrays()["unicode_version"])


class Normalizer:
    """Cuts texts into normalized words, exactly as BERT's BasicTokenizer (google-research/bert).

    Args:
        lowercase: bool. Lowercase as `str.lower` does, the final sigma included.
        strip_accents: bool. Decompose (NFD) and drop marks of category Mn.
        split_on_cjk: bool. Make each CJK ideograph a word of its own.

    Example:

    >>> texts = tf.constant(["Caf\u00e9, ok"])
    >>> points = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
    >>> words = Normalizer(lowercase=True, strip_accents=True, split_on_cjk=True)(points)
    >>> tf.strings.unicode_encode(words.characters, "UTF-8").numpy().tolist()
    [b'cafe', b',', b'ok']
    """

    def __init__(self, lowercase: bool, strip_accents: bool, split_on_cjk: bool):
        arrays = load_arrays()
        prefix = variant_name(lowercase, strip_accents)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.apart = PUNCTUATION | CJK if split_on_cjk else PUNCTUATION
        with tf.device("cpu"), tf.init_scope():
            self.pages = tf.constant(arrays[f"{prefix}/pages"])
            self.page_index = tf.constant(arrays[f"{prefix}/page_index"])
            self.expansions = tf.constant(arrays[f"{prefix}/expansions"])
            self.movable_points = tf.constant(arrays["combining_classes"][:, 0])
            self.movable_classes = tf.constant(arrays["combining_classes"][:, 1])

    def __call__(self, points: tf.RaggedTensor, kept_words: tf.Tensor | None = None) -> Words:
        """Normalize decoded texts and cut them into words.

        Args:
            points: RaggedTensor (texts, None) int32. Code points.
            kept_words: (points,) int32 or None. Positive where a code point is of a word that
                stays as it is; each such word has a number of its own.

        Returns:
            The `Words` of all texts, in order.
        """
        text = points.value_rowids()
        points = points.flat_values
        entries = self.entries(points)
        # Changes wherever a space or the end of a text parts two code points.
        stretch = text + tf.cumsum(tf.cast(_has(entries, SPACE), text.dtype))
        if kept_words is not None:
            stays = (kept_words > 0) & (entries & LENGTH_MASK != 0)
            entries = tf.where(stays, 1, entries)  # one character: itself
            change = tf.concat([kept_words[:1] > 0, kept_words[1:] != kept_words[:-1]], 0)
            stretch += tf.cumsum(tf.cast(change, text.dtype))

        remain = tf.where(tf.sequence_mask(entries & LENGTH_MASK, MAX_LENGTH))  # (characters, 2)
        source, part = remain[:, 0], tf.cast(remain[:, 1], tf.int32)
        entry = tf.gather(entries, source)
        payload = tf.bitwise.right_shift(entry, PAYLOAD_SHIFT)
        alone = entry & LENGTH_MASK == 1
        characters = tf.where(
            alone,
            tf.gather(points, source) + payload,
            tf.gather(self.expansions, tf.where(alone, 0, payload + part)),
        )

        if self.lowercase:
            characters = tf.cond(
                tf.reduce_any(points == CAPITAL_SIGMA),
                lambda: _with_final_sigmas(characters, source, points, entries, stretch),
                lambda: characters,
            )
        if self.strip_accents:
            characters, source, entry = tf.cond(
                tf.math.count_nonzero(_has(entry, MOVABLE)) > 1,
                lambda: self._in_canonical_order(characters, source, entry, entries, stretch),
                lambda: (characters, source, entry),
            )

        # A word opens where a space stood, with a character set apart, and after such a one.
        apart = entry & self.apart != 0
        place = tf.gather(stretch, source)
        opens = apart[1:] | apart[:-1] | (place[1:] != place[:-1])
        opens = tf.concat([tf.ones_like(apart[:1]), opens], 0)
        starts = tf.where(opens)[:, 0]  # (words,)
        return Words(
            tf.RaggedTensor.from_row_starts(characters, starts, validate=False),
            tf.gather(text, tf.gather(source, starts)),
            source,
            entries,
            stretch,
        )

    def _in_canonical_order(self, characters, source, entry, entries, stretch):
        """Sort each run of marks by combining class (Unicode Standard, section 3.11)."""
        run = stretch + tf.cumsum(tf.cast(_has(entries, STARTER), stretch.dtype))
        place = tf.searchsorted(self.movable_points, characters)
        place = tf.minimum(place, tf.size(self.movable_points) - 1)
        movable = tf.gather(self.movable_points, place) == characters
        combining = tf.where(movable, tf.gather(self.movable_classes, place), 0)
        key = tf.gather(run, source) * 256 + tf.cast(combining, run.dtype)
        order = tf.argsort(key, stable=True)
        return tf.gather(characters, order), tf.gather(source, order), tf.gather(entry, order)

    def entries(self, points: tf.Tensor) -> tf.Tensor:
        """The table's entry for each code point."""
        page = tf.gather(self.page_index, tf.bitwise.right_shift(points, PAGE_BITS))
        return tf.gather(self.pages, page * PAGE_SIZE + (points & (PAGE_SIZE - 1)))


def _has(entries: tf.Tensor, flag: int) -> tf.Tensor:
    return entries & flag != 0


def _with_final_sigmas(characters, source, points, entries, stretch):
    """A capital sigma is final after a letter with case and not before one."""
    dropped = entries & (LENGTH_MASK | SPACE | MARK) == 0
    seen = tf.where(~(dropped | _has(entries, IGNORABLE)))[:, 0]
    cased = _has(tf.gather(entries, seen), CASED)
    place = tf.gather(stretch, seen)
    together = place[1:] == place[:-1]
    edge = tf.zeros_like(cased[:1])
    after_letter = tf.concat([edge, cased[:-1] & together], 0)
    before_letter = tf.concat([cased[1:] & together, edge], 0)
    sigma = tf.gather(points, seen) == CAPITAL_SIGMA
    final = tf.boolean_mask(seen, sigma & after_letter & ~before_letter)
    is_final = tf.scatter_nd(
        final[:, tf.newaxis], tf.ones_like(final, tf.int32), tf.shape(points, final.dtype)
    )
    return tf.where(tf.gather(is_final, source) > 0, FINAL_SIGMA, characters)


def source_spans(words: Words) -> tuple[tf.Tensor, tf.Tensor]:
    """Which code points of the original each character stands for, its lost marks included.

    A stripped mark belongs to the character before it, or where it opens a word to the one
    after it.

    Returns:
        (characters,) int64 indices into the flat texts: the first code point, and the last.
    """
    kept = tf.where(words.entries & LENGTH_MASK != 0)[:, 0]
    marks = tf.where(_has(words.entries, MARK))[:, 0]
    none = tf.fill([1], tf.cast(-1, kept.dtype))
    neighbours = tf.concat([none, kept, none], 0)
    rank = tf.searchsorted(kept, marks)  # the number of kept code points before each mark
    before, after = tf.gather(neighbours, rank), tf.gather(neighbours, rank + 1)

    def together(other):
        place = tf.gather(words.stretch, tf.maximum(other, 0))
        return (other >= 0) & (place == tf.gather(words.stretch, marks))

    to_before = together(before)
    to_after = ~to_before & together(after)
    every = tf.range(tf.size(words.entries, kept.dtype))
    first = tf.tensor_scatter_nd_min(every, after[to_after][:, tf.newaxis], marks[to_after])
    last = tf.tensor_scatter_nd_max(every, before[to_before][:, tf.newaxis], marks[to_before])
    return tf.gather(first, words.source), tf.gather(last, words.source)
