"""Tagged words in CoNLL files: a word a line, its tag in a column, a blank line after a sentence.

The layout of the CoNLL-2002 and CoNLL-2003 shared tasks, and of conlleval's input.
"""

import gzip
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from keras_bert_impl.data.sources import check_text_file

# First column of the line that parts documents in CoNLL-2003; no word of any sentence.
DOCUMENT_START = "-DOCSTART-"


class TaggedSentences(NamedTuple):
    """Sentences of a file, word by word, and where each word stands in it."""

    path: str
    words: list[list[str]]
    tags: list[list[str]]  # as long as the words; empty lists where no tag column was read
    lines: list[list[int]]  # of each word, from 1
    separator: str  # between the file's columns: a tab or a space

    def where(self, sentence: int, word: int) -> str:
        """`file:line` of a word, both counted from 0."""
        return f"{self.path}:{self.lines[sentence][word]}"


def read_conll(
    path: str | os.PathLike, word_column: int = 0, tag_column: int | None = -1
) -> TaggedSentences:
    r"""Sentences of a CoNLL file.

    Columns are parted by tabs in lines that hold one, else by spaces; any other white space is
    part of a word, as in `10\u00a0000`. Lines without columns and `-DOCSTART-` lines end a
    sentence, and so does the file. A byte order mark and carriage returns at line ends are
    dropped.

    Args:
        path: the file, UTF-8; `.gz` is unpacked on the way.
        word_column: int. Column of the words, from 0; negative counts from the last.
        tag_column: int or None. Column of the tags, counted likewise; default the last. None
            reads words alone.

    Returns:
        `TaggedSentences`, none of them empty.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for an empty file, text that is not UTF-8, a line without the asked columns
            or with another number of them than the lines before, or an empty word or tag; all
            with file and line.

    Example:

    >>> sentences = read_conll("train.conll")
    >>> sentences.words[0], sentences.tags[0]
    (['EU', 'rejects'], ['B-ORG', 'O'])
    """
    path = os.fspath(path)
    check_text_file(path)
    words: list[list[str]] = []
    tags: list[list[str]] = []
    lines: list[list[int]] = []
    separator, num_columns, in_sentence = " ", None, False
    for line, text in _lines(path):
        columns = _columns(text)
        if not columns or columns[0] == DOCUMENT_START:
            in_sentence = False
            continue
        if num_columns is None:
            num_columns = len(columns)
            first_line = line
        if len(columns) != num_columns:
            raise ValueError(
                f"{path}:{line}: columns expected, as in line {first_line}: {num_columns}, but "
                f"found: {len(columns)}. The line is {text!r}."
            )
        if "\t" in text:
            separator = "\t"
        word = _column(path, line, columns, word_column, "word")
        tag = None
        if tag_column is not None:
            tag = _column(path, line, columns, tag_column, "tag")
            if (tag_column - word_column) % num_columns == 0:
                raise ValueError(
                    f"{path}:{line}: the tag would be in the word's own column, {word_column}. "
                    "Choose other columns; files of words alone are read with tag_column=None."
                )
        if not in_sentence:
            words.append([])
            tags.append([])
            lines.append([])
            in_sentence = True
        words[-1].append(word)
        lines[-1].append(line)
        if tag is not None:
            tags[-1].append(tag)
    if not words:
        raise ValueError(f"{path} has no sentences: all its lines are blank or {DOCUMENT_START}.")
    return TaggedSentences(path, words, tags, lines, separator)


def write_conll(
    path: str | os.PathLike,
    words: Sequence[Sequence[str]],
    *columns: Sequence[Sequence[str]],
    separator: str = " ",
) -> None:
    r"""Write sentences with columns beside their words, as conlleval reads them.

    Args:
        path: the file to write, UTF-8.
        words: the words of each sentence; nothing is written of a sentence without words.
        *columns: for each column the same shape as the words; conlleval wants the true tags and
            then the predicted ones last.
        separator: str. Between columns. Words that hold spaces need `"\t"` (for conlleval
            `-d '\t'`).

    Raises:
        ValueError: where a column's lengths differ from the words', or for an entry that is
            empty or holds the separator or a line's end; the sentence and the word are named.

    Example:

    >>> write_conll("predictions.conll", [["EU", "rejects"]], [["B-ORG", "O"]], [["O", "O"]])
    >>> open("predictions.conll").read()
    'EU B-ORG O\nrejects O O\n\n'
    """
    columns = (words, *columns)
    for i, column in enumerate(columns):
        if len(column) != len(words):
            raise ValueError(f"Column {i} has {len(column)} sentences, but there are {len(words)}.")
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for sentence, parts in enumerate(zip(*columns, strict=True)):
            lengths = [len(part) for part in parts]
            if len(set(lengths)) > 1:
                raise ValueError(f"The columns of sentence {sentence} differ in length: {lengths}.")
            for word, entries in enumerate(zip(*parts, strict=True)):
                for entry in entries:
                    _check_writable(entry, separator, sentence, word)
                file.write(separator.join(entries) + "\n")
            if lengths[0]:
                file.write("\n")


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Numbered lines without their ends. Only a line feed ends one: words may hold U+2028."""
    opener: Any = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        for line, text in enumerate(file, start=1):
            yield line, text.removesuffix("\n").removesuffix("\r")


def _columns(text: str) -> list[str]:
    if not text.strip(" \t"):
        return []
    if "\t" in text:
        return [column.strip(" ") for column in text.split("\t")]
    return re.split(" +", text.strip(" "))


def _column(path, line, columns, index, name) -> str:
    if not -len(columns) <= index < len(columns):
        raise ValueError(
            f"{path}:{line}: the {name} was to be in column {index}, but there are "
            f"{len(columns)} columns, counted from 0: {columns}."
        )
    if not columns[index]:
        raise ValueError(
            f"{path}:{line}: the {name}, column {index}, is empty. Columns are parted by a single "
            f"tab: {columns}."
        )
    return columns[index]


def _check_writable(entry, separator, sentence, word) -> None:
    if entry and not any(c in entry for c in (separator, "\n", "\r")):
        return
    hint = r' Pass separator="\t".' if separator == " " and " " in entry else ""
    raise ValueError(
        f"Word {word} of sentence {sentence} has {entry!r}, which a line of columns parted by "
        f"{separator!r} cannot hold.{hint}"
    )
