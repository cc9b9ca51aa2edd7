"""Batches put together of streams of rows, of which each machine makes its own.

A stream is a dataset of its own: of some of the documents or files, with a seed of its own. A batch
is a few rows of each, one stream after another, so it is the same whichever machine makes which.
"""

from collections.abc import Callable

import tensorflow as tf


def dataset_of_streams(
    make_stream: Callable[[int], tf.data.Dataset],
    num_streams: int,
    *,
    worker: int = 0,
    num_workers: int = 1,
) -> tf.data.Dataset:
    """This machine's part of each batch: the rows of its streams.

    Args:
        make_stream: function of a stream's number to a dataset without end of batches, of
            `batch_size / num_streams` rows each, such as
            `lambda s: pretraining_dataset(documents.shard(num_streams, s), seed=s, ...)`.
        num_streams: int. Choose more than there will ever be machines: another number of streams
            makes other batches, another number of machines does not.
        worker, num_workers: ints. Which machine this is, of how many; see `worker_position`.

    Returns:
        A dataset of this machine's rows, step by step, marked so that `fit` does not part them
        again; on one machine of whole batches.

    Raises:
        ValueError: if the streams do not divide by the machines, or end, which they would do at
            different steps.

    Example:

    >>> streams = dataset_of_streams(lambda s: tf.data.Dataset.from_tensors([s]).repeat(), 3)
    >>> next(iter(streams)).numpy()
    array([0, 1, 2], dtype=int32)
    """
    if num_streams < 1 or num_streams % num_workers:
        raise ValueError(
            f"num_streams={num_streams} must be a multiple of the {num_workers} machines."
        )
    own = num_streams // num_workers
    streams = tuple(make_stream(s) for s in range(worker * own, (worker + 1) * own))
    if num_workers > 1 and any(stream.cardinality() >= 0 for stream in streams):
        raise ValueError("The streams of several machines must not end: repeat=True makes them so.")
    batches = tf.data.Dataset.zip(streams).map(_join).prefetch(tf.data.AUTOTUNE)
    if num_workers == 1:
        return batches
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return batches.with_options(options)


def holds_own_rows(dataset: tf.data.Dataset) -> bool:
    """Whether a dataset is one machine's part, so that TensorFlow must not part it again."""
    policy = dataset.options().experimental_distribute.auto_shard_policy
    return policy == tf.data.experimental.AutoShardPolicy.OFF


def _join(*batches):
    return tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), *batches)


def steps_in_a_row(dataset: tf.data.Dataset, num_steps: int) -> tf.data.Dataset:
    """Elements that hold the rows of several steps, for what cuts them into as many."""

    def merge(tensor):
        rows = tensor.shape[1]
        merged = tf.reshape(tensor, [-1, *tf.unstack(tf.shape(tensor)[2:])])
        known = None if rows is None else num_steps * rows
        return tf.ensure_shape(merged, [known, *tensor.shape[2:]])

    return dataset.batch(num_steps, drop_remainder=True).map(
        lambda *batch: tf.nest.map_structure(merge, batch if len(batch) > 1 else batch[0])
    )
