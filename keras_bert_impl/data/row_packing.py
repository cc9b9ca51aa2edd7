"""Several examples in one row, so that next to nothing of a batch is padding.

Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination" (arXiv:2107.02027): the
shares of padding, and what keeps the examples of a row apart: attention stays inside an example,
and its positions begin at 0.
"""

from typing import Any

import tensorflow as tf

from keras_bert_impl.data.batches import fill_rows, with_weights
from keras_bert_impl.data.batching import POOL_BATCHES
from keras_bert_impl.data.randomness import fold_in, permutation

# Examples that are packed together: enough that each finds company that fills its row, few enough
# that a pool takes milliseconds.
POOL_EXAMPLES = 2048


def pack_rows(
    by_token: dict[str, tf.Tensor],
    by_example: Any = (),
    *,
    row_length: int,
    examples_per_row: int,
) -> tuple[dict[str, tf.Tensor], Any]:
    """Put examples that have a row each into few full rows, each example whole.

    Args:
        by_token: dict of (examples, width) tensors, among them `padding_mask`, bool, true on the
            tokens of an example, which stand first.
        by_example: nested tensors (examples, ...), such as labels and their weights.
        row_length: int. Tokens of a row; at least those of the longest example.
        examples_per_row: int. Most examples of a row.

    Returns:
        The inputs of a model, a dict of what `by_token` holds, (rows, row_length), 0 on padding, and
        position_ids: (rows, row_length) int32, from 0 in each example.
        sequence_ids: (rows, row_length) int32. 1, 2, ... by example; 0 on padding.
        cls_positions: (rows, examples_per_row) int32. Where each example begins; 0 for none.
        num_examples: (rows,) int32.

        And `by_example`, of shape (rows, examples_per_row, ...), 0 where there is no example.

    Raises:
        ValueError: for sizes below 1.
        tf.errors.InvalidArgumentError: for an example that is longer than a row or has no token.

    Example:

    >>> ids = tf.constant([[2, 5, 3, 0], [2, 5, 6, 3], [2, 3, 0, 0]])
    >>> x, y = pack_rows(
    ...     {"token_ids": ids, "padding_mask": ids > 0}, tf.constant([7, 8, 9]),
    ...     row_length=6, examples_per_row=2)
    >>> x["token_ids"].numpy().tolist(), y.numpy().tolist()
    ([[2, 5, 6, 3, 2, 3], [2, 5, 3, 0, 0, 0]], [[8, 9], [7, 0]])
    """
    check_sizes(row_length, examples_per_row)
    mask = by_token["padding_mask"]
    lengths = _checked(tf.reduce_sum(tf.cast(mask, tf.int32), axis=1), row_length)  # (examples,)
    order, counts = first_fit_decreasing(lengths, row_length, examples_per_row)

    # From here on examples stand in the order of their rows.
    lengths, mask = tf.gather(lengths, order), tf.gather(mask, order)
    row = tf.repeat(tf.range(tf.size(counts)), counts)  # (examples,)
    row_lengths = tf.math.segment_sum(lengths, row)  # (rows,)
    starts = tf.cumsum(lengths, exclusive=True)
    starts -= tf.gather(tf.cumsum(row_lengths, exclusive=True), row)
    number = tf.ragged.range(1, counts + 1).values  # of each example in its row

    def rows_of_tokens(values):
        return _rows(values, row_lengths, row_length)

    def rows_of_examples(values):
        return _rows(values, counts, examples_per_row)

    x = {
        name: rows_of_tokens(tf.boolean_mask(tf.gather(tensor, order), mask))
        for name, tensor in by_token.items()
    }
    x["position_ids"] = rows_of_tokens(tf.ragged.range(lengths).values)
    x["sequence_ids"] = rows_of_tokens(tf.repeat(number, lengths))
    x["cls_positions"] = rows_of_examples(starts)
    x["num_examples"] = counts
    by_example = tf.nest.map_structure(
        lambda tensor: rows_of_examples(tf.gather(tensor, order)), by_example
    )
    return x, by_example


def packed_rows(
    pools: tf.data.Dataset, seeds: tf.data.Dataset | None = None, **sizes: Any
) -> tf.data.Dataset:
    """Pools of examples to rows, one by one.

    Args:
        pools: a dataset of (by_token, by_example), as `pack_rows` takes them; of about
            `POOL_EXAMPLES` examples each.
        seeds: a dataset of (2,) int64, one for each pool, or None. The rows of a pool come in an
            order that its seed decides, and so does which of two examples of one length goes where.
            None: the order of packing, long examples first.
        **sizes: as in `pack_rows`.

    Returns:
        A dataset of (x, by_example), one row each.

    Raises:
        ValueError: for sizes below 1.
    """
    check_sizes(**sizes)

    def shuffled(pool, seed):
        order = permutation(tf.shape(tf.nest.flatten(pool)[0])[0], seed)
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, order), pool)

    def pack_shuffled(seed, pool):
        packed = pack_rows(*shuffled(pool, fold_in(seed, 0)), **sizes)
        return shuffled(packed, fold_in(seed, 1))

    options = {"num_parallel_calls": tf.data.AUTOTUNE, "deterministic": True}
    if seeds is None:
        return pools.map(lambda *pool: pack_rows(*pool, **sizes), **options).unbatch()
    return tf.data.Dataset.zip(seeds, pools).map(pack_shuffled, **options).unbatch()


