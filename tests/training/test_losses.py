import keras
import numpy as np
import pytest

from keras_bert_impl.training.losses import MaskedLMLoss


def cross_entropy(ids, logits):
    logits = np.asarray(logits, "float64")
    log_sum = np.log(np.exp(logits).sum(axis=-1))
    return log_sum - np.take_along_axis(logits, ids[..., None], axis=-1)[..., 0]


def logits_of(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def test_is_the_weighted_mean_over_masked_tokens():
    # Logits ln p give the cross-entropy -ln p: 1/2, 1/4 and, weighing nothing, 1/8.
    shares = np.array([[[1 / 2, 1 / 4, 1 / 4], [1 / 4, 1 / 4, 1 / 2]], [[1 / 8, 3 / 4, 1 / 8]] * 2])
    loss = MaskedLMLoss()(
        np.array([[0, 1], [0, 0]]), np.log(shares).astype("float32"), np.array([[1.0, 1], [0, 0]])
    )
    assert float(loss) == pytest.approx((np.log(2) + np.log(4)) / (2 + 1e-5), rel=1e-6)


def test_weights_other_than_one_weigh():
    ids, logits = np.array([[1, 2]]), logits_of(1, 2, 5)
    first, second = cross_entropy(ids, logits)[0]
    loss = MaskedLMLoss()(ids, logits, np.array([[0.25, 2.0]]))
    assert float(loss) == pytest.approx((0.25 * first + 2 * second) / (2.25 + 1e-5), rel=1e-6)


def test_without_weights_all_slots_count():
    ids, logits = np.array([[1, 2]]), logits_of(1, 2, 5)
    expected = cross_entropy(ids, logits).sum() / (2 + 1e-5)
    assert float(MaskedLMLoss()(ids, logits)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("slots", [2, 20, 96])
def test_empty_slots_change_nothing(slots):
    """Keras's own mean gives 1, 1/10 and 1/48 of the loss here."""
    ids, logits = np.array([[3, 1]]), logits_of(1, 2, 5)
    padded_ids = np.pad(ids, [(0, 0), (0, slots - 2)])
    padded_logits = np.concatenate([logits, logits_of(1, slots - 2, 5, seed=1)], axis=1)
    weights = np.arange(slots)[None] < 2
    loss = MaskedLMLoss()(padded_ids, padded_logits, weights)
    assert float(loss) == pytest.approx(cross_entropy(ids, logits).sum() / (2 + 1e-5), rel=1e-6)


def test_nothing_masked_is_no_loss():
    loss = MaskedLMLoss()(np.zeros((2, 3), int), logits_of(2, 3, 5), np.zeros((2, 3)))
    assert float(loss) == 0


def test_half_precision_logits_are_taken_to_float32():
    ids, logits = np.array([[1, 2]]), logits_of(1, 2, 5).astype("float16")
    loss = MaskedLMLoss()(ids, logits, np.ones((1, 2), "float16"))
    assert keras.backend.standardize_dtype(loss.dtype) == "float32"
    assert float(loss) == pytest.approx(cross_entropy(ids, logits).sum() / (2 + 1e-5), rel=1e-5)


def test_survives_its_config():
    loss = keras.losses.deserialize(keras.losses.serialize(MaskedLMLoss(name="another")))
    assert type(loss) is MaskedLMLoss
    assert loss.name == "another"
