"""A run that was stopped goes on where its last whole save left it."""

import json
import os
import pathlib
import re
from typing import Any

import keras

STATE_FILE = re.compile(r"step-(\d{8})\.json")


class SaveState(keras.callbacks.Callback):
    """Saves weights, optimizer slots, dropout state and step at the end of each epoch.

    Files are written beside their names and renamed, weights first, so that a state is either
    whole or not there. The last `keep` states stay.

    Args:
        folder: path. Made if it is missing.
        steps_per_epoch: int. Steps of each of `fit`'s epochs.
        settings: dict of JSON values. What must be the same for the run to go on, such as the
            batch size and the data files; `resume` compares it.
        keep: int. How many states stay.
    """

    def __init__(self, folder, steps_per_epoch: int, settings: dict[str, Any], keep: int = 2):
        super().__init__()
        self.folder = pathlib.Path(folder)
        self.steps_per_epoch = steps_per_epoch
        self.settings = settings
        self.keep = keep

    def on_epoch_end(self, epoch, logs=None):
        step = (epoch + 1) * self.steps_per_epoch
        self.folder.mkdir(parents=True, exist_ok=True)
        weights = _weights_path(self.folder, step)
        # Keras asks for this ending, also of the file that is renamed.
        beside = weights.with_name(f"part-{weights.name}")
        self.model.save_weights(beside)
        os.replace(beside, weights)
        state = weights.with_name(f"step-{step:08d}.json")
        beside = state.with_name(f"part-{state.name}")
        content = {"step": step, "settings": self.settings, "seeds": _seeds(self.model)}
        beside.write_text(json.dumps(content, indent=2))
        os.replace(beside, state)
        for old in saved_steps(self.folder)[: -self.keep]:
            (self.folder / f"step-{old:08d}.json").unlink()
            _weights_path(self.folder, old).unlink(missing_ok=True)


def saved_steps(folder) -> list[int]:
    """The steps whose state lies whole in a folder, ascending; empty where there is none."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        return []
    matches = (STATE_FILE.fullmatch(path.name) for path in folder.iterdir())
    steps = sorted(int(match[1]) for match in matches if match)
    return [step for step in steps if _weights_path(folder, step).exists()]


def resume(model, folder, settings: dict[str, Any]) -> int:
    """Put a compiled model into its last saved state.

    Args:
        model: compiled `keras.Model`, built as the one that was saved.
        folder: path. Where `SaveState` saves.
        settings: dict of JSON values, as given to `SaveState`.

    Returns:
        Steps done so far: 0, with the model untouched, where nothing was saved.

    Raises:
        ValueError: if a setting differs from the saved run's, naming it and both values.
    """
    steps = saved_steps(folder)
    if not steps:
        return 0
    folder = pathlib.Path(folder)
    state = json.loads((folder / f"step-{steps[-1]:08d}.json").read_text())
    saved = state["settings"]
    for name in sorted({*saved, *settings}):
        old, new = saved.get(name), settings.get(name)
        if json.dumps(old) != json.dumps(new):
            raise ValueError(
                f"{folder} holds a run with {name}={old!r}, but now {name}={new!r}. Go on with the "
                "old value, or choose another folder to begin anew."
            )
    model.optimizer.build(model.trainable_variables)
    model.load_weights(_weights_path(folder, steps[-1]))
    for variable, value in zip(_seed_variables(model), state["seeds"], strict=True):
        variable.assign(value)
    return steps[-1]


def _seed_variables(model) -> list:
    """The states of the model's random generators, which Keras keeps out of weight files."""
    weights = {id(weight) for weight in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def _seeds(model) -> list[list[int]]:
    return [keras.ops.convert_to_numpy(v).tolist() for v in _seed_variables(model)]


def _weights_path(folder: pathlib.Path, step: int) -> pathlib.Path:
    return folder / f"step-{step:08d}.weights.h5"
