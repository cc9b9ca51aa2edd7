"""Write keras_bert_impl/text/normalization.npz from Python's own Unicode data.

The table holds, for each code point and each choice of lowercase and strip_accents, what BERT's
tokenizer makes of it. It is shipped, so that every Python gives the same ids; make it anew only
to move to another Unicode version:

    python tools/build_normalization_table.py
"""

import argparse
import functools
import itertools
import pathlib
import unicodedata
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text
import tqdm
from fused_normalizer import normalizer_model

from keras_bert_impl.text import normalization as table
from keras_bert_impl.text import vocabulary

DEFAULT_PATH = pathlib.Path(table.__file__).with_name("normalization.npz")

# The blocks whose characters become words of their own, as the released models' vocabularies
# were made with: Unified Ideographs, extensions A to E, and the two compatibility blocks.
CJK_BLOCKS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
SURROGATES = range(0xD800, 0xE000)


def is_dropped(char: str) -> bool:
    """NUL, the replacement character, and controls and format characters but tab, \\n and \\r."""
    if char in "\t\n\r":
        return False
    return char in "\0\ufffd" or unicodedata.category(char) in ("Cc", "Cf")


def is_punctuation(char: str) -> bool:
    """Category P, and every visible ASCII character that is no letter and no digit."""
    return ("!" <= char <= "~" and not char.isalnum()) or unicodedata.category(char)[0] == "P"


def is_cjk(char: str) -> bool:
    """Whether the character stands in one of the blocks that are split into single characters."""
    return any(first <= ord(char) <= last for first, last in CJK_BLOCKS)


def sigma_context(char: str) -> int:
    """What the character is to the rule of the final sigma, asked of `str.lower` itself."""
    before_end = f"A\u03a3{char}".lower()[1] == "\u03c2"
    before_letter = f"A\u03a3{char}A".lower()[1] == "\u03c2"
    if before_end and not before_letter:
        return table.IGNORABLE
    return 0 if before_end else table.CASED


def entry(char: str, lowercase: bool, strip_accents: bool) -> tuple[int, str]:
    """The flags of a character and what it turns into.

    Returns:
        The flags of `keras_bert_impl.text.normalization`, and the characters that remain.
    """
    if is_dropped(char):
        return 0, ""
    if char.isspace() or unicodedata.category(char) == "Zs":
        return table.SPACE | table.STARTER, ""
    flags = sigma_context(char) | (table.CJK if is_cjk(char) else 0)
    text = char.lower() if lowercase else char
    if strip_accents:
        decomposed = unicodedata.normalize("NFD", text)
        text = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        classes = [unicodedata.combining(c) for c in decomposed]
        assert classes == sorted(classes, key=bool), f"U+{ord(char):04X}: starter after a mark"
        flags |= table.STARTER if 0 in classes else 0
        flags |= table.MOVABLE if any(map(unicodedata.combining, text)) else 0
    if not text:
        flags |= table.MARK
    if any(map(is_punctuation, text)):
        assert len(text) == 1, f"U+{ord(char):04X}: punctuation inside a longer text"
        flags |= table.PUNCTUATION
    assert len(text) <= table.MAX_LENGTH, f"U+{ord(char):04X} becomes {len(text)} characters"
    return flags, text


def build_variant(lowercase: bool, strip_accents: bool) -> dict[str, np.ndarray]:
    """One table: pages of entries, the index of pages, and texts longer than one character."""
    entries = np.zeros(table.CODE_POINTS, np.int32)
    expansions: list[int] = []
    positions: dict[str, int] = {}
    name = f"lowercase={lowercase}, strip_accents={strip_accents}"
    for point in tqdm.trange(table.CODE_POINTS, desc=name, unit="code point"):
        if point in SURROGATES:
            continue
        flags, text = entry(chr(point), lowercase, strip_accents)
        payload = 0
        if len(text) == 1:
            payload = ord(text) - point
        elif text:
            payload = positions.setdefault(text, len(expansions))
            if payload == len(expansions):
                expansions.extend(map(ord, text))
        entries[point] = payload << table.PAYLOAD_SHIFT | flags | len(text)
    pages, index = np.unique(entries.reshape(-1, table.PAGE_SIZE), axis=0, return_inverse=True)
    return {
        "pages": pages.reshape(-1),
        "page_index": index.reshape(-1).astype(np.int32),
        "expansions": np.array([*expansions, *[0] * table.MAX_LENGTH], np.int32),
    }


def combining_classes() -> np.ndarray:
    """Marks that outlive accent stripping yet take part in canonical ordering: (point, class)."""
    return np.array(
        [
            (point, unicodedata.combining(chr(point)))
            for point in range(table.CODE_POINTS)
            if unicodedata.combining(chr(point)) and unicodedata.category(chr(point)) != "Mn"
        ],
        np.int32,
    )


