"""However a batch is cut, over devices, processes or moments, it is one batch."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.key_biases import parted
from tests.workers import worker_configs

ROOT = pathlib.Path(__file__).parents[2]


def start(path, devices, *runs, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.parts", path, str(devices), *runs],
        env={**os.environ, **environment},
        cwd=ROOT,
    )


def finish(*processes):
    codes = [process.wait(timeout=600) for process in processes]
    assert not any(codes), codes


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Arrays of each way, by `devices/choice/parts`."""
    folder = tmp_path_factory.mktemp("parts")
    arrays = {}
    for devices, runs in (
        (2, ["none/1", "none/3", "mirrored/1", "mirrored/3", "none/streams"]),
        (4, ["mirrored/1"]),
    ):
        finish(start(folder / "found.npz", devices, *runs))
        with np.load(folder / "found.npz") as file:
            arrays.update({f"{devices}/{name}": file[name] for name in file})
    return arrays


def under_jax(num_devices):
    return {
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={num_devices}",
    }


@pytest.fixture(scope="module")
def found_by_jax(tmp_path_factory):
    path = tmp_path_factory.mktemp("parts_jax") / "found.npz"
    runs = ["none/1", "mirrored/3", "model_parallel/1", "none/streams"]
    finish(start(path, 4, *runs, **under_jax(4)))
    with np.load(path) as file:
        return dict(file)


@pytest.fixture(scope="module")
def found_by_jax_workers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts_jax_workers")
    address = json.loads(worker_configs()[0])["cluster"]["worker"][0]
    workers = [
        start(
            folder / f"{index}.npz",
            2,
            "mirrored/streams",
            JAX_WORKER=f"{address}/{index}",
            **under_jax(2),
        )
        for index in range(2)
    ]
    return finished(folder, workers)


@pytest.fixture(scope="module")
def found_by_workers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts_workers")
    runs = ["multi_worker/1", "multi_worker/streams"]
    workers = [
        start(folder / f"{index}.npz", 1, *runs, TF_CONFIG=config)
        for index, config in enumerate(worker_configs())
    ]
    return finished(folder, workers)


def finished(folder, workers):
    finish(*workers)
    results = []
    for index in range(len(workers)):
        with np.load(folder / f"{index}.npz") as file:
            results.append(dict(file))
    return results


def check_equal(found, way, expected, way_expected, tolerance):
    names = [name.removeprefix(way) for name in found if name.startswith(way)]
    kinds = {"weight", "fit"} if "streams" in way else {"weight", "fit", "evaluate", "predict"}
    assert {name.split("/")[1] for name in names} == kinds
    for name in names:
        ours, theirs = found[way + name], expected[way_expected + name]
        # Logits amplify what weights differ by.
        atol = 10 * tolerance if "/predict/" in name else tolerance
        (ours, keys), (theirs, their_keys) = (parted(name, array) for array in (ours, theirs))
        if keys is not None:
            np.testing.assert_allclose(keys, their_keys, atol=2 * atol, err_msg=name)
        np.testing.assert_allclose(ours, theirs, atol=atol, rtol=1e-6, err_msg=name)


def test_the_steps_learn(found):
    before, after = found["2/none/1/fit/loss"], found["2/none/1/evaluate/loss"]
    assert abs(before - after) > 1e-3


@pytest.mark.parametrize("way", ["2/none/3", "2/mirrored/1", "2/mirrored/3", "4/mirrored/1"])
def test_parts_are_one_batch(found, way):
    check_equal(found, way, found, "2/none/1", 1e-6)


@pytest.mark.parametrize(
    ("way", "tolerance"),
    [("mirrored/3", 1e-6), ("model_parallel/1", 1e-5)],
)
def test_parts_are_one_batch_under_jax(found_by_jax, way, tolerance):
    check_equal(found_by_jax, way, found_by_jax, "none/1", tolerance)


@pytest.mark.parametrize("worker", [0, 1])
def test_two_processes_are_one(found, found_by_workers, worker):
    check_equal(found_by_workers[worker], "multi_worker/1", found, "2/none/1", 1e-6)


@pytest.mark.parametrize("worker", [0, 1])
def test_workers_with_rows_of_their_own_are_one(found, found_by_workers, worker):
    way = "multi_worker/streams"
    check_equal(found_by_workers[worker], way, found, "2/none/streams", 1e-6)


@pytest.mark.parametrize("worker", [0, 1])
def test_workers_of_jax_are_one(found_by_jax, found_by_jax_workers, worker):
    way = "mirrored/streams"
    check_equal(found_by_jax_workers[worker], way, found_by_jax, "none/streams", 1e-6)
