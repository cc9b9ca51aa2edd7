import types

import pytest
import tensorflow as tf

from keras_bert_impl.data.marked_pieces import join_bits, mark, room_for_bits, split_bits, unmark
from keras_bert_impl.data.packing import pack
from keras_bert_impl.data.sentence_pairs import pairs_from_documents

SPECIAL = types.SimpleNamespace(cls_token_id=2, sep_token_id=3, pad_token_id=0)


def test_round_trip_dense_and_ragged():
    ids = tf.ragged.constant([[[5, 999], [0]], [], [[7]]], ragged_rank=2, dtype=tf.int32)
    bits = tf.ragged.constant([[[0, 3], [1]], [], [[2**20]]], ragged_rank=2, dtype=tf.int32)
    marked = mark(ids, bits, 1000)
    assert marked.to_list() == [[[5, 3999], [1000]], [], [[2**20 * 1000 + 7]]]
    assert [x.to_list() for x in unmark(marked, 1000)] == [ids.to_list(), bits.to_list()]
    dense = mark(ids.flat_values, bits.flat_values, 1000)
    assert [x.numpy().tolist() for x in unmark(dense, 1000)] == [[5, 999, 0, 7], [0, 3, 1, 2**20]]


def test_all_of_int32_is_used():
    assert [room_for_bits(size) for size in (1, 2, 3, 30522, 119547, 2**30)] == [
        31,
        30,
        29,
        16,
        14,
        1,
    ]
    for size in (1, 2, 30522, 119547, 2**30):
        most = 2 ** room_for_bits(size) - 1
        ids, bits = unmark(mark([0, size - 1], [most, most], size), size)
        assert ids.numpy().tolist() == [0, size - 1]
        assert bits.numpy().tolist() == [most, most]


def test_marks_travel_through_pairing_cutting_and_packing():
    pieces = [[[d * 100 + s * 10 + p for p in range(7)] for s in range(9)] for d in range(1, 6)]
    window = tf.ragged.constant(pieces, ragged_rank=2, dtype=tf.int32)
    bits = window.flat_values * 7 % 13
    marked = window.with_flat_values(mark(window.flat_values, bits, 1000))

    def row_of(texts):
        return pack(*texts[:2], sequence_length=20, tokenizer=SPECIAL)["token_ids"]

    options = {"max_tokens": 17, "seed": (1, 2)}
    token_ids, bits = unmark(row_of(pairs_from_documents(marked, **options)), 1000)
    expected = row_of(pairs_from_documents(window, **options))
    assert token_ids.numpy().tolist() == expected.numpy().tolist()
    is_piece = expected >= 100
    assert tf.reduce_all(bits == tf.where(is_piece, expected * 7 % 13, 0))
    assert tf.reduce_any(~is_piece)


def test_several_marks_in_one():
    marks = [tf.constant([1, 0, 1]), tf.constant([True, False, True]), tf.constant([200, 255, 0])]
    joined = join_bits(marks, widths=[1, 1, 8])
    assert joined.numpy().tolist() == [803, 1020, 3]
    split = split_bits(joined, widths=[1, 1, 8])
    assert [x.numpy().tolist() for x in split] == [[1, 0, 1], [1, 0, 1], [200, 255, 0]]
    ragged = tf.ragged.constant([[1, 0], [1]])
    assert split_bits(join_bits([ragged, 2 * ragged], [1, 2]), [1, 2])[1].to_list() == [[2, 0], [2]]
    with pytest.raises(ValueError):
        join_bits(marks, widths=[1])


@pytest.mark.parametrize("eager", [True, False])
def test_what_has_no_room_is_refused(eager):
    for ids, bits, message in (
        ([5], [2**16], "Marks must be from 0 to 65535: beside a vocabulary of 30522"),
        ([5], [-1], "Marks must be from 0"),
        ([30522], [0], "outside of a vocabulary of 30522"),
        ([-1], [0], "outside of a vocabulary"),
    ):
        function = mark if eager else tf.function(mark)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            function(tf.constant(ids), tf.constant(bits), 30522)
    with pytest.raises(ValueError, match="vocabulary_size=2000000000 leaves no bit"):
        mark([5], [0], 2 * 10**9)
    with pytest.raises(ValueError, match="vocabulary_size=0 leaves no bit"):
        room_for_bits(0)
