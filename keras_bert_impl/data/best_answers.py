"""The best answers out of the logits of all windows over a context.

Paper, section 4.3; google-research/bert, run_squad.py, `write_predictions`.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_bert_impl.data.answer_spans import WindowedContexts
from keras_bert_impl.data.windows import is_best_window

# What a null score exceeds the best span's by where there is no span; the reference's "large".
NO_SPAN_DIFFERENCE = 1e6
# Equal texts are looked for among this many times n_best spans of an example.
_SPANS_FOR_EACH = 50
_LARGEST_LOGIT = 1e30


@tf.function(autograph=False, reduce_retracing=True)  # eagerly it would take most of the time
def best_answers(
    logits,
    examples: WindowedContexts,
    *,
    n_best: int = 20,
    max_answer_length: int = 30,
    with_no_answer: bool = False,
    null_threshold: float | tf.Tensor = 0.0,
) -> dict[str, tf.Tensor | tf.RaggedTensor]:
    """The best spans over all windows of each context, as `write_predictions` of the reference.

    In each window the `n_best` best starts are paired with the `n_best` best ends. A span counts
    if it lies in the context, does not end before it starts, has at most `max_answer_length`
    tokens, and starts at a token for which this window has most context. Of spans with the same
    text the best counts. `[CLS]` is no answer, its score the least of all windows'.

    Beyond the reference: padding never takes one of the best places; an example without any span
    is answered with `""`; texts are cut from the context by offsets.

    Args:
        logits: (windows, 2, length) float. Of starts and ends.
        examples: contexts and windows.
        n_best: int. Answers that are kept.
        max_answer_length: int, in tokens.
        with_no_answer: bool. May a question have no answer (SQuAD 2.0)?
        null_threshold: float or scalar tensor. No answer if its score exceeds the best span's by more than this.

    Returns:
        text (string), start, end (int64), score, null_score_difference (float32), each (batch,),
        and n_best_texts, n_best_starts, n_best_ends, n_best_probabilities, ragged (batch, None),
        with the meaning of `Answer`.
    """
    with tf.device("cpu"):
        logits = _finite(tf.cast(logits, tf.float32))
        batch = tf.size(examples.contexts, tf.int64)
        spans = _candidates(logits, examples, n_best, max_answer_length)
        has_span = tf.math.unsorted_segment_sum(tf.ones_like(spans.row), spans.row, batch) > 0
        null_score = tf.reduce_sum(tf.cast(logits[:, :, :1], tf.float64), axis=[1, 2])
        null_score = tf.math.unsorted_segment_min(null_score, examples.windows.row, batch)

        # No answer is one of the candidates, or stands in where there is no other.
        null_row = tf.range(batch) if with_no_answer else tf.where(~has_span)[:, 0]
        nowhere = tf.fill(tf.shape(null_row), tf.constant(-1, tf.int64))
        nulls = _Candidates(null_row, nowhere, nowhere, tf.gather(null_score, null_row))
        found = _Candidates(*(tf.concat(pair, axis=0) for pair in zip(spans, nulls, strict=True)))
        found = _take(found, _order(found))
        found = _take(found, (_rank(found.row) < _SPANS_FOR_EACH * n_best) | (found.start < 0))
        texts = _texts(examples.contexts, found)
        is_first = _is_first(tf.strings.join([tf.strings.as_string(found.row), texts], " "))
        found, texts = _take(found, is_first), texts[is_first]

        is_span = found.start >= 0
        best_span = _first_where(is_span, found.row, batch)
        is_kept = (_rank(found.row) < n_best) | ~is_span

        span_score = tf.gather(found.score, tf.where(has_span, best_span, 0))
        difference = tf.where(has_span, null_score - span_score, NO_SPAN_DIFFERENCE)
        difference = tf.cast(difference, tf.float32)
        is_null = ~has_span
        if with_no_answer:
            is_null |= difference > null_threshold
        chosen = tf.where(is_null, _first_where(~is_span, found.row, batch), best_span)

        kept = _take(found, is_kept)
        listed = {
            "texts": texts[is_kept],
            "starts": kept.start,
            "ends": kept.end,
            "probabilities": _softmax(kept.score, kept.row, batch),
        }
        return {
            "text": tf.gather(texts, chosen),
            "start": tf.gather(found.start, chosen),
            "end": tf.gather(found.end, chosen),
            "score": tf.cast(tf.gather(found.score, chosen), tf.float32),
            "null_score_difference": difference,
            **{
                f"n_best_{name}": tf.RaggedTensor.from_value_rowids(values, kept.row, batch)
                for name, values in listed.items()
            },
        }


class _Candidates(NamedTuple):
    """Spans of all examples, each (candidates,); start and end are characters."""

    row: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor
    score: tf.Tensor  # float64


def _candidates(logits, examples: WindowedContexts, n_best, max_answer_length) -> _Candidates:
    """Every span that counts, in the reference's order: window, start's rank, end's rank."""
    windows, length = examples.windows, tf.shape(logits, tf.int64)[2]
    real = examples.first + windows.length + 1  # with the last [SEP]
    is_real = tf.range(length) < real[:, tf.newaxis]
    logits = tf.where(is_real[:, tf.newaxis], logits, -_LARGEST_LOGIT)
    k = tf.minimum(tf.cast(n_best, tf.int32), tf.cast(length, tf.int32))
    values, positions = tf.math.top_k(logits, k)  # (windows, 2, k)
    token = tf.cast(positions, tf.int64) - examples.first[:, tf.newaxis, tf.newaxis]
    in_context = (token >= 0) & (token < windows.length[:, tf.newaxis, tf.newaxis])
    start, end = token[:, 0, :, tf.newaxis], token[:, 1, tf.newaxis, :]

    is_best = is_best_window(windows, examples.starts.row_lengths())  # (windows, tokens)
    place = is_best.row_starts()[:, tf.newaxis] + token[:, 0]
    nowhere = tf.size(is_best.values, tf.int64)
    is_start = tf.gather(
        tf.concat([is_best.values, [False]], axis=0), tf.where(in_context[:, 0], place, nowhere)
    )
    counts = is_start[:, :, tf.newaxis] & in_context[:, 1, tf.newaxis, :]
    counts &= (end >= start) & (end - start < max_answer_length)  # (windows, k, k)

    window, i, j = tf.unstack(tf.where(counts), axis=1)
    values = tf.cast(values, tf.float64)
    score = tf.gather_nd(values[:, 0], tf.stack([window, i], axis=1))
    score += tf.gather_nd(values[:, 1], tf.stack([window, j], axis=1))
    row = tf.gather(windows.row, window)
    before = tf.gather(examples.starts.row_starts(), row) + tf.gather(windows.start, window)
    first = before + tf.gather_nd(token[:, 0], tf.stack([window, i], axis=1))
    last = before + tf.gather_nd(token[:, 1], tf.stack([window, j], axis=1))
    # Of both ends: the marks of one character may stand in another order than their tokens.
    char_start = tf.minimum(*(tf.gather(examples.starts.values, x) for x in (first, last)))
    char_end = tf.maximum(*(tf.gather(examples.ends.values, x) for x in (first, last)))
    return _Candidates(row, char_start, char_end, score)


