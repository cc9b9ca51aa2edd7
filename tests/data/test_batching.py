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


def batches_of_tokens(lengths, tokens, sequence_length=40, **options):
    pools = tf.data.Dataset.from_tensor_slices(rows(lengths)).batch(64)
    made = batching.batches_of_tokens(pools, tokens, sequence_length=sequence_length, **options)
    return [tf.nest.map_structure(np.array, batch) for batch in made]


def test_batches_of_tokens_have_few_shapes_and_every_row_once():
    made = batches_of_tokens(LENGTHS, 100)
    buckets = batching.bucket_lengths(40)
    assert buckets == [16, 24, 32, 40]
    assert {x["token_ids"].shape for x, _, _ in made} == {(6, 16), (4, 24), (3, 32)}
    seen = []
    for x, y, weight in made:
        real = x["num_examples"] == 1
        np.testing.assert_array_equal(weight, real)
        seen += y[real].tolist()
        np.testing.assert_array_equal(x["padding_mask"].sum(-1), np.where(real, LENGTHS[y], 0))
        longest = LENGTHS[y[real]].max()
        assert x["padding_mask"].shape[1] == min(b for b in buckets if b >= longest)
    assert sorted(seen) == list(range(len(LENGTHS)))
    # Only the last batch of each length is filled up.
    assert sum((x["num_examples"] == 0).any() for x, _, _ in made) <= 3


def test_batches_of_tokens_widen_pools_that_are_narrower_than_rows():
    x, _, _ = rows(np.array([3, 3]), width=4)
    pools = tf.data.Dataset.from_tensors((x, x["token_ids"], x["padding_mask"] * 1.0))
    (made,) = batching.batches_of_tokens(pools, 48, sequence_length=20, targets_by_token=True)
    assert made[0]["token_ids"].shape == made[1].shape == made[2].shape == (3, 16)


def test_a_batch_of_tokens_must_hold_a_row():
    with pytest.raises(ValueError, match="tokens_per_batch=39 is less than a row of 40 tokens"):
        batches_of_tokens(LENGTHS, 39)


def test_texts_are_ordered_by_their_characters():
    assert batching.order_of_texts(["a", "ccc", "bb"], 2).tolist() == [1, 2, 0]
    pairs = {"text_a": np.array(["a", "bb"]), "text_b": ["dddd", "e"]}
    assert batching.order_of_texts(pairs, 1).tolist() == [0, 1]
    for x in (["a", "b"], [["a"], ["b"], ["c"]], [1, 2, 3], "abc"):
        assert batching.order_of_texts(x, 2) is None


def test_rows_are_padded_on_to_a_multiple_of_8_but_no_further_than_the_longest():
    x = {"token_ids": tf.ones([2, 9], tf.int32), "padding_mask": tf.ones([2, 9], bool)}
    x["label"] = tf.ones([2, 9])  # no tensor by token
    for longest, length in ((64, 16), (16, 16), (12, 12), (9, 9)):
        padded = batching.padded_evenly(x, longest)
        assert padded["token_ids"].shape == padded["padding_mask"].shape == (2, length)
        assert tf.reduce_all(padded["padding_mask"][:, :9])
        assert not tf.reduce_any(padded["padding_mask"][:, 9:])
        assert padded["label"].shape == (2, 9)
