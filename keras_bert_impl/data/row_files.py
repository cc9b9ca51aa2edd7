"""Rows in TFRecord files: made once, read at any step at once, dealt to machines by the file.

A folder holds `rows.json` and files of `tf.train.Example`, whose features are lists of integers
without padding. In each epoch the files come in another order, some are read together and their
rows shuffled, by the seed and the epoch alone. Since it is known how many rows a file has, a
dataset begins at any row by counting, without making those before.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.randomness import fold_in, permutation
from keras_bert_impl.data.sources import file_fingerprint

INDEX = "rows.json"
# Rows are shuffled among so many files.
FILES_TOGETHER = 4


def write_row_files(
    folder: str | os.PathLike,
    settings: dict[str, Any],
    num_files: int,
    rows_of_file: Callable[[int], Iterable[Mapping[str, Sequence[int]]]],
    copies: int = 1,
    done: Callable[[int, int], None] = lambda files, rows: None,
) -> None:
    """Write files of rows, or those of them that are not there yet.

    Each file is written beside and renamed: a run that was stopped goes on where it was.

    Args:
        folder: path; made if it is not there.
        settings: dict of JSON values that the rows depend on.
        num_files: int. Files of each copy.
        rows_of_file: function of a file's number, below `copies * num_files`, to its rows: dicts of
            lists of integers.
        copies: int. Files `c * num_files` and on are copy c, which epoch c, c + copies, ... reads.
        done: called with the numbers of files and rows that are there, after each file.

    Raises:
        ValueError: if the folder holds files of other settings, naming what differs.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if num_files < 1 or copies < 1:
        raise ValueError(f"num_files={num_files} and copies={copies} must be at least 1.")
    index: dict[str, Any] = {
        "settings": settings,
        "num_files": num_files,
        "copies": copies,
        "files": [],
    }
    if (folder / INDEX).exists():
        before = _read_index(folder)
        check_same(_made_with(index), _made_with(before), folder)
        index["files"] = before["files"]
    total = num_files * copies
    for number in range(len(index["files"]), total):
        path = folder / f"rows-{number:05d}-of-{total:05d}.tfrecord"
        beside = path.with_name(f"part-{path.name}")
        count = 0
        with tf.io.TFRecordWriter(str(beside)) as writer:
            for row in rows_of_file(number):
                writer.write(_example(row))
                count += 1
        os.replace(beside, path)
        index["files"].append({**file_fingerprint(path), "rows": count})
        _write_index(folder, index)
        done(number + 1, sum(file["rows"] for file in index["files"]))
    if not sum(file["rows"] for file in index["files"]):
        raise ValueError(f"The documents make no row; {folder} holds empty files.")


