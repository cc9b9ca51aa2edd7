"""Files of running text and tables of examples, read as they are or refused with the line named."""

import codecs
import csv
import gzip
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

# What Python's str.strip() strips, as an RE2 class: the reference strips lines with it.
_BLANK_LINE = r"[\s\x0b\x1c-\x1f\x{85}\pZ]*"
_BLOCK_LINES = 1024
_BLOCK_BYTES = 1 << 20
_FINGERPRINT_BYTES = 1 << 20


def read_documents(paths: str | os.PathLike | Sequence[str | os.PathLike]) -> tf.data.Dataset:
    """Documents of text files: a sentence a line, a blank line between documents.

    The input format of google-research/bert, create_pretraining_data.py; here the end of a file
    ends a document too. Files are checked at once and read when the dataset is, a block of lines
    at a time; only the longest document must fit in memory.

    Args:
        paths: a path or several, read in the order given. `.gz` files are unpacked on the way.

    Returns:
        A dataset of documents, each a (sentences,) string tensor without blank lines.

    Raises:
        FileNotFoundError: naming the missing file.
        ValueError: without paths, for an empty file, or text that is not UTF-8 (line named).

    Example:

    >>> documents = read_documents(["part-1.txt", "part-2.txt.gz"])
    """
    names = [os.fspath(p) for p in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    if not names:
        raise ValueError("read_documents() was given no paths.")
    for name in names:
        check_text_file(name)
    compression = ["GZIP" if name.endswith(".gz") else "" for name in names]

    def lines_of(path, compression_type):
        lines = tf.data.TextLineDataset(path, compression_type=compression_type)
        return lines.concatenate(tf.data.Dataset.from_tensors(""))  # the file's end is a blank line

    files = tf.data.Dataset.from_tensor_slices((names, compression))
    blocks = files.flat_map(lines_of).batch(_BLOCK_LINES)
    return blocks.scan(tf.zeros([0], tf.string), _documents_of_block).unbatch()


def check_text_file(path: str | os.PathLike) -> None:
    """Read a text file through once, a megabyte at a time, and raise if it cannot be used.

    Args:
        path: a file of UTF-8 text; `.gz` is unpacked on the way.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is a folder, is empty, is no gzip file in spite of its name, or holds
            bytes that are not UTF-8, the line named.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, size = 1, 0
    with _open_binary(path) as file:
        while True:
            try:
                block = file.read(_BLOCK_BYTES)
            except (OSError, EOFError) as error:
                raise ValueError(f"{os.fspath(path)} cannot be read: {error}.") from error
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                # `error.object` is what the last block left over and this one
                line += error.object[: error.start].count(b"\n")
                raise ValueError(
                    f"{os.fspath(path)}:{line}: not UTF-8: byte 0x{error.object[error.start]:02x} "
                    f"({error.reason}). Convert the file, e.g. iconv -f latin1 -t utf-8."
                ) from error
            if not block:
                break
            line += block.count(b"\n")
            size += len(block)
    if size == 0:
        raise ValueError(f"{os.fspath(path)} is empty.")


def file_fingerprint(path: str | os.PathLike) -> dict[str, Any]:
    """What tells a file from another, quickly also where it is large.

    Args:
        path: the file.

    Returns:
        A dict of JSON values: its name, its size in bytes, and the SHA-256 of its first and last
        megabyte. A file that was moved to another folder keeps its fingerprint.

    Raises:
        FileNotFoundError: naming the missing file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path} (looked from {os.getcwd()}).")
    size = path.stat().st_size
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read(_FINGERPRINT_BYTES))
        file.seek(max(0, size - _FINGERPRINT_BYTES))
        digest.update(file.read(_FINGERPRINT_BYTES))
    return {"file": path.name, "bytes": size, "sha256_of_ends": digest.hexdigest()}


class Table(NamedTuple):
    """Named columns of a file, and where each row stands in it."""

    path: str
    columns: dict[str, list[str]]
    lines: list[int]  # of each row: the line of the file on which it begins, from 1

    def where(self, row: int) -> str:
        """`file:line` of a row, counted from 0."""
        return f"{self.path}:{self.lines[row]}"


def read_table(path: str | os.PathLike, columns: Sequence[str], format: str | None = None) -> Table:
    """Columns of a TSV, CSV or JSONL file, by name.

    Args:
        path: the file, UTF-8; `.gz` is unpacked on the way.
        columns: names to read. In TSV and CSV the first line names the columns, in JSONL each
            line is an object with these keys.
        format: str. `"tsv"` (tabs, quotes are text, as in GLUE's files), `"csv"` (commas, quoted
            fields as RFC 4180) or `"jsonl"`. Default: the file's suffix.

    Returns:
        A `Table`, all values as strings (a number or boolean of JSONL as it is written there).

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for an unknown format, an empty file, no rows, text that is not UTF-8, a
            column that is not there, a row with too few or too many fields, a line that is no JSON
            object, or a JSON value that is no text, number or boolean; all with file and line.

    Example:

    >>> table = read_table("train.tsv", ["sentence", "label"])
    >>> texts, labels = table.columns["sentence"], check_labels(table, "label", num_classes=2)
    """
    path = os.fspath(path)
    columns = [columns] if isinstance(columns, str) else list(columns)
    if format is None:
        format = Path(path.removesuffix(".gz")).suffix.removeprefix(".").lower()
    readers = {"tsv": _tsv_rows, "csv": _csv_rows, "jsonl": _jsonl_rows}
    if format not in readers:
        raise ValueError(
            f"{path}: unknown table format {format!r}. Name the file .tsv, .csv or .jsonl, or pass "
            f"format, one of {', '.join(readers)}."
        )
    check_text_file(path)
    table = Table(path, {name: [] for name in columns}, [])
    with _open_text(path) as file:
        for line, values in readers[format](path, file, columns):
            table.lines.append(line)
            for name, value in zip(columns, values, strict=True):
                table.columns[name].append(value)
    if not table.lines:
        raise ValueError(f"{path} has no rows.")
    return table


