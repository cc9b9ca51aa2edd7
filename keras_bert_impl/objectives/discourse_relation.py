"""Which connective stood between two sentences?

ERNIE 2.0 (Sun et al. 2019), section 4.2.3, "Discourse Relation Task", which follows "Mining
Discourse Markers for Unsupervised Sentence Representation Learning" (Discovery, Sileo et al. 2019):
the connective that a sentence begins with tells how it goes with the one before, and is taken away.
"""

import os
import re
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_impl.data.packing import truncate_pair
from keras_bert_impl.data.sources import check_labels, read_table
from keras_bert_impl.objectives.base import TextObjective
from keras_bert_impl.objectives.given_rows import documents_of_rows, rows_of_window

# English connectives that tie a sentence to what was before. Not those that open a subordinate
# clause ("Although he was late, he waited"): they tie it to what comes after.
CONNECTIVES = (
    *("accordingly", "additionally", "after all", "afterwards", "also", "alternatively", "and"),
    *("as a result", "at the same time", "besides", "but", "by contrast", "consequently"),
    *("conversely", "eventually", "finally", "for example", "for instance", "fortunately"),
    *("furthermore", "hence", "however", "in addition", "in contrast", "in fact"),
    *("in other words", "in particular", "in short", "in the end", "in turn", "indeed", "instead"),
    *("later", "likewise", "meanwhile", "moreover", "nevertheless", "nonetheless", "nor"),
    *("on the contrary", "on the other hand", "or", "otherwise", "rather", "similarly", "so"),
    *("specifically", "still", "subsequently", "surprisingly", "then", "thereafter", "therefore"),
    *("thus", "ultimately", "unfortunately", "yet"),
)

_SPACE = r"[\s\pZ]"
_PUNCTUATION = r"[,;:，；：、]"
_WORD = r"[\pL\pN]"
_FIRST_UNSPACED = 0x2E80  # from here on, scripts that put no space between words


