import functools
import random
from collections import defaultdict

import pytest

from keras_bert_impl.objectives.sentence_distance import (
    ADJACENT,
    OTHER_DOCUMENT,
    SAME_DOCUMENT,
    sentence_distance_pairs,
)
from tests.documents import (
    assert_same_everywhere,
    assert_shares,
    make_documents,
    rows,
    rows_of_maker,
    window_of,
)

pairs_of_steps = functools.partial(rows_of_maker, sentence_distance_pairs)


class Places:
    """Where a text of whole sentences stands: (document, first sentence, one after the last)."""

    def __init__(self, documents):
        self.begins, self.ends = {}, {}
        for d, document in enumerate(documents):
            for s, sentence in enumerate(document):
                self.begins[sentence[0]] = (d, s)
                self.ends[sentence[-1]] = (d, s + 1)

    def of(self, text):
        assert text == list(range(text[0], text[0] + len(text)))
        (d, start), (same, end) = self.begins[text[0]], self.ends[text[-1]]
        assert d == same
        return d, start, end


def true_label(a, b):
    if a[0] != b[0]:
        return OTHER_DOCUMENT
    if b[1] == a[2]:
        return ADJACENT
    assert b[1] > a[2] or b[2] < a[1], "texts of one document neither touch nor overlap"
    return SAME_DOCUMENT


def starts_of(label, a, documents):
    """All sentences at which B of this label may begin."""
    d, start, end = a
    if label == ADJACENT:
        return [(d, s) for s in [end] if s < len(documents[d])]
    if label == SAME_DOCUMENT:
        return [(d, s) for s in range(len(documents[d])) if s < start - 1 or s > end]
    return [(e, s) for e in range(len(documents)) if e != d for s in range(len(documents[e]))]


SIZES = [1, 2, 3, 30, 7, 5, 1, 15]


def test_labels_are_the_distance_and_even_among_those_possible():
    documents = make_documents(SIZES, random.Random(1))
    places = Places(documents)
    labels = defaultdict(list)
    # two documents have fewer pieces together, so nothing is cut
    for made in pairs_of_steps(documents, 150, max_tokens=400, short_sequence_probability=1.0):
        for first, second, label in made:
            a, b = places.of(first), places.of(second)
            assert label == true_label(a, b)
            assert (b[0], b[1]) in starts_of(label, a, documents)
            possible = tuple(c for c in range(3) if starts_of(c, a, documents))
            labels[possible].append(label)
    assert {(0, 1, 2), (0, 2), (2,), (1, 2)} == set(labels)
    for possible, drawn in labels.items():
        assert_shares(drawn, {label: 1 / len(possible) for label in possible})


def test_b_begins_anywhere_with_the_same_chance():
    documents = [[[d * 100 + s] for s in range(6)] for d in range(1, 4)]
    starts = defaultdict(list)
    for made in pairs_of_steps(documents, 700, max_tokens=2):
        for (a,), (b,), label in made:
            if a % 100 == 3:  # a sentence a text
                starts[label].append(
                    b - a // 100 * 100 if label == SAME_DOCUMENT else (a // 100, b)
                )
    assert_shares(starts[SAME_DOCUMENT], {0: 1 / 3, 1: 1 / 3, 5: 1 / 3})  # not 2 and 4, next to 3
    for document in (1, 2, 3):
        others = [b for d, b in starts[OTHER_DOCUMENT] if d == document]
        expected = {e * 100 + s: 1 / 12 for e in (1, 2, 3) if e != document for s in range(6)}
        assert_shares(others, expected, errors=3.5)


def test_the_texts_tile_the_documents():
    documents = make_documents(SIZES, random.Random(2))
    every_piece = [p for document in documents for sentence in document for p in sentence]
    for made in pairs_of_steps(documents, 20, max_tokens=400, short_sequence_probability=1.0):
        used = []
        for a, b, label in made:
            used += a + (b if label == ADJACENT else [])
        assert used == every_piece


@pytest.mark.parametrize("max_tokens", [2, 7, 30])
def test_cut_pairs_keep_the_rules(max_tokens):
    documents = make_documents([*SIZES, 0], random.Random(3))
    documents[3].insert(5, [])
    sentence_of = {p: (d, s) for d, x in enumerate(documents) for s, y in enumerate(x) for p in y}
    seen = set()
    for made in pairs_of_steps(documents, 20, max_tokens=max_tokens):
        for a, b, label in made:
            seen.add(label)
            assert a and b and len(a) + len(b) <= max_tokens
            for text in (a, b):
                assert text == list(range(text[0], text[0] + len(text)))
                assert len({sentence_of[p][0] for p in text}) == 1
            same = sentence_of[a[0]][0] == sentence_of[b[0]][0]
            assert same == (label != OTHER_DOCUMENT)
            if label == ADJACENT:
                assert a[-1] < b[0]
            if label == SAME_DOCUMENT:  # a whole sentence stands between
                earlier, later = sorted([a, b])
                assert sentence_of[later[0]][1] - sentence_of[earlier[-1]][1] > 1
    assert seen == {0, 1, 2}


def test_a_window_of_one_document_has_no_other():
    (document,) = make_documents([12], random.Random(4))
    labels = {label for made in pairs_of_steps([document], 20, max_tokens=9) for *_, label in made}
    assert labels == {ADJACENT, SAME_DOCUMENT}


@pytest.mark.parametrize("documents", [[], [[]], [[[]], []], [[[5, 6]]]])
def test_nothing_to_pair(documents):
    assert rows(sentence_distance_pairs(window_of(documents), max_tokens=20, seed=(0, 0))) == []


def test_eager_graph_and_dataset_agree_and_steps_differ():
    window = window_of(make_documents([4, 9, 20, 1], random.Random(10)))
    assert_same_everywhere(
        lambda step: sentence_distance_pairs(window, max_tokens=25, seed=(11, step))
    )