def _finite(logits: tf.Tensor) -> tf.Tensor:
    """Without NaN, which cannot be sorted, and small enough that sums are finite."""
    logits = tf.where(tf.math.is_nan(logits), -_LARGEST_LOGIT, logits)
    return tf.clip_by_value(logits, -_LARGEST_LOGIT, _LARGEST_LOGIT)


def _take(candidates: _Candidates, which: tf.Tensor) -> _Candidates:
    """Those of a mask, or in the order of indices."""
    take = tf.boolean_mask if which.dtype == tf.bool else tf.gather
    return _Candidates(*(take(x, which) for x in candidates))


def _order(candidates: _Candidates) -> tf.Tensor:
    """By row, then by falling score, equal ones as they were."""
    by_score = tf.argsort(candidates.score, direction="DESCENDING", stable=True)
    by_row = tf.argsort(tf.gather(candidates.row, by_score), stable=True)
    return tf.gather(by_score, by_row)


def _rank(row: tf.Tensor) -> tf.Tensor:
    """Place of each candidate within its row, from 0; rows are sorted."""
    return tf.range(tf.size(row, tf.int64)) - tf.searchsorted(row, row, out_type=tf.int64)


def _first_where(condition: tf.Tensor, row: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    """(batch,) place of the first candidate of each row that meets the condition."""
    place = tf.range(tf.size(row, tf.int64))
    return tf.math.unsorted_segment_min(tf.where(condition, place, place.dtype.max), row, batch)


def _is_first(keys: tf.Tensor) -> tf.Tensor:
    """Whether no key before is equal."""
    distinct, index = tf.unique(keys, tf.int64)
    place = tf.range(tf.size(keys, tf.int64))
    first = tf.math.unsorted_segment_min(place, index, tf.size(distinct))
    return place == tf.gather(first, index)


def _texts(contexts: tf.Tensor, candidates: _Candidates) -> tf.Tensor:
    """The candidates' texts; by code points, as a gather would copy whole contexts."""
    points = tf.strings.unicode_decode(contexts, "UTF-8", errors="ignore")
    context_start = tf.gather(points.row_starts(), candidates.row)
    point = tf.ragged.range(context_start + candidates.start, context_start + candidates.end)
    return tf.strings.unicode_encode(
        point.with_values(tf.gather(points.values, point.values)), "UTF-8"
    )


def _softmax(score: tf.Tensor, row: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    """float32 shares of each candidate within its row."""
    highest = tf.math.unsorted_segment_max(score, row, batch)
    share = tf.exp(score - tf.gather(highest, row))
    total = tf.math.unsorted_segment_sum(share, row, batch)
    return tf.cast(share / tf.gather(total, row), tf.float32)
