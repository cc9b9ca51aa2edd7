"""Rows of like length share a batch, none is lost, and nothing but padding is cut."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data import batching

LENGTHS = np.random.default_rng(0).integers(1, 33, 150)


def rows(lengths, width=40):
    mask = np.arange(width) < lengths[:, None]
    ids = np.where(mask, np.arange(1, len(lengths) + 1)[:, None], 0)
    x = {"token_ids": ids.astype("int32"), "padding_mask": mask, "other": np.zeros((len(ids), 40))}
    return x, np.arange(len(ids)), np.ones(len(ids), "float32")


def batches(lengths=LENGTHS, batch_size=4, pool=64, **options):
    pools = tf.data.Dataset.from_tensor_slices(rows(lengths)).batch(pool)
    return [
        tf.nest.map_structure(np.array, batch)
        for batch in batching.batches_of_like_length(pools, batch_size, **options)
    ]


def test_every_row_comes_once_with_its_label():
    tf.random.set_seed(3)
    made = batches()
    labels = np.concatenate([y for _, y, _ in made])
    assert sorted(labels) == list(range(len(LENGTHS)))
    for x, y, weight in made:
        np.testing.assert_array_equal(x["token_ids"][:, 0], y + 1)
        np.testing.assert_array_equal(x["padding_mask"].sum(-1), LENGTHS[y])
        assert weight.shape == y.shape
    # One batch is short: the number of rows is no multiple of the batch.
    assert sorted(len(y) for _, y, _ in made) == [2] + [4] * 37


@pytest.mark.parametrize("multiple", [1, 8, 100])
def test_a_batch_is_as_long_as_its_longest_row_needs(multiple):
    for x, y, _ in batches(length_multiple=multiple):
        needed = -(-LENGTHS[y].max() // multiple) * multiple
        assert x["token_ids"].shape == x["padding_mask"].shape == (len(y), min(needed, 40))
        assert x["other"].shape == (len(y), 40)


def test_little_is_padding():
    padded = sum(x["token_ids"].size for x, _, _ in batches(length_multiple=1))
    assert padded < 1.15 * LENGTHS.sum() < 1.15 * 0.6 * LENGTHS.max() * len(LENGTHS)


def test_the_order_of_batches_is_random_and_follows_the_seed():
    def order(seed):
        tf.random.set_seed(seed)
        return [tuple(y) for _, y, _ in batches()]

    assert order(1) == order(1) != order(2)
    first = [x["token_ids"].shape[1] for x, _, _ in batches()]
    assert first != sorted(first)


def test_targets_of_tokens_are_cut_alike():
    x, _, _ = rows(LENGTHS)
    pools = tf.data.Dataset.from_tensor_slices((x, x["token_ids"])).batch(64)
    for x, y in batching.batches_of_like_length(pools, 4, targets_by_token=True):
        np.testing.assert_array_equal(x["token_ids"], y)


def test_a_row_of_several_choices_is_as_long_as_its_longest():
    mask = np.arange(10) < np.array([[1, 9], [2, 3], [2, 1], [8, 8]])[:, :, None]
    pools = tf.data.Dataset.from_tensors({"padding_mask": mask})
    made = batching.batches_of_like_length(pools, 2, length_multiple=1)
    assert sorted(tuple(x["padding_mask"].shape) for x in made) == [(2, 2, 3), (2, 2, 9)]
