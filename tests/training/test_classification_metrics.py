import builtins
import doctest
import math

import pytest

from keras_bert_impl.training import classification_metrics
from keras_bert_impl.training.classification_metrics import (
    confusion_table,
    label_table,
    measure_answers,
)

# 3 true positives, 2 false positives, 1 false negative, 4 true negatives
ANSWERS = [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
LABELS = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]


def test_metrics_of_classes_are_those_by_hand():
    assert measure_answers(["accuracy", "matthews", "f1"], ANSWERS, LABELS) == {
        "accuracy": 0.7,
        "matthews": pytest.approx((3 * 4 - 2 * 1) / math.sqrt(5 * 4 * 6 * 5)),
        "f1": pytest.approx(2 * 3 / (2 * 3 + 2 + 1)),
    }


def test_matthews_tells_apart_what_accuracy_does_not():
    one_class, mixed = [1] * 4, [1, 0, 1, 1]
    labels = [1, 1, 1, 0]
    assert measure_answers(["accuracy"], one_class, labels) == {"accuracy": 0.75}
    assert measure_answers(["matthews"], one_class, labels) == {"matthews": 0}
    # 2 true positives, 1 false positive, 1 false negative, no true negative
    assert measure_answers(["matthews"], mixed, labels)["matthews"] == pytest.approx(-1 / 3)


def test_correlations_are_those_by_hand():
    answers, labels = [1.0, 2.0, 3.0, 10.0], [0.0, 2.0, 1.0, 5.0]
    # means 4 and 2; products 6 + 0 + 1 + 18; squares 9 + 4 + 1 + 36 and 4 + 0 + 1 + 9
    pearson = 25 / math.sqrt(50 * 14)
    # ranks 1 2 3 4 and 1 3 2 4: 1 - 6 * (1 + 1) / (4 * 15)
    assert measure_answers(["pearson", "spearman"], answers, labels) == {
        "pearson": pytest.approx(pearson),
        "spearman": pytest.approx(0.8),
    }


def test_spearman_gives_ties_their_mean_rank():
    # ranks 1.5 1.5 3 and 1 2 3: covariance 1.5, squares 1.5 and 2
    answer = measure_answers(["spearman"], [1.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    assert answer["spearman"] == pytest.approx(1.5 / math.sqrt(1.5 * 2))


@pytest.mark.parametrize(
    ("answers", "labels"),
    [([0, 0, 0], [0, 1, 0]), ([0, 1, 0], [0, 0, 0]), ([0, 0, 0], [0, 0, 0]), ([0], [1])],
)
def test_one_class_has_matthews_and_f1_zero(answers, labels, recwarn):
    measured = measure_answers(["matthews", "f1"], answers, labels)
    assert measured == {"matthews": 0, "f1": 0}
    assert not recwarn.list


@pytest.mark.parametrize(
    ("answers", "labels"),
    [
        ([2.5, 2.5, 2.5], [0.0, 1.0, 2.0]),
        ([0.0, 1.0, 2.0], [2.5, 2.5, 2.5]),
        ([2.5], [2.5]),
    ],
)
def test_constant_numbers_have_correlation_zero(answers, labels, recwarn):
    measured = measure_answers(["pearson", "spearman"], answers, labels)
    assert measured == {"pearson": 0, "spearman": 0}
    assert not recwarn.list


@pytest.mark.parametrize(
    ("metrics", "answers", "labels", "message"),
    [
        (["bleu"], [1], [1], "Unknown metric 'bleu'. Known metrics: accuracy, matthews, f1"),
        (["accuracy"], [1, 0], [1], r"answers have shape \(2,\) and labels \(1,\)"),
        (["accuracy"], [[1]], [[1]], r"answers have shape \(1, 1\)"),
        (["accuracy"], ["yes"], ["yes"], "answers are <U3, but must be numbers"),
        (["accuracy"], [], [], "no answers to measure"),
        (["pearson"], [1.0, 2.0], [float("inf"), 2], "label in row 0 is inf"),
    ],
)
def test_what_cannot_be_measured_is_refused(metrics, answers, labels, message):
    with pytest.raises(ValueError, match=message):
        measure_answers(metrics, answers, labels)


def test_answers_of_a_run_that_diverged_are_worth_nan():
    for answers in ([1.0, float("nan")], [float("inf"), 1.0]):
        measured = measure_answers(["pearson", "spearman"], answers, [1.0, 2.0])
        assert list(measured) == ["pearson", "spearman"]
        assert all(math.isnan(value) for value in measured.values())


def test_confusion_counts_labels_in_rows_and_answers_in_columns():
    header, rows = confusion_table([2, 2, 0, 0, 2], [0, 0, 0, 2, 2], ["a", "b", "c"])
    assert header == ["label", "a", "b", "c"]
    # b was neither a label nor an answer, and stands there all the same
    assert rows == [["a", 1, 0, 2], ["b", 0, 0, 0], ["c", 1, 0, 1]]


def test_every_class_has_its_scores():
    header, rows = label_table([2, 2, 0, 0, 2], [0, 0, 0, 2, 2], ["a", "b", "c"])
    assert header == ["label", "precision", "recall", "f1", "support"]
    assert rows == [
        ["a", 1 / 2, pytest.approx(1 / 3), pytest.approx(0.4), 3],
        ["b", 0, 0, 0, 0],
        ["c", pytest.approx(1 / 3), 1 / 2, pytest.approx(0.4), 2],
    ]


def test_classes_without_a_name_are_refused():
    for table in (confusion_table, label_table):
        with pytest.raises(ValueError, match=r"answer in row 1 is 2, but .* names for 0..1"):
            table([0, 2], [0, 1], ["no", "yes"])
        with pytest.raises(ValueError, match="label in row 0 is -1"):
            table([0, 1], [-1, 1], ["no", "yes"])


@pytest.mark.parametrize(
    ("metric", "package", "name"),
    [("f1", "sklearn", "scikit-learn"), ("pearson", "scipy", "scipy")],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, metric, package, name):
    true_import = builtins.__import__

    def without(module, *args, **kwargs):
        if module.split(".")[0] == package:
            raise ImportError(module)
        return true_import(module, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=rf"{name}, which is not.*keras_bert_impl\[finetune\]"):
        measure_answers([metric], [0, 1], [0, 1])


def test_docstring_examples():
    result = doctest.testmod(classification_metrics)
    assert (result.attempted, result.failed) == (3, 0)
