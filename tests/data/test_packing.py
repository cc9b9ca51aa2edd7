import ast
import importlib.util
import itertools
import pathlib
import random

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert_impl.data.packing import TRUNCATIONS, kept_lengths, pack, truncate_pair
from tests.data.fake_tokenizer import NumberTokenizer

TOKENIZER = NumberTokenizer()
LENGTHS = list(itertools.product(range(10), range(10)))


@pytest.fixture(scope="module")
def reference_truncate():
    """`_truncate_seq_pair` of the original, whose module itself needs TensorFlow 1."""
    folder = pathlib.Path(importlib.util.find_spec("bert").submodule_search_locations[0])
    tree = ast.parse((folder / "run_classifier.py").read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", "") == "_truncate_seq_pair"]
    namespace = {}
    exec(compile(tree, "run_classifier.py", "exec"), namespace)
    return namespace["_truncate_seq_pair"]


def pairs_of_all_lengths():
    first = [list(range(100, 100 + a)) for a, _ in LENGTHS]
    second = [list(range(200, 200 + b)) for _, b in LENGTHS]
    return first, second


def ragged(rows):
    return tf.ragged.constant(rows, dtype=tf.int32, ragged_rank=1)


@pytest.mark.parametrize("limit", range(14))
def test_longest_first_is_the_reference(reference_truncate, limit):
    first, second = pairs_of_all_lengths()
    ours = truncate_pair(ragged(first), ragged(second), limit)
    for a, b in zip(first, second, strict=True):
        reference_truncate(a, b, limit)
    assert ours[0].to_list() == first
    assert ours[1].to_list() == second


@pytest.mark.parametrize("limit", range(1, 14))
def test_round_robin_is_tensorflow_texts(limit):
    first, second = (ragged(rows) for rows in pairs_of_all_lengths())
    ours = truncate_pair(first, second, limit, "round_robin")
    theirs = tf_text.RoundRobinTrimmer(limit).trim([first, second])
    assert [x.to_list() for x in ours] == [x.to_list() for x in theirs]


@pytest.mark.parametrize("limit", range(14))
@pytest.mark.parametrize("truncation", ["only_first", "only_second"])
def test_only_one_gives_way(limit, truncation):
    for a, b in LENGTHS:
        lengths = tf.constant([a]), tf.constant([b])
        fixed = b if truncation == "only_first" else a
        if fixed > limit:
            whole = "second" if truncation == "only_first" else "first"
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"leaves the {whole} text"):
                kept_lengths(*lengths, limit, truncation)
            continue
        kept = [int(x[0]) for x in kept_lengths(*lengths, limit, truncation)]
        free = limit - fixed
        assert kept == ([min(a, free), b] if truncation == "only_first" else [a, min(b, free)])


def test_the_row_that_cannot_reach_the_limit_fails_in_a_graph_too():
    @tf.function
    def truncate(first, second):
        return truncate_pair(first, second, 4, "only_first")

    assert truncate(ragged([[1, 2, 3]]), ragged([[5, 6]]))[0].to_list() == [[1, 2]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="4 tokens there is room for"):
        truncate(ragged([[1, 2, 3]]), ragged([[5] * 5]))


def test_single_texts_by_hand():
    packed = pack(ragged([[5, 6], [], [7, 8, 9]]), sequence_length=6, tokenizer=TOKENIZER)
    assert packed["token_ids"].numpy().tolist() == [
        [2, 5, 6, 3, 0],
        [2, 3, 0, 0, 0],
        [2, 7, 8, 9, 3],
    ]
    assert packed["segment_ids"].numpy().tolist() == [[0] * 5] * 3
    assert packed["padding_mask"].numpy().tolist() == [
        [True, True, True, True, False],
        [True, True, False, False, False],
        [True, True, True, True, True],
    ]
    assert {name: x.dtype for name, x in packed.items()} == {
        "token_ids": tf.int32,
        "segment_ids": tf.int32,
        "padding_mask": tf.bool,
    }


