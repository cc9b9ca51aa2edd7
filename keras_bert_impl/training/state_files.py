"""A folder of a run's states: whole or not there, checked when read, the last ones and the best kept.

A state is two files, written beside their names, synced and renamed, the arrays first:
`step-00001000.npz` and `step-00001000.json`, which holds what is no array and the checksum of both.
"""

import hashlib
import json
import os
import pathlib
import re
import zipfile
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

STATE_FILE = re.compile(r"step-(\d{8})\.json")


class State(NamedTuple):
    """What was saved at a step."""

    step: int
    content: dict[str, Any]  # JSON values
    arrays: list[np.ndarray]


class DamagedStateError(ValueError):
    """A state's files are not what was written."""


class StateFolder:
    """The states of one run.

    Args:
        path: folder. Made when the first state is written.
        keep: int, at least 1. How many of the last states stay, beside the best one.
    """

    def __init__(self, path, keep: int = 2):
        if keep < 1:
            raise ValueError(f"keep={keep} must be at least 1.")
        self.path = pathlib.Path(path)
        self.keep = keep

    def steps(self) -> list[int]:
        """The steps of states that were written to their end, ascending."""
        if not self.path.is_dir():
            return []
        matches = (STATE_FILE.fullmatch(path.name) for path in self.path.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def check_writable(self) -> None:
        """Raise before hours of training, rather than after, if nothing can be written here.

        Raises:
            OSError: naming the folder.
        """
        probe = self.path / "part-probe"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            _write(probe, b"may this folder be written to?")
        except OSError as error:
            raise OSError(
                f"States cannot be saved in {self.path}: {error}. Choose a folder that can be "
                "written to."
            ) from error
        probe.unlink()

    def write(self, step: int, content: dict[str, Any], arrays: list[np.ndarray], score=None):
        """Write a state, and remove those that need not stay.

        Args:
            step: int.
            content: dict of JSON values.
            arrays: list of arrays.
            score: float or None. The state with the lowest stays, whatever comes after.

        Raises:
            OSError: if it cannot be written, naming the folder and the last whole state.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._write(step, content, arrays, score)
        except OSError as error:
            for part in self.path.glob("part-*"):
                part.unlink(missing_ok=True)
            last = self.steps()[-1:]
            there = f"The last whole one is of step {last[0]}" if last else "There is none yet"
            raise OSError(
                f"The state of step {step} cannot be saved in {self.path}: {error}. {there}. Make "
                "room and run the same command again."
            ) from error
        self._remove_old()

    def _write(self, step, content, arrays, score):
        stem = f"step-{step:08d}"
        beside = self.path / f"part-{stem}.npz"
        dtypes = [array.dtype.name for array in arrays]
        with open(beside, "wb") as file:
            named: dict[str, Any] = {f"{i:05d}": _as_numpys(a) for i, a in enumerate(arrays)}
            np.savez(file, **named)
            file.flush()
            os.fsync(file.fileno())
        record = {"step": step, "score": score, "arrays": dtypes, "content": content}
        record["arrays_sha256"] = _sha256_of_file(beside)
        record["sha256"] = _sha256(record)
        os.replace(beside, self.path / f"{stem}.npz")
        beside = self.path / f"part-{stem}.json"
        _write(beside, json.dumps(record, indent=2).encode())
        os.replace(beside, self.path / f"{stem}.json")
        _sync_folder(self.path)

    def read(self, step: int) -> State:
        """A state, checked.

        Raises:
            DamagedStateError: naming the file and what is wrong with it.
        """
        stem = self.path / f"step-{step:08d}"
        record = self._record(step)
        arrays_path = stem.with_suffix(".npz")
        if not arrays_path.exists():
            raise DamagedStateError(f"{arrays_path} is missing.")
        if _sha256_of_file(arrays_path) != record["arrays_sha256"]:
            raise DamagedStateError(
                f"{arrays_path} is not as it was written: its checksum differs."
            )
        try:
            with np.load(arrays_path, allow_pickle=False) as file:
                arrays = [
                    _from_numpys(file[f"{i:05d}"], dtype)
                    for i, dtype in enumerate(record["arrays"])
                ]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise DamagedStateError(f"{arrays_path} cannot be read: {error}.") from error
        return State(step, record["content"], arrays)

    def _record(self, step: int) -> dict[str, Any]:
        path = self.path / f"step-{step:08d}.json"
        try:
            record = json.loads(path.read_text("utf-8"))
            sha256 = record.pop("sha256")
        except (ValueError, KeyError, AttributeError) as error:
            raise DamagedStateError(f"{path} is not as it was written: {error!r}.") from error
        if sha256 != _sha256(record):
            raise DamagedStateError(f"{path} is not as it was written: its checksum differs.")
        return record

    def best_step(self) -> int | None:
        """The step of the state with the lowest score; None where none has one."""
        scores = {}
        for step in self.steps():
            try:
                score = self._record(step)["score"]
            except DamagedStateError:
                continue
            if score is not None:
                scores[step] = score
        return min(scores, key=lambda step: (scores[step], step)) if scores else None

    def _remove_old(self):
        steps = self.steps()
        kept = {*steps[-self.keep :], self.best_step()}
        for step in steps:
            if step not in kept:
                # The record first: arrays without one are no state.
                (self.path / f"step-{step:08d}.json").unlink()
                (self.path / f"step-{step:08d}.npz").unlink(missing_ok=True)


def _write(path: pathlib.Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: pathlib.Path) -> None:
    """Let renames outlast a power cut, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _sha256_of_file(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _as_numpys(array: np.ndarray) -> np.ndarray:
    """An array of a dtype that numpy's own files know."""
    return array.view("uint16") if array.dtype == ml_dtypes.bfloat16 else array


def _from_numpys(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.view(ml_dtypes.bfloat16) if dtype == "bfloat16" else array
