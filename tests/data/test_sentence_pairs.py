import random

import numpy as np
import pytest
import tensorflow as tf
from bert import create_pretraining_data as reference

from keras_bert_impl.data import document_walk
from keras_bert_impl.data.sentence_pairs import (
    IS_NEXT,
    IS_RANDOM,
    pairs_from_documents,
    texts_from_documents,
)
from tests.documents import make_documents, window_of


def pairs_of(documents, **options):
    first, second, label = pairs_from_documents(window_of(documents), **options)
    return list(zip(first.to_list(), second.to_list(), label.numpy().tolist(), strict=True))


def pairs_of_steps(documents, seed, steps, **options):
    """The pairs at seeds (seed, 0) to (seed, steps - 1), made in one graph."""
    window = window_of(documents)
    made = tf.data.Dataset.range(steps).map(
        lambda step: pairs_from_documents(window, **options, seed=(seed, step))
    )
    for first, second, label in made:
        yield list(zip(first.to_list(), second.to_list(), label.numpy().tolist(), strict=True))


def reference_pairs(documents, max_tokens, short_sequence_probability, rng):
    """(A, B, label) of the original, its masks undone."""
    as_words = [[[str(p) for p in sentence] for sentence in document] for document in documents]
    pairs = []
    for index in range(len(documents)):
        for instance in reference.create_instances_from_document(
            as_words, index, max_tokens + 3, short_sequence_probability, 0.15, 20, ["x"], rng
        ):
            tokens = list(instance.tokens)
            for position, original in zip(
                instance.masked_lm_positions, instance.masked_lm_labels, strict=True
            ):
                tokens[position] = original
            middle = tokens.index("[SEP]")
            a, b = tokens[1:middle], tokens[middle + 1 : -1]
            label = IS_RANDOM if instance.is_random_next else IS_NEXT
            pairs.append(([int(p) for p in a], [int(p) for p in b], label))
    return pairs


class ScriptedRandom:
    """The original's generator with every draw at one end of its range.

    Of documents, whose number must be unlike the sentences of each, the end that is another one.
    """

    def __init__(self, draw, at_end, num_documents):
        self.draw, self.at_end, self.num_documents = draw, at_end, num_documents
        self.tried = 0

    def random(self):
        return self.draw

    def shuffle(self, items):
        pass

    def randint(self, low, high):
        if (low, high) == (0, self.num_documents - 1):
            # asked again while it is the document itself: step inwards
            self.tried += 1
            inwards = (self.tried - 1) % 2
            return high - inwards if self.at_end else low + inwards
        self.tried = 0
        return high if self.at_end else low


@pytest.mark.parametrize("max_tokens", [2, 9, 29, 61, 500])
@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("is_random", [False, True])
def test_same_draws_same_pairs_as_the_reference(monkeypatch, max_tokens, at_end, is_random):
    sizes = [1, 5, 2, 40, 3, 1, 12, 17]
    documents = make_documents(sizes, random.Random(1), longest=30)
    assert len(documents) not in sizes and len(documents) - 1 not in sizes
    # Both draw 0.1: random next, tokens go from the front. Both draw 0.9: the actual next, the end.
    draw = 0.1 if is_random else 0.9
    expected = reference_pairs(
        documents, max_tokens, 0.0, ScriptedRandom(draw, at_end, len(documents))
    )

    def scripted(shape, seed):
        index = 1 - 1e-9 if at_end else 0.0
        of_rows = [index, draw, index, index][: int(shape[0])]
        return tf.broadcast_to(tf.constant(of_rows, tf.float64)[:, tf.newaxis], shape)

    monkeypatch.setattr(document_walk, "uniform_float64", scripted)
    monkeypatch.setattr(
        document_walk,
        "coin_flips",
        lambda counts, seed: counts if is_random else tf.zeros_like(counts),
    )
    ours = pairs_of(documents, max_tokens=max_tokens, short_sequence_probability=0.0, seed=(0, 0))
    assert ours == expected