def discourse_pairs(
    documents: tf.RaggedTensor, connectives: Sequence[str] = CONNECTIVES
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Neighbouring sentences of which the second began with a connective, without it.

    A sentence begins with a connective if it is there in any case of letters, followed by white
    space or one of `,;:` and something that holds a letter or digit. Of two that fit, such as "so"
    and "so far", the longer is taken. In scripts without spaces a connective needs none after it.
    There are no draws; how many rows a connective has is up to the text, and is very uneven.

    Args:
        documents: ragged (documents, sentences) strings, before tokenization.
        connectives: the connectives; labels are their places in it. Default `CONNECTIVES`.

    Returns:
        first: (rows,) strings, the sentence before, as it was. In the order of the documents.
        second: (rows,) strings, what is left of the second.
        label: (rows,) int32, below `len(connectives)`.

    Raises:
        ValueError: for documents of another rank or dtype, without connectives, or for one that
            is blank or there twice.

    Example:

    >>> documents = tf.ragged.constant([["He ran.", "However, he was late.", "Soon he left."]])
    >>> first, second, label = discourse_pairs(documents)
    >>> first.numpy().tolist(), second.numpy().tolist(), CONNECTIVES[int(label[0])]
    ([b'He ran.'], [b'he was late.'], 'however')
    """
    documents = _checked(documents)
    sentence = documents.flat_values
    document = documents.value_rowids()
    has_next = document[:-1] == document[1:]
    first = tf.boolean_mask(sentence[:-1], has_next)
    second = tf.boolean_mask(sentence[1:], has_next)
    has_words = tf.strings.regex_full_match(first, rf"(?s).*{_WORD}.*")
    first, second = tf.boolean_mask(first, has_words), tf.boolean_mask(second, has_words)
    row, _, second, label = _cut_at_connective(second, f"^(){_SPACE}*", connectives)
    return tf.gather(first, row), second, label


def discourse_pairs_within(
    documents: tf.RaggedTensor, connectives: Sequence[str] = CONNECTIVES
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Sentences cut in two at a connective inside of them, without it.

    As `discourse_pairs`, but the connective stands behind one of `,;:`: "He ran, but he was late."
    gives "He ran" and "he was late.". Of several the first counts.

    Args:
        documents, connectives: as in `discourse_pairs`.

    Returns:
        first, second: (rows,) strings, what was before and after the connective.
        label: (rows,) int32.

    Raises:
        ValueError: as `discourse_pairs`.

    Example:

    >>> documents = tf.ragged.constant([["He ran, but he was late."]])
    >>> first, second, label = discourse_pairs_within(documents)
    >>> first.numpy().tolist(), second.numpy().tolist(), CONNECTIVES[int(label[0])]
    ([b'He ran'], [b'he was late.'], 'but')
    """
    before = f"^(.*?{_WORD}.*?){_PUNCTUATION}{_SPACE}*"
    sentences = _checked(documents).flat_values
    _, first, second, label = _cut_at_connective(sentences, before, connectives)
    return first, second, label


def read_discourse_pairs(
    path: str | os.PathLike,
    *,
    connectives: Sequence[str] | None = None,
    num_classes: int | None = None,
    columns: Sequence[str] = ("sentence1", "sentence2", "label"),
    format: str | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Sentence pairs and their connectives from a TSV, CSV or JSONL file, such as Discovery's.

    Args:
        path: the file, as `read_table` takes it.
        connectives: the connectives, if the file has their names as labels.
        num_classes: int. How many there are, if it has numbers from 0.
        columns: names of the columns of the first sentence, the second and the label.
        format: `"tsv"`, `"csv"`, `"jsonl"` or None for the file's suffix.

    Returns:
        first, second: (rows,) strings.
        label: (rows,) int32.

    Raises:
        FileNotFoundError, ValueError: as `read_table` and `check_labels`, with file and line.

    Example:

    >>> first, second, label = read_discourse_pairs("pairs.tsv", connectives=["but", "so"])
    """
    first, second, label = columns
    table = read_table(path, columns, format)
    labels = check_labels(table, label, num_classes=num_classes, class_names=connectives)
    return (
        tf.constant(table.columns[first]),
        tf.constant(table.columns[second]),
        tf.constant(labels, tf.int32),
    )


def _cut_at_connective(texts, before, connectives):
    """Texts that match `before`, which has one group, then a connective and some words.

    Returns (rows,) numbers of those that do, the group, the words and the label.
    """
    names = _checked_connectives(connectives)
    longest_first = sorted(names, key=len, reverse=True)
    connective = "|".join(_pattern(name) for name in longest_first)
    pattern = rf"(?is){before}({connective})(.*{_WORD}.*)$"
    row = tf.where(tf.strings.regex_full_match(texts, pattern))[:, 0]
    texts = tf.gather(texts, row)
    group, found, rest = (tf.strings.regex_replace(texts, pattern, rf"\{i}") for i in (1, 2, 3))

    found = tf.strings.regex_replace(found, rf"(?:{_SPACE}|{_PUNCTUATION})+$", "")
    found = tf.strings.regex_replace(found, f"{_SPACE}+", " ")
    is_it = tf.strings.lower(found, encoding="utf-8")[:, tf.newaxis] == tf.constant(names)
    label = tf.argmax(tf.cast(is_it, tf.int32), axis=1, output_type=tf.int32)
    # RE2 takes a long s for an s, which is no matter of upper and lower case
    known = tf.reduce_any(is_it, axis=1)
    return tuple(tf.boolean_mask(x, known) for x in (row, group, rest, label))


def _pattern(name):
    """A connective and what parts it from the rest."""
    words = f"{_SPACE}+".join(re.escape(word) for word in name.split())
    if ord(name[-1]) >= _FIRST_UNSPACED:
        return f"{words}(?:{_SPACE}|{_PUNCTUATION})*"
    return f"{words}(?:{_SPACE}|{_PUNCTUATION})+"


def _checked(documents) -> tf.RaggedTensor:
    if (
        not isinstance(documents, tf.RaggedTensor)
        or documents.shape.rank != 2
        or documents.dtype != tf.string
    ):
        raise ValueError(
            "documents must be ragged (documents, sentences) strings, but are "
            f"{type(documents).__name__} of shape {getattr(documents, 'shape', None)}. "
            "Connectives are found in the text itself, before it is tokenized."
        )
    return documents


def _checked_connectives(connectives) -> list[str]:
    names = [" ".join(name.lower().split()) for name in connectives]
    if not names:
        raise ValueError("There are no connectives.")
    for i, name in enumerate(names):
        if not name:
            raise ValueError(f"Connective {i} is blank.")
        if name in names[:i]:
            raise ValueError(
                f"Connective {name!r} is there twice, at {names.index(name)} and {i}: which label "
                "would be its own? Leave one out."
            )
    return names


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class DiscourseRelation(TextObjective):
    """The connective between two sentences, with the rows of `discourse_pairs`, or given ones.

    These are made of strings, so what token objectives know of documents is not known of their
    pieces. Rows longer than there is room for lose the end of the longer text.

    Args:
        connectives: strings. Default `CONNECTIVES`.
        weight: float, as in `Objective`.
        pairs: first and second sentences and labels, as `read_discourse_pairs` gives them, which
            are the rows then; or None. They belong to the data: `get_config` leaves them out.

    Raises:
        ValueError: without connectives, for one that is blank or there twice, or for a label that
            is none's.
    """

    name = "discourse_relation"

    def __init__(self, connectives: Sequence[str] = CONNECTIVES, weight: float = 1.0, pairs=None):
        super().__init__(weight)
        self.connectives = list(connectives)
        self.num_classes = len(_checked_connectives(connectives))
        if pairs is not None:
            first, second, label = pairs
            wrong = [x for x in np.asarray(label).tolist() if not 0 <= x < self.num_classes]
            if wrong:
                raise ValueError(
                    f"The pairs have the label {wrong[0]}, but there are {self.num_classes} "
                    "connectives. Pass those of the pairs."
                )
            self.documents = documents_of_rows([first, second, tf.strings.as_string(label)])

    def rows(self, texts, to_pieces, *, max_tokens, short_sequence_probability, seed):
        if self.documents is None:
            first, second, label = discourse_pairs(texts, self.connectives)
        else:
            first, second, label = rows_of_window(texts, 3)
            label = tf.strings.to_number(label, tf.int32)
        first, second = truncate_pair(to_pieces(first), to_pieces(second), max_tokens(2))
        return first, second, label

    def get_config(self):
        return {**super().get_config(), "connectives": self.connectives}
