import doctest

import numpy as np
import pytest

from keras_bert_impl.training import answer_metrics
from keras_bert_impl.training.answer_metrics import (
    answer_f1,
    best_thresholds,
    exact_match,
    normalize_answer,
    squad_1_scores,
    squad_2_scores,
)


def test_docstring_examples():
    result = doctest.testmod(answer_metrics)
    assert result.attempted >= 6
    assert result.failed == 0


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The Cat", "cat"),
        ("a cat, an owl and the theatre", "cat owl and theatre"),
        ("  two\t\n words\u00a0here ", "two words here"),
        ("U.S.A.'s (1895-1943)!", "usas 18951943"),
        ("don't", "dont"),
        ("a-the", "athe"),  # punctuation goes first
        ("\u00c9t\u00e9 \u2013 \u201cquoted\u201d", "\u00e9t\u00e9 \u2013 \u201cquoted\u201d"),
        ("The", ""),
        ("...", ""),
        ("", ""),
    ],
)
def test_what_is_not_compared_goes(text, normalized):
    assert normalize_answer(text) == normalized


def test_exact_match_by_hand():
    assert exact_match("The cat!", ["dog", "cat"]) == 1
    assert exact_match("cats", ["dog", "cat"]) == 0
    assert exact_match("", []) == 1
    assert exact_match("cat", []) == 0
    assert exact_match("", ["cat"]) == 0
    assert exact_match("", ["the", "cat"]) == 0  # a gold answer of nothing does not count
    assert exact_match("", ["the"]) == 1


def test_f1_by_hand():
    assert answer_f1("black cat", ["the black cat sat"]) == pytest.approx(
        2 * 1 * (2 / 3) / (1 + 2 / 3)
    )
    assert answer_f1("cat cat dog", ["cat dog dog"]) == pytest.approx(2 / 3)
    assert answer_f1("mat", ["cat", "the mat", "mat mat"]) == 1
    assert answer_f1("dog", ["cat"]) == 0
    assert answer_f1("", []) == 1
    assert answer_f1("the", []) == 1
    assert answer_f1("cat", []) == 0
    assert answer_f1("", ["cat"]) == 0


GOLDS = {"1": ["the cat"], "2": ["black dog", "dog"], "3": ["mat"], "4": ["a tree"]}


def test_squad_1_by_hand():
    answers = {"1": "cat", "2": "big black dog", "3": "cat", "unasked": "x"}
    scores = squad_1_scores(GOLDS, answers)  # of "4" there is no answer
    assert scores == {"exact_match": 25.0, "f1": pytest.approx(100 * (1 + 0.8) / 4)}
    # evaluate-v1.1.py finds no word in common.
    assert squad_1_scores({"1": ["The"]}, {"1": "..."}) == {"exact_match": 100, "f1": 0}


def test_squad_2_by_hand():
    golds = {**GOLDS, "5": [], "6": [], "7": []}
    answers = {"1": "cat", "2": "", "3": "the big mat", "5": "", "6": "x", "7": ""}
    assert squad_2_scores(golds, answers) == {
        "exact": pytest.approx(100 * 3 / 6),
        "f1": pytest.approx(100 * (1 + 2 / 3 + 2) / 6),
        "total": 6,
        "HasAns_exact": pytest.approx(100 * 1 / 3),
        "HasAns_f1": pytest.approx(100 * (1 + 2 / 3) / 3),
        "HasAns_total": 3,
        "NoAns_exact": pytest.approx(100 * 2 / 3),
        "NoAns_f1": pytest.approx(100 * 2 / 3),
        "NoAns_total": 3,
    }
    assert "NoAns_f1" not in squad_2_scores({"1": ["cat"]}, {"1": "cat"})


def test_thresholds_by_hand():
    golds = {"1": ["black cat"], "2": ["dog"], "3": [], "4": ["mat"], "5": []}
    spans = {"1": "cat", "2": "dog", "3": "x", "4": "mat", "5": "y"}
    differences = {"1": -5.0, "2": -4.0, "3": -3.0, "4": -2.5, "5": 3.0}
    # From 2, the more are answered, exact matches sum up to 2 3 2 3 2, F1 to 2.67 3.67 2.67 3.67
    # 2.67: of equal sums the lower threshold is taken.
    assert best_thresholds(golds, spans, differences) == {
        "best_exact": 60.0,
        "best_exact_thresh": -4.0,
        "best_f1": pytest.approx(100 * (2 / 3 + 3) / 5),
        "best_f1_thresh": -4.0,
    }


def test_where_to_answer_nothing_is_best_the_threshold_is_below_all_differences():
    found = best_thresholds(
        {"1": ["cat"], "2": [], "3": []},
        dict.fromkeys("123", "x"),
        {"1": -9.0, "2": -8.0, "3": 1.0},
    )
    assert found["best_exact"] == pytest.approx(200 / 3)
    assert found["best_exact_thresh"] < -9


def reference_best(golds, spans, differences, score):
    """The loop of evaluate-v2.0.py, stated again."""
    total = best = sum(not golds[id] for id in golds)
    threshold = 0.0
    for id in sorted(differences, key=differences.get):
        total += score(spans[id], golds[id]) if golds[id] else -1 if spans[id] else 0
        if total > best:
            best, threshold = total, differences[id]
    return 100 * best / len(golds), threshold


def at_threshold(golds, spans, differences, threshold, name):
    answers = {id: "" if differences[id] > threshold else spans[id] for id in golds}
    return squad_2_scores(golds, answers)[name]


@pytest.mark.parametrize("ties", [False, True])
def test_thresholds_give_the_best_score_there_is(ties):
    draw = np.random.default_rng(0)
    words = ["cat", "dog", "mat", "black"]
    num_positive = 0
    for _ in range(200):
        ids = [str(i) for i in range(draw.integers(1, 9))]
        golds = {id: [" ".join(draw.choice(words, 2))] if draw.random() < 0.6 else [] for id in ids}
        spans = {id: " ".join(draw.choice(words, draw.integers(1, 3))) for id in ids}
        spans[ids[0]] = "" if draw.random() < 0.2 else spans[ids[0]]
        differences = {
            id: float(draw.integers(-2, 3)) if ties else float(draw.normal(0, 3)) for id in ids
        }
        found = best_thresholds(golds, spans, differences)
        for name, score in (("exact", exact_match), ("f1", answer_f1)):
            best, threshold = found[f"best_{name}"], found[f"best_{name}_thresh"]
            tried = [min(differences.values()) - 1, *differences.values()]
            scores = [at_threshold(golds, spans, differences, t, name) for t in tried]
            assert best == pytest.approx(max(scores))
            assert at_threshold(golds, spans, differences, threshold, name) == pytest.approx(best)
            if not ties:
                theirs, their_threshold = reference_best(golds, spans, differences, score)
                assert best == pytest.approx(theirs)
                if best > 100 * sum(not golds[id] for id in ids) / len(ids):
                    assert threshold == their_threshold
                    num_positive += 1
    assert ties or num_positive > 100


def test_nothing_to_score_is_refused():
    for score in (
        lambda: squad_1_scores({}, {}),
        lambda: squad_2_scores({"1": []}, {"2": "cat"}),
        lambda: best_thresholds({"1": []}, {"1": "cat"}, {}),
    ):
        with pytest.raises(ValueError, match="no questions with an answer"):
            score()
