"""A run that was stopped, at whichever step, goes on bit for bit as if it had not been."""

import json
import os
import signal
import threading
from typing import Any

import keras
import numpy as np
from absl import logging

from keras_bert_impl.training.distribution import is_chief
from keras_bert_impl.training.state_files import DamagedStateError, State, StateFolder

# Of a process that SIGTERM stopped after it saved its state: EX_TEMPFAIL, "try again later".
EXIT_SAVED = 75


class SaveState(keras.callbacks.Callback):
    """Saves weights, optimizer slots, dropout state, metrics and step as training goes.

    A state is saved every `save_every` steps, at the end of each epoch, and when the process
    receives SIGTERM, which then exits with the code `EXIT_SAVED` (75). Put it last among the
    callbacks: a saved epoch has been logged. See `training/state_files.py` for the files.

    Args:
        folder: path. Made if it is missing.
        steps_per_epoch: int. Steps of each of `fit`'s epochs.
        settings: dict of JSON values. What must be the same for the run to go on, such as the
            batch size and the data files; `resume` compares it.
        keep: int. How many of the last states stay.
        save_every: int or None. Steps between states; None saves at the end of epochs only.
        changeable: dict of JSON values. Settings that a resumed run may change if it says so.
        monitor: str or None. The state of the epoch with the lowest such log stays too.
        start_step: int. Steps done before `fit` begins, as `resume` returns them.

    Raises:
        OSError: at the start of `fit` if the folder cannot be written to, and when a state
            cannot be saved; what was saved before stays.
    """

    def __init__(
        self,
        folder,
        steps_per_epoch: int,
        settings: dict[str, Any],
        keep: int = 2,
        save_every: int | None = None,
        changeable: dict[str, Any] | None = None,
        monitor: str | None = None,
        start_step: int = 0,
    ):
        super().__init__()
        self.states = StateFolder(folder, keep)
        self.steps_per_epoch = steps_per_epoch
        self.settings = settings
        self.save_every = save_every
        self.changeable = changeable or {}
        self.monitor = monitor
        self.step = start_step
        self._terminated = False

    def on_train_begin(self, logs=None):
        if is_chief():
            self.states.check_writable()
        self._former_handler = None
        # A worker among others cannot save alone; its peers stop too, and all go on from the
        # last state.
        alone = "TF_CONFIG" not in os.environ
        if alone and threading.current_thread() is threading.main_thread():
            self._former_handler = signal.signal(signal.SIGTERM, self._terminate)

    def on_train_end(self, logs=None):
        if self._former_handler is not None:
            signal.signal(signal.SIGTERM, self._former_handler)
        if self._terminated:  # just after the last state
            raise SystemExit(EXIT_SAVED)

    def _terminate(self, *_):
        # Between steps only is the state whole.
        self._terminated = True

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if batch + 1 == self.params.get("steps"):
            return  # on_epoch_end saves, when the epoch is logged
        due = self.save_every is not None and self.step % self.save_every == 0
        if due or self._terminated:
            self._save()

    def on_epoch_end(self, epoch, logs=None):
        score = (logs or {}).get(self.monitor) if self.monitor else None
        self._save(None if score is None else float(score))

    def _save(self, score=None):
        variables = state_variables(self.model)
        # Also where this process writes nothing: workers sum their metrics together.
        arrays = [np.asarray(keras.ops.convert_to_numpy(v)) for v in variables]
        if is_chief():
            content = {
                "settings": self.settings,
                "changeable": self.changeable,
                "steps_per_epoch": self.steps_per_epoch,
                "paths": [variable.path for variable in variables],
            }
            self.states.write(self.step, content, arrays, score)
        if self._terminated:
            logging.warning(
                "SIGTERM: the state of step %d is in %s. Run the same command again to go on.",
                self.step,
                self.states.path,
            )
            raise SystemExit(EXIT_SAVED)


def saved_steps(folder) -> list[int]:
    """The steps whose state was written whole to a folder, ascending; empty where there is none."""
    return StateFolder(folder).steps()


