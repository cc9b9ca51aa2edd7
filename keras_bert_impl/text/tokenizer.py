"""BERT's tokenizer: strings to WordPiece ids, as a TensorFlow graph."""

import hashlib
import json
import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import keras
import keras_hub
import tensorflow as tf
from keras.src.saving import serialization_lib

from keras_bert_impl.text import kept_words
from keras_bert_impl.text import vocabulary as vocabulary_lib
from keras_bert_impl.text.normalization import Normalizer, source_spans, unicode_version
from keras_bert_impl.text.ordinary_text import OrdinaryText
from keras_bert_impl.text.vocabulary import (
    CLS_TOKEN,
    CONTINUATION,
    MASK_TOKEN,
    PAD_TOKEN,
    SEP_TOKEN,
    SPECIAL_TOKENS,
    UNK_TOKEN,
)
from keras_bert_impl.text.wordpiece import WordPiece

VOCABULARY_FILE = "vocab.txt"


class TokensWithOffsets(NamedTuple):
    """Pieces, and where in the original text each stands.

    All are of one shape: (pieces,) for one text, else ragged (batch, None).

    Attributes:
        ids: the tokenizer's dtype.
        starts, ends: int64 characters of the text (Python's `text[start:end]`).
        byte_starts, byte_ends: int64 bytes of the text in UTF-8.
        word_ids: int64. Number of the word within its text; pieces of one word share it.
    """

    ids: tf.Tensor | tf.RaggedTensor
    starts: tf.Tensor | tf.RaggedTensor
    ends: tf.Tensor | tf.RaggedTensor
    byte_starts: tf.Tensor | tf.RaggedTensor
    byte_ends: tf.Tensor | tf.RaggedTensor
    word_ids: tf.Tensor | tf.RaggedTensor


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertTokenizer(keras_hub.tokenizers.Tokenizer):
    """Strings to WordPiece ids, id for id as google-research/bert's FullTokenizer.

    The same TensorFlow graph runs eagerly, in `tf.data`, in a `tf.function` and in a SavedModel,
    whatever the Keras backend. No `[CLS]` or `[SEP]` is added: packing does that.

    Args:
        vocabulary: list of str by id, path of a vocabulary file, or None where it comes later
            (`set_vocabulary`, `load_assets`).
        lowercase: bool. As the model was trained: true for uncased models (the default, as the
            reference's).
        strip_accents: bool or None. None follows `lowercase`, as the reference; false with
            `lowercase=True` keeps accents.
        split_on_cjk: bool. Each CJK ideograph becomes a word.
        special_tokens_in_strings: bool. Take `[MASK]` and its like in a text for the special
            token. Off by default, as in the reference: a text that someone else wrote must not
            bring its own `[SEP]`.
        preserve_unused_tokens: bool. Keep a word `[unused1]` whole where the vocabulary has it.
        max_chars_per_word: int. A longer word becomes `[UNK]`; in characters, default 200, as in
            the reference.
        unicode_version: str or None. Version that the normalization table must have; None takes
            the one at hand. It is kept in the config, so that a tokenizer that is loaded
            elsewhere gives the same ids or says that it cannot.
        dtype: str. An integer type, or `"string"` for tokens in place of ids.

    Returns:
        A string gives a (pieces,) tensor, (batch,) strings a ragged (batch, None) tensor, and
        (batch, rows) strings, dense or ragged, a ragged (batch, None, None) tensor. Bytes that
        are not UTF-8 are skipped, as the reference does.

    Raises:
        ValueError: for a wrong dtype, vocabulary, limit or Unicode version.
        ImportError: where tensorflow-text is not installed.

    Example:

    >>> tokenizer = BertTokenizer([*SPECIAL_TOKENS, "un", "##aff", "##able", "!"])
    >>> tokenizer(["Unaffable!", ""])
    <tf.RaggedTensor [[5, 6, 7, 8], []]>
    >>> tokenizer.detokenize([5, 6, 7, 8])
    <tf.Tensor: shape=(), dtype=string, numpy=b'unaffable !'>
    """

    def __init__(
        self,
        vocabulary: Sequence[str] | str | os.PathLike | None = None,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_on_cjk: bool = True,
        special_tokens_in_strings: bool = False,
        preserve_unused_tokens: bool = False,
        max_chars_per_word: int = 200,
        unicode_version: str | None = None,
        dtype="int32",
        **kwargs,
    ):
        super().__init__(dtype=dtype, **kwargs)
        # `call` is a graph of its own; KerasHub's path in plain Python is never taken.
        self._allow_python_workflow = False
        if not (self._gives_strings or tf.as_dtype(self.compute_dtype).is_integer):
            raise ValueError(
                f"dtype={dtype!r}: expected an integer type for ids or 'string' for tokens."
            )
        if max_chars_per_word < 1:
            raise ValueError(f"max_chars_per_word={max_chars_per_word}: expected 1 or more.")
        _check_unicode_version(unicode_version)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.split_on_cjk = split_on_cjk
        self.special_tokens_in_strings = special_tokens_in_strings
        self.preserve_unused_tokens = preserve_unused_tokens
        self.max_chars_per_word = max_chars_per_word
        self.file_assets = [VOCABULARY_FILE]
        self._normalizer = Normalizer(
            lowercase, lowercase if strip_accents is None else strip_accents, split_on_cjk
        )
        self._lookup: _Lookup | None = None
        for name, token in (
            ("pad_token", PAD_TOKEN),
            ("unk_token", UNK_TOKEN),
            ("cls_token", CLS_TOKEN),
            ("sep_token", SEP_TOKEN),
            ("mask_token", MASK_TOKEN),
            ("start_token", CLS_TOKEN),  # KerasHub's names for the same
            ("end_token", SEP_TOKEN),
        ):
            self._add_special_token(token, name)
        self.set_vocabulary(vocabulary)

    # Vocabulary

    def set_vocabulary(self, vocabulary: Sequence[str] | str | os.PathLike | None) -> None:
        """Take a vocabulary: a list of tokens by id, or the path of a vocabulary file.

        Raises:
            ValueError: as `check_vocabulary`, and for a path out of a config that Keras loads in
                safe mode.
        """
        if vocabulary is None:
            self._lookup = None
            return
        if isinstance(vocabulary, (str, os.PathLike)):
            if serialization_lib.in_safe_mode():
                raise ValueError(
                    f"Refused to read the vocabulary file {vocabulary}: it lies outside of the "
                    "archive that is being loaded, and could be any file. If you trust the "
                    "archive, load with safe_mode=False."
                )
            vocabulary = vocabulary_lib.read_vocabulary(vocabulary)
        else:
            vocabulary = list(vocabulary)
            vocabulary_lib.check_vocabulary(vocabulary)
        matchable = _matchable(vocabulary)
        self._wordpiece = WordPiece(matchable, self.max_chars_per_word)
        self._ordinary_text = OrdinaryText(
            matchable,
            self.lowercase,
            self._normalizer.strip_accents,
            self.split_on_cjk,
            self.max_chars_per_word,
            brackets_matter=self.special_tokens_in_strings or self.preserve_unused_tokens,
            other=self._tokenize_by_table,
        )
        self._lookup = _Lookup(vocabulary)
        self._update_special_token_ids()

    def get_vocabulary(self) -> list[str]:
        """The tokens by id, a copy."""
        return list(self._known().tokens)

    def vocabulary_size(self) -> int:
        """The number of tokens."""
        return len(self._known().tokens)

    def fingerprint(self) -> str:
        """A hexadecimal number that other vocabularies or options do not share.

        Ids made by tokenizers of one fingerprint mean the same.
        """
        options = {name: value for name, value in self.get_config().items() if name != "name"}
        content = json.dumps([options, self.get_vocabulary()], sort_keys=True, default=str)
        return hashlib.sha256(content.encode()).hexdigest()

    def id_to_token(self, id: int) -> str:
        """The token of an id.

        Raises:
            ValueError: for an id outside of the vocabulary.
        """
        tokens = self._known().tokens
        if not 0 <= id < len(tokens):
            raise ValueError(f"Id {id} is outside of the vocabulary: 0 to {len(tokens) - 1}.")
        return tokens[id]

    def token_to_id(self, token: str) -> int:
        """The id of a token.

        Raises:
            ValueError: for a token that is not in the vocabulary.
        """
        ids = self._known().ids
        if token not in ids:
            raise ValueError(f"Token {token!r} is not among the vocabulary's {len(ids)} tokens.")
        return ids[token]

    def save_assets(self, dir_path: str) -> None:
        """Write `vocab.txt` into a folder."""
        path = pathlib.Path(dir_path) / VOCABULARY_FILE
        vocabulary_lib.save_vocabulary(self._known().tokens, path)

    def load_assets(self, dir_path: str) -> None:
        """Take the vocabulary from `vocab.txt` in a folder."""
        path = pathlib.Path(dir_path) / VOCABULARY_FILE
        self.set_vocabulary(vocabulary_lib.read_vocabulary(path))

    def _known(self) -> "_Lookup":
        if self._lookup is None:
            raise ValueError(
                "This BertTokenizer has no vocabulary yet. Pass `vocabulary` to the constructor, "
                "or call set_vocabulary() or load_assets()."
            )
        return self._lookup

    # Strings to ids

    def call(self, inputs):
        return self.tokenize(inputs)

    def tokenize(self, inputs) -> tf.Tensor | tf.RaggedTensor:
        """Cut texts into pieces.

        Args:
            inputs: strings of rank 0, 1 or 2: str, bytes, nested lists, arrays, dense or ragged
                tensors.

        Returns:
            See the class.
        """
        self._known()
        with tf.device("cpu"):
            texts = _as_strings(inputs)
            return _map_flat(self._tokenize, texts)

    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        ids = self._ordinary_text.tokenize(texts)
        return ids.with_values(self._as_output(ids.values))

    def _tokenize_by_table(self, texts: tf.Tensor) -> tf.RaggedTensor:
        points = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        words = self._normalizer(points, self._kept_words(texts, points))
        ids, _, _ = self._wordpiece(words.characters)
        return _join_words(ids, words.text, texts)

    def tokenize_with_offsets(self, inputs) -> TokensWithOffsets:
        """Cut texts into pieces, and say where in the original each stands.

        For a piece, `text[start:end]` is what the piece stands for as it was spelled, its
        accents included, before anything was lowercased or stripped. Where one character gives
        several pieces (a Hangul syllable), they share its offsets.

        Args:
            inputs: strings of rank 0 or 1.

        Returns:
            `TokensWithOffsets`. In text that is not UTF-8, characters are counted without the
            bytes that are skipped; byte offsets are those of the original.

        Example:

        >>> tokenizer = BertTokenizer([*SPECIAL_TOKENS, "cafe"])
        >>> tokens = tokenizer.tokenize_with_offsets("  Caf\u00e9")
        >>> tokens.starts.numpy().tolist(), tokens.ends.numpy().tolist()
        ([2], [6])
        """
        self._known()
        with tf.device("cpu"):
            texts = _as_strings(inputs)
            if texts.shape.rank == 0:
                tokens = self._tokenize_with_offsets(texts[tf.newaxis])
                return TokensWithOffsets(*(x.values for x in tokens))
            if texts.shape.rank != 1:
                raise ValueError(
                    f"Expected a string or (batch,) strings, but received shape {texts.shape}."
                )
            return self._tokenize_with_offsets(texts)

    def _tokenize_with_offsets(self, texts: tf.Tensor) -> TokensWithOffsets:
        points, byte_of_point = tf.strings.unicode_decode_with_offsets(
            texts, "UTF-8", errors="ignore"
        )
        words = self._normalizer(points, self._kept_words(texts, points))
        ids, starts, _ = self._wordpiece(words.characters)
        word = ids.value_rowids()  # (pieces,)

        # The pieces of a word cover it, so the first character of each tells the whole.
        sizes = _utf8_size(words.characters.flat_values)
        byte_starts = tf.cumsum(sizes, exclusive=True)  # (characters,)
        word_starts = tf.gather(words.characters.row_starts(), word)
        first_byte = tf.gather(byte_starts, word_starts) + tf.cast(starts.values, sizes.dtype)
        first_character = tf.searchsorted(byte_starts, first_byte, out_type=tf.int64)
        opens = tf.scatter_nd(
            first_character[:, tf.newaxis],
            tf.ones_like(first_character),
            tf.shape(sizes, tf.int64),
        )
        piece = tf.cumsum(opens) - 1  # (characters,)
        first, last = source_spans(words)
        first, last = tf.math.segment_min(first, piece), tf.math.segment_max(last, piece)

        byte_of_point, point = byte_of_point.flat_values, points.flat_values
        text = tf.gather(words.text, word)
        text_start = tf.gather(points.row_starts(), text)
        byte_end = tf.gather(byte_of_point, last) + _utf8_size(tf.gather(point, last))
        first_word = tf.searchsorted(words.text, words.text, out_type=tf.int64)
        word_id = word - tf.gather(first_word, word)
        joined = _join_words(ids, words.text, texts)
        values = (
            self._as_output(ids.values),
            first - text_start,
            last + 1 - text_start,
            tf.gather(byte_of_point, first),
            byte_end,
            word_id,
        )
        return TokensWithOffsets(*(joined.with_values(x) for x in values))

    def _kept_words(self, texts, points) -> tf.Tensor | None:
        """Which code points are of a special or unused token; None where none can be."""
        kept = None
        if self.preserve_unused_tokens:
            kept = tf.cond(
                tf.reduce_any(tf.strings.regex_full_match(texts, r"(?s).*\[un.*")),
                lambda: kept_words.unused_tokens_in(
                    points,
                    self._normalizer.entries(points.flat_values),
                    self._known().is_unused,
                    self._wordpiece,
                ),
                lambda: tf.zeros_like(points.flat_values),
            )
        if self.special_tokens_in_strings:
            special = tf.cond(
                tf.reduce_any(points.flat_values == ord("[")),
                lambda: kept_words.special_tokens_in(points, SPECIAL_TOKENS),
                lambda: tf.zeros_like(points.flat_values),
            )
            kept = special if kept is None else tf.where(special > 0, special, kept)
        return kept

    @property
    def _gives_strings(self) -> bool:
        return self.compute_dtype == "string"

    def _as_output(self, ids: tf.Tensor) -> tf.Tensor:
        return (
            tf.gather(self._known().token_tensor, ids)
            if self._gives_strings
            else tf.cast(ids, self.compute_dtype)
        )

    # Ids to strings

    def detokenize(self, inputs) -> tf.Tensor | tf.RaggedTensor:
        """Join pieces to texts: words parted by spaces, `##` pieces joined to their word.

        Args:
            inputs: ids, or tokens where the dtype is string: (pieces,), (batch, pieces) or
                deeper, dense or ragged. Every token is written out, special ones too.

        Returns:
            Strings of one dimension less.

        Raises:
            tf.errors.InvalidArgumentError: for an id outside of the vocabulary.
        """
        self._known()
        with tf.device("cpu"):
            pieces = tf.ragged.constant(inputs) if _is_uneven(inputs) else inputs
            if not isinstance(pieces, tf.RaggedTensor):
                pieces = tf.convert_to_tensor(pieces)
            if pieces.dtype != tf.string:
                pieces = tf.ragged.map_flat_values(
                    lambda ids: tf.gather(self._known().token_tensor, tf.cast(ids, tf.int32)),
                    pieces,
                )
            pieces = tf.ragged.map_flat_values(_spaced, pieces)
            joined = tf.strings.reduce_join(pieces, axis=-1)
            return tf.ragged.map_flat_values(tf.strings.strip, joined)

    # Config

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary": None,  # goes into the assets
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "split_on_cjk": self.split_on_cjk,
            "special_tokens_in_strings": self.special_tokens_in_strings,
            "preserve_unused_tokens": self.preserve_unused_tokens,
            "max_chars_per_word": self.max_chars_per_word,
            "unicode_version": unicode_version(),
        }


