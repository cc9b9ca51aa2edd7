"""What classifiers and regressions are measured by: GLUE's metrics, and tables by label.

Wang et al. 2018 (arXiv:1804.07461), table 1. Computed by scikit-learn and scipy.
"""

import warnings
from collections.abc import Callable, Sequence

import numpy as np


def measure_answers(metrics: Sequence[str], answers, labels) -> dict[str, float]:
    """Several metrics of the same answers.

    Args:
        metrics: names, of `"accuracy"`, `"matthews"` (Matthews's correlation) and `"f1"` (of
            class 1 in two) for classes, and of `"pearson"` and `"spearman"` for real numbers.
            Where nothing is to be divided by, as when all answers are the same, correlations and
            F1 are 0.
        answers: (rows,) class numbers or real numbers, what the model said.
        labels: (rows,) the same, what is right.

    Returns:
        The values by name, in the order asked for. All are nan where an
        answer is no finite number: the training diverged.

    Raises:
        ImportError: where scikit-learn or scipy is not installed.
        ValueError: for an unknown metric, no rows, other shapes, or a label that is no finite
            number.

    Example:

    >>> measure_answers(["accuracy", "f1"], answers=[1, 1, 0, 0], labels=[1, 0, 0, 0])
    {'accuracy': 0.75, 'f1': 0.6666666666666666}
    """
    for name in metrics:
        if name not in METRICS:
            raise ValueError(f"Unknown metric {name!r}. Known metrics: {', '.join(METRICS)}.")
    answers, labels = _checked(answers, labels)
    if not np.isfinite(answers).all():
        return dict.fromkeys(metrics, float("nan"))
    with warnings.catch_warnings():
        # Of values that are all, or nearly, alike: their metrics are 0, as said above.
        warnings.simplefilter("ignore")
        return {name: METRICS[name](answers, labels) for name in metrics}


def confusion_table(answers, labels, class_names: Sequence[str]) -> tuple[list[str], list[list]]:
    """How often which label was answered by which class.

    Args:
        answers, labels: (rows,) class numbers.
        class_names: names of all classes, in order.

    Returns:
        The header, and a row for each label: its name, then a count for each answer.

    Raises:
        ImportError, ValueError: as `measure_answers`.

    Example:

    >>> confusion_table(answers=[1, 1, 0], labels=[1, 0, 0], class_names=["no", "yes"])
    (['label', 'no', 'yes'], [['no', 1, 1], ['yes', 0, 1]])
    """
    answers, labels = _checked(answers, labels, num_classes=len(class_names))
    counts = _sklearn_metrics().confusion_matrix(labels, answers, labels=range(len(class_names)))
    rows = [[name, *row] for name, row in zip(class_names, counts.tolist(), strict=True)]
    return ["label", *class_names], rows


def label_table(answers, labels, class_names: Sequence[str]) -> tuple[list[str], list[list]]:
    """Precision, recall and F1 of each class.

    Args:
        answers, labels: (rows,) class numbers.
        class_names: names of all classes, in order.

    Returns:
        The header, and a row for each class: its name, three scores between 0 and 1 (0 where
        nothing is to be divided by), and how many rows have it as their label.

    Raises:
        ImportError, ValueError: as `measure_answers`.

    Example:

    >>> label_table(answers=[1, 1, 0], labels=[1, 0, 0], class_names=["no", "yes"])[1][1]
    ['yes', 0.5, 1.0, 0.6666666666666666, 1]
    """
    answers, labels = _checked(answers, labels, num_classes=len(class_names))
    scores = _sklearn_metrics().precision_recall_fscore_support(
        labels, answers, labels=range(len(class_names)), zero_division=0
    )
    columns = [column.tolist() for column in scores]
    rows = [list(row) for row in zip(class_names, *columns, strict=True)]
    return ["label", "precision", "recall", "f1", "support"], rows


def _checked(answers, labels, num_classes=None) -> tuple[np.ndarray, np.ndarray]:
    """Both as (rows,) arrays, or an error that names the row."""
    answers, labels = np.asarray(answers), np.asarray(labels)
    if answers.ndim != 1 or answers.shape != labels.shape:
        raise ValueError(
            f"Expected an answer and a label for each row, but answers have shape {answers.shape} "
            f"and labels {labels.shape}."
        )
    if not len(answers):
        raise ValueError("There are no answers to measure.")
    for name, values in (("answer", answers), ("label", labels)):
        if values.dtype.kind not in "iufb":
            raise ValueError(f"The {name}s are {values.dtype}, but must be numbers.")
        if num_classes is not None:
            wrong = np.flatnonzero((values < 0) | (values >= num_classes))
            if len(wrong):
                raise ValueError(
                    f"The {name} in row {wrong[0]} is {values[wrong[0]]}, but there are class "
                    f"names for 0..{num_classes - 1}."
                )
    wrong = np.flatnonzero(~np.isfinite(labels))
    if len(wrong):
        raise ValueError(f"The label in row {wrong[0]} is {labels[wrong[0]]}.")
    return answers, labels


def _accuracy(answers, labels) -> float:
    return float(_sklearn_metrics().accuracy_score(labels, answers))


def _matthews(answers, labels) -> float:
    return float(_sklearn_metrics().matthews_corrcoef(labels, answers))


def _f1(answers, labels) -> float:
    return float(_sklearn_metrics().f1_score(labels, answers, zero_division=0))


def _pearson(answers, labels) -> float:
    return _correlation("pearsonr", answers, labels)


def _spearman(answers, labels) -> float:
    return _correlation("spearmanr", answers, labels)


METRICS: dict[str, Callable] = {
    "accuracy": _accuracy,
    "matthews": _matthews,
    "f1": _f1,
    "pearson": _pearson,
    "spearman": _spearman,
}


def _correlation(name: str, answers, labels) -> float:
    try:
        from scipy import stats
    except ImportError as error:
        raise ImportError(_MISSING.format("scipy")) from error
    if len(answers) < 2:
        return 0.0
    value = getattr(stats, name)(np.float64(answers), np.float64(labels)).statistic
    return float(value) if np.isfinite(value) else 0.0  # all alike: nan


_MISSING = (
    "Answers are measured by {}, which is not installed. Install it with: "
    "pip install 'keras_bert_impl[finetune]'"
)


def _sklearn_metrics():
    try:
        import sklearn.metrics
    except ImportError as error:
        raise ImportError(_MISSING.format("scikit-learn")) from error
    return sklearn.metrics
