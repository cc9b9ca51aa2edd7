import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data import randomness


def test_more_columns_leave_the_first_as_they_are():
    for columns in (1, 3, 64, 512):
        wide = randomness.uniform([5, 600], (1, 2))
        np.testing.assert_array_equal(randomness.uniform([5, columns], (1, 2)), wide[:, :columns])
        wide = randomness.uniform_int([5, 600], 1000, (1, 2))
        np.testing.assert_array_equal(
            randomness.uniform_int([5, columns], 1000, (1, 2)), wide[:, :columns]
        )


def test_seeds_of_any_integer_type_are_the_same():
    draws = randomness.uniform([2, 3], (5, 6))
    for seed in ([5, 6], tf.constant([5, 6]), tf.constant([5, 6], tf.int64), (tf.constant(5), 6)):
        np.testing.assert_array_equal(randomness.uniform([2, 3], seed), draws)
    assert np.abs(randomness.uniform([2, 3], (6, 5)) - draws).max() > 0.01


def test_a_single_number_is_no_seed():
    with pytest.raises(ValueError, match="two numbers"):
        randomness.fold_in(tf.constant(7), 0)


def test_children_of_a_seed_differ():
    children = {tuple(randomness.fold_in((1, 2), i).numpy()) for i in range(-3, 100)}
    assert len(children) == 103


def test_the_global_seed_changes_nothing():
    seen = []
    for seed in (1, 2):
        tf.random.set_seed(seed)
        seen.append(randomness.permutation(50, (3, 4)).numpy().tolist())
    assert seen[0] == seen[1]
    assert sorted(seen[0]) == list(range(50)) != seen[0]


def test_below_reaches_every_number_and_no_more():
    draws = randomness.uniform_float64([6000], (1, 1))
    counts = np.bincount(randomness.below(draws, 6), minlength=7)
    assert counts[6] == 0
    np.testing.assert_allclose(counts[:6], 1000, atol=4 * np.sqrt(6000 / 6 * 5 / 6))
    assert randomness.below(tf.constant([0.99], tf.float64), 0).numpy().tolist() == [0]


def test_coin_flips_are_binomial():
    counts = tf.repeat(tf.constant([0, 1, 2, 9], tf.int64), 4000)
    heads = randomness.coin_flips(counts, (2, 3)).numpy().reshape(4, 4000)
    assert heads[0].max() == 0
    assert (heads <= np.array([[0], [1], [2], [9]])).all() and heads.min() == 0
    np.testing.assert_allclose(heads.mean(axis=1), [0, 0.5, 1, 4.5], atol=0.1)
    np.testing.assert_allclose(heads.var(axis=1), [0, 0.25, 0.5, 2.25], atol=0.2)