class _Lookup:
    """A vocabulary both ways. No list of the layer's own: Keras would track every token."""

    def __init__(self, tokens: list[str]):
        self.tokens = tokens
        self.ids = {token: id for id, token in enumerate(tokens)}
        with tf.device("cpu"), tf.init_scope():
            self.token_tensor = tf.constant(tokens)
            self.is_unused = tf.constant(
                [bool(kept_words.UNUSED_TOKEN.fullmatch(token)) for token in tokens]
            )


def _matchable(vocabulary: Sequence[str]) -> list[str]:
    """The tokens, those with white space made such that no text matches them.

    The original cuts at white space before it looks into the vocabulary; the fused op, handed such
    a token, would find it across two words. No word holds a control character.
    """
    return [
        f"\x01{id}" if any(character.isspace() for character in token) else token
        for id, token in enumerate(vocabulary)
    ]


def _check_unicode_version(asked: str | None) -> None:
    if asked is not None and asked != unicode_version():
        raise ValueError(
            f"This tokenizer was made with Unicode {asked}, but the installed package's table is "
            f"of Unicode {unicode_version()}: some characters would get other ids than in "
            "training. Install the release it was made with, or pass unicode_version=None to "
            "accept the difference."
        )


def _as_strings(inputs) -> tf.Tensor | tf.RaggedTensor:
    if isinstance(inputs, tf.RaggedTensor):
        strings = inputs
    elif _is_uneven(inputs):
        strings = tf.ragged.constant(inputs, dtype=tf.string)
    elif isinstance(inputs, (list, tuple)) and not len(inputs):
        strings = tf.zeros([0], tf.string)
    else:
        strings = tf.convert_to_tensor(inputs)
    if strings.dtype != tf.string:
        raise ValueError(f"Expected strings, but received {strings.dtype.name}.")
    if strings.shape.rank is None or strings.shape.rank > 2:
        raise ValueError(
            f"Expected strings of shape (), (batch,) or (batch, rows), but received shape "
            f"{strings.shape}."
        )
    return strings


