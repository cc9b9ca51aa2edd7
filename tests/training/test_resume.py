"""A stopped run goes on as if it had not been stopped."""

import keras
import numpy as np
import pytest

import keras_bert_impl as kbi
from keras_bert_impl.training.resume import saved_steps

SETTINGS = {"batch_size": 8, "input": ["a.txt"]}
STEPS = 4  # of each epoch

draw = np.random.default_rng(0)
X = {
    "token_ids": draw.integers(0, 50, (32, 6)),
    "segment_ids": np.zeros((32, 6), int),
    "padding_mask": np.ones((32, 6), bool),
}
Y = np.arange(32) % 2


def make_classifier():
    keras.utils.set_random_seed(1)
    backbone = kbi.BertBackbone(50, 1, 2, 8, 16, dropout=0.3, max_sequence_length=8)
    classifier = kbi.BertTextClassifier(backbone, num_classes=2)
    classifier.compile(kbi.BertAdamW(kbi.WarmupLinearDecay(1e-2, 3 * STEPS, 2)))
    return classifier


def train(classifier, epochs, initial_epoch=0, folder=None, **options):
    callbacks = [kbi.SaveState(folder, STEPS, SETTINGS, **options)] if folder else []
    classifier.fit(
        X,
        Y,
        batch_size=8,
        epochs=epochs,
        initial_epoch=initial_epoch,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
    )


def test_resumed_equals_uninterrupted_bit_for_bit(tmp_path):
    whole = make_classifier()
    train(whole, epochs=3)
    train(make_classifier(), epochs=1, folder=tmp_path)

    resumed = make_classifier()
    assert kbi.resume(resumed, tmp_path, SETTINGS) == STEPS
    assert int(resumed.optimizer.iterations) == STEPS
    train(resumed, epochs=3, initial_epoch=1)
    # Weights, optimizer slots and dropout's random state.
    for ours, theirs in zip(resumed.variables, whole.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=ours.path)
    for ours, theirs in zip(resumed.optimizer.variables, whole.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=ours.path)


def test_nothing_saved_means_step_zero_and_an_untouched_model(tmp_path):
    classifier = make_classifier()
    before = classifier.get_weights()
    assert kbi.resume(classifier, tmp_path / "none", SETTINGS) == 0
    for ours, theirs in zip(classifier.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_last_states_stay(tmp_path):
    train(make_classifier(), epochs=3, folder=tmp_path, keep=2)
    assert saved_steps(tmp_path) == [2 * STEPS, 3 * STEPS]
    assert len(list(tmp_path.iterdir())) == 4  # nothing half-written beside them


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({**SETTINGS, "batch_size": 16}, "batch_size=8, but now batch_size=16"),
        ({**SETTINGS, "input": ["b.txt"]}, r"input=\['a.txt'\], but now input=\['b.txt'\]"),
        ({"batch_size": 8}, "but now input=None"),
    ],
)
def test_a_setting_that_differs_is_named(tmp_path, settings, message):
    train(make_classifier(), epochs=1, folder=tmp_path)
    with pytest.raises(ValueError, match=message):
        kbi.resume(make_classifier(), tmp_path, settings)
