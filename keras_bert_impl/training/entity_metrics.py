"""Precision, recall and F1 of whole entities, as CoNLL-2003 is measured (paper, section 5.3)."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple


class TypeScore(NamedTuple):
    """Scores of the entities of one type; `support` is how many there truly are."""

    precision: float
    recall: float
    f1: float
    support: int


class EntityScores(NamedTuple):
    """Scores of all entities, and by type.

    Attributes:
        precision, recall, f1: float. Over the entities of all types together (micro average).
            0 where nothing is to be divided by.
        support: int. How many entities there truly are.
        accuracy: float. Share of words with the right tag, those outside of entities included.
        types: dict. `TypeScore` by type, those in the true or the predicted tags, sorted.
    """

    precision: float
    recall: float
    f1: float
    support: int
    accuracy: float
    types: dict[str, TypeScore]


def entity_scores(
    true_tags: Sequence[Sequence[str]], predicted_tags: Sequence[Sequence[str]]
) -> EntityScores:
    """How many entities were found: an entity counts if its words and its type are all right.

    Counted by seqeval, which takes tags as conlleval does: IOB1, IOB2, IOE and BIOES, also where
    a sequence is not well formed.

    Args:
        true_tags: the tags of each sentence.
        predicted_tags: the same.

    Returns:
        `EntityScores`.

    Raises:
        ImportError: where seqeval is not installed.
        ValueError: if a row of both differs in length, there are no words, or a tag is no entity
            tag.

    Example:

    >>> scores = entity_scores([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "O", "B-LOC"]])
    >>> scores.f1, scores.types["LOC"].f1
    (0.5, 1.0)
    """
    if len(true_tags) != len(predicted_tags):
        raise ValueError(f"{len(true_tags)} rows of true tags, {len(predicted_tags)} of predicted.")
    for row, (true, predicted) in enumerate(zip(true_tags, predicted_tags, strict=True)):
        if len(true) != len(predicted):
            raise ValueError(
                f"Row {row} has {len(true)} true tags, but {len(predicted)} predicted ones."
            )
    pairs = [
        pair
        for true, predicted in zip(true_tags, predicted_tags, strict=True)
        for pair in zip(true, predicted, strict=True)
    ]
    if not pairs:
        raise ValueError("There are no words to score.")
    report = _report([list(row) for row in true_tags], [list(row) for row in predicted_tags])
    together = report.pop("micro avg")
    for average in ("macro avg", "weighted avg"):
        report.pop(average)
    return EntityScores(
        *together,
        accuracy=sum(true == predicted for true, predicted in pairs) / len(pairs),
        types=report,
    )


def entity_table(scores: EntityScores) -> tuple[list[str], list[list]]:
    """Scores as a table: a row for each type, sorted, and one for all.

    Returns:
        The header, and rows of a name, three scores between 0 and 1, and a count.

    Example:

    >>> entity_table(entity_scores([["B-PER", "O"]], [["B-PER", "O"]]))[1]
    [['PER', 1.0, 1.0, 1.0, 1], ['all', 1.0, 1.0, 1.0, 1]]
    """
    rows = [[name, *score] for name, score in scores.types.items()]
    rows.append(["all", scores.precision, scores.recall, scores.f1, scores.support])
    return ["type", "precision", "recall", "f1", "support"], rows


def _report(true_tags, predicted_tags) -> dict[str, TypeScore]:
    try:
        from seqeval.metrics import classification_report
    except ImportError as error:
        raise ImportError(
            "Entities are scored by seqeval, which is not installed. "
            "Install it with: pip install 'keras_bert_impl[finetune]'"
        ) from error
    with warnings.catch_warnings():
        # seqeval would only warn, and count nonsense.
        warnings.simplefilter("ignore", RuntimeWarning)  # means over no types at all
        warnings.filterwarnings("error", message=".*seems not to be NE tag")
        try:
            report = classification_report(
                true_tags, predicted_tags, output_dict=True, zero_division=0
            )
        except UserWarning as warning:
            raise ValueError(
                f"{warning} Expected O, or B-, I-, E- or S- with a type behind it."
            ) from None
    return {
        name: TypeScore(
            float(score["precision"]),
            float(score["recall"]),
            float(score["f1-score"]),
            int(score["support"]),
        )
        for name, score in report.items()
    }
