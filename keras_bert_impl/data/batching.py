"""Batches of rows of like length, so that little of a batch is padding."""

import tensorflow as tf

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


def row_lengths(padding_mask: tf.Tensor) -> tf.Tensor:
    """(rows,) int32: tokens of each row; of the longest choice where a row has several."""
    lengths = tf.reduce_sum(tf.cast(padding_mask, tf.int32), axis=-1)
    while lengths.shape.rank > 1:
        lengths = tf.reduce_max(lengths, axis=-1)
    return lengths
