import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_bert_impl.layers.dropout import dropped, keep_mask, seeds_of

SIZE = (1000, 1000)


def mask(seed, rate=0.1, shape=SIZE):
    return np.asarray(keep_mask(shape, rate, ops.convert_to_tensor(seed, "int32")))


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_the_share_that_is_kept(rate):
    kept = mask([7, 1], rate).mean()
    assert kept == pytest.approx(1 - rate, abs=3 * np.sqrt(rate * (1 - rate) / 1e6) + 1e-9)


def correlation(a, b):
    return abs(np.corrcoef(a.ravel(), b.ravel())[0, 1])


@pytest.mark.parametrize("other", [[7, 2], [8, 1], [1, 7], [7, 2**20 + 1], [-7, 1]])
def test_other_seeds_give_masks_that_have_nothing_to_do_with_it(other):
    first, second = mask([7, 1]), mask(other)
    # Beside each other, and where one is the other moved along: 1e6 draws, four standard errors.
    for shift in (0, 1, 1000):
        assert correlation(first, np.roll(second, shift)) < 4e-3


@pytest.mark.parametrize("distance", [1, 2, 8, 1000])
def test_neighbours_have_nothing_to_do_with_each_other(distance):
    kept = mask([7, 1]).ravel()
    assert correlation(kept[:-distance], kept[distance:]) < 4e-3


def test_rows_and_columns_are_dropped_evenly():
    kept = mask([3, 4], 0.5)
    for axis in (0, 1):
        # Means of 1000 flips: the chi-square statistic of 1000 of them, four standard errors.
        statistic = ((kept.mean(axis) - 0.5) ** 2 / (0.25 / 1000)).sum()
        assert abs(statistic - 1000) < 4 * np.sqrt(2 * 1000)


def test_the_same_seed_gives_the_same_mask():
    np.testing.assert_array_equal(mask([7, 1]), mask([7, 1]))


def test_what_is_kept_grows_and_the_rest_is_zero():
    x = ops.ones((100, 100), "float32")
    seed = ops.convert_to_tensor([1, 2], "int32")
    result = np.asarray(dropped(x, 0.2, seed))
    np.testing.assert_array_equal(result > 0, mask([1, 2], 0.2, (100, 100)))
    assert set(np.unique(result)) == {np.float32(0), np.float32(1.25)}


def test_the_shape_may_be_known_only_when_it_runs():
    @tf.function(input_signature=[tf.TensorSpec([None, None])], jit_compile=True)
    def graph(x):
        return dropped(x, 0.3, ops.convert_to_tensor([1, 2]))

    for shape in ((40, 50), (3, 7)):
        x = np.ones(shape, "float32")
        np.testing.assert_array_equal(graph(x), dropped(x, 0.3, ops.convert_to_tensor([1, 2])))


def test_seeds_move_on_and_rate_zero_takes_none():
    layer = keras.layers.Dropout(0.1, seed=3)
    first, second = seeds_of(layer, True)[0], seeds_of(layer, True)[0]
    assert np.asarray(first).shape == (2,)
    assert (np.asarray(first) != np.asarray(second)).any()
    assert seeds_of(keras.layers.Dropout(0.0), True) == ()
    assert seeds_of(layer, False) == ()
