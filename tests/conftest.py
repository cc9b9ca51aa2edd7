"""Quiet TensorFlow, no GPU, and the same random weights in every run, for every test."""

import os
import sys

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

from tests import unoptimized  # noqa: E402, F401


def seed():
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(0)


@pytest.fixture(autouse=True, scope="module")
def seeded_fixtures():
    """What a module's own fixtures draw does not depend on the modules before it."""
    seed()


@pytest.fixture(autouse=True)
def seeded(seeded_fixtures):
    """What a test draws does not depend on the tests before it."""
    seed()
