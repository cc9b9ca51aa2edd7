import doctest
import gzip
import json

import numpy as np
import pytest

from keras_bert_impl.data import squad
from keras_bert_impl.data.answer_spans import Answer
from keras_bert_impl.data.squad import (
    SquadQuestion,
    read_squad,
    squad_inputs,
    squad_training,
    write_squad_answers,
)

CONTEXT = "The cat sat. Caf\u00e9  \U0001f642 on mat."


def qa(id="q", question="Who?", answers=(("The cat", 0),), **others):
    answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id, "question": question, "answers": answers, **others}


def paragraphs(*contexts_and_questions):
    return [{"context": context, "qas": list(qas)} for context, *qas in contexts_and_questions]


def write(path, *articles):
    data = [{"title": "x", "paragraphs": article} for article in articles]
    path.write_text(json.dumps({"version": "1.1", "data": data}), encoding="utf-8")
    return path


def test_docstring_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "dev.json", paragraphs(("The cat sat.", qa(question="Who sat?"))))
    assert doctest.testmod(squad) == (0, 8)


def test_questions_come_in_the_files_order(tmp_path):
    path = write(
        tmp_path / "dev.json",
        paragraphs(("A", qa("1"), qa("2", "What?", [("A", 0), ("x y", 7)])), ("B", qa("3"))),
        [],
        paragraphs(("C",), (CONTEXT, qa("4", answers=(), is_impossible=True))),
    )
    assert read_squad(path) == [
        SquadQuestion("1", "Who?", "A", ("The cat",), (0,), False),
        SquadQuestion("2", "What?", "A", ("A", "x y"), (0, 7), False),
        SquadQuestion("3", "Who?", "B", ("The cat",), (0,), False),
        SquadQuestion("4", "Who?", CONTEXT, (), (), True),
    ]


def test_gold_answers_may_be_missing_and_files_packed(tmp_path):
    question = {"id": "1", "question": "Who?", "plausible_answers": [{"text": 3}]}
    path = write(tmp_path / "dev.json", paragraphs(("A", question)))
    packed = tmp_path / "dev.json.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + path.read_bytes()))
    assert read_squad(packed) == [SquadQuestion("1", "Who?", "A", (), (), False)]


BASE = {"id": "q7", "question": "Who?", "answers": [{"text": "A", "answer_start": 0}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"question": 3},
            r"data\[0\].paragraphs\[1\].qas\[1\].question of question 'q7' is 3, but "
            "must be a text",
        ),
        ({"answers": {}}, r"qas\[1\].answers of question 'q7' is {}, but must be a list"),
        ({"answers": ["A"]}, r"answers\[0\] of question 'q7' is \"A\", but must be an object"),
        ({"answers": [{"text": None, "answer_start": 0}]}, r"answers\[0\].text .* is null, but"),
        (
            {"answers": [{"text": "A", "answer_start": "0"}]},
            r"answers\[0\].answer_start of question 'q7' is \"0\", but must be a whole number",
        ),
        ({"answers": [{"text": "A", "answer_start": True}]}, "is true, but must be a whole number"),
        ({"answers": [{"text": "A", "answer_start": 1.0}]}, "is 1.0, but must be a whole number"),
        (
            {"answers": [{"text": "A"}]},
            r"answers\[0\].answer_start of question 'q7' is missing. "
            "Keys there: text",
        ),
        ({"is_impossible": "no"}, "is_impossible of question 'q7' is \"no\", but must be a bool"),
        ({"id": 7}, r"qas\[1\].id is 7, but must be a text"),
        (
            {"id": "q1"},
            r"the id 'q1' of data\[0\].paragraphs\[1\].qas\[1\] is that of "
            r"data\[0\].paragraphs\[0\].qas\[0\] too",
        ),
        ({"question": "x\ud83d"}, r"question of question 'q7' has half a character at 1 \(\\ud83d"),
    ],
)
def test_a_question_that_is_wrong_is_named(tmp_path, change, message):
    article = paragraphs(("A", qa("q1")), ("A", qa("q2"), {**BASE, **change}))
    path = write(tmp_path / "bad.json", article)
    with pytest.raises(ValueError, match=f"bad.json: .*{message}"):
        read_squad(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", r"bad.json: the whole is \[\], but must be an object"),
        (
            '{"questions": []}',
            "bad.json: data is missing. Keys there: questions. Is this a file of SQuAD",
        ),
        ("{}", "data is missing. Keys there: none"),
        ('{"data": [3]}', r"data\[0\] is 3, but must be an object"),
        (
            '{"data": [{"paragraphs": [{"qas": []}]}]}',
            r"data\[0\].paragraphs\[0\].context is missing",
        ),
        ('{"data": [{"paragraphs": [{"context": 1, "qas": []}]}]}', "context is 1, but must be a"),
        ('{"data": []}', "bad.json has no questions"),
        ('{"data":\n [\n}', "bad.json:3: not JSON"),
        ("", "bad.json is empty"),
    ],
)
def test_a_file_that_is_no_squad_is_named(tmp_path, content, message):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_squad(path)


