import json
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_bert_impl.training import distribution

ROOT = pathlib.Path(__file__).parents[2]


def test_an_unknown_choice_is_named_with_those_there_are():
    with pytest.raises(ValueError, match="'many'. Choose one of none, mirrored, multi_worker, tpu"):
        distribution.distribution_scope("many")


def test_none_and_auto_are_one_device_here():
    for choice in ("none", "auto"):
        with distribution.distribution_scope(choice):
            assert distribution.num_replicas() == 1


def test_several_machines_must_be_told_of(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ValueError, match="needs the environment variable TF_CONFIG"):
        distribution.distribution_scope("multi_worker")


def test_jax_has_another_way_to_several_machines(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match=r"call keras.distribution.initialize\(\)"):
        distribution.distribution_scope("multi_worker")


def test_other_backends_have_one_device(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with distribution.distribution_scope("auto"):
        pass
    with pytest.raises(ValueError, match="torch backend has no distribution 'mirrored'"):
        distribution.distribution_scope("mirrored")


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """One training step on one and on two devices, by optimizer: see two_devices.py."""
    path = tmp_path_factory.mktemp("two_devices") / "steps.json"
    command = [sys.executable, "-m", "tests.training.two_devices", path]
    subprocess.run(command, check=True, cwd=ROOT)
    return json.loads(path.read_text())


def difference(steps, optimizer, other=None):
    one, two = steps[optimizer]["one"], steps[other or optimizer]["one" if other else "two"]
    return max(
        np.abs(np.array(a) - np.array(b)).max()
        for a, b in zip(one["weights"], two["weights"], strict=True)
    )


def test_mirrored_takes_every_logical_device(steps):
    assert steps["replicas"] == 2


def test_masked_tokens_weigh_alike_on_whichever_device_they_are(steps):
    """16 masked tokens on one device and 1 on the other: a mean of means would weigh 1 as 16."""
    assert difference(steps, "sgd") < 1e-6
    assert steps["sgd"]["two"]["loss"] == pytest.approx(steps["sgd"]["one"]["loss"], abs=1e-6)
    assert difference(steps, "start", other="sgd") > 1e-2


def test_the_norm_of_the_sum_is_clipped_on_two_devices_as_on_one(steps):
    assert difference(steps, "clipped") < 1e-6
    assert difference(steps, "clipped", other="not_clipped") > 1e-4


def test_half_precision_and_a_schedule_train_on_two_devices(steps):
    assert difference(steps, "half_precision") < 2e-3
    assert difference(steps, "half_precision", other="start") > 1e-3
