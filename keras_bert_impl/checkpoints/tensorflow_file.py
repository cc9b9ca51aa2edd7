"""TensorFlow's checkpoint files, read and written a tensor at a time."""

import os
import pathlib
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from keras_bert_impl.checkpoints.parts import CheckpointError, Tensor

# What TensorFlow's reader raises for damaged files.
_READ_ERRORS = (tf.errors.OpError, ValueError, IndexError, RuntimeError)


def find_prefix(folder: pathlib.Path) -> str:
    """The path of the TensorFlow checkpoint in a folder, without `.index`.

    Raises:
        CheckpointError: where there is none, or where it is not clear which is meant.
    """
    prefixes = sorted(str(path.with_suffix("")) for path in folder.glob("*.index"))
    latest = tf.train.latest_checkpoint(folder) if (folder / "checkpoint").is_file() else None
    if latest in prefixes:
        return latest
    if len(prefixes) != 1:
        found = ", ".join(map(os.path.basename, prefixes)) or "none"
        raise CheckpointError(
            f"{folder}: expected one TensorFlow checkpoint such as bert_model.ckpt.index and "
            f"bert_model.ckpt.data-00000-of-00001, but found {found}."
        )
    return prefixes[0]


def open_tensorflow(prefix: str):
    """A reader of a TensorFlow checkpoint, after a look at whether its files are whole.

    Raises:
        CheckpointError: naming the file.
    """
    shards = sorted(pathlib.Path(prefix).parent.glob(f"{pathlib.Path(prefix).name}.data-*"))
    expected = int(shards[0].name[-5:]) if shards else 1
    if len(shards) != expected:
        raise CheckpointError(
            f"{prefix}.data-*: {len(shards)} of {expected} files are there. Copy all of the "
            "checkpoint's files."
        )
    try:
        return tf.train.load_checkpoint(prefix)
    except _READ_ERRORS as error:
        raise CheckpointError(
            f"{prefix}.index: not a whole TensorFlow checkpoint ({_first_line(error)}). Copy it "
            "again."
        ) from None


def tensorflow_tensor(reader, prefix: str, name: str) -> Tensor:
    """A tensor of a TensorFlow checkpoint, read when asked for."""

    def read():
        try:
            return reader.get_tensor(name)
        except _READ_ERRORS as error:
            raise CheckpointError(
                f"{prefix}: tensor {name!r} cannot be read ({_first_line(error)}). The file is "
                "truncated or corrupt: copy it again."
            ) from None

    return Tensor(prefix, name, tuple(reader.get_variable_to_shape_map()[name]), read)


def _first_line(error) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def save_tensorflow(
    prefix: str,
    shapes: Mapping[str, tuple[int, ...]],
    read: Callable[[str], np.ndarray],
    group_bytes: int = 1 << 26,
) -> None:
    """Write float32 variables, a group at a time so that memory holds no second model.

    Args:
        prefix: str. The path without `.index`; older files of this name are replaced.
        shapes: name to shape.
        read: gives the array of a name. Called once for each, in order.
        group_bytes: int. About the size of a group.
    """
    groups: list[list[str]] = [[]]
    size = 0
    for name, shape in shapes.items():
        bytes_ = 4 * int(np.prod(shape))
        if groups[-1] and size + bytes_ > group_bytes:
            groups.append([])
            size = 0
        groups[-1].append(name)
        size += bytes_

    temporary = [f"{prefix}_part_{i}" for i in range(len(groups))]
    for path, group in zip(temporary, groups, strict=True):
        tf.raw_ops.SaveV2(
            prefix=path,
            tensor_names=group,
            shape_and_slices=[""] * len(group),
            tensors=[tf.constant(np.asarray(read(name), "float32")) for name in group],
        )
    for old in pathlib.Path(prefix).parent.glob(f"{pathlib.Path(prefix).name}.data-*"):
        old.unlink()
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=temporary, destination_prefix=prefix, delete_old_dirs=False
    )