def check_labels(
    table: Table,
    column: str,
    *,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
) -> list[int]:
    """Class indices of a column of labels.

    Args:
        table: from `read_table`.
        column: the labels' column.
        num_classes: int. Labels are numbers from 0 below it.
        class_names: names of the classes, which the labels are, instead of num_classes.

    Returns:
        A list of int, one a row.

    Raises:
        ValueError: for the first row whose label is none of the classes, with file and line.
    """
    if (num_classes is None) == (class_names is None):
        raise ValueError("Pass either num_classes or class_names.")
    if class_names is not None:
        index = {name: i for i, name in enumerate(class_names)}
        expected = f"one of {', '.join(class_names)}"
    else:
        index = {str(i): i for i in range(num_classes or 0)}
        expected = f"a whole number from 0 to {len(index) - 1}"
    labels = []
    for row, label in enumerate(table.columns[column]):
        if label.strip() not in index:
            raise ValueError(f"{table.where(row)}: {column} is {label!r}, but must be {expected}.")
        labels.append(index[label.strip()])
    return labels


def check_numbers(table: Table, column: str) -> list[float]:
    """Numbers of a column, the targets of a regression.

    Raises:
        ValueError: for the first row whose value is no finite number, with file and line.
    """
    numbers = []
    for row, value in enumerate(table.columns[column]):
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not abs(number) < float("inf"):
            raise ValueError(f"{table.where(row)}: {column} is {value!r}, but must be a number.")
        numbers.append(number)
    return numbers


def _documents_of_block(unfinished, lines):
    """Scan step: lines of a document not ended yet, and a block of lines, to whole documents.

    Returns the lines left over, and ragged (documents, sentences) strings.
    """
    is_blank = tf.strings.regex_full_match(lines, _BLANK_LINE)
    is_blank = tf.pad(is_blank, [[tf.size(unfinished), 0]])  # what is unfinished has no blank line
    lines = tf.concat([unfinished, lines], axis=0)
    last_blank = tf.reduce_max(tf.concat([[-1], tf.cast(tf.where(is_blank)[:, 0], tf.int32)], 0))
    document = tf.cumsum(tf.cast(is_blank, tf.int32))[: last_blank + 1]
    is_sentence = ~is_blank[: last_blank + 1]
    sentences = tf.strings.strip(tf.boolean_mask(lines[: last_blank + 1], is_sentence))
    documents = tf.RaggedTensor.from_value_rowids(
        sentences,
        tf.cast(tf.boolean_mask(document, is_sentence), tf.int64),
        nrows=tf.cast(tf.reduce_sum(tf.cast(is_blank, tf.int32)), tf.int64) + 1,
    )
    documents = tf.ragged.boolean_mask(documents, documents.row_lengths() > 0)
    return lines[last_blank + 1 :], documents


def _open_binary(path: str | os.PathLike):
    path = os.fspath(path)
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder, but a file is needed.")
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no file {path} (looked from {os.getcwd()}).")
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")


def _open_text(path: str):
    # utf-8-sig: spreadsheets put a byte order mark before the first column's name
    opener: Any = gzip.open if path.endswith(".gz") else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


def _tsv_rows(path, file, columns) -> Iterator[tuple[int, list[str]]]:
    return _delimited_rows(path, csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), columns)


def _csv_rows(path, file, columns) -> Iterator[tuple[int, list[str]]]:
    return _delimited_rows(path, csv.reader(file, strict=True), columns)


def _delimited_rows(path, reader, columns) -> Iterator[tuple[int, list[str]]]:
    names: list[str] = []
    line = 1
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise ValueError(f"{path}:{line}: {error}.") from error
        if fields is None:
            return
        if fields and not names:
            names = fields
            wanted = [_column_index(path, line, names, column) for column in columns]
        elif fields:  # a blank line is no row
            if len(fields) != len(names):
                raise ValueError(
                    f"{path}:{line}: {len(fields)} fields, but {len(names)} columns "
                    f"({', '.join(names)})."
                )
            yield line, [fields[i] for i in wanted]
        line = reader.line_num + 1


def _column_index(path, line, names, column) -> int:
    if names.count(column) != 1:
        trouble = "no column" if column not in names else "more than one column"
        raise ValueError(f"{path}:{line}: {trouble} {column!r}. Columns: {', '.join(names)}.")
    return names.index(column)


def _jsonl_rows(path, file, columns) -> Iterator[tuple[int, list[str]]]:
    for line, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{line}: not JSON: {error}.") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}:{line}: expected a JSON object, got {type(row).__name__}.")
        values = []
        for column in columns:
            if column not in row:
                raise ValueError(f"{path}:{line}: no column {column!r}. Columns: {', '.join(row)}.")
            value = row[column]
            if isinstance(value, dict | list) or value is None:
                raise ValueError(
                    f"{path}:{line}: {column} is {json.dumps(value)}, but must be a text, number "
                    "or boolean."
                )
            values.append(value if isinstance(value, str) else json.dumps(value))
        yield line, values
