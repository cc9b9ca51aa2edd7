"""Exact match and F1 of answers, as SQuAD's evaluate-v1.1.py and evaluate-v2.0.py have them.

Texts are compared in lower case, without ASCII punctuation, without `a`, `an` and `the`, and with
single spaces. The best of a question's gold answers counts. All scores are per cent, as there.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """The text as answers are compared: see this file's first lines.

    Example:

    >>> normalize_answer("The  U.S. (an Example)")
    'us example'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, gold_answers: Iterable[str]) -> float:
    """1 if the answer is one of the gold answers but for what is not compared, else 0.

    Args:
        answer: str, `""` for no answer.
        gold_answers: str each; none for a question without an answer.
    """
    normalized = normalize_answer(answer)
    return float(any(normalized == normalize_answer(gold) for gold in _golds(gold_answers)))


def answer_f1(answer: str, gold_answers: Iterable[str]) -> float:
    """Harmonic mean of the words' precision and recall, the best over the gold answers.

    Where the answer or the gold answer has no words left, 1 if neither has, else 0, as
    evaluate-v2.0.py.

    Args:
        answer, gold_answers: as in `exact_match`.

    Example:

    >>> answer_f1("the black cat", ["cat", "a cat on the mat"])
    0.6666666666666666
    """
    words = normalize_answer(answer).split()
    return max(_f1(words, normalize_answer(gold).split()) for gold in _golds(gold_answers))


def squad_1_scores(
    golds: Mapping[str, Sequence[str]], answers: Mapping[str, str]
) -> dict[str, float]:
    """What evaluate-v1.1.py prints.

    Args:
        golds: the gold answers by question id.
        answers: the answer by question id. A question without one counts as wrong.

    Returns:
        `exact_match` and `f1`.

    Raises:
        ValueError: if there are no questions.

    Example:

    >>> squad_1_scores({"1": ["cat"], "2": ["a dog", "dogs"]}, {"1": "The cat.", "2": "big dog"})
    {'exact_match': 50.0, 'f1': 83.33333333333333}
    """
    _check_any(golds)
    exact = overlap = 0.0
    for id, gold_answers in golds.items():
        if id in answers and gold_answers:
            exact += max(exact_match(answers[id], [gold]) for gold in gold_answers)
            # There the F1 of two texts without words is 0.
            words = normalize_answer(answers[id]).split()
            overlap += answer_f1(answers[id], gold_answers) if words else 0.0
    return {"exact_match": 100 * exact / len(golds), "f1": 100 * overlap / len(golds)}


def squad_2_scores(
    golds: Mapping[str, Sequence[str]], answers: Mapping[str, str]
) -> dict[str, float]:
    """What evaluate-v2.0.py prints of answers alone.

    Args:
        golds: the gold answers by question id, none for a question without an answer.
        answers: the answer by question id, `""` for no answer. Questions without one do not count.

    Returns:
        `exact`, `f1` and `total`; the same of the questions with an answer (`HasAns_exact`,
        ...) and of those without (`NoAns_exact`, ...), where there are such.

    Raises:
        ValueError: if no question has an answer.

    Example:

    >>> squad_2_scores({"1": ["cat"], "2": []}, {"1": "black cat", "2": ""})["f1"]
    83.33333333333333
    """
    ids = [id for id in golds if id in answers]
    _check_any(ids)
    scores: dict[str, float] = {}
    for prefix, some in (
        ("", ids),
        ("HasAns_", [id for id in ids if golds[id]]),
        ("NoAns_", [id for id in ids if not golds[id]]),
    ):
        if some:
            scores |= {
                f"{prefix}exact": _mean(exact_match(answers[id], golds[id]) for id in some),
                f"{prefix}f1": _mean(answer_f1(answers[id], golds[id]) for id in some),
                f"{prefix}total": len(some),
            }
    return scores


def best_thresholds(
    golds: Mapping[str, Sequence[str]],
    spans: Mapping[str, str],
    null_score_differences: Mapping[str, float],
) -> dict[str, float]:
    """The thresholds above which no answer is the better answer, as evaluate-v2.0.py finds them.

    A question gets no answer if its difference is above the threshold. Unlike there, the
    threshold found gives the score found also where differences are equal, and where to answer
    nothing is best it lies below all differences, which may be negative.

    Args:
        golds: as in `squad_2_scores`.
        spans: the best span's text by question id, whatever no answer scored.
        null_score_differences: by question id, as in `Answer`.

    Returns:
        `best_exact`, `best_exact_thresh`, `best_f1` and `best_f1_thresh`.

    Raises:
        ValueError: if no question has an answer.

    Example:

    >>> golds, spans = {"1": ["cat"], "2": [], "3": []}, {"1": "cat", "2": "dog", "3": "mat"}
    >>> best_thresholds(golds, spans, {"1": -2.5, "2": -1.0, "3": 4.0})["best_f1_thresh"]
    -2.5
    """
    ids = [id for id in golds if id in spans and id in null_score_differences]
    _check_any(ids)
    ids.sort(key=lambda id: null_score_differences[id])
    differences = [null_score_differences[id] for id in ids]
    found = {}
    for name, score in (("exact", exact_match), ("f1", answer_f1)):
        total = best = float(sum(not golds[id] for id in ids))  # nothing answered
        threshold = differences[0] - 1
        for i, id in enumerate(ids):
            if golds[id]:
                total += score(spans[id], golds[id])
            else:
                total -= bool(spans[id])
            is_last = i + 1 == len(ids) or differences[i + 1] > differences[i]
            if is_last and total > best:
                best, threshold = total, differences[i]
        found[f"best_{name}"] = 100 * best / len(ids)
        found[f"best_{name}_thresh"] = threshold
    return found


def _golds(gold_answers: Iterable[str]) -> list[str]:
    """The gold answers that have something to compare; `""` where none has."""
    return [gold for gold in gold_answers if normalize_answer(gold)] or [""]


def _f1(words: list[str], gold_words: list[str]) -> float:
    if not words or not gold_words:
        return float(words == gold_words)
    common = sum((Counter(words) & Counter(gold_words)).values())
    return 2 * common / (len(words) + len(gold_words))


def _mean(scores: Iterable[float]) -> float:
    scores = list(scores)
    return 100 * sum(scores) / len(scores)


def _check_any(ids) -> None:
    if not ids:
        raise ValueError("There are no questions with an answer to score.")
