"""Ids of one or two texts to rows `[CLS] a [SEP] b [SEP]`, and the rules that shorten them.

Paper, section 3 (input representation); google-research/bert, run_classifier.py.
"""

from typing import Any

import tensorflow as tf

TRUNCATIONS = ("longest_first", "round_robin", "only_first", "only_second")
PADDINGS = ("longest", "max_length")


def check_truncation(truncation: str) -> None:
    """Raise a ValueError listing the known rules where `truncation` is none of them."""
    if truncation not in TRUNCATIONS:
        raise ValueError(
            f"Unknown truncation {truncation!r}. Choose one of {', '.join(TRUNCATIONS)}."
        )


def room_for_text(sequence_length: int, num_texts: int) -> int:
    """Tokens that a row of one or two texts has beside `[CLS]` and a `[SEP]` for each text.

    Raises:
        ValueError: if there is none.
    """
    num_special = 1 + num_texts
    room = sequence_length - num_special
    if room < 1:
        raise ValueError(
            f"sequence_length={sequence_length} leaves no room for text beside {num_special} "
            "special tokens."
        )
    return room


def kept_lengths(
    first_lengths: tf.Tensor, second_lengths: tf.Tensor, limit: int, truncation: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """How many tokens of each pair stay, in closed form.

    Args:
        first_lengths, second_lengths: (batch,) int. Tokens of each text.
        limit: int. Most tokens that both together may have.
        truncation: str, one of `TRUNCATIONS`; see `truncate_pair`.

    Returns:
        Two (batch,) tensors of the lengths' dtype.

    Raises:
        ValueError: for an unknown truncation or a negative limit.
        tf.errors.InvalidArgumentError: if the text that gives way is too short to reach the limit.
    """
    check_truncation(truncation)
    if limit < 0:
        raise ValueError(f"limit={limit} must not be negative.")
    first_lengths = tf.convert_to_tensor(first_lengths)
    second_lengths = tf.convert_to_tensor(second_lengths, first_lengths.dtype)
    if truncation == "only_first":
        fixed = _reachable(second_lengths, limit, "second", truncation)
        return tf.minimum(first_lengths, limit - fixed), fixed
    if truncation == "only_second":
        fixed = _reachable(first_lengths, limit, "first", truncation)
        return fixed, tf.minimum(second_lengths, limit - fixed)
    # Both other rules end alike: each text is sure of its half, the first of the odd token, and
    # takes what the other leaves. Longest first pops the second at a tie, round robin gives the
    # first its turn first: the same lengths from two ends. (Three texts would tell them apart.)
    half = limit // 2
    return (
        tf.minimum(first_lengths, tf.maximum(limit - second_lengths, limit - half)),
        tf.minimum(second_lengths, tf.maximum(limit - first_lengths, half)),
    )


def truncate_pair(
    first: tf.RaggedTensor, second: tf.RaggedTensor, limit: int, truncation: str = "longest_first"
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Cut tokens from the ends of two texts until both together have at most `limit`.

    google-research/bert, run_classifier.py, `_truncate_seq_pair`.

    Args:
        first, second: ragged (batch, tokens).
        limit: int. Most tokens of a pair, special tokens not counted.
        truncation: str. Which text gives way. `"longest_first"`, the default and the
            reference's rule: one token at a time from the longer, from the second when they are
            equal. `"round_robin"`: the texts take tokens in turn, the first first, as
            tensorflow_text.RoundRobinTrimmer; for two texts the same result. `"only_first"`,
            `"only_second"`: the other stays whole, as a question does beside its passage.

    Returns:
        The two ragged (batch, tokens) tensors, shortened.

    Raises:
        ValueError: for an unknown truncation or a negative limit.
        tf.errors.InvalidArgumentError: if the text that gives way is too short to reach the limit.

    Example:

    >>> first, second = tf.ragged.constant([[1, 2, 3, 4]]), tf.ragged.constant([[7, 8]])
    >>> [x.to_list() for x in truncate_pair(first, second, limit=5)]
    [[[1, 2, 3]], [[7, 8]]]
    """
    first, second = as_ragged(first), as_ragged(second)
    first_kept, second_kept = kept_lengths(
        first.row_lengths(), second.row_lengths(), limit, truncation
    )
    return keep_first(first, first_kept), keep_first(second, second_kept)


def pack(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None = None,
    *,
    sequence_length: int,
    tokenizer: Any,
    truncation: str = "longest_first",
    pad_to: str = "longest",
) -> dict[str, tf.Tensor]:
    """Rows `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, cut to fit and padded to one length.

    Args:
        first: ragged (batch, tokens) ids of text A.
        second: the same of text B, or None for single texts.
        sequence_length: int. Longest row, special tokens included.
        tokenizer: anything with `cls_token_id`, `sep_token_id` and `pad_token_id`.
        truncation: str, as in `truncate_pair`; a single text loses its end under any rule.
        pad_to: str. `"longest"`: the longest row of the batch, which wastes least.
            `"max_length"`: always `sequence_length`, a static shape.

    Returns:
        token_ids: (batch, length) int32.
        segment_ids: (batch, length) int32. 0 up to the first `[SEP]`, 1 on B and its `[SEP]`,
            0 on padding.
        padding_mask: (batch, length) bool, true on real tokens.

    Raises:
        ValueError: for an unknown truncation or padding, or a row too short for the special
            tokens and one token of text.
        tf.errors.InvalidArgumentError: if the text that gives way is too short to reach the limit.

    Example:

    >>> ids = types.SimpleNamespace(cls_token_id=2, sep_token_id=3, pad_token_id=0)
    >>> a, b = tf.ragged.constant([[5, 6], [5]]), tf.ragged.constant([[7], [8]])
    >>> pack(a, b, sequence_length=8, tokenizer=ids)["token_ids"].numpy().tolist()
    [[2, 5, 6, 3, 7, 3], [2, 5, 3, 8, 3, 0]]
    """
    check_truncation(truncation)
    if pad_to not in PADDINGS:
        raise ValueError(f"Unknown pad_to {pad_to!r}. Choose one of {', '.join(PADDINGS)}.")
    limit = room_for_text(sequence_length, num_texts=1 if second is None else 2)

    first = as_ragged(first)
    if second is None:
        first = keep_first(first, tf.minimum(first.row_lengths(), limit))
        parts = [first]
    else:
        first, second = truncate_pair(first, second, limit, truncation)
        parts = [first, second]

    batch = first.nrows()
    cls = tf.fill([batch, 1], tf.cast(tokenizer.cls_token_id, tf.int32))
    sep = tf.fill([batch, 1], tf.cast(tokenizer.sep_token_id, tf.int32))
    pieces: list = [cls]
    for part in parts:
        pieces += [part, sep]
    rows = tf.concat(pieces, axis=1)  # ragged (batch, length)
    token_ids = rows.to_tensor(
        default_value=tf.cast(tokenizer.pad_token_id, tf.int32),
        shape=[None, sequence_length if pad_to == "max_length" else None],
    )  # (batch, length)

    position = tf.range(tf.shape(token_ids, out_type=tf.int64)[1])[tf.newaxis]  # (1, length)
    padding_mask = position < rows.row_lengths()[:, tf.newaxis]
    in_second = padding_mask & (position >= first.row_lengths()[:, tf.newaxis] + 2)
    padding_mask.set_shape(token_ids.shape)
    in_second.set_shape(token_ids.shape)
    return {
        "token_ids": token_ids,
        "segment_ids": tf.cast(in_second, tf.int32),
        "padding_mask": padding_mask,
    }


def as_ragged(ids: Any) -> tf.RaggedTensor:
    """Ragged (batch, tokens) int32 of a ragged tensor, a dense one or nested lists."""
    if isinstance(ids, list | tuple):
        return tf.ragged.constant(ids, dtype=tf.int32, ragged_rank=1)
    if not isinstance(ids, tf.RaggedTensor):
        ids = tf.RaggedTensor.from_tensor(ids)
    return tf.cast(ids, tf.int32).with_row_splits_dtype(tf.int64)


def keep_first(rows: tf.RaggedTensor, kept: tf.Tensor) -> tf.RaggedTensor:
    """The first `kept[i]` tokens of row i; `kept` is (batch,) and at most the row's length."""
    kept = tf.cast(kept, tf.int64)
    position = tf.ragged.range(rows.row_lengths()).values
    values = tf.boolean_mask(rows.values, position < tf.repeat(kept, rows.row_lengths()))
    return tf.RaggedTensor.from_row_lengths(values, kept)


def _reachable(lengths: tf.Tensor, limit: int, name: str, truncation: str) -> tf.Tensor:
    """`lengths`, readable only if none is over the limit."""
    check = tf.debugging.assert_less_equal(
        lengths,
        tf.cast(limit, lengths.dtype),
        message=f"truncation={truncation!r} leaves the {name} text whole, but it has more than "
        f"the {limit} tokens there is room for. Choose another truncation, a larger "
        f"sequence_length, or shorten the {name} text. By row:",
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(lengths)
