import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.pretraining import pretraining_dataset
from keras_bert_impl.data.streams import dataset_of_streams, holds_own_rows, steps_in_a_row
from tests.data.fake_tokenizer import NumberTokenizer

DOCUMENTS = [[f"{word} {word + 1}" for word in range(d, d + 8, 2)] for d in range(10, 400, 10)]


def stream(number, start_step=0):
    documents = tf.data.Dataset.from_tensor_slices(tf.ragged.constant(DOCUMENTS))
    return pretraining_dataset(
        documents.shard(4, number),
        NumberTokenizer(),
        sequence_length=16,
        batch_size=2,
        max_predictions=3,
        shuffle_buffer=20,
        seed=number,
        start_step=start_step,
    )


def first(dataset, steps):
    return [[t.numpy() for t in tf.nest.flatten(batch)] for batch in dataset.take(steps)]


@pytest.fixture(scope="module")
def whole():
    return first(dataset_of_streams(stream, 4), 5)


def test_a_batch_is_rows_of_every_stream(whole):
    assert whole[0][0].shape[0] == 8
    parts = [first(stream(number), 5) for number in range(4)]
    for step, batch in enumerate(whole):
        for tensor, *of_streams in zip(batch, *(part[step] for part in parts), strict=True):
            np.testing.assert_array_equal(tensor, np.concatenate(of_streams))


@pytest.mark.parametrize("num_workers", [2, 4])
def test_workers_make_one_batch_together(whole, num_workers):
    parts = []
    for worker in range(num_workers):
        dataset = dataset_of_streams(stream, 4, worker=worker, num_workers=num_workers)
        assert holds_own_rows(dataset)
        assert dataset.element_spec[0]["token_ids"].shape == (8 // num_workers, 16)
        parts.append(first(dataset, 5))
    for step, batch in enumerate(whole):
        for tensor, *of_workers in zip(batch, *(part[step] for part in parts), strict=True):
            np.testing.assert_array_equal(tensor, np.concatenate(of_workers))


def test_a_worker_makes_its_own_streams_only():
    made = []

    def make(number):
        made.append(number)
        return tf.data.Dataset.from_tensors([number]).repeat()

    dataset = dataset_of_streams(make, 6, worker=1, num_workers=3)
    assert made == [2, 3]
    assert next(iter(dataset)).numpy().tolist() == [2, 3]


def test_a_late_start_is_the_rest(whole):
    rest = first(dataset_of_streams(lambda number: stream(number, 3), 4), 2)
    for batch, expected in zip(rest, whole[3:], strict=True):
        for tensor, other in zip(batch, expected, strict=True):
            np.testing.assert_array_equal(tensor, other)


def test_steps_in_a_row():
    dataset = tf.data.Dataset.range(12).batch(2, drop_remainder=True).map(lambda x: {"a": x})
    merged = steps_in_a_row(dataset, 3)
    assert merged.element_spec["a"].shape == (6,)
    assert [batch["a"].tolist() for batch in merged.as_numpy_iterator()] == [
        [0, 1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10, 11],
    ]


@pytest.mark.parametrize(("num_streams", "num_workers"), [(0, 1), (3, 2), (2, 4)])
def test_streams_must_divide(num_streams, num_workers):
    with pytest.raises(ValueError, match=f"num_streams={num_streams} must be a multiple of the"):
        dataset_of_streams(stream, num_streams, num_workers=num_workers)


def test_streams_of_several_machines_must_not_end():
    with pytest.raises(ValueError, match="must not end"):
        dataset_of_streams(lambda n: tf.data.Dataset.range(3).batch(1), 2, num_workers=2)
