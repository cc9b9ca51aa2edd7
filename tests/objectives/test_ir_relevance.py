import random
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.objectives.ir_relevance import (
    NONE,
    STRONG,
    WEAK,
    clicked_pairs,
    heading_pairs,
    read_click_log,
)
from tests.documents import (
    assert_same_everywhere,
    assert_shares,
    make_documents,
    rows,
    rows_of_steps,
    window_of,
)


def make_log(rng):
    """Queries q0, q1, ... with titles, some of which stand under several queries."""
    log = {
        (f"q{rng.randint(0, 9)}", f"t{rng.randint(0, 60)}"): rng.random() < 0.4 for _ in range(80)
    }
    return [q for q, _ in log], [t for _, t in log], list(log.values())


def test_rows_of_a_log_against_its_definition():
    query, title, clicked = make_log(random.Random(1))
    label_of = {
        (q, t): STRONG if c else WEAK for q, t, c in zip(query, title, clicked, strict=True)
    }
    is_none = []
    made = rows_of_steps(lambda step: clicked_pairs(query, title, clicked, seed=(1, step)), 200)
    for pairs in made:
        assert [q.decode() for q, _, _ in pairs] == query
        for (q, t, label), own in zip(pairs, title, strict=True):
            pair = (q.decode(), t.decode())
            assert label == label_of.get(pair, NONE)
            assert label == NONE or pair[1] == own
            assert pair[1] in title
            is_none.append(label == NONE)
    # a drawn title that was shown for the query too leaves the row as it was
    foreign = [
        np.mean([(q, t) not in label_of for p, t in zip(query, title, strict=True) if p != q])
        for q in query
    ]
    share = np.mean(foreign) / 3
    assert 0.8 / 3 < share < 1 / 3
    assert_shares(is_none, {True: share, False: 1 - share})


def test_titles_of_other_queries_are_as_likely():
    query, title = ["a", "b", "a", "c", "c"], ["1", "2", "3", "4", "5"]
    made = rows_of_steps(
        lambda step: clicked_pairs(query, title, [True] * 5, none_probability=1.0, seed=(2, step)),
        1000,
    )
    titles = [[t.decode() for _, t, _ in pairs] for pairs in made]
    for i, others in enumerate(["245", "1345", "245", "123", "123"]):
        assert_shares([row[i] for row in titles], {t: 1 / len(others) for t in others})


def test_logs_without_another_query():
    for query in ([], ["a"], ["a", "a"]):
        title, clicked = ["x", "y"][: len(query)], [True, False][: len(query)]
        query_tensor = tf.constant(query, tf.string)
        title_tensor = tf.constant(title, tf.string)
        first, second, label = clicked_pairs(
            query_tensor,
            title_tensor,
            tf.constant(clicked, tf.bool),
            none_probability=1.0,
            seed=(0, 0),
        )
        assert [x.decode() for x in first.numpy()] == query
        assert [x.decode() for x in second.numpy()] == title
        assert label.numpy().tolist() == [STRONG, WEAK][: len(query)]


def test_log_rows_are_the_same_everywhere():
    log = make_log(random.Random(3))
    assert_same_everywhere(lambda step: clicked_pairs(*log, seed=(4, step)))


def test_a_log_file(tmp_path):
    path = tmp_path / "clicks.tsv"
    path.write_text("query\ttitle\tclicked\na\tA\t0\nb\tA\t1\na\tA\t1\na\tB\t0\na\tB\t0\n")
    query, title, clicked = read_click_log(path)
    assert list(zip(query.numpy(), title.numpy(), clicked.numpy().tolist(), strict=True)) == [
        (b"a", b"A", True),  # once not and once clicked
        (b"b", b"A", True),
        (b"a", b"B", False),
    ]
    path.write_text("query\ttitle\tclicked\na\tA\t2\n")
    with pytest.raises(ValueError, match="clicks.tsv:2: clicked is '2'"):
        read_click_log(path)
    path.write_text("query\ttitle\na\tA\n")
    with pytest.raises(ValueError, match="no column 'clicked'"):
        read_click_log(path)


def headings_of_steps(documents, steps, **options):
    window = window_of(documents)
    return rows_of_steps(lambda step: heading_pairs(window, seed=(5, step), **options), steps)


SIZES = [1, 2, 3, 1, 1, 9, 4, 1]


def test_headings_against_their_definition():
    documents = make_documents(SIZES, random.Random(1))
    documents.insert(3, [])
    documents[5].insert(2, [])
    place = {}  # of a sentence: document, and its number without the empty ones
    for d, document in enumerate(documents):
        for s, sentence in enumerate(x for x in document if x):
            place[tuple(sentence)] = (d, s)
    drawn = {WEAK: Counter(), NONE: Counter()}
    for made in headings_of_steps(documents, 400, max_tokens=10_000):
        labels = Counter()
        for query, title, label in made:
            (d, heading), (e, s) = place[tuple(query)], place[tuple(title)]
            assert heading == 0 and s > 0
            assert label == (NONE if d != e else STRONG if s == 1 else WEAK)
            labels[d, label] += 1
            if label in drawn and d in (2, 6):
                drawn[label][d, e, s] += 1
        sizes = [sum(map(bool, document)) for document in documents]
        assert labels == Counter(
            (d, label)
            for d, size in enumerate(sizes)
            for label, least in ((STRONG, 2), (WEAK, 3), (NONE, 2))
            if size >= least
        )
    weak = [s for d, e, s in drawn[WEAK].elements() if d == 6]
    assert_shares(weak, dict.fromkeys(range(2, 9), 1 / 7))
    none = [(e, s) for d, e, s in drawn[NONE].elements() if d == 2]
    others = [(e, s) for e, size in enumerate(sizes) for s in range(1, size) if e != 2]
    assert len(others) == 1 + 8 + 3
    assert_shares(none, {other: 1 / len(others) for other in others})


def test_long_pairs_lose_the_end_of_the_longer():
    documents = [[[5, 6, 7], [8, 9, 10, 11, 12]], [[13]]]
    (made,) = headings_of_steps(documents, 1, max_tokens=5)
    assert made == [([5, 6, 7], [8, 9], STRONG)]  # no other sentence but headings


@pytest.mark.parametrize("documents", [[], [[]], [[[]], []], [[[5]], [[6]]]])
def test_headings_alone_make_no_pair(documents):
    assert rows(heading_pairs(window_of(documents), max_tokens=20, seed=(0, 0))) == []


def test_headings_are_the_same_everywhere():
    window = window_of(make_documents([4, 9, 20, 1], random.Random(10)))
    assert_same_everywhere(lambda step: heading_pairs(window, max_tokens=25, seed=(11, step)))
