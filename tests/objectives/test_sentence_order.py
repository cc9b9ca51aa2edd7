import functools
import random

import pytest

from keras_bert_impl.objectives.sentence_order import IN_ORDER, SWAPPED, sentence_order_pairs
from tests.documents import (
    assert_same_everywhere,
    assert_shares,
    make_documents,
    rows,
    rows_of_maker,
    window_of,
)

pairs_of_steps = functools.partial(rows_of_maker, sentence_order_pairs)


@pytest.mark.parametrize("max_tokens", [2, 7, 30, 10_000])
def test_a_pair_is_two_neighbours_and_the_label_their_order(max_tokens):
    documents = make_documents([1, 2, 30, 7, 0, 3, 1, 15], random.Random(1))
    documents[2].insert(5, [])  # a sentence without pieces
    document_of = {p: d for d, doc in enumerate(documents) for sentence in doc for p in sentence}
    begins = {sentence[0] for doc in documents for sentence in doc if sentence}
    ends = {sentence[-1] for doc in documents for sentence in doc if sentence}
    labels = set()
    for pairs in pairs_of_steps(documents, 20, max_tokens=max_tokens):
        for first, second, label in pairs:
            labels.add(label)
            assert first and second and len(first) + len(second) <= max_tokens
            for text in (first, second):
                assert text == list(range(text[0], text[0] + len(text)))  # without a gap
            assert len({document_of[p] for p in first + second}) == 1
            earlier, later = (first, second) if label == IN_ORDER else (second, first)
            assert earlier[-1] < later[0]
            if max_tokens == 10_000:  # nothing is cut: whole sentences, one right after the other
                assert earlier[-1] + 1 == later[0]
                assert {earlier[0], later[0]} <= begins and {earlier[-1], later[-1]} <= ends
    assert labels == {IN_ORDER, SWAPPED}


def test_chunks_tile_the_documents_but_for_a_last_single_sentence():
    documents = make_documents([1, 2, 30, 7, 3, 1, 15], random.Random(2))
    lost = 0
    # no document has so many pieces, so nothing is cut
    for pairs in pairs_of_steps(documents, 20, max_tokens=250, short_sequence_probability=1.0):
        used = sorted(p for first, second, _ in pairs for p in first + second)
        expected = []
        for document in documents:
            pieces = [p for sentence in document for p in sentence]
            if document[-1][0] not in used:
                pieces = pieces[: -len(document[-1])]
                lost += len(document) > 1
            expected += pieces
        assert used == expected
    assert lost > 0


@pytest.mark.parametrize("swap_probability", [0.5, 0.2])
def test_shares(swap_probability):
    documents = [[[d * 10 + i] for i in range(5)] for d in range(1, 41)]
    labels, sizes = [], []
    for pairs in pairs_of_steps(
        documents,
        50,
        max_tokens=5,
        short_sequence_probability=0.0,
        swap_probability=swap_probability,
    ):
        assert len(pairs) == 40
        labels += [label for _, _, label in pairs]
        sizes += [len(second if label else first) for first, second, label in pairs]
    assert_shares(labels, {SWAPPED: swap_probability, IN_ORDER: 1 - swap_probability})
    assert_shares(sizes, dict.fromkeys(range(1, 5), 1 / 4))  # cut at a random sentence


def test_chunks_reach_the_target():
    documents = [[[i] for i in range(5, 104)]]  # 99 sentences of a piece
    (pairs,) = pairs_of_steps(documents, 1, max_tokens=10, short_sequence_probability=0.0)
    assert [len(first) + len(second) for first, second, _ in pairs] == [10] * 9 + [9]


def test_a_chunk_has_two_sentences_even_over_the_target():
    documents = [[[5] * 9, [6] * 9, [7] * 9, [8] * 9]]
    (pairs,) = pairs_of_steps(documents, 1, max_tokens=8)
    assert [sorted(first + second) for first, second, _ in pairs] == [
        [5] * 4 + [6] * 4,
        [7] * 4 + [8] * 4,
    ]


@pytest.mark.parametrize("documents", [[], [[]], [[[]], []], [[[5, 6]]], [[[5]], [[6]]]])
def test_no_neighbours_no_pair(documents):
    assert rows(sentence_order_pairs(window_of(documents), max_tokens=20, seed=(0, 0))) == []


def test_eager_graph_and_dataset_agree_and_steps_differ():
    window = window_of(make_documents([4, 9, 20, 1], random.Random(10)))
    assert_same_everywhere(
        lambda step: sentence_order_pairs(window, max_tokens=25, seed=(11, step))
    )


def test_impossible_arguments():
    with pytest.raises(ValueError, match="max_tokens=1 must be at least 2"):
        sentence_order_pairs(window_of([[[5]]]), max_tokens=1, seed=(0, 0))
    with pytest.raises(ValueError, match="documents, sentences, pieces"):
        sentence_order_pairs(window_of([[[5]]])[0], max_tokens=9, seed=(0, 0))