def test_a_file_that_is_not_utf8_or_not_there_is_named(tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(b'{"data":\n "caf\xe9"}')
    with pytest.raises(ValueError, match="bad.json:2: not UTF-8"):
        read_squad(path)
    with pytest.raises(FileNotFoundError, match="missing.json"):
        read_squad(tmp_path / "missing.json")


def question(*answers, id="q", is_impossible=False):
    texts, starts = zip(*answers, strict=True) if answers else ((), ())
    return SquadQuestion(id, "Who?", CONTEXT, texts, starts, is_impossible)


def test_training_takes_the_first_answers_characters():
    training = squad_training(
        [
            question(("The cat", 0)),
            question(("Caf\u00e9  \U0001f642", 13), ("mat", 24)),
            question(("mat", 24), is_impossible=True),
        ],
        with_no_answer=False,
    )
    assert training.skipped == []
    assert training.y["answer_start"].tolist() == [0, 13, 24]
    assert training.y["answer_end"].tolist() == [7, 20, 27]
    assert training.x["question"].tolist() == ["Who?"] * 3
    assert training.x["context"].tolist() == [CONTEXT] * 3
    spans = zip(*(training.y[name] for name in ("answer_start", "answer_end")), strict=True)
    assert [CONTEXT[a:b] for a, b in spans] == ["The cat", "Caf\u00e9  \U0001f642", "mat"]


def test_impossible_questions_have_no_answer():
    questions = [question(id="1", is_impossible=True), question(("mat", 24), is_impossible=True)]
    training = squad_training([*questions, question(("mat", 24))], with_no_answer=True)
    assert training.y["answer_start"].tolist() == [-1, -1, 24]
    assert training.y["answer_end"].tolist() == [-1, -1, 27]
    with pytest.raises(ValueError, match="Question '1' has no answer.*train with_no_answer=True"):
        squad_training(questions, with_no_answer=False)
    with pytest.raises(ValueError, match="Question 'q' has no answer.*mark it as is_impossible"):
        squad_training([question()], with_no_answer=True)


def test_an_answer_that_does_not_stand_where_it_is_said_to_is_skipped():
    questions = [
        question(("cat", 3), id="shifted"),
        question(("cat", 4), id="right"),
        question(("Caf\u00e9 \n\U0001f642", 13), id="other white space"),
        question(("mat.", 25), id="over the end"),
        question(("The cat", -27), id="from the end"),
        question(("", 4), id="empty"),
        question(("mat", 2000), id="beyond"),
    ]
    training = squad_training(questions, with_no_answer=False)
    assert training.skipped == ["shifted", "over the end", "from the end", "empty", "beyond"]
    assert training.y["answer_start"].tolist() == [4, 13]
    assert len(training.x["context"]) == 2


def test_inputs_hold_python_strings():
    x = squad_inputs([question(), question()])
    assert x["context"].dtype == object
    assert x["context"].tolist() == [CONTEXT] * 2


def test_answers_are_written_as_the_evaluation_reads_them(tmp_path):
    answers = [
        Answer("Caf\u00e9", 13, 17, 2.5, -1.25, [("Caf\u00e9", 13, 17, 0.75), ("", -1, -1, 0.25)]),
        Answer("", -1, -1, 3.0, 1e6, [("", -1, -1, 1.0)]),
    ]
    write_squad_answers(tmp_path / "out", ["b", "a"], answers)
    read = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    assert all(max(content) < 128 for content in read.values())
    read = {name: json.loads(content) for name, content in read.items()}
    assert read == {
        "predictions.json": {"b": "Caf\u00e9", "a": ""},
        "null_odds.json": {"b": -1.25, "a": 1000000.0},
        "nbest.json": {
            "b": [
                {"text": "Caf\u00e9", "start": 13, "end": 17, "probability": 0.75},
                {"text": "", "start": -1, "end": -1, "probability": 0.25},
            ],
            "a": [{"text": "", "start": -1, "end": -1, "probability": 1.0}],
        },
    }
    with pytest.raises(ValueError, match="1 ids, but 2 answers"):
        write_squad_answers(tmp_path, ["a"], answers)


def test_labels_are_numbers_that_a_task_takes():
    y = squad_training([question(("cat", 4))], with_no_answer=False).y
    assert {array.dtype for array in y.values()} == {np.dtype("int64")}
