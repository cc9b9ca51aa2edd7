"""A stopped run goes on as if it had not been stopped."""

import csv
import functools
import os
import signal
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert_impl as kbi
from keras_bert_impl.training.resume import saved_steps
from tests import small

DOCUMENTS = [["the cat sat .", "a dog ran"], ["unaffable cat", "the mat"], ["a cat", "ran"]] * 4
SETTINGS = {"batch_size": 4, "input": ["a.txt"]}
STEPS, EPOCH_STEPS = 10, 4


@functools.cache
def batches():
    """Made once: that they begin at any step is tested where they are made."""
    data = kbi.pretraining_dataset(
        DOCUMENTS, small.tokenizer(), sequence_length=16, max_predictions=3, batch_size=4
    )
    batches = list(data.take(2 * STEPS).as_numpy_iterator())
    return tf.nest.map_structure(lambda *arrays: np.stack(arrays), *batches)


def make_dataset(step):
    return tf.data.Dataset.from_tensor_slices(batches()).skip(step)


def make_pretrainer(learning_rate=1e-2, dtype=None):
    keras.utils.set_random_seed(1)
    pretrainer = kbi.BertPretrainer(small.backbone(num_layers=1, dropout=0.3, dtype=dtype))
    pretrainer.compile(kbi.BertAdamW(kbi.WarmupLinearDecay(learning_rate, STEPS, 2)))
    return pretrainer


def train(pretrainer, folder, num_steps=STEPS, save_every=3, **options):
    options = {"settings": SETTINGS, "epoch_steps": EPOCH_STEPS, "verbose": 0, **options}
    return kbi.fit_steps(
        pretrainer,
        make_dataset,
        num_steps=num_steps,
        folder=folder,
        save_every=save_every,
        **options,
    )


class At(keras.callbacks.Callback):
    """Does something after a step of this process."""

    def __init__(self, step, action):
        super().__init__()
        self.steps_left = step
        self.action = action

    def on_train_batch_end(self, batch, logs=None):
        self.steps_left -= 1
        if self.steps_left == 0:
            self.action()


def crash():
    raise KeyboardInterrupt


