import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.objectives.dataset import objectives_dataset
from keras_bert_impl.objectives.discourse_relation import DiscourseRelation
from keras_bert_impl.objectives.given_rows import documents_of_rows
from keras_bert_impl.objectives.ir_relevance import NONE, STRONG, WEAK, IRRelevance
from keras_bert_impl.objectives.token_document_relation import TokenDocumentRelation
from tests import small

CLICKS = [
    ("the cat", "cat sat", True),
    ("a dog", "dog ran", True),
    ("the cat", "mat", False),
    ("mat", "a b c", True),
    ("a dog", "cat sat", False),
]
PAIRS = [("the cat sat", "a dog ran", 1), ("cat", "dog", 0), ("mat", "on the mat", 1)]


@pytest.fixture(scope="module")
def objectives():
    return [
        TokenDocumentRelation(),
        IRRelevance(click_log=list(zip(*CLICKS, strict=True))),
        DiscourseRelation(["but", "so"], pairs=list(zip(*PAIRS, strict=True))),
    ]


def dataset(objectives, **options):
    documents = [["never read", "x y z"]]
    options = {"sequence_length": 16, "shuffle_buffer": 20, "seed": 5} | options
    return objectives_dataset(documents, small.tokenizer(), objectives, **options)


def texts_of(ids):
    words = " ".join(small.VOCABULARY[i] for i in ids)
    first, second = words.removeprefix("[CLS] ").split(" [SEP]")[:2]
    return first, second.strip()


def test_rows_are_those_of_the_files(objectives):
    seen = {"ir_relevance": [], "discourse_relation": []}
    data = dataset(objectives, batch_size=1, repeat=False, drop_remainder=False)
    for x, y, weights in data.as_numpy_iterator():
        name = next(name for name in seen if weights[name].any())
        seen[name].append((*texts_of(x["token_ids"][0]), int(y[name][0])))
        assert not weights["token_document_relation"].any()
    assert sorted(seen["discourse_relation"]) == sorted(PAIRS)

    label_of = {(q, t): STRONG if clicked else WEAK for q, t, clicked in CLICKS}
    assert sorted(q for q, _, _ in seen["ir_relevance"]) == sorted(q for q, _, _ in CLICKS)
    for query, title, label in seen["ir_relevance"]:
        assert label == label_of.get((query, title), NONE)


def test_they_begin_at_any_step(objectives):
    whole = list(dataset(objectives, batch_size=2).take(12).as_numpy_iterator())
    part = list(dataset(objectives, batch_size=2, start_step=7).take(5).as_numpy_iterator())
    for one, other in zip(whole[7:], part, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)
    assert {int(label) for _, y, _ in whole for label in y["ir_relevance"]} == {0, 1, 2}


def test_they_are_no_part_of_the_config(objectives):
    for objective in objectives[1:]:
        again = type(objective).from_config(objective.get_config())
        assert again.documents is None
        assert again.get_config() == objective.get_config()


def test_impossible_rows():
    with pytest.raises(ValueError, match="the label 2, but there are 2 connectives"):
        DiscourseRelation(["but", "so"], pairs=(["a"], ["b"], [2]))
    with pytest.raises(ValueError, match=r"The columns have \[1, 2\] rows"):
        documents_of_rows([["a"], ["b", "c"]])
    with pytest.raises(ValueError, match="at least one"):
        documents_of_rows([[], []])
