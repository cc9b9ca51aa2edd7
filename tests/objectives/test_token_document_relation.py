import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data.marked_pieces import mark, unmark
from keras_bert_impl.data.packing import pack
from keras_bert_impl.data.sentence_pairs import pairs_from_documents
from keras_bert_impl.objectives.token_document_relation import document_counts, occurs_elsewhere
from tests.data.fake_tokenizer import NumberTokenizer
from tests.documents import make_documents, window_of


def make_relation(window, places, step):
    """Token ids, labels and weights of rows; and of each token its place in the window."""
    options = {"max_tokens": 27, "seed": (3, step)}
    counts = document_counts(window, sequence_length=30)
    marked = mark(window.flat_values, counts.flat_values, 1000)
    packed = [
        pack(*texts[:2], sequence_length=30, tokenizer=NumberTokenizer(), pad_to="max_length")
        for texts in (
            pairs_from_documents(window.with_flat_values(marked), **options),
            pairs_from_documents(places, **options),
        )
    ]
    token_ids, bits = unmark(packed[0]["token_ids"], 1000)
    label = occurs_elsewhere(token_ids, bits, packed[0]["segment_ids"])
    return token_ids, label, bits > 0, packed[1]["token_ids"], packed[0]["segment_ids"]


def test_against_the_definition():
    rng = random.Random(1)
    # the same pairs twice: of places, each there once, and of the pieces that stand there
    places = make_documents([1, 2, 30, 7, 0, 3, 12], rng)
    piece_at = {p: rng.randint(5, 60) for document in places for s in document for p in s}
    documents = [[[piece_at[p] for p in s] for s in document] for document in places]
    document_of = {p: d for d, document in enumerate(places) for s in document for p in s}
    labels = []
    made = tf.data.Dataset.range(3).map(
        lambda step: make_relation(window_of(documents), window_of(places), step)
    )
    for rows in made:
        for ids, label, weight, place, segment in zip(*(x.numpy() for x in rows), strict=True):
            for text in (0, 1):
                own = place[(segment == text) & weight].tolist()
                for i in np.flatnonzero((segment == text) & weight):
                    assert ids[i] == piece_at[place[i]]
                    elsewhere = {
                        piece_at[p]
                        for p, d in document_of.items()
                        if d == document_of[place[i]] and p not in own
                    }
                    assert label[i] == (ids[i] in elsewhere)
                    labels.append(bool(label[i]))
            assert not label[~weight].any() and (ids[~weight] < 5).all()
            assert (ids[weight] >= 5).all()
    assert 0.2 < np.mean(labels) < 0.98


def test_counts_stop_where_no_text_is_longer():
    window = window_of([[[5] * 300, [6]]])
    counts = document_counts(window, sequence_length=20)
    assert counts.to_list() == [[[20] * 300, [1]]]
    ids = tf.fill([1, 19], 5)  # no text of a row of 20 has so many
    assert occurs_elsewhere(ids, tf.fill([1, 19], 20), tf.zeros([1, 19], tf.int32)).numpy().all()


@pytest.mark.parametrize("documents", [[], [[]], [[[]], []], [[[5]]]])
def test_short_documents(documents):
    counts = document_counts(window_of(documents), 128).to_list()
    assert counts == [[[1] * len(s) for s in document] for document in documents]


def test_documents_do_not_mix():
    window = window_of([[[5, 6]], [[5]], [], [[5], [5, 7]]])
    assert document_counts(window, 128).to_list() == [[[1, 1]], [[1]], [], [[2], [2, 1]]]


def test_another_rank():
    with pytest.raises(ValueError, match="documents, sentences, pieces"):
        document_counts(window_of([[[5]]])[0], 128)
