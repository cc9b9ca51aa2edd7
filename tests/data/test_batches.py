import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.batches import (
    as_arrays,
    check_id_arrays,
    check_id_batch,
    dataset_of_arrays,
    refuse_tuple,
    split_arrays,
    with_known_length,
)


def read(dataset):
    return list(dataset.as_numpy_iterator())


def test_lists_become_arrays_inside_dicts():
    arrays = as_arrays({"text_a": ["x", "y"], "text_b": ["z", ""]})
    assert {name: type(value) for name, value in arrays.items()} == {
        "text_a": np.ndarray,
        "text_b": np.ndarray,
    }
    assert as_arrays(None) is None


def test_a_tuple_is_refused_and_a_pair_shown():
    with pytest.raises(ValueError, match='"text_a": strings, "text_b": strings'):
        refuse_tuple((["a"], ["b"]))
    assert refuse_tuple(["a", "b"]) == ["a", "b"]


def test_batches_are_in_order_and_the_last_is_smaller():
    batches = read(dataset_of_arrays(np.arange(5), np.arange(5) * 10, batch_size=2, shuffle=False))
    assert [x.tolist() for x, _ in batches] == [[0, 1], [2, 3], [4]]
    assert [y.tolist() for _, y in batches] == [[0, 10], [20, 30], [40]]


def test_weights_come_third():
    x, y, weight = next(
        iter(dataset_of_arrays(np.arange(2), np.arange(2), np.ones(2), batch_size=2, shuffle=False))
    )
    assert (x.shape, y.shape, weight.shape) == ((2,), (2,), (2,))


def test_each_reading_is_shuffled_anew_and_whole():
    dataset = dataset_of_arrays(np.arange(50), batch_size=50, shuffle=True)
    first, second = read(dataset)[0], read(dataset)[0]
    assert sorted(first) == sorted(second) == list(range(50))
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((np.array("one text"),), "a single text or number. Wrap it in a list"),
        ((np.arange(3), np.arange(2)), r"differ in rows: \[2, 3\]"),
        ((np.array([], str),), "x has no rows"),
    ],
)
def test_arrays_that_make_no_batches_are_refused(arrays, message):
    with pytest.raises(ValueError, match=message):
        dataset_of_arrays(*arrays, batch_size=2, shuffle=False)


def test_batches_of_unknown_number_are_counted():
    dataset = tf.data.Dataset.range(5).filter(lambda i: i != 3)
    assert dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY
    counted = with_known_length(dataset)
    assert int(counted.cardinality()) == 4
    assert read(counted) == [0, 1, 2, 4]


def test_endless_datasets_are_not_counted():
    endless = tf.data.Dataset.range(5).repeat()
    assert with_known_length(endless) is endless


def test_the_last_rows_are_held_out():
    x = {"text_a": list("abcdefgh"), "text_b": list("ijklmnop")}
    training, held_out = split_arrays(x, list(range(8)), None, 0.25)
    assert training[0]["text_b"].tolist() == list("ijklmn")
    assert held_out[0]["text_a"].tolist() == ["g", "h"]
    assert (training[1].tolist(), held_out[1].tolist()) == ([0, 1, 2, 3, 4, 5], [6, 7])
    assert training[2] is held_out[2] is None


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_a_split_with_an_empty_side_is_refused(share):
    with pytest.raises(ValueError, match=f"validation_split={share} of 4 rows"):
        split_arrays(["a", "b", "c", "d"], [0, 1, 2, 3], None, share)


TABLES = {"token_ids": 10, "segment_ids": 2}


def ids(**changes):
    x = {"token_ids": np.ones((3, 4), "int32"), "segment_ids": np.zeros((3, 4), "int32")}
    for name, ((row, column), value) in changes.items():
        x[name][row, column] = value
    return x


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_ids": ((1, 2), 10)}, "token_ids holds 10 in row 1, column 2, .* has 10 rows"),
        ({"token_ids": ((2, 3), -1)}, "token_ids holds -1 in row 2, column 3"),
        ({"segment_ids": ((0, 1), 2)}, "segment_ids holds 2 in row 0, column 1, .* has 2 rows"),
    ],
)
def test_ids_outside_their_table_stop_arrays_and_datasets(changes, message):
    x = ids(**changes)
    with pytest.raises(ValueError, match=message):
        check_id_arrays(x, TABLES, max_length=4)
    dataset = tf.data.Dataset.from_tensors(x).map(lambda x: check_id_batch(x, TABLES, 4))
    name = next(iter(changes))
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} points outside its table"):
        read(dataset)


def test_rows_longer_than_the_position_table_stop_arrays_and_datasets():
    message = "rows of 4 tokens, but the position table has 3 rows"
    with pytest.raises(ValueError, match=message):
        check_id_arrays(ids(), TABLES, max_length=3)
    dataset = tf.data.Dataset.from_tensors(ids()).map(lambda x: check_id_batch(x, TABLES, 3))
    with pytest.raises(tf.errors.InvalidArgumentError, match="position table of 3 rows"):
        read(dataset)


def test_ids_in_range_pass_unchanged():
    x = ids(token_ids=((0, 0), 9))
    check_id_arrays(x, TABLES, max_length=4)
    passed = check_id_batch(x, TABLES, 4)
    assert passed.keys() == x.keys()
    np.testing.assert_array_equal(passed["token_ids"], x["token_ids"])
