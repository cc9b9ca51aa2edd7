"""Pretraining from documents on two logical CPU devices is pretraining on one."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("mirrored") / "trained.npz"
    subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.mirrored_pretraining", path], check=True, cwd=ROOT
    )
    with np.load(path) as file:
        return dict(file)


@pytest.mark.parametrize("kind", ["weight", "fit", "evaluate"])
def test_two_devices_do_as_one(trained, kind):
    prefix = f"none/{kind}_"
    names = [name.removeprefix(prefix) for name in trained if name.startswith(prefix)]
    assert names
    for name in names:
        np.testing.assert_allclose(
            trained[f"mirrored/{kind}_{name}"], trained[prefix + name], atol=1e-5, err_msg=name
        )
