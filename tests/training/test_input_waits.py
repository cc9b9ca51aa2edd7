"""The share of time that steps wait for their batch."""

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl as kbi
from tests import small


class Recorded(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.shares = []

    def on_train_batch_end(self, batch, logs=None):
        self.shares.append(logs["input_waits"])


def consume(dataset, seconds_a_step):
    waits, logs = kbi.InputWaits(), {}
    iterator = iter(waits.measured(dataset))
    waits.on_epoch_begin(0)
    batches = []
    for batch in iterator:
        batches.append(batch)
        time.sleep(seconds_a_step)
    waits.on_epoch_end(0, logs)
    return batches, logs["input_waits"]


def slow(x):
    """A batch that takes its time; py_function stands for any slow stage."""
    return tf.ensure_shape(tf.py_function(lambda x: time.sleep(0.1) or x, [x], tf.int64), ())


def test_a_slow_input_is_waited_for_and_a_quick_one_is_not():
    numbers = tf.data.Dataset.range(8)
    batches, share = consume(numbers.map(slow), 0.0)
    assert [int(x) for x in batches] == list(range(8))
    assert share > 0.5
    # The next batch is made while a step is busy, so that it is there in time.
    _, share = consume(numbers.map(slow).prefetch(1), 0.3)
    assert share < 0.3


def test_a_task_shows_it_in_each_steps_logs_and_in_the_epochs():
    task = kbi.BertTextClassifier(
        small.backbone(num_layers=1), 2, preprocessor=kbi.BertPreprocessor(small.tokenizer(), 16)
    )
    recorded = Recorded()
    history = task.fit(
        np.array(small.TEXTS * 4),
        np.arange(len(small.TEXTS) * 4) % 2,
        batch_size=2,
        epochs=2,
        verbose=0,
        callbacks=[kbi.InputWaits(), recorded],
    )
    assert len(history.history["input_waits"]) == 2
    assert len(recorded.shares) == 2 * 2 * len(small.TEXTS)
    assert min(recorded.shares) > 0 and max(recorded.shares) <= 1


def test_several_devices_are_not_measured(monkeypatch):
    monkeypatch.setattr("keras_bert_impl.training.input_waits.num_replicas", lambda: 2)
    waits, logs = kbi.InputWaits(), {}
    dataset = tf.data.Dataset.range(2)
    assert waits.measured(dataset) is dataset
    waits.on_epoch_begin(0)
    waits.on_train_batch_end(0, logs)
    waits.on_epoch_end(0, logs)
    assert logs == {}


@pytest.mark.parametrize("x", [np.zeros(3), None])
def test_what_is_no_dataset_stays(x):
    assert kbi.InputWaits().measured(x) is x
