"""Batches of rows of like length, so that little of a batch is padding."""

import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches import fill_rows

# Batches that are sorted together: many enough that like finds like, few enough that memory and
# the order's randomness do not suffer.
POOL_BATCHES = 64
# Rows are cut to a multiple of this. Few different shapes are good for devices that compile for
# each, and matrix units like multiples of 8.
LENGTH_MULTIPLE = 8
# Tensors with one entry a token, by name.
_BY_TOKEN = ("token_ids", "segment_ids", "padding_mask", "position_ids", "sequence_ids")


def batches_of_like_length(
    pools: tf.data.Dataset,
    batch_size: int,
    *,
    targets_by_token: bool = False,
    length_multiple: int = LENGTH_MULTIPLE,
) -> tf.data.Dataset:
    """Sort the rows of each pool by length, cut it into batches, and the batches to their length.

    Which rows share a batch depends on their lengths; in which order batches come is random
    (by `tf.random.set_seed`), another one each time the dataset is read.

    Args:
        pools: a dataset of batches of prepared rows, `POOL_BATCHES * batch_size` rows each (the
            last one maybe fewer): x alone, (x, y) or (x, y, sample_weight). x is
            a dict with `padding_mask`, (rows, length) or (rows, choices, length).
        batch_size: int. Rows of each batch; one batch of the last pool may have fewer.
        targets_by_token: bool. Whether y and sample_weight have an axis of tokens too.
        length_multiple: int. Batches are as long as the least multiple of this that holds them,
            if the pool is as long.

    Returns:
        A dataset of batches of the same structure.

    Example:

    >>> mask = tf.sequence_mask([3, 1, 2, 1])
    >>> pool = tf.data.Dataset.from_tensors({"padding_mask": mask})
    >>> batches = batches_of_like_length(pool, batch_size=2, length_multiple=1)
    >>> sorted(batch["padding_mask"].shape[1] for batch in batches)
    [1, 3]
    """

    def sorted_batches(*pool):
        lengths = row_lengths(pool[0]["padding_mask"])
        lengths = -(-lengths // length_multiple) * length_multiple
        # Rows of one such length stay in the order that they came in, which is random: where
        # short texts are of one class and long ones of another, batches are still mixed.
        order = tf.argsort(lengths, stable=True)
        starts = tf.range(0, tf.size(order), batch_size)
        full = tf.shape(pool[0]["padding_mask"])[-1]

        def batch(start):
            rows = order[start : start + batch_size]
            longest = tf.minimum(tf.gather(lengths, rows[-1]), full)
            x, *targets = tf.nest.map_structure(lambda t: tf.gather(t, rows), pool)
            x = {n: t[..., :longest] if n in _BY_TOKEN else t for n, t in x.items()}
            if targets_by_token:
                targets = tf.nest.map_structure(lambda t: t[..., :longest], targets)
            return (x, *targets) if targets else x

        return tf.data.Dataset.from_tensor_slices(starts).map(batch)

    return pools.flat_map(sorted_batches).shuffle(POOL_BATCHES, reshuffle_each_iteration=True)


def padded_evenly(x: dict, longest: int) -> dict:
    """Rows padded on to a multiple of 8, or to the `longest`, so that batches have few lengths.

    Args:
        x: dict of tensors, those by token (..., length), length at most `longest`.
    """
    length = tf.shape(x["padding_mask"])[-1]
    even = tf.minimum(-(-length // LENGTH_MULTIPLE) * LENGTH_MULTIPLE, longest)

    def pad(tensor):
        return tf.pad(tensor, [[0, 0]] * (tensor.shape.rank - 1) + [[0, even - length]])

    return {name: pad(tensor) if name in _BY_TOKEN else tensor for name, tensor in x.items()}


def bucket_lengths(sequence_length: int) -> list[int]:
    """The few lengths that batches have, ascending: 1, 3/4, 1/2, 3/8, ... of the longest, down to 16.

    >>> bucket_lengths(128)
    [16, 24, 32, 48, 64, 96, 128]
    """
    lengths = {sequence_length}
    size = sequence_length
    while size > 16:
        for share in (3 * size // 4, size // 2):
            length = -(-share // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
            lengths.add(min(max(length, 16), sequence_length))
        size //= 2
    return sorted(lengths)


def check_tokens(tokens_per_batch: int, row_length: int) -> None:
    """Raise a ValueError for batches that have no room for a row."""
    if tokens_per_batch < row_length:
        raise ValueError(
            f"tokens_per_batch={tokens_per_batch} is less than a row of {row_length} tokens."
        )


def batches_of_tokens(
    pools: tf.data.Dataset,
    tokens_per_batch: int,
    *,
    sequence_length: int,
    targets_by_token: bool = False,
) -> tf.data.Dataset:
    """Rows of like length in batches of as many tokens, of few shapes that never change.

    Each of the `bucket_lengths` has batches of tokens_per_batch // length rows. A length's last
    batch is filled up by rows of zeros, so that a device compiles once for each length.

    Args:
        pools: a dataset of batches of prepared rows, (x, y, sample_weight); x is a dict with
            `padding_mask`, (rows, length).
        tokens_per_batch: int. Tokens of a batch, padding counted.
        sequence_length: int. Longest row.
        targets_by_token: bool. Whether y and sample_weight have an axis of tokens too.

    Returns:
        A dataset of (x, y, sample_weight). x has also num_examples, (rows,) int32: 1, and 0 for
        rows that fill up.

    Raises:
        ValueError: if a batch has no room for a row.
    """
    if pools.element_spec[0]["padding_mask"].shape.rank != 2:
        raise ValueError("tokens_per_batch needs rows of one text: choices share theirs.")
    check_tokens(tokens_per_batch, sequence_length)
    buckets = bucket_lengths(sequence_length)
    lengths = tf.constant(buckets)
    sizes = tf.constant([tokens_per_batch // length for length in buckets], tf.int64)

    def resized(batch, length):
        """Tensors by token cut or padded to a length."""

        def resize(tensor):
            tensor = tensor[:, :length]
            return tf.pad(tensor, [[0, 0], [0, length - tf.shape(tensor)[1]]])

        x, *targets = batch
        x = {name: resize(t) if name in _BY_TOKEN else t for name, t in x.items()}
        return (x, *(tf.nest.map_structure(resize, targets) if targets_by_token else targets))

    def with_bucket(x, *targets):
        tokens = row_lengths(x["padding_mask"])
        x = {**x, "num_examples": tf.ones_like(tokens)}
        return tf.searchsorted(lengths, tokens), resized((x, *targets), sequence_length)

    def batch(bucket, rows):
        size = sizes[bucket]
        full = rows.batch(size).map(lambda _, row: resized(row, lengths[bucket]))
        return full.map(lambda *row: fill_rows(row, tf.cast(size, tf.int32)))

    return (
        pools.map(with_bucket)
        .unbatch()
        .group_by_window(
            lambda bucket, row: tf.cast(bucket, tf.int64),
            batch,
            window_size_func=lambda bucket: sizes[bucket],
        )
    )


def order_of_texts(x, batch_size: int) -> np.ndarray | None:
    """The order of rows of texts by length, the longest first, which fails first where memory ends.

    By characters: they go with the pieces, and cost nothing to count.

    Args:
        x: strings, or a dict of them, in lists or arrays.
        batch_size: int.

    Returns:
        (rows,) int, or None where all rows are one batch, or x is not strings, one a row and name.
    """
    columns = list(x.values()) if isinstance(x, dict) else [x]
    if not all(isinstance(c, list) or getattr(c, "ndim", 0) == 1 for c in columns):
        return None
    rows = len(columns[0])
    if rows <= batch_size or any(len(column) != rows for column in columns):
        return None
    if not all(isinstance(text, str | bytes) for column in columns for text in column):
        return None
    characters = sum(np.array([len(text) for text in column]) for column in columns)
    return np.argsort(-characters, kind="stable")


def row_lengths(padding_mask: tf.Tensor) -> tf.Tensor:
    """(rows,) int32: tokens of each row; of the longest choice where a row has several."""
    lengths = tf.reduce_sum(tf.cast(padding_mask, tf.int32), axis=-1)
    while lengths.shape.rank > 1:
        lengths = tf.reduce_max(lengths, axis=-1)
    return lengths
