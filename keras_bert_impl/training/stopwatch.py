"""Seconds of each epoch among its logs, so that progress bar and log file show them."""

import time

import keras


class Stopwatch(keras.callbacks.Callback):
    """Adds `seconds`, the wall time of each training epoch without its validation, to the logs.

    Put it before callbacks that write the logs.

    Example:

    >>> callbacks = [Stopwatch(), keras.callbacks.CSVLogger("log.csv")]
    """

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.perf_counter()
        self._end = None

    def on_test_begin(self, logs=None):
        self._end = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs["seconds"] = round((self._end or time.perf_counter()) - self._start, 2)
