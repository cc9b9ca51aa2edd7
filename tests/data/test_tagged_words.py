import doctest

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data import tagged_words
from keras_bert_impl.data.tagged_words import (
    array_of_rows,
    ragged_batches,
    ragged_words,
    word_labels,
    word_weights,
)

NAMES = ["O", "B-PER", "I-PER"]
WORDS = [["Jim", "went"], [], ["中"]]


@pytest.mark.parametrize(
    "x",
    [
        WORDS,
        [("Jim", "went"), (), ("中",)],
        [np.array(row, object) for row in WORDS],
        [np.array(row, "U4") for row in WORDS],
        array_of_rows(WORDS),
        tf.ragged.constant(WORDS, tf.string),
        tf.ragged.constant(WORDS, tf.string, row_splits_dtype=tf.int32),
        [[word.encode() for word in row] for row in WORDS],
    ],
)
def test_words_of_all_kinds_of_nesting(x):
    words = ragged_words(x)
    assert words.to_list() == [[b"Jim", b"went"], [], ["中".encode()]]
    assert words.row_splits.dtype == tf.int64


def test_words_of_dense_rows():
    for x in (np.array([["a", "b"], ["c", ""]]), tf.constant([["a", "b"], ["c", ""]])):
        assert ragged_words(x).to_list() == [[b"a", b"b"], [b"c", b""]]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([["a"], "b c"], "Row 1 of x is one string, 'b c'. Pass each row as a list"),
        ([["a"], 3], "Row 1 of x is 3, but was to be a list"),
        ([["a"], ["b", 3]], "Word 1 of row 1 is 3, but words are strings"),
        ([["a"], ["b", None]], "Word 1 of row 1 is None, but words are strings"),
        (tf.ragged.constant([[1], []]), "ragged strings of rank 2, but received int32 of rank 2"),
    ],
)
def test_what_is_no_word_is_named_by_its_row(x, message):
    with pytest.raises(ValueError, match=message):
        ragged_words(x)


@pytest.mark.parametrize(
    "y",
    [
        [["O", "I-PER"], [], ["B-PER"]],
        [[0, 2], [], [1]],
        [["O", 2], [], [np.int64(1)]],
        [np.array([0, 2]), np.array([]), np.array([1.0])],
        tf.ragged.constant([["O", "I-PER"], [], ["B-PER"]], tf.string),
        tf.ragged.constant([[0, 2], [], [1]]),
    ],
)
def test_labels_by_name_and_by_number(y):
    labels = word_labels(y, [2, 0, 1], 3, NAMES)
    assert labels.tolist() == [0, 2, 1]
    assert labels.dtype == np.int32


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["O"]], "There are 2 rows of words, but 1 of labels"),
        ([["O"], ["O"]], "Row 1 has 2 words, but 1 labels"),
        (["O", ["O", "O"]], "Row 0 of labels is one string, 'O'"),
        ([["O"], ["O", "B"]], "label of word 1 in row 1 is 'B', but must be .* one of O, B-PER"),
        ([["O"], ["O", 3]], "label of word 1 in row 1 is 3, but must be a number from 0 to 2"),
        ([["O"], ["O", -1]], "label of word 1 in row 1 is -1"),
        ([["O"], [0.5, 0]], "label of word 0 in row 1 is 0.5"),
        ([["O"], [None, 0]], "label of word 0 in row 1 is None"),
    ],
)
def test_wrong_labels_are_named_by_row_and_word(y, message):
    with pytest.raises(ValueError, match=message):
        word_labels(y, [1, 2], 3, NAMES)


def test_names_need_class_names():
    with pytest.raises(ValueError, match="row 0 is 'O', but must be a number from 0 to 2. A word"):
        word_labels([["O"]], [1], 3, None)


def test_weights_of_words_and_of_rows():
    assert word_weights(None, [2, 0, 1]).tolist() == [1, 1, 1]
    assert word_weights([2, 3, 0.5], [2, 0, 1]).tolist() == [2, 2, 0.5]
    assert word_weights([[2, 0], [], [0.5]], [2, 0, 1]).tolist() == [2, 0, 0.5]
    ragged = tf.ragged.constant([[2, 0], [], [0.5]])
    assert word_weights(ragged, [2, 0, 1]).tolist() == [2, 0, 0.5]
    with pytest.raises(ValueError, match="There are 2 rows of words, but 1 of weights"):
        word_weights([1.0], [2, 1])
    with pytest.raises(ValueError, match="Row 0 has 2 words, but 1 weights"):
        word_weights([[1.0], [1.0]], [2, 1])


def test_batches_hold_the_same_rows_of_all_parts():
    parts = (tf.ragged.constant([[1], [2, 2], [], [3]]), tf.ragged.constant([[4], [5, 5], [], [6]]))
    first, second = list(ragged_batches(parts, batch_size=3))
    assert [part.to_list() for part in first] == [[[1], [2, 2], []], [[4], [5, 5], []]]
    assert [part.to_list() for part in second] == [[[3]], [[6]]]

    rows = tf.ragged.constant([[i] * (i % 3) + [i] for i in range(40)])
    tf.random.set_seed(0)
    shuffled = ragged_batches(rows, batch_size=40, shuffle=True)
    orders = [[row[0] for row in next(iter(shuffled)).to_list()] for _ in range(2)]
    assert orders[0] != orders[1] != list(range(40))
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(40))


def test_docstring_examples():
    assert doctest.testmod(tagged_words) == (0, 2)