def test_pairs_by_hand():
    packed = pack(
        ragged([[5, 6], [], [7, 8, 9]]),
        ragged([[10], [], [11, 12, 13, 14]]),
        sequence_length=8,
        tokenizer=TOKENIZER,
    )
    assert packed["token_ids"].numpy().tolist() == [
        [2, 5, 6, 3, 10, 3, 0, 0],
        [2, 3, 3, 0, 0, 0, 0, 0],
        [2, 7, 8, 9, 3, 11, 12, 3],
    ]
    assert packed["segment_ids"].numpy().tolist() == [
        [0, 0, 0, 0, 1, 1, 0, 0],
        [0, 0, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 1, 1],
    ]
    assert packed["padding_mask"].numpy().sum(axis=1).tolist() == [6, 3, 8]


def test_padding_to_the_longest_row_or_to_the_full_length():
    rows = ragged([[5], [5, 6]])
    longest = pack(rows, sequence_length=9, tokenizer=TOKENIZER)
    full = pack(rows, sequence_length=9, tokenizer=TOKENIZER, pad_to="max_length")
    assert longest["token_ids"].shape == (2, 4)
    assert full["token_ids"].shape == (2, 9)
    for name in longest:
        np.testing.assert_array_equal(full[name][:, :4], longest[name])
    assert full["padding_mask"][:, 4:].numpy().sum() == 0


def test_shapes_are_static_in_a_graph_where_asked():
    spec = tf.RaggedTensorSpec([3, None], tf.int32)

    @tf.function(input_signature=[spec, spec])
    def packed(first, second):
        rows = pack(first, second, sequence_length=7, tokenizer=TOKENIZER, pad_to="max_length")
        assert all(x.shape[1] == 7 for x in rows.values())
        return rows

    rows = ragged([[5], [6], [7]])
    assert packed(rows, rows)["token_ids"][2].numpy().tolist() == [2, 7, 3, 7, 3, 0, 0]


def test_long_texts_lose_their_ends_and_keep_the_last_separator():
    rng = random.Random(0)
    first = [[rng.randint(5, 99) for _ in range(rng.randint(0, 40))] for _ in range(50)]
    second = [[rng.randint(5, 99) for _ in range(rng.randint(0, 40))] for _ in range(50)]
    packed = pack(ragged(first), ragged(second), sequence_length=32, tokenizer=TOKENIZER)
    rows = tf.ragged.boolean_mask(packed["token_ids"], packed["padding_mask"]).to_list()
    for tokens, a, b in zip(rows, first, second, strict=True):
        assert len(tokens) == min(32, len(a) + len(b) + 3)
        end_of_a = tokens.index(3)
        assert tokens[0] == 2 and tokens[-1] == 3
        assert tokens[1:end_of_a] == a[: end_of_a - 1]
        assert tokens[end_of_a + 1 : -1] == b[: len(tokens) - end_of_a - 2]


def test_any_truncation_cuts_the_end_of_a_single_text():
    for truncation in TRUNCATIONS:
        packed = pack(
            ragged([[5, 6, 7, 8]]), sequence_length=4, tokenizer=TOKENIZER, truncation=truncation
        )
        assert packed["token_ids"].numpy().tolist() == [[2, 5, 6, 3]]


def test_dense_rows_and_lists_are_texts_of_that_many_tokens():
    for rows in ([[5, 6], [7, 8]], tf.constant([[5, 6], [7, 8]], tf.int64)):
        packed = pack(rows, sequence_length=8, tokenizer=TOKENIZER)
        assert packed["token_ids"].numpy().tolist() == [[2, 5, 6, 3], [2, 7, 8, 3]]


def test_an_empty_batch_stays_empty():
    packed = pack(ragged([]), ragged([]), sequence_length=8, tokenizer=TOKENIZER)
    assert packed["token_ids"].shape[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truncation": "shortest"}, "longest_first, round_robin, only_first, only_second"),
        ({"pad_to": "shortest"}, "longest, max_length"),
        ({"sequence_length": 3}, "no room for text beside 3 special tokens"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(ValueError, match=message):
        pack(
            ragged([[5]]),
            ragged([[6]]),
            **{"sequence_length": 8, "tokenizer": TOKENIZER, **options},
        )
    with pytest.raises(ValueError, match="beside 2 special"):
        pack(ragged([[5]]), sequence_length=2, tokenizer=TOKENIZER)
