"""`fit` by steps, for runs of days: saved as they go, stopped at any step, gone on with exactly."""

import csv
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_bert_impl.training.distribution import is_chief
from keras_bert_impl.training.finite import StopAtNonFinite
from keras_bert_impl.training.input_waits import InputWaits
from keras_bert_impl.training.resume import RestoreMetrics, SaveState, restore
from keras_bert_impl.training.stopwatch import Stopwatch


def fit_steps(
    model,
    make_dataset: Callable[[int], Any],
    *,
    num_steps: int,
    epoch_steps: int,
    folder,
    settings: dict[str, Any],
    changeable: dict[str, Any] | None = None,
    allow_changes: bool = False,
    save_every: int | None = None,
    keep: int = 2,
    monitor: str | None = "loss",
    callbacks: Sequence[keras.callbacks.Callback] = (),
    validation_data=None,
    verbose: int | str = "auto",
) -> int:
    """Train a compiled model for a number of steps, or go on with a run that was stopped.

    What is trained is the same, bit for bit on a CPU, however often and wherever the run was
    stopped. Several processes that train together share `folder`, and one writes. It gets the states (`SaveState`), the log `log.csv` with a row an epoch, and,
    if the loss ceases to be finite, the batch at which it did (`StopAtNonFinite`).

    Args:
        model: compiled task.
        make_dataset: function of the number of steps done, to a dataset of the batches that
            follow, such as `pretraining_dataset(..., start_step=step)`.
        num_steps: int. Of the whole run.
        epoch_steps: int. Steps between rows of the log and between validations.
        folder: path.
        settings, changeable, allow_changes: as in `resume`. The length of the run and of its epochs
            are among them.
        save_every: int or None. Steps between states, default `epoch_steps`.
        keep, monitor: as in `SaveState`.
        callbacks: more of Keras's callbacks. TensorBoard's curves go on where they were.
        validation_data: as in `fit`.
        verbose: as in `fit`.

    Returns:
        Steps that were done before: 0 for a new run.

    Raises:
        ValueError: as `resume`, and if there are no steps to train.
        SystemExit: with the code 75 (`EXIT_SAVED`), after SIGTERM.
        FloatingPointError: where the loss is not finite.
    """
    if num_steps < 1 or epoch_steps < 1:
        raise ValueError(f"num_steps={num_steps} and epoch_steps={epoch_steps} must be at least 1.")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    states, log = folder / "states", folder / "log.csv"
    settings = {**settings, "epoch_steps": epoch_steps}
    changeable = {**(changeable or {}), "num_steps": num_steps}
    state = restore(model, states, settings, changeable, allow_changes)
    done = 0 if state is None else state.step
    if done >= num_steps:
        return done
    if is_chief():
        _forget_rows(log, done // epoch_steps)

    begin = done
    while begin < num_steps:
        # A part of an epoch, at the beginning or at the end, or all whole epochs at once.
        epoch, part = divmod(begin, epoch_steps)
        whole = (num_steps - begin) // epoch_steps
        if part or not whole:
            steps, epochs = min(epoch_steps - part, num_steps - begin), 1
        else:
            steps, epochs = epoch_steps, whole
        save = SaveState(
            states,
            epoch_steps,
            settings,
            keep,
            save_every or epoch_steps,
            changeable,
            monitor,
            start_step=begin,
        )
        dataset = make_dataset(begin)
        # Only what was saved can begin within an epoch.
        first = [RestoreMetrics(state, dataset.element_spec)] if state and part else []
        state = None  # as large as the model: its metrics are all that is still needed
        model.fit(
            dataset,
            initial_epoch=epoch,
            epochs=epoch + epochs,
            steps_per_epoch=steps,
            validation_data=validation_data,
            verbose=0,
            callbacks=[
                *first,
                Stopwatch(),
                InputWaits(),
                _Progress(
                    verbose if is_chief() else 0, epoch_steps, part, -(-num_steps // epoch_steps)
                ),
                StopAtNonFinite(folder, make_dataset, begin),
                *callbacks,
                _BatchCurves(callbacks, begin),
                *([keras.callbacks.CSVLogger(log, append=log.exists())] if is_chief() else []),
                save,
            ],
        )
        if model.stop_training:
            break
        begin += steps * epochs
    return done


class _Progress(keras.callbacks.ProgbarLogger):
    """Keras's progress bar, also of an epoch that began before this process did."""

    def __init__(self, verbose, epoch_steps: int, steps_done: int, epochs: int):
        super().__init__()
        self._shown = 1 if verbose == "auto" else verbose
        self._epoch_steps = epoch_steps
        self._epochs = epochs
        self._done = steps_done

    def set_params(self, params):
        shown = {"verbose": self._shown, "epochs": self._epochs, "steps": self._epoch_steps}
        super().set_params({**params, **shown})

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch + self._done, logs)


class _BatchCurves(keras.callbacks.Callback):
    """TensorBoard's curves by batches count from where the run goes on; Keras begins them anew."""

    def __init__(self, callbacks, step: int):
        super().__init__()
        self._curves = [c for c in callbacks if isinstance(c, keras.callbacks.TensorBoard)]
        self._step = step

    def on_train_begin(self, logs=None):
        for curve in self._curves:
            curve._global_train_batch = self._step


def _forget_rows(log: pathlib.Path, epochs: int) -> None:
    """Take out of a log the epochs that the saved state does not know."""
    if not log.exists():
        return
    with open(log, newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file)) or [[]]
    kept = [row for row in rows if len(row) == len(header) and int(row[0]) < epochs]
    if not kept:
        log.unlink()
        return
    beside = log.with_name(f"part-{log.name}")
    with open(beside, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *kept])
    os.replace(beside, log)
