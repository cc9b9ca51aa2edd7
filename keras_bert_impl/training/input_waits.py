"""How long steps wait for their batch: whether the input or the model is what a run waits for."""

import time

import keras
import tensorflow as tf

from keras_bert_impl.training.distribution import num_replicas


class InputWaits(keras.callbacks.Callback):
    """Adds `input_waits` to the logs: the share of an epoch's time that steps waited for batches.

    0 where the next batch is always there when a step asks, 1 where the model has nothing to do
    but wait. The progress bar shows it from the epoch's beginning on, whose first batch waits for
    buffers to fill. Several devices ask ahead of their steps, so there it is not measured.

    Put it before callbacks that write the logs.

    Example:

    >>> task.fit(texts, labels, callbacks=[InputWaits()])
    """

    def __init__(self):
        super().__init__()
        self._waited = None

    def measured(self, dataset):
        """The dataset, with a clock at its end; `fit` of a task calls it.

        Args:
            dataset: batches, as they go into the step.

        Returns:
            tf.data.Dataset of the same batches.
        """
        if not isinstance(dataset, tf.data.Dataset) or num_replicas() > 1:
            return dataset
        with tf.device("CPU:0"):
            waited = tf.Variable(0.0, trainable=False, dtype=tf.float64)  # seconds

        def note(asked, batch):
            with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
                waited.assign_add(tf.timestamp() - asked)
            return batch

        # Both stages run when a batch is asked for, the first before the batch is there.
        asked = tf.data.Dataset.counter().map(lambda _: tf.timestamp())
        dataset = tf.data.Dataset.zip((asked, dataset)).map(note)
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False  # would ask ahead of the step
        self._waited = waited
        return dataset.with_options(options)

    def on_epoch_begin(self, epoch, logs=None):
        self._start, self._seconds = time.perf_counter(), None
        self._waited_before = self._read()

    def on_train_batch_end(self, batch, logs=None):
        self._add(logs)

    def on_test_begin(self, logs=None):
        self._seconds = time.perf_counter() - self._start  # validation is not counted

    def on_epoch_end(self, epoch, logs=None):
        self._add(logs)

    def _add(self, logs) -> None:
        if logs is not None and self._waited is not None:
            seconds = self._seconds or time.perf_counter() - self._start
            logs["input_waits"] = round((self._read() - self._waited_before) / seconds, 3)

    def _read(self) -> float:
        return 0.0 if self._waited is None else float(self._waited.numpy())
