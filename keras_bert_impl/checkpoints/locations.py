"""Where a checkpoint is: a folder, an archive, or a handle of a hub."""

import contextlib
import os
import pathlib
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator

import keras_hub

from keras_bert_impl.checkpoints.parts import CheckpointError

# What is fetched of a Hugging Face repository; its pickle only where it has nothing else.
_WANTED = ["*.json", "*.txt", "*.safetensors", "*.h5", "assets/*"]


@contextlib.contextmanager
def local_folder(preset: str | os.PathLike) -> Iterator[pathlib.Path]:
    """The folder that a path, an archive or a handle leads to.

    Args:
        preset: a folder; a .zip or .tar file of one; `hf://owner/name`;
            `kaggle://owner/model/keras/variant`; or a name of KerasHub's presets. The network is
            used for the last three only.

    Raises:
        FileNotFoundError: where nothing is there.
    """
    name = os.fspath(preset)
    path = pathlib.Path(name)
    if name.startswith("hf://"):
        yield _from_hugging_face(name.removeprefix("hf://"))
    elif name.startswith("kaggle://"):
        yield _from_kaggle(name.removeprefix("kaggle://"))
    elif path.is_dir():
        yield path
    elif path.is_file():
        with tempfile.TemporaryDirectory() as temporary:
            yield _unpack(path, pathlib.Path(temporary))
    elif name in keras_hub.models.BertBackbone.presets:
        handle = keras_hub.models.BertBackbone.presets[name]["kaggle_handle"]
        yield _from_kaggle(handle.removeprefix("kaggle://"))
    else:
        raise FileNotFoundError(
            f"{name}: there is no such folder or archive, and KerasHub has no BERT preset of this "
            "name. For a model of the Hugging Face Hub write hf://owner/name."
        )


def _from_hugging_face(handle: str) -> pathlib.Path:
    import huggingface_hub

    folder = pathlib.Path(huggingface_hub.snapshot_download(handle, allow_patterns=_WANTED))
    weights = ("*.safetensors", "*.h5")
    if not any(list(folder.glob(pattern)) for pattern in weights):
        folder = pathlib.Path(
            huggingface_hub.snapshot_download(handle, allow_patterns=[*_WANTED, "*.bin"])
        )
    return folder


def _from_kaggle(handle: str) -> pathlib.Path:
    import kagglehub

    return pathlib.Path(kagglehub.model_download(handle))


def _unpack(path: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """Unpack an archive and find the checkpoint's folder in it."""
    # Many releases are folders of one name in an archive of the same.
    target = target / path.name.split(".")[0]
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(target)
        elif tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                archive.extractall(target, filter="data")
        else:
            raise CheckpointError(f"{path}: expected a folder, or a .zip or .tar file of one.")
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
        raise CheckpointError(f"{path}: the archive is damaged ({error}).") from None
    for folder in [target, *sorted(p for p in target.rglob("*") if p.is_dir())]:
        if (folder / "config.json").is_file() or list(folder.glob("*.index")):
            return folder
    raise CheckpointError(f"{path}: no checkpoint is recognized in this archive.")