def _is_uneven(inputs) -> bool:
    """Whether this is a list of lists of different lengths."""
    if not isinstance(inputs, (list, tuple)):
        return False
    lengths = {len(row) if isinstance(row, (list, tuple)) else -1 for row in inputs}
    return len(lengths) > 1 or any(map(_is_uneven, inputs))


def _map_flat(function, texts):
    """Apply a function of (texts,) strings to strings of rank 0, 1 or 2."""
    if texts.shape.rank == 0:
        return function(texts[tf.newaxis]).values
    if texts.shape.rank == 1:
        return function(texts)
    if not isinstance(texts, tf.RaggedTensor):
        texts = tf.RaggedTensor.from_tensor(texts)
    return texts.with_values(function(texts.values))


def _join_words(pieces: tf.RaggedTensor, text_of_word: tf.Tensor, texts: tf.Tensor):
    """(words, None) pieces to (texts, None) pieces."""
    words = tf.searchsorted(text_of_word, tf.range(tf.size(texts, tf.int64) + 1), out_type=tf.int64)
    return tf.RaggedTensor.from_row_splits(
        pieces.values, tf.gather(pieces.row_splits, words), validate=False
    )


def _utf8_size(points: tf.Tensor) -> tf.Tensor:
    """Bytes of each code point in UTF-8, int64."""
    size = tf.ones_like(points, tf.int64)
    for bound in (0x80, 0x800, 0x10000):
        size += tf.cast(points >= bound, tf.int64)
    return size


def _spaced(tokens: tf.Tensor) -> tf.Tensor:
    """Tokens with what parts them from the piece before: nothing for `##` pieces."""
    continues = tf.strings.substr(tokens, 0, len(CONTINUATION)) == CONTINUATION
    rest = tf.strings.regex_replace(tokens, f"^{CONTINUATION}", "")
    return tf.where(continues, rest, tf.strings.join([" ", tokens]))
