"""Arrays to batches, and the checks that no id points outside its table."""

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

TUPLE_ERROR = (
    "A tuple could be a pair of texts or (x, y). Pass a pair as "
    '{"text_a": strings, "text_b": strings} and labels as y=...'
)


def refuse_tuple(x):
    """`x` itself, unless it is a tuple, which could mean two things.

    Raises:
        ValueError: saying how to pass a pair of texts.
    """
    if isinstance(x, tuple):
        raise ValueError(TUPLE_ERROR)
    return x


def is_prepared(x) -> bool:
    """Whether x is prepared ids, or a dataset of batches of these."""
    if isinstance(x, tf.data.Dataset):
        x = x.element_spec
        x = x[0] if isinstance(x, tuple) else x
    return isinstance(x, dict) and "token_ids" in x


def as_arrays(nested):
    """Leaves to numpy arrays. Lists are arrays here, not structure, as in `tf.data`."""
    if nested is None:
        return None
    if isinstance(nested, dict):
        return {key: as_arrays(value) for key, value in nested.items()}
    if isinstance(nested, list) and nested and isinstance(nested[0], str):
        # Python's strings: numpy's own would give every text the room of the longest.
        return np.array(nested, object)
    return np.asarray(nested)


def dataset_of_arrays(x, y=None, sample_weight=None, *, batch_size: int, shuffle):
    """Slices of arrays as a dataset of batches, the last one maybe smaller.

    Args:
        x, y, sample_weight: nested arrays from `as_arrays`, all of one length; y and
            sample_weight may be None.
        batch_size: int. Rows of each batch.
        shuffle: bool, or `"once"`. Another order each time the dataset is read, or the same one.

    Raises:
        ValueError: for a leaf without a batch axis, unequal lengths or no rows.
    """
    arrays = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
    leaves = tf.nest.flatten(arrays)
    if any(leaf.ndim == 0 for leaf in leaves):
        raise ValueError(
            "x holds a single text or number. Wrap it in a list: the first axis is the batch."
        )
    lengths = {len(leaf) for leaf in leaves}
    if len(lengths) > 1:
        raise ValueError(f"x, y and sample_weight differ in rows: {sorted(lengths)}.")
    rows = lengths.pop()
    if rows == 0:
        raise ValueError("x has no rows.")
    dataset = tf.data.Dataset.from_tensor_slices(arrays)
    if shuffle:
        dataset = dataset.shuffle(rows, reshuffle_each_iteration=shuffle != "once")
    return dataset.batch(batch_size)


def fill_rows(batch, multiple):
    """The batch with rows of zeros at its end, so that it divides into equal parts.

    Such a row has no token, which tells it from a real one.

    Args:
        batch: nested tensors (rows, ...); one in a tuple of one is x alone.
        multiple: int, or int32 scalar tensor. Rows become a multiple of it.
    """

    def fill(tensor):
        if tensor.shape[0] is not None and tensor.shape[0] % multiple == 0:
            return tensor
        missing = -tf.shape(tensor)[0] % multiple
        return tf.pad(tensor, [[0, missing], *[[0, 0]] * (tensor.shape.rank - 1)])

    batch = tf.nest.map_structure(fill, batch)
    return batch[0] if len(batch) == 1 else batch


def with_weights(x, y, sample_weight=None):
    """(x, y, sample_weight): where no weights are given, 1 for each row."""
    if sample_weight is None:
        sample_weight = tf.ones([tf.shape(tf.nest.flatten(x)[0])[0]])
    return x, y, sample_weight


def with_known_length(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset, its batches counted where TensorFlow cannot tell their number.

    Keras reads a dataset of unknown length until it fails, and by then has counted one batch too
    many: the means of the single outputs' losses come out too small, by a batch in all. Counting
    reads the dataset once, which costs little beside a model's steps.
    """
    if dataset.cardinality() != tf.data.UNKNOWN_CARDINALITY:
        return dataset
    length = dataset.reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1)
    return dataset.apply(tf.data.experimental.assert_cardinality(length))


def split_arrays(x, y, sample_weight, held_out_share: float):
    """The first rows and the last, as `validation_split` of `keras.Model.fit` does.

    Returns:
        Two tuples (x, y, sample_weight).

    Raises:
        ValueError: if a side would be empty.
    """
    arrays = (as_arrays(refuse_tuple(x)), as_arrays(y), as_arrays(sample_weight))
    rows = len(tf.nest.flatten(arrays[0])[0])
    held_out = int(rows * held_out_share)
    if not 0 < held_out < rows:
        raise ValueError(f"validation_split={held_out_share} of {rows} rows leaves one side empty.")

    def part(rows_of):
        return tuple(
            None if array is None else tf.nest.map_structure(rows_of, array) for array in arrays
        )

    return part(lambda a: a[:-held_out]), part(lambda a: a[-held_out:])


def check_id_arrays(x: Mapping[str, np.ndarray], tables: Mapping[str, int], max_length: int):
    """Raise where ids point outside their table or rows are too long, naming the row.

    Args:
        x: arrays by name, `token_ids` among them.
        tables: rows of the table that each name's ids point into.
        max_length: longest row that the model takes.

    Raises:
        ValueError: naming the array, row, column and value.
    """
    for name, size in tables.items():
        if name not in x:
            continue
        wrong = np.argwhere((x[name] < 0) | (x[name] >= size))
        if len(wrong):
            at = tuple(wrong[0])
            axes = ("row", "column") if len(at) == 2 else ("row", "choice", "column")
            place = ", ".join(f"{axis} {i}" for axis, i in zip(axes, at, strict=True))
            raise ValueError(
                f"{name} holds {x[name][at]} in {place}, but its table has {size} rows. Were the "
                "ids made with another vocabulary?"
            )
    length = x["token_ids"].shape[-1]
    if length > max_length and "position_ids" not in x:
        raise ValueError(
            f"token_ids has rows of {length} tokens, but the position table has {max_length} rows. "
            f"Truncate the input, or build the backbone with max_sequence_length={length} or more."
        )


def check_id_batch(x: dict, tables: Mapping[str, int], max_length: int) -> dict:
    """The same in the graph, on the host: an accelerator would read beside the table unseen.

    Args:
        x, tables, max_length: as in `check_id_arrays`, x of tensors.

    Returns:
        x, which can be read only once the checks have passed.
    """
    checks = []
    for name, size in tables.items():
        if name in x:
            ids = tf.cast(x[name], tf.int32)
            message = (
                f"{name} points outside its table of {size} rows. Were the ids made with another "
                "vocabulary?"
            )
            checks.append(tf.debugging.Assert(tf.reduce_all((ids >= 0) & (ids < size)), [message]))
    if "position_ids" not in x:  # packed rows may be longer, as positions begin again
        length = tf.shape(x["token_ids"])[-1]
        message = (
            f"Rows are longer than the position table of {max_length} rows. Truncate them. Length"
        )
        checks.append(tf.debugging.Assert(length <= max_length, [message, length]))
    with tf.control_dependencies(checks):
        return {**x, "token_ids": tf.identity(x["token_ids"])}
