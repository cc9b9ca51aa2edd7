"""A quicker way for ordinary text, where it is known to give the same ids.

tensorflow-text can normalize and cut a whole text in two ops. What they make of most code points
is what the normalization table makes of them; these are marked in the table's file as ordinary,
see tools/build_normalization_table.py. A text of nothing but ordinary characters may go this way.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.text import normalization
from keras_bert_impl.text.vocabulary import CONTINUATION, UNK_TOKEN

ASCII = r"[\t\n\r -~]*"
ASCII_WITHOUT_BRACKET = r"[\t\n\r -Z\\-~]*"


class OrdinaryText:
    """Tells which texts are ordinary, and cuts those into pieces.

    Args:
        vocabulary: list of str, by id.
        lowercase, strip_accents, split_on_cjk, max_chars_per_word: as in `BertTokenizer`.
        brackets_matter: bool. Whether `[` may open a special token; then no text that has one is
            ordinary.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        lowercase: bool,
        strip_accents: bool,
        split_on_cjk: bool,
        max_chars_per_word: int,
        brackets_matter: bool,
    ):
        import tensorflow_text

        self.lowercase = lowercase
        self.max_chars_per_word = max_chars_per_word
        self._ascii = ASCII_WITHOUT_BRACKET if brackets_matter else ASCII
        # tensorflow-text's normalizer lowercases and strips both, or neither.
        self._beyond_ascii = lowercase == strip_accents
        if self._beyond_ascii:
            self._ordinary = _pattern(lowercase, split_on_cjk, brackets_matter)
        self._normalizer: Any = None
        with tf.device("cpu"), tf.init_scope():
            if lowercase and strip_accents:
                self._normalizer = tensorflow_text.FastBertNormalizer(
                    lower_case_nfd_strip_accents=True
                )
            self._op = tensorflow_text.FastWordpieceTokenizer(
                list(vocabulary),
                suffix_indicator=CONTINUATION,
                max_bytes_per_word=max_chars_per_word,
                token_out_type=tf.int32,
                unknown_token=UNK_TOKEN,
            )

    def tokenize(self, texts: tf.Tensor, other) -> tf.RaggedTensor:
        """Cut ordinary texts the quick way, all others by another function.

        Args:
            texts: (texts,) strings.
            other: function of (texts,) strings that gives a RaggedTensor (texts, None) int32.

        Returns:
            RaggedTensor (texts, None) int32.
        """
        is_ascii = tf.strings.regex_full_match(texts, self._ascii)
        return tf.cond(
            tf.reduce_all(is_ascii),
            lambda: self._op.tokenize(self._lower(texts)),
            lambda: self._tokenize_mixed(texts, is_ascii, other),
        )

    def _tokenize_mixed(self, texts, is_ascii, other):
        if self._beyond_ascii:
            ordinary = tf.strings.regex_full_match(texts, self._ordinary)
            normalized = tf.where(ordinary, texts, "")
            if self._normalizer:
                normalized = self._normalizer.normalize(normalized)
        else:
            ordinary = is_ascii
            normalized = self._lower(tf.where(ordinary, texts, ""))
        ids, starts, ends = self._op.tokenize_with_offsets(normalized)
        # The op's limit is in bytes. Where it was met, it may have been by too few characters.
        met = tf.reduce_any(ends.values - starts.values > self.max_chars_per_word)
        ordinary &= ~met
        return tf.cond(
            tf.reduce_all(ordinary),
            lambda: ids,
            lambda: _with_others(texts, ids, ordinary, other),
        )

    def _lower(self, texts):
        return tf.strings.lower(texts) if self.lowercase else texts


def _with_others(texts, ids, ordinary, other):
    """The ids of ordinary texts, and what another function gives for the others."""
    kinds = [tf.where(ordinary)[:, 0], tf.where(~ordinary)[:, 0]]
    parts = [tf.gather(ids, kinds[0]), other(tf.gather(texts, kinds[1]))]
    return tf.gather(tf.concat(parts, 0), tf.math.invert_permutation(tf.concat(kinds, 0)))


def _pattern(lowercase: bool, split_on_cjk: bool, brackets_matter: bool) -> str:
    """A regular expression that ordinary texts match in full."""
    name = normalization.variant_name(lowercase, lowercase)
    arrays = normalization.load_arrays()
    ordinary = np.unpackbits(arrays[f"{name}/ordinary"]).astype(bool)
    if not split_on_cjk:
        page = arrays[f"{name}/page_index"].repeat(normalization.PAGE_SIZE)
        place = np.arange(len(page)) % normalization.PAGE_SIZE
        entries = arrays[f"{name}/pages"][page * normalization.PAGE_SIZE + place]
        ordinary &= entries & normalization.CJK == 0
    if brackets_matter:
        ordinary[ord("[")] = False
    edges = np.flatnonzero(np.diff(np.pad(ordinary, 1).astype(np.int8)))
    ranges = (
        rf"\x{{{first:X}}}-\x{{{end - 1:X}}}"
        for first, end in zip(edges[::2], edges[1::2], strict=True)
    )
    return f"[{''.join(ranges)}]*"
