import doctest
import sys

import pytest

from keras_bert_impl.training import entity_metrics
from keras_bert_impl.training.entity_metrics import TypeScore, entity_scores, entity_table

TRUE = [
    ["B-PER", "I-PER", "O", "B-LOC"],
    ["O", "B-ORG", "I-ORG", "O", "B-LOC"],
    [],
]
# PER: right. First LOC: of another type. ORG: a word short. Second LOC: right. One PER too many.
PREDICTED = [
    ["B-PER", "I-PER", "O", "B-ORG"],
    ["B-PER", "B-ORG", "O", "O", "B-LOC"],
    [],
]


def test_an_entity_counts_if_words_and_type_are_all_right():
    scores = entity_scores(TRUE, PREDICTED)
    # 2 of 5 predicted are right, 2 of 4 true are found; f1 = 2 * 2 / (5 + 4).
    assert scores.precision == pytest.approx(2 / 5)
    assert scores.recall == pytest.approx(2 / 4)
    assert scores.f1 == pytest.approx(4 / 9)
    assert scores.support == 4
    assert scores.accuracy == pytest.approx(6 / 9)
    assert list(scores.types) == ["LOC", "ORG", "PER"]
    assert scores.types["LOC"] == TypeScore(1, 0.5, pytest.approx(2 / 3), 2)
    assert scores.types["ORG"] == TypeScore(0, 0, 0, 1)
    assert scores.types["PER"] == TypeScore(0.5, 1, pytest.approx(2 / 3), 1)


def test_the_table_has_a_row_for_each_type_and_one_for_all():
    header, rows = entity_table(entity_scores(TRUE, PREDICTED))
    assert header == ["type", "precision", "recall", "f1", "support"]
    assert [row[0] for row in rows] == ["LOC", "ORG", "PER", "all"]
    assert rows[0][1:] == [1, 0.5, pytest.approx(2 / 3), 2]
    assert rows[3][1:] == [pytest.approx(2 / 5), 0.5, pytest.approx(4 / 9), 4]


@pytest.mark.parametrize(
    "written",
    [["I-A", "I-A", "B-A", "O"], ["B-A", "I-A", "B-A", "O"], ["B-A", "E-A", "S-A", "O"]],
    ids=["IOB1", "IOB2", "BIOES"],
)
def test_notations_of_the_same_entities_are_equal(written):
    scores = entity_scores([["B-A", "I-A", "B-A", "O"]], [written])
    assert (scores.precision, scores.recall, scores.f1, scores.support) == (1, 1, 1, 2)


def test_nothing_to_find_and_nothing_found_is_zero(recwarn):
    scores = entity_scores([["O", "O"]], [["O", "O"]])
    assert scores == (0, 0, 0, 0, 1, {})
    assert entity_scores([["O"]], [["B-A"]])[:4] == (0, 0, 0, 0)
    assert entity_scores([["B-A"]], [["O"]])[:4] == (0, 0, 0, 1)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("true", "predicted", "message"),
    [
        ([["O"]], [["O"], ["O"]], "1 rows of true tags, 2 of predicted"),
        ([["O"], ["O", "O"]], [["O"], ["O"]], "Row 1 has 2 true tags, but 1 predicted"),
        ([[]], [[]], "no words to score"),
        ([["NN"]], [["NN"]], "NN seems not to be NE tag. Expected O, or B-, I-, E- or S-"),
    ],
)
def test_what_cannot_be_scored_is_refused(true, predicted, message):
    with pytest.raises(ValueError, match=message):
        entity_scores(true, predicted)


def test_without_seqeval_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval.metrics", None)
    with pytest.raises(ImportError, match=r"pip install 'keras_bert_impl\[finetune\]'"):
        entity_scores(TRUE, PREDICTED)


def test_docstring_examples():
    assert doctest.testmod(entity_metrics) == (0, 3)
