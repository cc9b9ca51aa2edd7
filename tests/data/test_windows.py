import ast
import collections
import importlib.util
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.windows import cut_windows, is_best_window, windows

LENGTHS = [*range(40), 257, 300]


def lists(result):
    return [x.numpy().tolist() for x in result]


def reference_windows(length, room, stride):
    """The loop of run_squad.py, `convert_examples_to_features`, stated again."""
    spans, start = [], 0
    while start < length:
        spans.append((start, min(length - start, room)))
        if start + spans[-1][1] == length:
            break
        start += min(spans[-1][1], stride)
    return spans


@pytest.fixture(scope="module")
def reference_is_best():
    """`_check_is_max_context` of the original, whose module itself needs TensorFlow 1."""
    folder = pathlib.Path(importlib.util.find_spec("bert").submodule_search_locations[0])
    tree = ast.parse((folder / "run_squad.py").read_text())
    tree.body = [x for x in tree.body if getattr(x, "name", "") == "_check_is_max_context"]
    namespace = {}
    exec(compile(tree, "run_squad.py", "exec"), namespace)
    return namespace["_check_is_max_context"]


def test_windows_by_hand():
    row, start, length = lists(windows([10, 0, 4, 5], room=4, stride=2))
    assert row == [0, 0, 0, 0, 1, 2, 3, 3]
    assert start == [0, 2, 4, 6, 0, 0, 0, 2]
    assert length == [4, 4, 4, 4, 0, 4, 4, 3]


@pytest.mark.parametrize(("room", "stride"), [(1, 1), (5, 1), (5, 2), (5, 5), (5, 9), (300, 128)])
def test_windows_are_the_references(room, stride):
    row, start, length = lists(windows(LENGTHS, room, stride))
    ours = collections.defaultdict(list)
    for values in zip(row, start, length, strict=True):
        ours[values[0]].append(values[1:])
    assert row == sorted(row)
    for i, row_length in enumerate(LENGTHS):
        assert ours[i] == (reference_windows(row_length, room, stride) or [(0, 0)])


def test_each_row_may_have_its_own_room():
    row, start, length = lists(windows([6, 6], room=[4, 2], stride=3))
    assert row == [0, 0, 1, 1, 1]
    assert start == [0, 3, 0, 2, 4]
    assert length == [4, 3, 2, 2, 2]


def test_the_best_window_by_hand():
    """Windows 0-3, 2-5 and 4-6 of seven tokens."""
    best = is_best_window(windows([7], room=4, stride=2), [7]).to_list()
    assert best == [
        [True, True, True, False],
        [False, True, True, False],
        [False, True, True],
    ]


@pytest.mark.parametrize(
    ("room", "stride"), [(1, 1), (5, 1), (5, 2), (4, 3), (7, 9), (120, 50), (210, 200)]
)
def test_the_best_window_is_the_references(reference_is_best, room, stride):
    span = collections.namedtuple("span", ["start", "length"])
    made = windows(LENGTHS, room, stride)
    expected = []
    for length in LENGTHS:
        spans = [span(*x) for x in reference_windows(length, room, stride)]
        expected += [
            [reference_is_best(spans, i, s.start + j) for j in range(s.length)]
            for i, s in enumerate(spans)
        ] or [[]]
    assert is_best_window(made, LENGTHS).to_list() == expected


def test_every_token_has_one_best_window():
    draw = np.random.default_rng(0)
    lengths, room = draw.integers(0, 200, 50), draw.integers(1, 40, 50)
    made = windows(lengths, room, stride=7)
    best = is_best_window(made, lengths)
    tokens = [
        (row, start + offset)
        for row, start, flags in zip(*lists(made[:2]), best.to_list(), strict=True)
        for offset, flag in enumerate(flags)
        if flag
    ]
    assert sorted(tokens) == [(i, j) for i, n in enumerate(lengths) for j in range(n)]


def test_the_values_of_windows():
    rows = tf.ragged.constant([[0, 1, 2, 3, 4], [], [5]], dtype=tf.int32)
    made = windows(rows.row_lengths(), room=3, stride=2)
    assert cut_windows(rows, made).to_list() == [[0, 1, 2], [2, 3, 4], [], [5]]


def test_no_rows_have_no_windows():
    made = windows(tf.zeros([0], tf.int64), room=3, stride=2)
    assert lists(made) == [[], [], []]
    assert is_best_window(made, tf.zeros([0], tf.int64)).to_list() == []


def test_the_same_in_a_graph_of_unknown_shape():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def both(lengths):
        made = windows(lengths, room=4, stride=2)
        return made, is_best_window(made, lengths)

    made, best = both(tf.constant([7, 0, 4]))
    eager = windows([7, 0, 4], room=4, stride=2)
    assert lists(made) == lists(eager)
    assert best.to_list() == is_best_window(eager, [7, 0, 4]).to_list()
    assert {x.dtype for x in made} == {tf.int64}


def test_windows_that_cannot_move_or_hold_a_token_are_refused():
    with pytest.raises(ValueError, match="stride=0 must be at least 1"):
        windows([5], room=3, stride=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no room for a token"):
        windows([5, 5], room=[3, 0], stride=1)
