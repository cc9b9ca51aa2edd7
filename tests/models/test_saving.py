"""Every task comes back with the same predictions, bit for bit, also in a fresh process."""

import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.text_classifier import BertTextClassifier
from tests import small
from tests.models import saved_tasks

ROOT = pathlib.Path(__file__).parents[2]


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(folder, tasks by name, their predictions), trained a little and saved in every way."""
    folder = tmp_path_factory.mktemp("saved")
    tasks = saved_tasks.make()
    for name, task in tasks.items():
        task.save(folder / f"{name}.keras")
        task.save_to_preset(str(folder / f"{name}_preset"))
        task.save_weights(folder / f"{name}.weights.h5")
    return folder, tasks, {name: saved_tasks.predictions(task) for name, task in tasks.items()}


NAMES = list(saved_tasks.MAKERS)


@pytest.mark.parametrize("name", NAMES)
def test_keras_archive(saved, name):
    folder, tasks, predictions = saved
    again = keras.saving.load_model(folder / f"{name}.keras")
    assert type(again) is type(tasks[name])
    assert type(again.preprocessor) is type(tasks[name].preprocessor)
    assert again.preprocessor.get_config() == tasks[name].preprocessor.get_config()
    assert again.preprocessor.tokenizer.get_vocabulary() == small.VOCABULARY
    assert_same(saved_tasks.predictions(again), predictions[name])


@pytest.mark.parametrize("name", NAMES)
def test_preset(saved, name):
    folder, tasks, predictions = saved
    again = type(tasks[name]).from_preset(str(folder / f"{name}_preset"))
    assert type(again.preprocessor) is type(tasks[name].preprocessor)
    assert again.preprocessor.get_config() == tasks[name].preprocessor.get_config()
    assert_same(saved_tasks.predictions(again), predictions[name])


@pytest.mark.parametrize("name", NAMES)
def test_weights_alone(saved, name):
    folder, tasks, predictions = saved
    again = type(tasks[name]).from_config(tasks[name].get_config())
    again.preprocessor = tasks[name].preprocessor
    fresh = saved_tasks.predictions(again)
    assert any((fresh[key] != array).any() for key, array in predictions[name].items())
    again.load_weights(folder / f"{name}.weights.h5")
    assert_same(saved_tasks.predictions(again), predictions[name])


def test_a_fresh_process(saved):
    folder, _, predictions = saved
    command = [sys.executable, "-m", "tests.models.saved_tasks", folder]
    subprocess.run(command, check=True, cwd=ROOT)
    with np.load(folder / "predictions.npz") as file:
        there = dict(file)
    here = {
        f"{name}/{way}/{key}": array
        for name, arrays in predictions.items()
        for way in saved_tasks.WAYS
        for key, array in arrays.items()
    }
    assert_same(here, there)


def test_a_backbone_comes_out_of_a_tasks_preset(saved):
    folder, tasks, _ = saved
    backbone = BertBackbone.from_preset(str(folder / "classifier_preset"))
    for weight, other in zip(backbone.weights, tasks["classifier"].backbone.weights, strict=True):
        np.testing.assert_array_equal(np.array(weight), np.array(other), err_msg=weight.path)


def test_packing_options_can_be_changed_at_loading(saved):
    folder, tasks, _ = saved
    again = type(tasks["classifier"]).from_preset(
        str(folder / "classifier_preset"), sequence_length=8, truncation="only_first"
    )
    assert again.preprocessor.sequence_length == 8
    assert again.preprocessor.truncation == "only_first"
    assert again.preprocessor.tokenizer.get_vocabulary() == small.VOCABULARY


def test_a_head_of_as_many_classes_is_kept(saved):
    folder, _, predictions = saved
    preset = str(folder / "classifier_preset")
    again = BertTextClassifier.from_preset(preset, num_classes=2, init_missing=True)
    assert again.class_names == ("no", "yes")
    assert_same(saved_tasks.predictions(again), predictions["classifier"])


def test_a_head_of_another_number_of_classes_is_an_explicit_choice(saved):
    folder, tasks, _ = saved
    preset = str(folder / "classifier_preset")
    with pytest.raises(ValueError, match="has a head of 2 classes, but num_classes=3"):
        BertTextClassifier.from_preset(preset, num_classes=3)
    again = BertTextClassifier.from_preset(preset, num_classes=3, init_missing=True)
    assert again.predict(small.TEXTS, verbose=0).shape == (4, 3)
    np.testing.assert_array_equal(
        again.backbone.predict(small.prepared(), verbose=0)["sequence_output"],
        tasks["classifier"].backbone.predict(small.prepared(), verbose=0)["sequence_output"],
    )
