"""GLUE's files as the benchmark hands them out, and the files to submit.

Wang et al. 2018 (arXiv:1804.07461); paper, section 4.1 and appendix B.1.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_bert_impl.data.glue_tasks import MRPC_RAW, GlueTask, glue_task
from keras_bert_impl.data.sources import (
    Table,
    check_labels,
    check_numbers,
    check_text_file,
    read_table,
)

# What tells the sets in Microsoft's file of MRPC apart.
_MRPC_DEV_IDS = ("dev_ids.tsv", "mrpc_dev_ids.tsv")
_MRPC_DEV_IDS_URL = "https://dl.fbaipublicfiles.com/glue/data/mrpc_dev_ids.tsv"


class GlueExamples(NamedTuple):
    """One set of a task.

    Attributes:
        x: (rows,) strings, or for pairs a dict of two such, `text_a` and `text_b`.
        y: (rows,) class numbers, int32, or scores, float32; None for a test set.
        table: the columns as they are written, and the line of each row.
        skipped: lines of the file that were left out: malformed, or without a label.
    """

    x: np.ndarray | dict[str, np.ndarray]
    y: np.ndarray | None
    table: Table
    skipped: list[int]


def glue_splits(folder: str | os.PathLike, task: str) -> list[str]:
    """Names of a task's sets whose files are there, such as `["train", "dev", "test"]`.

    Args:
        folder: the data's folder, which holds a folder for each task.
        task: name of the task.

    Raises:
        ValueError: for an unknown task.

    Example:

    >>> glue_splits("glue_data", "CoLA")
    ['train', 'dev']
    """
    files = glue_task(task).files
    return [
        name for name, paths in files.items() if any((Path(folder) / p).exists() for p in paths)
    ]


def read_glue(folder: str | os.PathLike, task: str, split: str) -> GlueExamples:
    """One set of a task, from the files of the benchmark's download.

    Quotes are text. A byte order mark, carriage returns at line ends and a missing line end at
    the end of the file are no matter. Columns are found by their names, so their order and
    further columns are none either. MRPC is read from Microsoft's own files too, where GLUE's
    `dev_ids.tsv` lies beside them.

    Args:
        folder: the data's folder, which holds a folder for each task.
        task: name of the task.
        split: name of the set: `"train"`, `"dev"` or `"test"`; for MNLI `"train"`,
            `"dev_matched"`, `"dev_mismatched"`, `"test_matched"`, `"test_mismatched"` or
            `"test_diagnostic"`.

    Returns:
        `GlueExamples`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for an unknown task or set, a row with too few or too many fields (but in
            QQP's training and development set), a label that is none of the task's, and all
            that `read_table` refuses; with file and line.

    Example:

    >>> examples = read_glue("glue_data", "CoLA", "dev")
    >>> examples.x.tolist(), examples.y.tolist()
    (['They drank the pub dry.'], [1])
    """
    spec = glue_task(task)
    if split not in spec.files:
        raise ValueError(f"{task} has no set {split!r}. Its sets: {', '.join(spec.files)}.")
    path = _find(Path(folder), spec, split)
    is_test = split in spec.submissions
    columns = spec.texts if is_test else (*spec.texts, spec.label)
    skipped: list[int] = []
    if path.name == MRPC_RAW:
        table = _split_of_raw_mrpc(path, columns, split)
    elif not is_test and (spec.header or spec.skips_malformed):
        table, skipped = _read_rows(path, columns, spec.header, spec.skips_malformed)
    else:
        table = read_table(path, columns, format="tsv")
    if not is_test and spec.unlabeled is not None:
        labels = table.columns[spec.label]
        unlabeled = [row for row, label in enumerate(labels) if label == spec.unlabeled]
        skipped += [table.lines[row] for row in unlabeled]
        table = _without(table, unlabeled)
    y = None if is_test else _labels(spec, table)
    texts = [_strings(table.columns[name]) for name in spec.texts]
    x = dict(zip(("text_a", "text_b"), texts, strict=True)) if spec.pair else texts[0]
    return GlueExamples(x, y, table, skipped)


def write_glue_submission(
    folder: str | os.PathLike, task: str, split: str, answers: Sequence[float] | np.ndarray
) -> Path:
    r"""The file to submit for a test set, under its name, with a row for each of the set's rows.

    Args:
        folder: folder of the submission; made where it does not exist.
        task: name of the task.
        split: name of the test set, such as `"test"`.
        answers: (rows,) class numbers, or scores, which are clipped to the task's range.

    Returns:
        The path of the file.

    Raises:
        ValueError: for an unknown task, a set that is no test set, or an answer that is no class
            or no finite number, the row named.

    Example:

    >>> path = write_glue_submission("submission", "RTE", "test", [1, 0])
    >>> path.name, path.read_text()
    ('RTE.tsv', 'index\tprediction\n0\tnot_entailment\n1\tentailment\n')
    """
    spec = glue_task(task)
    if split not in spec.submissions:
        raise ValueError(f"{task} has no test set {split!r}, but {', '.join(spec.submissions)}.")
    written = [_written(spec, row, answer) for row, answer in enumerate(answers)]
    path = Path(folder) / f"{spec.submissions[split]}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["index\tprediction", *(f"{row}\t{answer}" for row, answer in enumerate(written))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _find(folder: Path, spec: GlueTask, split: str) -> Path:
    for name in spec.files[split]:
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(
        f"{spec.name}: there is no file of the set {split} in {folder}. Looked for "
        f"{', '.join(spec.files[split])}, as GLUE's download script lays them out."
    )


def _read_rows(path, columns, header, skips_malformed) -> tuple[Table, list[int]]:
    """As `read_table`, for the files that it refuses: without a header, or with rows to skip."""
    check_text_file(path)
    table, skipped = Table(str(path), {name: [] for name in columns}, []), []
    with open(path, encoding="utf-8-sig", newline="") as file:
        for line, text in enumerate(file, start=1):
            fields = text.rstrip("\r\n").split("\t")
            if header is None:
                header = fields
                missing = [name for name in columns if name not in header]
                if missing:
                    raise ValueError(
                        f"{path}:{line}: no column {missing[0]!r}. Columns: {', '.join(header)}."
                    )
            elif fields == [""]:
                continue  # a blank line is no row
            elif len(fields) == len(header):
                table.lines.append(line)
                for name in columns:
                    table.columns[name].append(fields[header.index(name)])
            elif skips_malformed:
                skipped.append(line)
            else:
                raise ValueError(
                    f"{path}:{line}: {len(fields)} fields, but {len(header)} columns "
                    f"({', '.join(header)})."
                )
    if not table.lines:
        raise ValueError(f"{path} has no rows.")
    return table, skipped


def _split_of_raw_mrpc(path: Path, columns, split: str) -> Table:
    ids_path = next((path.parent / n for n in _MRPC_DEV_IDS if (path.parent / n).exists()), None)
    if ids_path is None:
        raise FileNotFoundError(
            f"{path} holds MRPC's training and development set together. What tells them apart is "
            f"missing: download {_MRPC_DEV_IDS_URL} to {path.parent / _MRPC_DEV_IDS[0]}."
        )
    ids, _ = _read_rows(ids_path, ("first", "second"), ("first", "second"), False)
    dev_ids = set(zip(*ids.columns.values(), strict=True))
    table = read_table(path, [*columns, "#1 ID", "#2 ID"], format="tsv")
    row_ids = zip(table.columns["#1 ID"], table.columns["#2 ID"], strict=True)
    others = [row for row, pair in enumerate(row_ids) if (pair in dev_ids) != (split == "dev")]
    table = _without(table, others)
    if not table.lines:
        raise ValueError(f"{path} has no row of the set {split} by the ids of {ids_path}.")
    return table


def _without(table: Table, rows: list[int]) -> Table:
    left_out = set(rows)

    def kept(values):
        return [value for row, value in enumerate(values) if row not in left_out]

    columns = {name: kept(values) for name, values in table.columns.items()}
    return Table(table.path, columns, kept(table.lines))


def _labels(spec: GlueTask, table: Table) -> np.ndarray:
    if spec.score_range is None:
        return np.array(check_labels(table, spec.label, class_names=spec.class_names), "int32")
    scores = np.array(check_numbers(table, spec.label), "float32")
    low, high = spec.score_range
    wrong = np.flatnonzero((scores < low) | (scores > high))
    if len(wrong):
        raise ValueError(
            f"{table.where(wrong[0])}: {spec.label} is {table.columns[spec.label][wrong[0]]!r}, "
            f"but scores are from {low:g} to {high:g}."
        )
    return scores


def _strings(texts: list[str]) -> np.ndarray:
    # Of Python's strings: numpy's own would give every row the room of the longest.
    return np.array(texts, dtype=object)


def _written(spec: GlueTask, row: int, answer) -> str:
    if spec.score_range is not None:
        if not np.isfinite(answer):
            raise ValueError(f"Row {row} is answered with {answer}, which is no finite number.")
        # Three decimals, as the benchmark's own toolkit (jiant) writes them.
        return f"{np.clip(float(answer), *spec.score_range):.3f}"
    if answer not in range(len(spec.class_names)):
        raise ValueError(
            f"Row {row} is answered with {answer}, but classes are 0..{len(spec.class_names) - 1}."
        )
    return spec.class_names[int(answer)]
