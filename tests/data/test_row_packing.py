"""Rows of several examples: each example once and whole, rows full, batches of one shape."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data import row_packing
from keras_bert_impl.data.row_packing import pack_rows, packed_batches, packed_rows


def examples(lengths, width=None):
    """(x, numbers): example i is length i tokens 100 i, 100 i + 1, ... in segment i % 2."""
    lengths = np.asarray(lengths)
    mask = np.arange(width or lengths.max()) < lengths[:, None]
    number = np.arange(len(lengths), dtype="int32")
    ids = np.where(mask, 100 * number[:, None] + np.arange(mask.shape[1]), 0)
    segments = np.where(mask, number[:, None] % 2, 0)
    x = {"token_ids": ids, "segment_ids": segments}
    return {**{n: a.astype("int32") for n, a in x.items()}, "padding_mask": mask}, number


def first_fit(lengths, row_length, examples_per_row):
    """The same by the book, in Python."""
    rows = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        for row in rows:
            room = row_length - sum(lengths[j] for j in row)
            if room >= lengths[i] and len(row) < examples_per_row:
                row.append(i)
                break
        else:
            rows.append([i])
    return rows


@pytest.mark.parametrize(
    ("lengths", "row_length", "examples_per_row"),
    [
        (np.random.default_rng(0).integers(1, 33, 150), 32, 8),
        (np.random.default_rng(1).integers(1, 6, 60), 32, 3),  # more than slots
        ([5, 3, 5, 2, 5], 5, 4),  # as long as a row
        ([4], 9, 2),  # one example alone
        ([3, 3, 2], 9, 1),
    ],
)
def test_rows_are_those_of_first_fit_decreasing(lengths, row_length, examples_per_row):
    x, number = examples(lengths)
    sizes = {"row_length": row_length, "examples_per_row": examples_per_row}
    packed, (numbers, weights) = pack_rows(x, (number, np.ones(len(number), "float32")), **sizes)
    packed = {name: tensor.numpy() for name, tensor in packed.items()}
    expected = first_fit(lengths, row_length, examples_per_row)
    assert packed["num_examples"].tolist() == [len(row) for row in expected]
    assert packed["token_ids"].shape == (len(expected), row_length)
    assert packed["cls_positions"].shape == numbers.shape == (len(expected), examples_per_row)
    for r, row in enumerate(expected):
        tokens = [100 * i + j for i in row for j in range(lengths[i])]
        padding = [0] * (row_length - len(tokens))
        assert packed["token_ids"][r].tolist() == tokens + padding
        assert packed["padding_mask"][r].tolist() == [True] * len(tokens) + [False] * len(padding)
        segments = [i % 2 for i in row for _ in range(lengths[i])]
        assert packed["segment_ids"][r].tolist() == segments + padding
        positions = [j for i in row for j in range(lengths[i])]
        assert packed["position_ids"][r].tolist() == positions + padding
        sequences = [k + 1 for k, i in enumerate(row) for _ in range(lengths[i])]
        assert packed["sequence_ids"][r].tolist() == sequences + padding
        begins = np.cumsum([0, *(lengths[i] for i in row)])[:-1].tolist()
        absent = [0] * (examples_per_row - len(row))
        assert packed["cls_positions"][r].tolist() == begins + absent
        assert numbers[r].numpy().tolist() == row + absent
        assert weights[r].numpy().tolist() == [1] * len(row) + absent


@pytest.mark.parametrize(("mean", "row_length"), [(25, 128), (25, 512), (150, 512)])
def test_rows_are_full(mean, row_length):
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.gamma(3, mean / 3, row_packing.POOL_EXAMPLES), 4, row_length)
    x, _ = examples(lengths.astype(int), row_length)
    x, _ = pack_rows(x, row_length=row_length, examples_per_row=row_length // 8)
    assert x["padding_mask"].numpy().mean() > 0.98


def test_an_example_that_fits_no_row_is_an_error():
    x, _ = examples([3, 6])
    message = r"must have 1 to row_length=5 tokens, but have'\n3, 6"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        pack_rows(x, row_length=5, examples_per_row=2)
    with pytest.raises(ValueError, match="row_length=0 must be at least 1"):
        pack_rows(x, row_length=0, examples_per_row=2)
    with pytest.raises(ValueError, match="examples_per_row=0 must be at least 1"):
        packed_rows(tf.data.Dataset.from_tensors((x, ())), row_length=6, examples_per_row=0)


def test_batches_have_one_shape_and_every_example_once():
    lengths = np.random.default_rng(2).integers(2, 12, 90)
    x, number = examples(lengths, 12)
    pools = tf.data.Dataset.from_tensor_slices((x, number)).batch(40)
    tf.random.set_seed(4)
    batches = packed_batches(pools, 4, shuffle=True, row_length=12, examples_per_row=3)
    shapes = tf.nest.map_structure(lambda spec: spec.shape.as_list(), batches.element_spec)
    assert shapes[0]["token_ids"] == [4, 12] and shapes[1] == shapes[2] == [4, 3]
    epochs = []
    for _ in range(2):
        seen, num_batches = [], 0
        for x, y, weights in batches.as_numpy_iterator():
            seen += y[weights > 0].tolist()
            assert (weights.sum(axis=1) == x["num_examples"]).all()
            num_batches += 1
        assert sorted(seen) == number.tolist()
        epochs.append((num_batches, seen))
    assert epochs[0][0] == epochs[1][0]  # as `fit` must know
    assert epochs[0][1] != epochs[1][1]


def test_targets_of_tokens_go_with_their_tokens():
    x, _ = examples([3, 4, 2], 5)
    pools = tf.data.Dataset.from_tensors((x, x["token_ids"], x["padding_mask"] * 1.0))
    sizes = {"row_length": 6, "examples_per_row": 2}
    made = list(packed_batches(pools, 3, shuffle=False, targets_by_token=True, **sizes))
    assert len(made) == 1 and "y" not in made[0][0]
    x, y, weights = tf.nest.map_structure(np.array, made[0])
    np.testing.assert_array_equal(y, x["token_ids"])
    np.testing.assert_array_equal(weights, x["padding_mask"])
    assert x["num_examples"].tolist() == [2, 1, 0]  # the last row only fills the batch
