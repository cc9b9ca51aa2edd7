"""SWAG: a sentence, the start of the next one, and four ways to end it (paper, section 4.4).

Zellers et al. 2018 (arXiv:1808.05326); files of github.com/rowanz/swagaf, data/.
"""

import os
from typing import NamedTuple

import numpy as np

from keras_bert_impl.data.sources import Table, check_labels, read_table

ENDINGS = ("ending0", "ending1", "ending2", "ending3")


class SwagExamples(NamedTuple):
    """One of SWAG's files.

    Attributes:
        x: `text_a`, (rows,) strings, the first sentence; `choices`, (rows, 4) strings, the second
            sentence with each of the endings.
        y: (rows,) int32, the right choice; None where labels were not read.
        table: the columns as they are written, and the line of each row.
    """

    x: dict[str, np.ndarray]
    y: np.ndarray | None
    table: Table


def read_swag(path: str | os.PathLike, labeled: bool = True) -> SwagExamples:
    """`train.csv`, `val.csv` or, with `labeled=False`, `test.csv`.

    Args:
        path: the file: CSV whose first line names the columns `sent1`, `sent2`, `ending0` to
            `ending3` and, where it is labeled, `label`, among others.
        labeled: bool. Whether to read the labels, which the test set lacks.

    Returns:
        `SwagExamples`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for an empty ending, a label that is not 0 to 3, and all that `read_table`
            refuses; with file and line.

    Example:

    >>> examples = read_swag("val.csv")
    >>> examples.x["text_a"][0], examples.x["choices"][0, 1], examples.y.tolist()
    ('He rides to the hall.', 'He opens the door.', [3])
    """
    columns = ["sent1", "sent2", *ENDINGS, *(["label"] if labeled else [])]
    table = read_table(path, columns, format="csv")
    choices = []
    for row, starts in enumerate(table.columns["sent2"]):
        endings = [table.columns[name][row].strip() for name in ENDINGS]
        if "" in endings:
            name = ENDINGS[endings.index("")]
            raise ValueError(f"{table.where(row)}: {name} is empty.")
        choices.append([f"{starts} {ending}".strip() for ending in endings])
    # Of Python's strings: numpy's own would give every text the room of the longest.
    x = {
        "text_a": np.array(table.columns["sent1"], dtype=object),
        "choices": np.array(choices, dtype=object),
    }
    y = None
    if labeled:
        y = np.array(check_labels(table, "label", num_classes=len(ENDINGS)), "int32")
    return SwagExamples(x, y, table)
