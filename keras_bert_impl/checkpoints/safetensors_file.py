"""The safetensors format: eight bytes of length, a JSON header, raw little-endian numbers.

Read and written a tensor at a time, so that memory holds no second copy of a model.
Format: https://github.com/huggingface/safetensors (README, "Format").
"""

import json
import os
import pathlib
from collections.abc import Callable, Mapping

import ml_dtypes
import numpy as np

from keras_bert_impl.checkpoints.parts import CheckpointError, Tensor

DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
# The format's own limit on a header.
MAX_HEADER_BYTES = 100_000_000


def read_safetensors(path: str | os.PathLike) -> dict[str, Tensor]:
    """The tensors of a file, by name; each is read from disk when asked for.

    Raises:
        CheckpointError: for a file that is truncated or corrupt, naming the tensor where one
            is at fault.
    """
    path = pathlib.Path(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_HEADER_BYTES):
            raise CheckpointError(
                f"{path}: not a whole safetensors file: its {size} bytes hold no header of the "
                f"{length} bytes announced. Download or copy it again."
            )
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            entries = {
                name: (entry["dtype"], tuple(map(int, entry["shape"])), *entry["data_offsets"])
                for name, entry in header.items()
            }
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CheckpointError(
                f"{path}: the safetensors header is corrupt ({type(error).__name__}: {error}). "
                "Download or copy the file again."
            ) from None
    return {name: _tensor(path, size, 8 + length, name, *entry) for name, entry in entries.items()}


def _tensor(path, size, data_start, name, dtype_name, shape, begin, end) -> Tensor:
    if dtype_name not in DTYPES:
        raise CheckpointError(
            f"{path}: tensor {name!r} has the type {dtype_name}, but {', '.join(DTYPES)} can be "
            "read. Save the model in one of these."
        )
    dtype, count = DTYPES[dtype_name], int(np.prod(shape, dtype="int64"))
    if not 0 <= begin <= end or end - begin != count * dtype.itemsize or min(shape, default=0) < 0:
        raise CheckpointError(
            f"{path}: tensor {name!r} of shape {list(shape)} and type {dtype_name} takes "
            f"{count * dtype.itemsize} bytes, but the header gives it bytes {begin} to {end}. "
            "The file is corrupt: download or copy it again."
        )
    if data_start + end > size:
        raise CheckpointError(
            f"{path}: tensor {name!r} ends at byte {data_start + end}, but the file has {size}. "
            "The file is truncated: download or copy it again."
        )

    def read():
        array = np.fromfile(path, dtype, count, offset=data_start + begin)
        if array.size != count:
            raise CheckpointError(f"{path}: tensor {name!r} could not be read to its end.")
        return array.reshape(shape)

    return Tensor(str(path), name, shape, read)


def write_safetensors(
    path: str | os.PathLike,
    shapes: Mapping[str, tuple[int, ...]],
    read: Callable[[str], np.ndarray],
) -> None:
    """Write float32 tensors: complete under the file's name, or not there at all.

    Args:
        path: str or path. An existing file is replaced.
        shapes: name to shape.
        read: gives the array of a name. Called once for each, in order.
    """
    path = pathlib.Path(path)
    # As PyTorch's writer: readers of Hugging Face ask for this key.
    header: dict[str, dict] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in shapes.items():
        end = offset + 4 * int(np.prod(shape, dtype="int64"))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name, shape in shapes.items():
                array = np.ascontiguousarray(read(name), "<f4")
                if array.shape != tuple(shape):
                    raise ValueError(f"{name}: shape {array.shape}, announced as {shape}.")
                array.tofile(file)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
