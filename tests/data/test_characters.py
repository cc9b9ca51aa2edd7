import doctest

import pytest
import tensorflow as tf

from keras_bert_impl.data import characters
from keras_bert_impl.data.characters import (
    NUM_CHARACTERS,
    mark_characters,
    sentence_characters,
    word_characters,
)

BEGIN, END, FILL = 259, 260, 261


def brute_force(word, size):
    numbers = [byte + 1 for byte in word.encode("utf-8")][: size - 2]
    numbers = [BEGIN, *numbers, END]
    return numbers + [FILL] * (size - len(numbers))


WORDS = [["the", "café", ""], [], ["\u4eba", "a" * 60, "\x00\x7f"]]


@pytest.mark.parametrize("size", [3, 7, 50])
def test_bytes_between_marks_cut_and_filled_up(size):
    ours = word_characters(tf.ragged.constant(WORDS), max_characters=size)
    assert ours.dtype == tf.int32
    assert ours.to_list() == [[brute_force(word, size) for word in row] for row in WORDS]
    assert ours.values.shape[-1] == size


def test_every_byte_has_its_number():
    numbers = word_characters(tf.ragged.constant([[bytes([i])] for i in range(256)]), 4)
    assert numbers.to_tensor()[:, 0, 1].numpy().tolist() == list(range(1, 257))
    assert int(tf.reduce_max(numbers.values)) == NUM_CHARACTERS - 1


def test_no_words_at_all():
    nothing = tf.RaggedTensor.from_row_lengths(tf.constant([], tf.string), [0, 0])
    assert word_characters(nothing).to_list() == [[], []]
    numbers, mask = sentence_characters(nothing)
    assert numbers.shape == (2, 2, 50)
    assert mask.numpy().all()


def test_sentences_stand_between_marks():
    numbers, mask = sentence_characters(tf.ragged.constant([["hi", "you"], []]), 6)
    first, last = [259, 257, 260, 261, 261, 261], [259, 258, 260, 261, 261, 261]
    nothing = [0] * 6
    assert numbers.numpy().tolist() == [
        [first, brute_force("hi", 6), brute_force("you", 6), last],
        [first, last, nothing, nothing],
    ]
    assert mask.numpy().tolist() == [[True] * 4, [True, True, False, False]]
    assert mark_characters(257, 6).numpy().tolist() == first


def test_rows_can_be_of_one_length_in_a_graph():
    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.string)])
    def graph(words):
        numbers, mask = sentence_characters(words, 6, length=5)
        assert numbers.shape.as_list() == [None, 5, 6]
        assert mask.shape.as_list() == [None, 5]
        return numbers, mask

    words = tf.ragged.constant([["hi"], ["b", "c"]]).with_row_splits_dtype(tf.int64)
    numbers, mask = graph(words)
    assert mask.numpy().sum(axis=1).tolist() == [3, 4]
    assert numbers[0, 1].numpy().tolist() == brute_force("hi", 6)


def test_too_few_characters_are_refused():
    with pytest.raises(ValueError, match="max_characters=2 leaves no room"):
        word_characters(tf.ragged.constant([["a"]]), 2)


def test_docstring_examples():
    assert doctest.testmod(characters) == (0, 4)
