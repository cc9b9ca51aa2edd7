"""Random numbers that are a function of a seed alone, eagerly, in a tf.function and in tf.data.

All of the data room's draws come from here, so that a step's batch does not depend on what was
drawn before it, on `tf.random.set_seed`, or on where the graph runs.
"""

import tensorflow as tf

# Left to itself TensorFlow chooses the generator by device.
ALGORITHM = "philox"


def as_seed(seed) -> tf.Tensor:
    """(2,) int64 of a (2,) integer tensor or of a pair of numbers such as (seed, step).

    Raises:
        ValueError: if it is not two numbers.
    """
    if isinstance(seed, tuple | list):
        seed = tf.stack([tf.cast(part, tf.int64) for part in seed])
    seed = tf.cast(seed, tf.int64)
    if not seed.shape.is_compatible_with([2]):
        raise ValueError(f"seed must be two numbers, (seed, step), but has shape {seed.shape}.")
    return seed


def fold_in(seed, index) -> tf.Tensor:
    """(2,) int64: the seed of number `index` among the children of `seed`."""
    return tf.random.fold_in(as_seed(seed), tf.cast(index, tf.int64), alg=ALGORITHM)


def uniform(shape, seed) -> tf.Tensor:
    """(batch, length) float32 in [0, 1), the same in a row's first columns for any length."""
    # Drawn column by column: Philox fills a tensor in order, so more columns come after.
    columns = tf.random.stateless_uniform([shape[1], shape[0]], as_seed(seed), alg=ALGORITHM)
    return tf.transpose(columns)


def uniform_int(shape, limit, seed) -> tf.Tensor:
    """(batch, length) int32 in [0, limit), the same in a row's first columns for any length."""
    columns = tf.random.stateless_uniform(
        [shape[1], shape[0]], as_seed(seed), maxval=limit, dtype=tf.int32, alg=ALGORITHM
    )
    return tf.transpose(columns)


def uniform_float64(shape, seed) -> tf.Tensor:
    """`shape` float64 in [0, 1), fine enough to be scaled to any index."""
    return tf.random.stateless_uniform(shape, as_seed(seed), dtype=tf.float64, alg=ALGORITHM)


def below(draw, limit) -> tf.Tensor:
    """int64 in [0, limit) of a float64 draw in [0, 1); 0 where limit is 0."""
    return tf.cast(tf.floor(draw * tf.cast(limit, tf.float64)), tf.int64)


def coin_flips(counts, seed) -> tf.Tensor:
    """int64: how many of each number of fair coins fall heads."""
    return tf.random.stateless_binomial(
        tf.shape(counts),
        as_seed(seed),
        counts=tf.cast(counts, tf.float64),
        probs=tf.constant(0.5, tf.float64),
        output_dtype=tf.int64,
    )


def permutation(size, seed) -> tf.Tensor:
    """(size,) int32: 0 to size - 1 in random order."""
    return tf.random.experimental.stateless_shuffle(tf.range(size), as_seed(seed), alg=ALGORITHM)
