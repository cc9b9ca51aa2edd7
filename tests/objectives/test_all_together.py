"""All objectives in one model: on two devices, gone on with from the middle, and under JAX."""

import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.objectives.dataset import objectives_dataset
from keras_bert_impl.objectives.table import OBJECTIVES
from tests import small
from tests.objectives.all_together import LENGTH, STEPS, STOP, objectives
from tests.objectives.lines import documents

ROOT = pathlib.Path(__file__).parents[2]


def batches_from(step):
    data = objectives_dataset(
        documents(),
        small.tokenizer(),
        objectives(),
        sequence_length=LENGTH,
        batch_size=4,
        shuffle_buffer=20,
        task_embeddings=True,
        start_step=step,
    )
    return list(data.take(STEPS - step).as_numpy_iterator())


@pytest.fixture(scope="module")
def batches():
    return batches_from(0)


@pytest.fixture(scope="module")
def found(batches, tmp_path_factory):
    """What all_together.py found, by run and name."""
    folder = tmp_path_factory.mktemp("all_together")
    (folder / "batches").write_bytes(pickle.dumps(batches))
    on_jax = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    arrays = {}
    for name, runs, environment in (
        ("tensorflow", ["none", "mirrored", "resumed"], {}),
        ("jax", ["none"], on_jax),
    ):
        paths = [folder / "batches", folder / f"{name}.npz", folder / name]
        subprocess.run(
            [sys.executable, "-m", "tests.objectives.all_together", *paths, *runs],
            env={**os.environ, **environment},
            check=True,
            cwd=ROOT,
        )
        with np.load(folder / f"{name}.npz") as file:
            arrays.update({f"{name}/{key}": file[key] for key in file})
    return arrays


def of(found, run):
    return {k.removeprefix(run): x for k, x in found.items() if k.startswith(run)}


def test_batches_begin_at_any_step(batches):
    assert {name for _, _, w in batches for name in w if w[name].any()} == set(OBJECTIVES)
    assert len({int(x["task_ids"][0, 0]) for x, _, _ in batches}) == STEPS - 1
    for one, other in zip(batches[STOP:], batches_from(STOP), strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)


def test_two_devices_train_the_weights_of_one(found):
    one, two = of(found, "tensorflow/none"), of(found, "tensorflow/mirrored")
    assert {f"/log/{name}_loss" for name in OBJECTIVES} <= set(one)
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, atol=1e-6, rtol=1e-5, err_msg=name)


def test_a_run_goes_on_exactly(found):
    whole, resumed = of(found, "tensorflow/none"), of(found, "tensorflow/resumed")
    assert (whole.pop("/done"), resumed.pop("/done")) == (0, STOP)
    for name, value in whole.items():
        np.testing.assert_array_equal(resumed[name], value, err_msg=name)


def test_jax_trains_them_from_prepared_ids(found):
    tensorflow, jax = of(found, "tensorflow/none"), of(found, "jax/none")
    for name, value in tensorflow.items():
        tolerance = 1e-3 if name.startswith("/weight") else 1e-4
        np.testing.assert_allclose(jax[name], value, atol=tolerance, err_msg=name)