class RowFiles:
    """A folder that `write_row_files` has finished.

    Args:
        folder: path.

    Raises:
        FileNotFoundError: if there is none, or a file of it is missing.
        ValueError: if it is not finished, or a file is not as long as it was written.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder)
        index = _read_index(self.folder)
        self.settings: dict[str, Any] = index["settings"]
        self.copies: int = index["copies"]
        wanted = index["num_files"] * self.copies
        if len(index["files"]) < wanted:
            raise ValueError(
                f"{self.folder} holds {len(index['files'])} of {wanted} files. Run the command "
                "that writes them again: it goes on where it was stopped."
            )
        for file in index["files"]:
            path = self.folder / file["file"]
            if not path.is_file():
                raise FileNotFoundError(f"{path} is missing. Write the rows again.")
            if path.stat().st_size != file["bytes"]:
                raise ValueError(
                    f"{path} has {path.stat().st_size} bytes, but was written with "
                    f"{file['bytes']}. Copy it again, or write the rows again."
                )
        self._names = np.array([file["file"] for file in index["files"]]).reshape(self.copies, -1)
        self._counts = np.array([file["rows"] for file in index["files"]]).reshape(self.copies, -1)

    @property
    def num_rows(self) -> int:
        """Of the first epoch, over all files."""
        return int(self._counts[0].sum())

    def fingerprint(self) -> str:
        """Tells these rows from others: of the index, not of the files' bytes."""
        return file_fingerprint(self.folder / INDEX)["sha256_of_ends"]

    def rows(
        self,
        features: Mapping[str, int | None],
        *,
        seed: int,
        shuffle: bool = True,
        repeat: bool = True,
        start_row: int = 0,
        stream: int = 0,
        num_streams: int = 1,
    ) -> tf.data.Dataset:
        """Rows one by one, from any of them on.

        Args:
            features: the length that each is padded to with zeros, the first one's padding being
                told, or None for a single number.
            seed: int. The order is a function of it and the epoch.
            shuffle: bool. False keeps the order in which rows were written.
            repeat: bool. True begins again without end.
            start_row: int. Rows to leave out at the beginning.
            stream, num_streams: ints. Every so many-th file, for machines that each read some.

        Returns:
            A dataset of dicts of int32, (length,) or (), and padding_mask, (length,) bool, true
            where the first padded feature has numbers.

        Raises:
            ValueError: if there are fewer files than streams, or no row in the stream's.
        """
        names, counts = self._names[:, stream::num_streams], self._counts[:, stream::num_streams]
        if not counts.shape[1] or not counts.sum(axis=1).all():
            raise ValueError(
                f"Stream {stream} of {num_streams} has no row: {self.folder} holds "
                f"{self._names.shape[1]} files. Take fewer streams."
            )
        num_files = names.shape[1]
        num_groups = -(-num_files // FILES_TOGETHER)
        paths = tf.constant([[str(self.folder / name) for name in row] for row in names])

        def order(epoch):
            if not shuffle:
                return tf.range(num_files)
            return permutation(num_files, fold_in((seed, epoch), 0))

        def load(number):
            """The rows of a group of files, in random order."""
            epoch, group = number // num_groups, number % num_groups
            files = order(epoch)[group * FILES_TOGETHER : (group + 1) * FILES_TOGETHER]
            files = tf.gather(paths[epoch % self.copies], files)
            records = tf.data.TFRecordDataset(files).batch(tf.int64.max)
            empty = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))
            records = records.concatenate(empty).take(1).get_single_element()
            if shuffle:
                seed_of_group = fold_in(fold_in((seed, epoch), 1), group)
                records = tf.gather(records, permutation(tf.size(records), seed_of_group))
            return _parse(records, features)

        epoch, left = _epoch_of(start_row, counts.sum(axis=1))
        groups = _group_sums(counts[epoch % self.copies][order(epoch).numpy()])
        group = int(np.searchsorted(np.cumsum(groups), left, side="right"))
        left -= int(groups[:group].sum())
        last = tf.int64.max if repeat else num_groups
        numbers = tf.data.Dataset.range(epoch * num_groups + group, last)
        blocks = numbers.map(load, num_parallel_calls=2, deterministic=True).prefetch(1)
        return blocks.unbatch().skip(left)


def check_same(now: Mapping[str, Any], before: Mapping[str, Any], folder) -> None:
    """Raise a ValueError naming the settings in which two dicts differ."""
    changed = sorted(
        name for name in now.keys() | before.keys() if now.get(name) != before.get(name)
    )
    if changed:
        told = "; ".join(f"{name}: {before.get(name)!r}, now {now.get(name)!r}" for name in changed)
        raise ValueError(f"{folder} holds rows made with other settings. {told}.")


def _made_with(index) -> dict[str, Any]:
    return {**index["settings"], "num_files": index["num_files"], "copies": index["copies"]}


def _epoch_of(row: int, rows_of_copies) -> tuple[int, int]:
    """The epoch that a row is of, and its number there. Epochs take the copies in turn."""
    rounds, left = divmod(row, int(rows_of_copies.sum()))
    ends = np.cumsum(rows_of_copies)
    copy = int(np.searchsorted(ends, left, side="right"))
    return rounds * len(rows_of_copies) + copy, left - int(ends[copy] - rows_of_copies[copy])


def _group_sums(counts) -> np.ndarray:
    starts = np.arange(0, len(counts), FILES_TOGETHER)
    return np.add.reduceat(counts, starts)


def _example(row) -> bytes:
    lists = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in row.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=lists)).SerializeToString()


def _parse(records, features):
    """(rows,) serialized to a dict of (rows, length) or (rows,) int32, and their padding mask."""
    specs: dict[str, Any] = {
        name: tf.io.FixedLenFeature([], tf.int64)
        if length is None
        else tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
        for name, length in features.items()
    }
    parsed = tf.io.parse_example(records, specs)
    rows = {}
    for name, length in features.items():
        column = parsed[name]
        if length is not None:
            if "padding_mask" not in rows:
                rows["padding_mask"] = tf.sequence_mask(column.row_lengths(), length)
            column = column.to_tensor(shape=[None, length])
        rows[name] = tf.cast(column, tf.int32)
    return rows


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    if not path.is_file():
        raise FileNotFoundError(f"{folder} holds no {INDEX}: no rows were prepared there.")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}. Write the rows again.") from error


def _write_index(folder: Path, index) -> None:
    beside = folder / f"part-{INDEX}"
    beside.write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, folder / INDEX)
