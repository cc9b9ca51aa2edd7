"""SQuAD 1.1 and 2.0: questions out of JSON files, answers into those that the evaluation takes.

Rajpurkar et al. 2016 and 2018; google-research/bert, run_squad.py, `read_squad_examples`.
"""

import gzip
import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert_impl.data.answer_spans import Answer
from keras_bert_impl.data.sources import check_text_file


class SquadQuestion(NamedTuple):
    """A question as SQuAD has it.

    Attributes:
        id: str, a name of its own in the file.
        question, context: str.
        answers: the texts of the gold answers, none where there is no answer.
        answer_starts: of each answer, the character of the context at which it starts.
        is_impossible: bool. Has the question no answer (SQuAD 2.0)?
    """

    id: str
    question: str
    context: str
    answers: tuple[str, ...]
    answer_starts: tuple[int, ...]
    is_impossible: bool


class SquadTraining(NamedTuple):
    """What a question-answering task is trained with.

    Attributes:
        x: `{"question": ..., "context": ...}`, arrays of str.
        y: `{"answer_start": int array, "answer_end": int array}`: characters of the context, the end
            exclusive; both -1 for no answer.
        skipped: ids of questions whose answer does not stand where it is said to.
    """

    x: dict[str, np.ndarray]
    y: dict[str, np.ndarray]
    skipped: list[str]


def read_squad(path: str | os.PathLike) -> list[SquadQuestion]:
    """The questions of a file in the format of SQuAD 1.1 or 2.0, in the file's order.

    `answers` may be missing, as in files without gold answers; so may `is_impossible`, which
    then is false.

    Args:
        path: a JSON file, UTF-8; `.gz` is unpacked on the way.

    Returns:
        A list of `SquadQuestion`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a file that is not UTF-8 or no JSON (line named), a key that is missing or
            of the wrong type (its path in the JSON and the question's id named), an id that
            comes twice, or no questions.

    Example:

    >>> question = read_squad("dev.json")[0]
    >>> question.question, question.answers
    ('Who sat?', ('The cat',))
    """
    path = os.fspath(path)
    check_text_file(path)
    opener: Any = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8-sig") as file:
        try:
            data = json.load(file)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}:{error.lineno}: not JSON: {error.msg}.") from error
    questions = []
    places: dict[str, str] = {}
    root = _Node(data, path, "")
    for article in root.key("data", list).items():
        for paragraph in article.key("paragraphs", list).items():
            context = paragraph.key("context", str)
            for qa in paragraph.key("qas", list).items():
                question = _question(qa, context)
                if question.id in places:
                    raise ValueError(
                        f"{path}: the id {question.id!r} of {qa.place} is that of "
                        f"{places[question.id]} too. Predictions are told apart by their ids."
                    )
                places[question.id] = qa.place
                questions.append(question)
    if not questions:
        raise ValueError(f"{path} has no questions.")
    return questions


def squad_training(questions: Sequence[SquadQuestion], with_no_answer: bool) -> SquadTraining:
    """Questions to what `BertQuestionAnswering.fit` takes; of several answers the first.

    As in the reference, a question is skipped if the context does not have its answer's text,
    white space aside, where the answer is said to start, which happens where characters were
    counted by other rules.

    Args:
        questions: from `read_squad`.
        with_no_answer: bool. May questions have no answer (SQuAD 2.0)? Then those that are
            impossible have none, whatever answers they list.

    Raises:
        ValueError: for a question without an answer that is not impossible, or is not allowed
            to be.

    Example:

    >>> training = squad_training(read_squad("dev.json"), with_no_answer=False)
    >>> training.y["answer_end"].tolist()
    [7]
    """
    kept, starts, ends, skipped = [], [], [], []
    for question in questions:
        start, end = -1, -1
        if not (with_no_answer and question.is_impossible):
            if not question.answers:
                hint = "SQuAD 2.0 has such; train with_no_answer=True"
                if with_no_answer:
                    hint = "mark it as is_impossible"
                raise ValueError(f"Question {question.id!r} has no answer to train on: {hint}.")
            answer, start = question.answers[0], question.answer_starts[0]
            end = start + len(answer)
            there = question.context[start:end] if start >= 0 else ""
            if not answer or there.split() != answer.split():
                skipped.append(question.id)
                continue
        kept.append(question)
        starts.append(start)
        ends.append(end)
    y = {"answer_start": np.array(starts, "int64"), "answer_end": np.array(ends, "int64")}
    return SquadTraining(squad_inputs(kept), y, skipped)