def statistics(pairs):
    """Named (number, mean, variance of the mean) of some pairs."""
    a = np.array([len(p[0]) for p in pairs], float)
    b = np.array([len(p[1]) for p in pairs], float)
    label = np.array([p[2] for p in pairs], float)
    return {
        "random": label,
        "length of A": a,
        "length of B": b,
        "both": a + b,
        "full": ((a + b) == (a + b).max()).astype(float),
        "A longer": (a > b).astype(float),
        "random and short": label * (a + b < 20),
    }


def test_distributions_are_the_references():
    documents = make_documents([1, 2, 3, 5, 8, 13, 21, 34, 4, 4], random.Random(2), longest=14)
    options = {"max_tokens": 40, "short_sequence_probability": 0.1}
    ours, theirs, counts = [], [], [[], []]
    for made in pairs_of_steps(documents, 3, 400, **options):
        ours += made
        counts[0].append(len(made))
    for step in range(400):
        made = reference_pairs(documents, 40, 0.1, random.Random(step))
        theirs += made
        counts[1].append(len(made))
    ours, theirs = statistics(ours), statistics(theirs)
    ours["pairs"], theirs["pairs"] = (np.array(c, float) for c in counts)
    for name, values in ours.items():
        error = np.sqrt(values.var() / len(values) + theirs[name].var() / len(theirs[name]))
        # pairs of a document are not independent: half as much again on 3 standard errors
        assert abs(values.mean() - theirs[name].mean()) < 4.5 * error, name


@pytest.mark.parametrize("max_tokens", [2, 7, 30, 10_000])
def test_every_pair_keeps_the_rules(max_tokens):
    documents = make_documents([1, 2, 30, 7, 0, 3, 1, 15], random.Random(4))
    documents[2].insert(5, [])  # a sentence without pieces
    document_of = {p: d for d, doc in enumerate(documents) for sentence in doc for p in sentence}
    begins_sentence = {sentence[0] for doc in documents for sentence in doc if sentence}
    labels = []
    for pairs in pairs_of_steps(documents, 5, 30, max_tokens=max_tokens):
        for a, b, label in pairs:
            labels.append(label)
            assert len(a) >= 1 and len(b) >= 1 and len(a) + len(b) <= max_tokens
            for text in (a, b):
                assert text == list(range(text[0], text[0] + len(text)))  # without a gap
                assert len({document_of[p] for p in text}) == 1
            if max_tokens == 10_000:
                assert a[0] in begins_sentence and b[0] in begins_sentence
            if label == IS_NEXT:
                assert document_of[a[0]] == document_of[b[0]]
                assert b[0] > a[-1]
                if max_tokens == 10_000:
                    assert b[0] == a[-1] + 1
            else:
                assert label == IS_RANDOM
                assert document_of[a[0]] != document_of[b[0]]
    assert {0, 1} == set(labels) or max_tokens == 2  # a chunk of one-piece target is one sentence


def test_no_sentence_is_lost_or_used_twice():
    documents = make_documents([1, 2, 30, 7, 3, 1, 15], random.Random(6))
    every_piece = [p for document in documents for sentence in document for p in sentence]
    options = {"max_tokens": 10_000, "short_sequence_probability": 1.0}
    for pairs in pairs_of_steps(documents, 6, 20, **options):
        used = []
        for a, b, label in pairs:
            used += a + (b if label == IS_NEXT else [])
        # the hard limit is far off, so nothing is cut: the texts tile the documents, in order
        assert used == every_piece


