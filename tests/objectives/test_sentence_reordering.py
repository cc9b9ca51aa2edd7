import functools
import itertools
import random
from math import factorial

import pytest

from keras_bert_impl.objectives.sentence_reordering import num_classes, reordered_paragraphs
from tests.documents import (
    assert_same_everywhere,
    assert_shares,
    make_documents,
    rows,
    rows_of_maker,
    window_of,
)

rows_at = functools.partial(rows_of_maker, reordered_paragraphs)


def orders(max_segments):
    """The order of each class, as the docstring numbers them."""
    return [
        order
        for n in range(1, max_segments + 1)
        for order in sorted(itertools.permutations(range(n)))
    ]


def can_be(text, sentences, order):
    """Whether some cut of the sentences into segments, put in this order, gives the text."""
    for cuts in itertools.combinations(range(1, len(sentences)), len(order) - 1):
        bounds = [0, *cuts, len(sentences)]
        segments = [sentences[bounds[i] : bounds[i + 1]] for i in range(len(order))]
        if text == [p for i in order for sentence in segments[i] for p in sentence]:
            return True
    return False


def test_the_numbering_in_the_docstring():
    assert orders(3)[0] == (0,) and orders(3)[2] == (1, 0) and orders(3)[6] == (1, 2, 0)
    assert [num_classes(m) for m in (1, 2, 3, 4)] == [1, 3, 9, 33]
    assert [len(orders(m)) for m in (1, 2, 3, 4)] == [1, 3, 9, 33]


@pytest.mark.parametrize("max_segments", [1, 2, 3, 4])
def test_the_label_is_the_order_of_the_segments(max_segments):
    documents = make_documents([1, 2, 25, 7, 0, 3, 1, 9], random.Random(1), longest=6)
    documents[2].insert(5, [])
    sentences = {s[0]: s for document in documents for s in document if s}
    document_of = {p: d for d, doc in enumerate(documents) for s in doc for p in s}
    every_piece = sorted(document_of)
    seen = set()
    for made in rows_at(documents, 12, max_tokens=30, max_segments=max_segments):
        used = []
        for text, second, label in made:
            assert second is None
            seen.add(label)
            paragraph = sorted(text)
            used += paragraph
            assert len({document_of[p] for p in text}) == 1 and len(text) <= 30
            own, begin = [], paragraph[0]
            while begin <= paragraph[-1]:
                own.append(sentences[begin])  # a sentence begins here
                begin += len(sentences[begin])
            if begin == paragraph[-1] + 1:  # else a sentence too long for its target
                assert can_be(text, own, orders(max_segments)[label])
            else:
                assert len(own) == 1 and label == 0 and text == own[0][: len(text)]
        missing = set(every_piece) - set(used)
        assert len(used) == len(set(used)) and used == sorted(used)
        assert all(p - 1 in missing or p - 1 in used for p in missing)  # only ends are cut
    assert seen <= set(range(num_classes(max_segments)))
    assert len(seen) > num_classes(max_segments) / 2


def test_shares_of_classes_and_boundaries():
    documents = [[[d * 10 + s] for s in range(5)] for d in range(1, 41)]
    labels, halves, thirds = [], [], []
    for made in rows_at(documents, 120, max_tokens=5, short_sequence_probability=0.0):
        assert len(made) == 40
        for text, _, label in made:
            labels.append(label)
            places = [p % 10 for p in text]
            if label == 2:  # the second half first: it begins with where the boundary was
                halves.append(places[0])
            if label == 8:  # the last third first, then the middle one
                thirds.append((places[places.index(4) + 1], places[0]))
    assert_shares(labels, {c: 1 / 3 / factorial(len(order)) for c, order in enumerate(orders(3))})
    assert_shares(halves, dict.fromkeys(range(1, 5), 1 / 4))
    assert_shares(thirds, dict.fromkeys(itertools.combinations(range(1, 5), 2), 1 / 6))


def test_fewer_sentences_than_segments():
    documents = [[[d * 10 + s] for s in range(2)] for d in range(1, 41)]
    labels = [
        label
        for made in rows_at(documents, 60, max_tokens=2, short_sequence_probability=0.0)
        for *_, label in made
    ]
    assert_shares(labels, {0: 1 / 2, 1: 1 / 4, 2: 1 / 4})


def test_a_paragraph_is_what_fits_whole():
    documents = make_documents([60], random.Random(3), longest=9)
    lengths = [len(sentence) for sentence in documents[0]]
    expected = [0]
    for length in lengths:
        if expected[-1] + length > 20:
            expected.append(0)
        expected[-1] += length
    (made,) = rows_at(documents, 1, max_tokens=20, short_sequence_probability=0.0)
    assert [len(text) for text, *_ in made] == expected


def test_a_sentence_over_the_target_loses_its_end():
    (made,) = rows_at([[[5, 6, 7, 8], [9]]], 1, max_tokens=3, short_sequence_probability=0.0)
    assert [text for text, *_ in made] == [[5, 6, 7], [9]]


@pytest.mark.parametrize("documents", [[], [[]], [[[]], []]])
def test_nothing_makes_no_row(documents):
    assert rows(reordered_paragraphs(window_of(documents), max_tokens=20, seed=(0, 0))) == []


def test_eager_graph_and_dataset_agree_and_steps_differ():
    window = window_of(make_documents([4, 9, 20, 1], random.Random(10)))
    assert_same_everywhere(
        lambda step: reordered_paragraphs(window, max_tokens=25, seed=(11, step))
    )


def test_impossible_arguments():
    with pytest.raises(ValueError, match="max_segments=0 must be at least 1"):
        reordered_paragraphs(window_of([[[5]]]), max_tokens=9, max_segments=0, seed=(0, 0))