def resume(
    model,
    folder,
    settings: dict[str, Any],
    changeable: dict[str, Any] | None = None,
    allow_changes: bool = False,
) -> int:
    """Put a compiled model into its last saved state.

    A state that is damaged is passed over for the one before, with an error in the log.

    Args:
        model: compiled `keras.Model`, built as the one that was saved.
        folder: path. Where `SaveState` saves.
        settings: dict of JSON values, as given to `SaveState`.
        changeable: dict of JSON values, as given to `SaveState`: learning rate, length of the run.
        allow_changes: bool. Whether `changeable` settings may differ from the saved run's.

    Returns:
        Steps done so far: 0, with the model untouched, where nothing was saved.

    Raises:
        ValueError: if a setting differs from the saved run's, naming it and both values; if the
            model has other variables; or if all states are damaged, naming each.
    """
    state = restore(model, folder, settings, changeable, allow_changes)
    return 0 if state is None else state.step


def restore(model, folder, settings, changeable, allow_changes) -> State | None:
    """As `resume`, but returns the state itself, or None where nothing was saved."""
    states = StateFolder(folder)
    state = _newest_whole(states)
    if state is None:
        return None
    _compare(states.path, state.content["settings"], settings, "Go on with the old value, or")
    if not allow_changes:
        _compare(
            states.path,
            state.content["changeable"],
            changeable or {},
            "To go on with the new value, allow changes (allow_changes=True, --allow_changes), or",
        )
    model.optimizer.build(model.trainable_variables)
    variables = state_variables(model)
    # Metrics come last; a model that was not fitted yet has not built all of them.
    shapes = [array.shape for array in state.arrays[: len(variables)]]
    if shapes != [tuple(variable.shape) for variable in variables]:
        raise ValueError(
            f"{states.path} holds a model with other variables than this one's "
            f"({len(state.arrays)} there, {len(variables)} here). Build it as the saved one."
        )
    for variable, array in zip(variables, state.arrays, strict=False):
        variable.assign(array)
    return state


class RestoreMetrics(keras.callbacks.Callback):
    """Gives the first epoch of `fit` the metrics of a saved state.

    Keras resets metrics where an epoch begins, but a resumed one began before.

    Args:
        state: as `restore` returned it.
        batch_spec: element spec of the dataset that `fit` gets; Keras has metrics build their
            variables when they see a batch.
    """

    def __init__(self, state: State, batch_spec):
        super().__init__()
        self._state: State | None = state
        self._batch_spec = batch_spec

    def on_train_begin(self, logs=None):
        self.model._symbolic_build(data_batch=self._batch_spec)

    def on_epoch_begin(self, epoch, logs=None):
        if self._state is None:
            return
        metrics = self.model.metrics_variables
        for variable, array in zip(metrics, self._state.arrays[-len(metrics) :], strict=True):
            variable.assign(array)
        self._state = None


def state_variables(model) -> list:
    """All that a training step reads and changes: weights, dropout's seeds, slots, metrics."""
    metrics = model.metrics_variables
    known = {id(variable) for variable in metrics}
    # `variables` has the states of random generators, which `weights` has not.
    own = [variable for variable in model.variables if id(variable) not in known]
    return [*own, *model.optimizer.variables, *metrics]


def _newest_whole(states: StateFolder) -> State | None:
    trouble = []
    for step in reversed(states.steps()):
        try:
            state = states.read(step)
        except DamagedStateError as error:
            logging.error("%s The state before it is tried.", error)
            trouble.append(str(error))
            continue
        return state
    if trouble:
        raise ValueError(
            f"No state in {states.path} can be read: {' '.join(trouble)} Choose another folder to "
            "begin anew, or remove these files."
        )
    return None


def _compare(folder, saved: dict[str, Any], now: dict[str, Any], advice: str) -> None:
    for name in sorted({*saved, *now}):
        old, new = saved.get(name), now.get(name)
        if json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True):
            raise ValueError(
                f"{folder} holds a run with {name}={old!r}, but now {name}={new!r}. {advice} "
                "choose another folder to begin anew."
            )
