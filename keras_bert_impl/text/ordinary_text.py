"""A quicker way for ordinary text, where it is known to give the same ids.

tensorflow-text can normalize and cut a whole text in two ops. Its normalizer is handed our own
mapping; what its tokenizer then makes of most code points is what the normalization table makes of
them. These are marked in the table's file as ordinary, see tools/build_normalization_table.py. A
text of nothing but ordinary characters may go this way.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_impl.text import normalization
from keras_bert_impl.text.vocabulary import CONTINUATION, UNK_TOKEN

TEXTS = tf.TensorSpec([None], tf.string)
IDS = tf.RaggedTensorSpec([None, None], tf.int32)
CHOICE = tf.TensorSpec([None], tf.bool)

FIRST_PRINTABLE, LAST_PRINTABLE = ord(" "), ord("~")


class OrdinaryText:
    """Tells which texts are ordinary, and cuts those into pieces.

    Args:
        vocabulary: list of str, by id.
        lowercase, strip_accents, split_on_cjk, max_chars_per_word: as in `BertTokenizer`.
        brackets_matter: bool. Whether `[` may open a special token; then no text that has one is
            ordinary.
        other: function of (texts,) strings that gives a RaggedTensor (texts, None) int32, for
            texts that are not ordinary.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        lowercase: bool,
        strip_accents: bool,
        split_on_cjk: bool,
        max_chars_per_word: int,
        brackets_matter: bool,
        other: Callable[[tf.Tensor], tf.RaggedTensor],
    ):
        import tensorflow_text

        self.lowercase = lowercase
        self.max_chars_per_word = max_chars_per_word
        self.brackets_matter = brackets_matter
        self._other = other
        name = normalization.variant_name(lowercase, strip_accents)
        self._ordinary = _pattern(name, split_on_cjk, brackets_matter)
        with tf.device("cpu"), tf.init_scope():
            mapping = tf.constant(normalization.load_arrays()[f"{name}/fused"])
            self._normalizer = tensorflow_text.FastBertNormalizer(model_buffer=mapping)
            self._op = tensorflow_text.FastWordpieceTokenizer(
                list(vocabulary),
                suffix_indicator=CONTINUATION,
                max_bytes_per_word=max_chars_per_word,
                token_out_type=tf.int32,
                unknown_token=UNK_TOKEN,
            )

        self._tokenize_mixed_apart = _apart(self._tokenize_mixed, TEXTS)
        self._with_others_apart = _apart(self._with_others, TEXTS, IDS, CHOICE)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Cut ordinary texts the quick way, all others by the function given.

        Args:
            texts: (texts,) strings.

        Returns:
            RaggedTensor (texts, None) int32.
        """
        return tf.cond(
            self._are_printable_ascii(texts),
            lambda: self._op.tokenize(self._lower(texts)),
            lambda: self._tokenize_mixed_apart(texts),
        )

    def _tokenize_mixed(self, texts):
        ordinary = tf.strings.regex_full_match(texts, self._ordinary)
        normalized = self._normalizer.normalize(tf.where(ordinary, texts, ""))
        ids, starts, ends = self._op.tokenize_with_offsets(normalized)
        # The op's limit is in bytes. Where it was met, it may have been by too few characters.
        met = ends.values - starts.values > self.max_chars_per_word  # (pieces,)
        return tf.cond(
            tf.reduce_all(ordinary) & ~tf.reduce_any(met),
            lambda: ids,
            lambda: self._with_others_apart(texts, ids, ordinary & ~_any(ids.with_values(met))),
        )

    def _with_others(self, texts, ids, ordinary):
        """The ids of ordinary texts, and what the other function gives for the others."""
        kinds = [tf.where(ordinary)[:, 0], tf.where(~ordinary)[:, 0]]
        parts = [tf.gather(ids, kinds[0]), self._other(tf.gather(texts, kinds[1]))]
        return tf.gather(tf.concat(parts, 0), tf.math.invert_permutation(tf.concat(kinds, 0)))

    def _are_printable_ascii(self, texts):
        # As one row of bytes: much quicker than to match each text.
        characters = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
        # What lies below wraps around.
        place = characters - FIRST_PRINTABLE
        printable = tf.reduce_max(place) <= LAST_PRINTABLE - FIRST_PRINTABLE
        if self.brackets_matter:
            printable &= ~tf.reduce_any(characters == ord("["))
        return printable

    def _lower(self, texts):
        return tf.strings.lower(texts) if self.lowercase else texts


def _any(rows: tf.RaggedTensor) -> tf.Tensor:
    """Whether any value of each row is true."""
    counts = tf.pad(tf.cumsum(tf.cast(rows.values, tf.int32)), [[1, 0]])
    counts = tf.gather(counts, rows.row_splits)
    return counts[1:] > counts[:-1]


def _apart(function, *signature):
    """The same as a graph of its own, which costs nothing where a `tf.cond` passes it over.

    The operations of a branch that is not taken are visited one by one otherwise.
    """

    def on_cpu(*arguments):
        with tf.device("cpu"):
            return function(*arguments)

    return tf.function(
        on_cpu,
        input_signature=signature,
        autograph=False,
        experimental_attributes={"_noinline": True},
    )


def _pattern(name: str, split_on_cjk: bool, brackets_matter: bool) -> str:
    """A regular expression that ordinary texts match in full, by the name of the table's variant."""
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