def squad_inputs(questions: Sequence[SquadQuestion]) -> dict[str, np.ndarray]:
    """Questions to what `BertQuestionAnswering.predict` takes.

    Example:

    >>> squad_inputs(read_squad("dev.json"))["question"].tolist()
    ['Who sat?']
    """
    # Of Python's strings: numpy's own would give every context the room of the longest.
    return {
        name: np.array([getattr(question, name) for question in questions], dtype=object)
        for name in ("question", "context")
    }


def write_squad_answers(
    folder: str | os.PathLike, ids: Sequence[str], answers: Iterable[Answer]
) -> None:
    """Write the files that SQuAD's evaluation scripts take, and the n-best lists.

    - `predictions.json`: text by id.
    - `null_odds.json`: null score difference by id, the `--na-prob-file` of evaluate-v2.0.py.
    - `nbest.json`: for each id the list of answers with text, probability, start and end.

    Args:
        folder: where to write; made if it is not there.
        ids: of the questions, in the answers' order.
        answers: of `BertQuestionAnswering.predict`.

    Raises:
        ValueError: if there are not as many ids as answers.

    Example:

    >>> answer = Answer("cat", 4, 7, 9.5, -3.0, [("cat", 4, 7, 1.0)])
    >>> write_squad_answers("answers", ["id-1"], [answer])
    >>> open("answers/predictions.json").read().split()
    ['{', '"id-1":', '"cat"', '}']
    """
    answers = list(answers)
    if len(answers) != len(ids):
        raise ValueError(f"There are {len(ids)} ids, but {len(answers)} answers.")
    by_id = dict(zip(ids, answers, strict=True))
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = ("text", "start", "end", "probability")
    for name, values in (
        ("predictions", {id: answer.text for id, answer in by_id.items()}),
        ("null_odds", {id: answer.null_score_difference for id, answer in by_id.items()}),
        (
            "nbest",
            {
                id: [dict(zip(names, each, strict=True)) for each in answer.n_best]
                for id, answer in by_id.items()
            },
        ),
    ):
        # As ASCII: the scripts read files in whatever encoding the machine has.
        (folder / f"{name}.json").write_text(json.dumps(values, indent=4) + "\n")


def _question(qa: "_Node", context: str) -> SquadQuestion:
    id = qa.key("id", str)
    qa = _Node(qa.value, qa.path, qa.place, f" of question {id!r}")
    answers, starts = [], []
    if "answers" in qa.value:
        for answer in qa.key("answers", list).items():
            answers.append(answer.key("text", str))
            starts.append(answer.key("answer_start", int))
    is_impossible = "is_impossible" in qa.value and qa.key("is_impossible", bool)
    return SquadQuestion(
        id, qa.key("question", str), context, tuple(answers), tuple(starts), is_impossible
    )


_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    bool: "a boolean",
}


class _Node:
    """A value of a JSON file that knows where it stands there."""

    def __init__(self, value: Any, path: str, place: str, whose: str = ""):
        self.value, self.path, self.place, self.whose = value, path, place, whose

    def key(self, name: str, kind: type) -> Any:
        """The value of a key: a text or number itself, a list as a node."""
        self._check(dict)
        node = _Node(
            self.value.get(name), self.path, f"{self.place}.{name}".lstrip("."), self.whose
        )
        if name not in self.value:
            keys = ", ".join(self.value) or "none"
            raise ValueError(
                f"{self.path}: {node.place}{self.whose} is missing. Keys there: {keys}. Is this a "
                "file of SQuAD 1.1 or 2.0?"
            )
        node._check(kind)
        return node if kind is list else node.value

    def items(self) -> Iterable["_Node"]:
        """The entries of a list."""
        for i, value in enumerate(self.value):
            yield _Node(value, self.path, f"{self.place}[{i}]", self.whose)

    def _check(self, kind: type) -> None:
        value = self.value
        place = f"{self.path}: {self.place or 'the whole'}{self.whose}"
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            shown = json.dumps(value)
            shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
            raise ValueError(f"{place} is {shown}, but must be {_KINDS[kind]}.")
        if isinstance(value, str):
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"{place} has half a character at {error.start} (\\u{ord(value[error.start]):x}"
                    " alone), which no UTF-8 text can hold. Mend the file."
                ) from error
