"""PyTorch's `.bin` files without PyTorch, and without running what they hold.

A `.bin` is a pickle, and a pickle is a program: loaded as usual it may do anything. Here it may
name nothing but the few functions that rebuild tensors, and those are our own. Both of torch.save's
formats are read: the zip archive (since PyTorch 1.6) and the stream before it.
"""

import io
import os
import pathlib
import pickle
import zipfile
from collections import OrderedDict
from typing import NamedTuple

import ml_dtypes
import numpy as np

from keras_bert_impl.checkpoints.parts import CheckpointError, Tensor

# torch.serialization: what the old stream begins with.
STREAM_MAGIC = 0x1950A86A20F9469CFC6C

_STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


# Named tuples throughout: a pickle can set attributes of what it makes, but these have none.
class _StorageType(NamedTuple):
    dtype: np.dtype


class _Storage(NamedTuple):
    key: str
    dtype: np.dtype
    size: int


class _Lazy(NamedTuple):
    """A tensor as the pickle describes it: a view of a storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _rebuild_tensor(storage, offset, shape, strides, *_):
    if not isinstance(storage, _Storage):
        raise pickle.UnpicklingError("a tensor without a storage")
    return _Lazy(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


def _rebuild_parameter(tensor, *_):
    return tensor


# All that a pickle may name. None of it touches anything outside of the unpickler.
_ALLOWED = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): tuple,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    **{("torch", n): _StorageType(np.dtype(d)) for n, d in _STORAGES.items()},
}


class _Unpickler(pickle.Unpickler):
    """An unpickler that knows tensors and plain containers only."""

    def __init__(self, file, path):
        super().__init__(file, encoding="utf-8")
        self._path = path
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module, name):
        if (module, name) not in _ALLOWED:
            raise CheckpointError(
                f"{self._path}: the file asks for {module}.{name}, which is no part of a tensor. "
                "Nothing of it was run. If it was saved as a whole model, save its state_dict; "
                "if you did not expect this, do not trust the file."
            )
        return _ALLOWED[module, name]

    def persistent_load(self, pid):
        # ("storage", type, key, device, count[, view])
        if not (isinstance(pid, tuple) and len(pid) >= 5 and pid[0] == "storage"):
            raise pickle.UnpicklingError(f"an unknown reference {pid!r}")
        _, kind, key, _, count = pid[:5]
        if not isinstance(kind, _StorageType):
            raise pickle.UnpicklingError(f"a storage of an unknown type {kind!r}")
        storage = _Storage(str(key), kind.dtype, int(count))
        self.storages[storage.key] = storage
        return storage


def read_torch_file(path: str | os.PathLike) -> dict[str, Tensor]:
    """The tensors of a `pytorch_model.bin`, by name; each is read from disk when asked for.

    Raises:
        CheckpointError: for a file that is truncated, corrupt, or that asks for anything beyond
            tensors. Nothing of such a file is run.
    """
    path = pathlib.Path(path)
    try:
        return _read_zip(path) if zipfile.is_zipfile(path) else _read_stream(path)
    except CheckpointError:
        raise
    except Exception as error:  # A broken pickle can fail in any way.
        raise CheckpointError(
            f"{path}: not a whole PyTorch file of tensors ({type(error).__name__}: {error}). "
            "Download or copy it again."
        ) from None


def _read_zip(path):
    with zipfile.ZipFile(path) as archive:
        entries = {info.filename: info for info in archive.infolist()}
        pickles = [name for name in entries if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise CheckpointError(f"{path}: a zip file, but not one that torch.save writes.")
        root = pickles[0].removesuffix("data.pkl")
        order = f"{root}byteorder"
        if order in entries and archive.read(order) != b"little":
            raise CheckpointError(f"{path}: written on a big-endian machine, which is not read.")
        state = _Unpickler(io.BytesIO(archive.read(pickles[0])), path).load()

    def load(name, storage):
        entry = f"{root}data/{storage.key}"
        if entry not in entries:
            raise CheckpointError(f"{path}: tensor {name!r} has no data ({entry} is missing).")
        try:
            with zipfile.ZipFile(path) as archive:
                data = archive.read(entry)
        except (zipfile.BadZipFile, OSError) as error:
            raise CheckpointError(f"{path}: tensor {name!r} is corrupt: {error}.") from None
        return data

    return _tensors(path, state, load)


def _read_stream(path):
    with path.open("rb") as file:
        magic = _Unpickler(file, path).load()
        if magic != STREAM_MAGIC:
            raise CheckpointError(f"{path}: not a PyTorch file.")
        _Unpickler(file, path).load()  # the protocol's version
        _Unpickler(file, path).load()  # sizes and byte order of the writer's machine
        unpickler = _Unpickler(file, path)
        state = unpickler.load()
        keys = _Unpickler(file, path).load()
        places = {}
        for key in map(str, keys):
            storage = unpickler.storages[key]
            count = int.from_bytes(file.read(8), "little")
            if count != storage.size:
                raise CheckpointError(f"{path}: storage {key} has {count} values, not its count.")
            places[key] = file.tell()
            file.seek(count * storage.dtype.itemsize, os.SEEK_CUR)

    def load(name, storage):
        with path.open("rb") as file:
            file.seek(places[storage.key])
            return file.read(storage.size * storage.dtype.itemsize)

    return _tensors(path, state, load)


def _tensors(path, state, load) -> dict[str, Tensor]:
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(isinstance(v, _Lazy) for v in state.values()):
        raise CheckpointError(
            f"{path}: expected a state_dict, names with tensors, and nothing else."
        )

    def tensor(name, lazy):
        def read():
            data = load(name, lazy.storage)
            if len(data) < lazy.storage.size * lazy.storage.dtype.itemsize:
                raise CheckpointError(
                    f"{path}: tensor {name!r} is truncated. Download or copy the file again."
                )
            flat = np.frombuffer(data, lazy.storage.dtype, lazy.storage.size)
            last = lazy.offset + sum(
                (n - 1) * step for n, step in zip(lazy.shape, lazy.strides, strict=True)
            )
            if lazy.offset < 0 or min(lazy.strides, default=0) < 0 or last >= max(flat.size, 1):
                raise CheckpointError(f"{path}: tensor {name!r} lies outside of its data.")
            steps = [step * flat.itemsize for step in lazy.strides]
            return np.lib.stride_tricks.as_strided(flat[lazy.offset :], lazy.shape, steps)

        return Tensor(str(path), name, lazy.shape, read)

    return {str(name): tensor(name, lazy) for name, lazy in state.items()}