def packed_batches(
    pools: tf.data.Dataset,
    batch_size: int,
    *,
    shuffle: bool,
    targets_by_token: bool = False,
    **sizes: Any,
) -> tf.data.Dataset:
    """Pools of prepared examples to batches of packed rows, all of one shape.

    Args:
        pools: a dataset of batches of x alone, (x, y) or (x, y, sample_weight); x is a dict of
            tensors by token.
        batch_size: int. Rows of each batch; the last one is filled up by rows of zeros.
        shuffle: bool. Another order each time the dataset is read (by `tf.random.set_seed`).
        targets_by_token: bool. Whether y and sample_weight have an axis of tokens too.
        **sizes: as in `pack_rows`.

    Returns:
        A dataset of x alone or (x, y, sample_weight), x as of `pack_rows`; targets by example are
        (batch_size, examples_per_row, ...), their weights 0 where there is no example.
    """

    def to_pack(x, *targets):
        if not targets:
            return x, ()
        _, y, sample_weight = with_weights(x, *targets)
        if targets_by_token:
            return {**x, "y": y, "sample_weight": sample_weight}, ()
        return x, (y, sample_weight)

    def finish(x, targets):
        if targets_by_token:
            targets = x["y"], x["sample_weight"]
            x = {name: x[name] for name in x if name not in ("y", "sample_weight")}
        return tf.nest.map_structure(
            lambda tensor: tf.ensure_shape(tensor, [batch_size, *tensor.shape[1:]]),
            fill_rows((x, *targets), batch_size),
        )

    seeds = None
    if shuffle:
        numbers = tf.data.Dataset.random(rerandomize_each_iteration=True)
        seeds = numbers.map(lambda number: tf.stack([number, tf.zeros_like(number)]))
    rows = packed_rows(pools.map(to_pack), seeds, **sizes)
    if shuffle:
        rows = rows.shuffle(POOL_BATCHES * batch_size, reshuffle_each_iteration=True)
    return rows.batch(batch_size).map(finish)


def first_fit_decreasing(
    lengths: tf.Tensor, row_length: int, examples_per_row: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Which examples share a row: each, the longest first, goes to the first row with room.

    Args:
        lengths: (examples,) int32, from 1 to row_length.
        row_length, examples_per_row: as in `pack_rows`.

    Returns:
        order: (examples,) int32. The examples of the first row, then those of the second, ...
        counts: (rows,) int32. How many examples each row has.
    """
    by_length = tf.argsort(lengths, direction="DESCENDING", stable=True)
    distinct, _, how_many = tf.unique_with_counts(tf.gather(lengths, by_length))

    # Examples of one length fill row after row, so all of them are placed at once.
    def place(index, room, slots, placed):
        length = distinct[index]
        fitting = tf.minimum(room // length, slots)  # (examples,): there are no more rows
        before = tf.cumsum(fitting, exclusive=True)
        taken = tf.clip_by_value(how_many[index] - before, 0, fitting)
        return index + 1, room - taken * length, slots - taken, placed.write(index, taken)

    rows = tf.zeros_like(lengths)
    _, _, slots, placed = tf.while_loop(
        lambda index, *_: index < tf.size(distinct),
        place,
        (
            tf.constant(0),
            rows + row_length,
            rows + examples_per_row,
            tf.TensorArray(tf.int32, tf.size(distinct), element_shape=lengths.shape),
        ),
    )
    rows_again = tf.tile(tf.range(tf.size(lengths)), [tf.size(distinct)])
    row = tf.repeat(rows_again, tf.reshape(placed.stack(), [-1]))  # (examples,), by length
    order = tf.gather(by_length, tf.argsort(row, stable=True))
    counts = examples_per_row - slots
    return order, tf.boolean_mask(counts, counts > 0)


def check_sizes(row_length: int, examples_per_row: int) -> None:
    """Raise a ValueError for rows that hold nothing."""
    for name, size in {"row_length": row_length, "examples_per_row": examples_per_row}.items():
        if size < 1:
            raise ValueError(f"{name}={size} must be at least 1.")


def _checked(lengths: tf.Tensor, row_length: int) -> tf.Tensor:
    """`lengths`, readable only if each example has a token and fits into a row."""
    message = f"Examples must have 1 to row_length={row_length} tokens, but have"
    fit = tf.reduce_all((lengths > 0) & (lengths <= row_length))
    with tf.control_dependencies([tf.debugging.Assert(fit, [message, lengths])]):
        return tf.identity(lengths)


def _rows(values: tf.Tensor, counts: tf.Tensor, width: int) -> tf.Tensor:
    """(rows, width, ...): the first counts[0] values, then the next counts[1], ..., and zeros."""
    ragged = tf.RaggedTensor.from_row_lengths(values, counts)
    return ragged.to_tensor(shape=[None, width, *values.shape[1:]])