def test_targets_are_drawn_by_document():
    documents = [[[i] for i in range(d * 100 + 5, d * 100 + 100)] for d in range(40)]
    long, short = (
        pairs_of(
            documents,
            max_tokens=30,
            short_sequence_probability=p,
            next_sentence_random_probability=0.0,
            seed=(7, 0),
        )
        for p in (0.0, 1.0)
    )
    assert {len(a) + len(b) for a, b, _ in long} == {30, 95 % 30}
    first_pairs = {}
    for a, b, _ in short:
        first_pairs.setdefault((a[0] - 5) // 100, len(a) + len(b))
    assert min(first_pairs.values()) >= 2 and max(first_pairs.values()) <= 30
    assert len(set(first_pairs.values())) > 10


def test_surplus_goes_from_both_ends():
    # 120 pieces are full with both sentences, then 40 of each are too many
    documents = [[list(range(1000, 1100)), list(range(1100, 1200))], [[5]]]
    options = {
        "max_tokens": 120,
        "short_sequence_probability": 0.0,
        "next_sentence_random_probability": 0.0,
    }
    fronts = []
    for (a, b, label), *_ in pairs_of_steps(documents, 8, 300, **options):
        assert label == IS_NEXT and (len(a), len(b)) == (60, 60)
        fronts.append((a[0] - 1000, b[0] - 1100))
    fronts = np.array(fronts)
    np.testing.assert_allclose(fronts.mean(axis=0), 20, atol=3 * np.sqrt(10 / 300))
    np.testing.assert_allclose(fronts.var(axis=0), 10, atol=3)
    assert abs(np.corrcoef(fronts.T)[0, 1]) < 3 / np.sqrt(300)


def test_one_document_has_no_random_next():
    document = make_documents([9], random.Random(9))
    for pairs in pairs_of_steps(document, 9, 20, max_tokens=20):
        assert pairs and all(label == IS_NEXT for _, _, label in pairs)


def test_one_sentence_alone_makes_no_pair():
    assert pairs_of([[[5, 6, 7]]], max_tokens=20, seed=(0, 0)) == []
    assert pairs_of([[[5, 6, 7]], [[]], []], max_tokens=20, seed=(0, 0)) == []


@pytest.mark.parametrize("documents", [[], [[]], [[[]], []]])
def test_nothing_makes_no_pair(documents):
    assert pairs_of(documents, max_tokens=20, seed=(0, 0)) == []
    texts = texts_from_documents(window_of(documents), max_tokens=20, seed=(0, 0))
    assert texts.to_list() == []


def test_two_documents_of_a_sentence_go_with_each_other():
    assert pairs_of([[[5, 6]], [[7]]], max_tokens=20, seed=(0, 0)) == [
        ([5, 6], [7], IS_RANDOM),
        ([7], [5, 6], IS_RANDOM),
    ]


def test_eager_graph_and_dataset_agree_and_steps_differ():
    window = window_of(make_documents([4, 9, 20, 1], random.Random(10)))

    def make(step):
        return pairs_from_documents(window, max_tokens=25, seed=(11, step))

    dataset = tf.data.Dataset.range(3).map(make, num_parallel_calls=2)
    graph = tf.function(make, input_signature=[tf.TensorSpec([], tf.int64)])
    seen = []
    for step, from_dataset in enumerate(dataset):
        eager = make(step)
        in_graph = graph(step)
        for i in (0, 1):
            assert eager[i].to_list() == in_graph[i].to_list() == from_dataset[i].to_list()
        np.testing.assert_array_equal(eager[2], in_graph[2])
        np.testing.assert_array_equal(eager[2], from_dataset[2])
        seen.append(eager[0].to_list())
    assert seen[0] != seen[1] != seen[2] != seen[0]


def test_texts_tile_the_documents():
    documents = make_documents([1, 2, 30, 7], random.Random(12))
    document_of = {p: d for d, doc in enumerate(documents) for sentence in doc for p in sentence}
    every_piece = [p for document in documents for sentence in document for p in sentence]
    whole = texts_from_documents(
        window_of(documents), max_tokens=10_000, short_sequence_probability=1.0, seed=(0, 0)
    ).to_list()
    assert sum(whole, []) == every_piece
    cut = texts_from_documents(window_of(documents), max_tokens=20, seed=(0, 0)).to_list()
    assert max(len(text) for text in cut) == 20
    for text in cut:
        assert text == list(range(text[0], text[0] + len(text)))
        assert len({document_of[p] for p in text}) == 1


def test_impossible_arguments():
    window = window_of([[[5]]])
    with pytest.raises(ValueError, match="max_tokens=1 must be at least 2"):
        pairs_from_documents(window, max_tokens=1, seed=(0, 0))
    with pytest.raises(ValueError, match="documents, sentences, pieces"):
        pairs_from_documents(window[0], max_tokens=9, seed=(0, 0))
