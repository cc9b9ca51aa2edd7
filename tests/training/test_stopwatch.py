"""Seconds among an epoch's logs."""

import pytest

import keras_bert_impl as kbi


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    return now


def test_validation_is_not_counted(clock):
    stopwatch, logs = kbi.Stopwatch(), {}
    stopwatch.on_epoch_begin(0)
    clock[0] += 5
    stopwatch.on_test_begin()
    clock[0] += 2
    stopwatch.on_epoch_end(0, logs)
    assert logs == {"seconds": 5}


def test_an_epoch_without_validation_is_counted_whole(clock):
    stopwatch, logs = kbi.Stopwatch(), {}
    stopwatch.on_epoch_begin(0)
    clock[0] += 5
    stopwatch.on_epoch_end(0, logs)
    assert logs == {"seconds": 5}