def log_of(folder):
    """Rows of the log, but for times."""
    with open(folder / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    times = {"seconds", "input_waits"}
    return [{k: v for k, v in row.items() if k not in times} for row in rows]


def check_same(pretrainer, whole):
    # Weights, dropout's random state and optimizer slots.
    for part in (lambda model: model.variables, lambda model: model.optimizer.variables):
        for ours, theirs in zip(part(pretrainer), part(whole), strict=True):
            np.testing.assert_array_equal(
                keras.ops.convert_to_numpy(ours),
                keras.ops.convert_to_numpy(theirs),
                err_msg=ours.path,
            )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing stopped, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    pretrainer = make_pretrainer()
    assert train(pretrainer, folder) == 0
    return pretrainer, folder


@pytest.mark.parametrize("crash_at", [1, 4, 7])
def test_a_crashed_run_goes_on_to_the_same_weights_and_log(whole, tmp_path, crash_at):
    with pytest.raises(KeyboardInterrupt):
        train(make_pretrainer(), tmp_path, callbacks=[At(crash_at, crash)])
    resumed = make_pretrainer()
    # The last save: every 3 steps, and where an epoch of 4 ends.
    done = {1: 0, 4: 3, 7: 6}[crash_at]
    assert train(resumed, tmp_path) == done
    check_same(resumed, whole[0])
    assert log_of(tmp_path) == log_of(whole[1])
    assert int(resumed.optimizer.iterations) == STEPS


class Curves(keras.callbacks.TensorBoard):
    """Keeps the steps that batches would be written with."""

    def __init__(self, folder):
        super().__init__(folder / "curves", write_graph=False)
        self.steps = []

    def on_train_batch_end(self, batch, logs=None):
        self.steps.append(self._global_train_batch)

    def on_epoch_end(self, epoch, logs=None):
        pass


def test_curves_of_batches_go_on_where_they_were(tmp_path):
    crashed, resumed = Curves(tmp_path), Curves(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train(make_pretrainer(), tmp_path, callbacks=[At(7, crash), crashed])
    assert crashed.steps == [1, 2, 3, 4, 5, 6]
    train(make_pretrainer(), tmp_path, callbacks=[resumed])
    assert resumed.steps == [7, 8, 9, 10]


def test_sigterm_saves_the_step_and_exits_with_its_code(whole, tmp_path):
    terminate = At(5, lambda: os.kill(os.getpid(), signal.SIGTERM))
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stopped:
        train(make_pretrainer(), tmp_path, save_every=100, callbacks=[terminate])
    signal.signal(signal.SIGTERM, handler)
    assert stopped.value.code == kbi.EXIT_SAVED == 75
    assert saved_steps(tmp_path / "states") == [4, 5]
    resumed = make_pretrainer()
    assert train(resumed, tmp_path, save_every=100) == 5
    check_same(resumed, whole[0])


@pytest.mark.parametrize(
    "dtype", ["bfloat16", pytest.param("mixed_float16", marks=pytest.mark.thorough)]
)
def test_lower_precision_goes_on_too(tmp_path, dtype):
    def made():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make_pretrainer(dtype=dtype)

    whole = made()
    train(whole, tmp_path / "whole", num_steps=4)
    with pytest.raises(KeyboardInterrupt):
        train(made(), tmp_path / "crashed", 4, save_every=2, callbacks=[At(3, crash)])
    resumed = made()
    assert train(resumed, tmp_path / "crashed", 4, save_every=2) == 2
    check_same(resumed, whole)


def test_a_run_that_is_over_is_not_run_again(whole):
    pretrainer = make_pretrainer()
    assert train(pretrainer, whole[1]) == STEPS
    check_same(pretrainer, whole[0])


def test_nothing_saved_means_step_zero_and_an_untouched_model(tmp_path):
    pretrainer = make_pretrainer()
    before = pretrainer.get_weights()
    assert kbi.resume(pretrainer, tmp_path / "none", SETTINGS) == 0
    for ours, theirs in zip(pretrainer.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({**SETTINGS, "batch_size": 16}, "batch_size=4, but now batch_size=16"),
        ({**SETTINGS, "input": ["b.txt"]}, r"input=\['a.txt'\], but now input=\['b.txt'\]"),
        ({"batch_size": 4}, "but now input=None"),
    ],
)
def test_a_setting_that_differs_is_named(whole, settings, message):
    with pytest.raises(ValueError, match=message):
        train(make_pretrainer(), whole[1], settings=settings)


def test_length_and_learning_rate_change_by_flag_only(tmp_path):
    train(make_pretrainer(), tmp_path, num_steps=4, changeable={"learning_rate": 1e-2})
    longer = {"num_steps": 6, "changeable": {"learning_rate": 1e-3}}
    with pytest.raises(ValueError, match=r"learning_rate=0.01, .* allow changes"):
        train(make_pretrainer(), tmp_path, **longer)
    assert train(make_pretrainer(1e-3), tmp_path, allow_changes=True, **longer) == 4
    assert saved_steps(tmp_path / "states")[-1] == 6


def test_another_model_is_refused(whole):
    other = kbi.BertPretrainer(small.backbone(num_layers=2))
    other.compile()
    with pytest.raises(ValueError, match="other variables than this one's"):
        train(other, whole[1])


def test_a_damaged_newest_state_is_passed_over_loudly(whole, tmp_path, caplog):
    train(make_pretrainer(), tmp_path, num_steps=6, save_every=2, keep=3)
    newest = tmp_path / "states" / "step-00000006.npz"
    newest.write_bytes(newest.read_bytes()[:-1000])
    resumed = make_pretrainer()
    assert train(resumed, tmp_path, save_every=2, allow_changes=True) == 4
    assert "step-00000006.npz is not as it was written" in caplog.text
    check_same(resumed, whole[0])


def test_when_every_state_is_damaged_nothing_begins_anew(tmp_path):
    train(make_pretrainer(), tmp_path, num_steps=2, epoch_steps=1)
    for path in (tmp_path / "states").glob("*.npz"):
        path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"No state in .* can be read: .*00000002.npz"):
        train(make_pretrainer(), tmp_path, num_steps=2, epoch_steps=1)


def test_a_loss_that_is_no_number_stops_with_its_batch(tmp_path):
    pretrainer = make_pretrainer()

    def spoil():
        variable = pretrainer.trainable_variables[0]
        variable.assign(keras.ops.full(variable.shape, np.nan))

    with pytest.raises(
        FloatingPointError, match="Step 4: the loss is nan.*non-finite-step-0000000"
    ):
        train(pretrainer, tmp_path, callbacks=[At(3, spoil)])
    with np.load(tmp_path / "non-finite-step-00000004.npz") as file:
        expected = list(make_dataset(0).take(4).as_numpy_iterator())[3]
        np.testing.assert_array_equal(file["x/token_ids"], expected[0]["token_ids"])
        np.testing.assert_array_equal(file["y/masked_lm"], expected[1]["masked_lm"])
    assert saved_steps(tmp_path / "states") == [3]


def test_more_steps_than_there_are_is_no_error_but_none_is():
    with pytest.raises(ValueError, match="num_steps=0 and epoch_steps=4 must be at least 1"):
        train(make_pretrainer(), "unused", num_steps=0)
