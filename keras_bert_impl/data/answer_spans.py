"""Answers as spans of a context, and where windows over the context have them.

Paper, sections 4.2 and 4.3; google-research/bert, run_squad.py.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert_impl.data.windows import Windows


class WindowedContexts(NamedTuple):
    """Contexts, their tokens, and the windows over them that stand in a model's rows.

    Attributes:
        contexts: (batch,) string.
        starts, ends: ragged (batch, tokens) int64. Characters of each token.
        windows: which tokens each of the model's rows holds.
        first: (windows,) int64. Position in the model's row of the window's first token.
    """

    contexts: tf.Tensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    windows: Windows
    first: tf.Tensor


class Answer(NamedTuple):
    """An answer to a question, and what else it could have been.

    Attributes:
        text: `context[start:end]`; `""` for no answer.
        start, end: characters of the context, the end exclusive; both -1 for no answer.
        score: start logit plus end logit; of `[CLS]` for no answer.
        null_score_difference: the score of no answer less that of the best span; 1e6 where the
            context has no span at all.
        n_best: (text, start, end, probability) by falling probability; these sum to 1.
    """

    text: str
    start: int
    end: int
    score: float
    null_score_difference: float
    n_best: list[tuple[str, int, int, float]]


def answer_positions(examples: WindowedContexts, start, end) -> tf.Tensor:
    """Where each window's row has the answer; at `[CLS]` where it does not hold all of it.

    The answer's tokens are the fewest that cover its characters.

    Args:
        examples: contexts and windows.
        start, end: (batch,) int. Characters of each context, the end exclusive; both -1 where there
            is no answer.

    Returns:
        (windows, 2) int32: positions of the first and last token, (0, 0) for no answer.

    Raises:
        tf.errors.InvalidArgumentError: for characters outside of the context.
    """
    start, end = tf.cast(start, tf.int64), tf.cast(end, tf.int64)
    length = tf.strings.length(examples.contexts, unit="UTF8_CHAR")
    is_span = (start >= 0) & (start < end) & (end <= tf.cast(length, tf.int64))
    check = tf.debugging.Assert(
        tf.reduce_all(is_span | ((start == -1) & (end == -1))),
        [
            "answer_start and answer_end must be characters of the context, the end exclusive and "
            "not before the start, or both -1 for no answer. The batch's first starts and ends:",
            start,
            end,
        ],
    )
    with tf.control_dependencies([check]):
        row, num_rows = examples.starts.value_rowids(), examples.starts.nrows()
    token = tf.ragged.range(examples.starts.row_lengths()).values
    is_covered = (examples.ends.values > tf.gather(start, row)) & (
        examples.starts.values < tf.gather(end, row)
    )
    # Where no token is covered, the smallest is above the largest.
    first = tf.where(is_covered, token, token.dtype.max)
    first = tf.math.unsorted_segment_min(first, row, num_rows)
    last = tf.where(is_covered, token, -1)
    last = tf.math.unsorted_segment_max(last, row, num_rows)

    windows = examples.windows
    first, last = tf.gather(first, windows.row), tf.gather(last, windows.row)
    is_held = (first <= last) & (first >= windows.start) & (last < windows.start + windows.length)
    positions = tf.stack([first, last], axis=1) - (windows.start - examples.first)[:, tf.newaxis]
    return tf.cast(tf.where(is_held[:, tf.newaxis], positions, 0), tf.int32)


def answer_list(answers: dict[str, tf.Tensor | tf.RaggedTensor]) -> list[Answer]:
    """What `best_answers` gave as a list, one `Answer` an example."""

    def text(value: bytes) -> str:
        return value.decode("utf-8", errors="ignore")

    def column(name: str) -> list:
        return answers[name].numpy().tolist()

    def lists(name: str) -> list[list]:
        return answers[f"n_best_{name}"].to_list()

    n_best = [
        [(text(each), *rest) for each, *rest in zip(*row, strict=True)]
        for row in zip(*map(lists, ("texts", "starts", "ends", "probabilities")), strict=True)
    ]
    return [
        Answer(text(each), start, end, score, difference, others)
        for each, start, end, score, difference, others in zip(
            *map(column, ("text", "start", "end", "score", "null_score_difference")),
            n_best,
            strict=True,
        )
    ]