def fused_mapping(lowercase: bool, strip_accents: bool) -> dict[str, str]:
    """What tensorflow-text's normalizer is to make of characters, for its tokenizer to go on.

    Spaces are one space; what is to stand apart has spaces around it, where not every release of
    the tokenizer would set it apart by itself.
    """
    splits = {chr(point) for point in np.flatnonzero(fused_splits())}
    mapping = {}
    for point in tqdm.trange(table.CODE_POINTS, desc="fused", unit="code point"):
        if point in SURROGATES:
            continue
        char = chr(point)
        flags, text = entry(char, lowercase, strip_accents)
        if flags & table.SPACE:
            text = char if char in " \t\n\r" else " "
        elif flags & table.PUNCTUATION and not (text in splits and is_settled(text)):
            text = f" {text} "
        if text != char:
            mapping[char] = text
    return mapping


@functools.cache
def fused_splits() -> np.ndarray:
    """(CODE_POINTS,) bool. Which characters tensorflow-text's tokenizer makes a word of its own."""
    points = [point for point in range(table.CODE_POINTS) if point not in SURROGATES]
    # With no word in the vocabulary each word is one unknown piece.
    ids = _fused_tokenizer().tokenize(tf.constant([f"a{chr(point)}b" for point in points]))
    splits = np.zeros(table.CODE_POINTS, bool)
    splits[points] = ids.row_lengths().numpy() == 3
    return splits


@functools.cache
def _fused_tokenizer():
    return tensorflow_text.FastWordpieceTokenizer(
        [vocabulary.UNK_TOKEN, "unused"], token_out_type=tf.int32
    )


def ordinary_points(lowercase: bool, strip_accents: bool, model: np.ndarray) -> np.ndarray:
    """Code points of which tensorflow-text's ops, handed our mapping, make what the table makes.

    Left out are those whose outcome hangs on their neighbours, and those that another release of
    tensorflow-text may see in another way (as Unicode grew).

    Returns:
        (CODE_POINTS,) bool.
    """
    points = [point for point in range(table.CODE_POINTS) if point not in SURROGATES]
    texts = tf.constant([f"a{chr(point)}b" for point in points])

    normalizer = table.Normalizer(lowercase, strip_accents, split_on_cjk=True)
    words = normalizer(tf.strings.unicode_decode(texts, "UTF-8"))
    strings = tf.strings.unicode_encode(words.characters, "UTF-8")
    ours = tf.RaggedTensor.from_value_rowids(strings, words.text, len(points))

    fused = tensorflow_text.FastBertNormalizer(model_buffer=tf.constant(model))
    texts = fused.normalize(texts)
    _, starts, ends = _fused_tokenizer().tokenize_with_offsets(texts)
    theirs = [
        [text[start:end] for start, end in zip(*spans, strict=True)]
        for text, *spans in zip(texts.numpy(), starts.to_list(), ends.to_list(), strict=True)
    ]

    entries = normalizer.entries(tf.constant(points)).numpy()
    ordinary = np.zeros(table.CODE_POINTS, bool)
    for point, entry_, a, b in zip(points, entries, ours.to_list(), theirs, strict=True):
        context = (lowercase and point == table.CAPITAL_SIGMA) or entry_ & table.MOVABLE
        apart = entry_ & (table.PUNCTUATION | table.SPACE) or not entry_ & table.LENGTH_MASK
        remains = "".join(part.decode() for part in a)
        ordinary[point] = a == b and not context and (apart or is_settled(remains))
    return ordinary


def is_settled(text: str) -> bool:
    """Whether every Unicode version since 3.2 sees the characters as parts of words, or none does.

    One that came later counts, as what characters are hardly ever changes.
    """
    for char in text:
        now, then = unicodedata.category(char), unicodedata.ucd_3_2_0.category(char)
        if now == "Cn" or (then != "Cn" and any((now[0] == x) != (then[0] == x) for x in "CPZ")):
            return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=DEFAULT_PATH)
    path = parser.parse_args().output
    arrays: dict[str, Any] = {
        "unicode_version": np.array(unicodedata.unidata_version),
        "combining_classes": combining_classes(),
    }
    for lowercase, strip_accents in itertools.product((False, True), repeat=2):
        variant = build_variant(lowercase, strip_accents)
        prefix = table.variant_name(lowercase, strip_accents)
        arrays |= {f"{prefix}/{key}": value for key, value in variant.items()}
    np.savez_compressed(path, **arrays)
    table.load_arrays.cache_clear()
    # The second pass needs the tables of the first.
    for lowercase, strip_accents in itertools.product((False, True), repeat=2):
        prefix = table.variant_name(lowercase, strip_accents)
        model = normalizer_model(fused_mapping(lowercase, strip_accents))
        arrays[f"{prefix}/fused"] = model
        arrays[f"{prefix}/ordinary"] = np.packbits(ordinary_points(lowercase, strip_accents, model))
    np.savez_compressed(path, **arrays)
    print(f"{path}: Unicode {unicodedata.unidata_version}, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
