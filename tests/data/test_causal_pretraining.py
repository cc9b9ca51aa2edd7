import doctest

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.data import causal_pretraining
from keras_bert_impl.data.causal_pretraining import causal_pretraining_dataset
from keras_bert_impl.data.pretraining import pretraining_dataset
from tests import small
from tests.data.test_pretraining import DOCUMENTS, TOKENIZER, assert_same, document_of, unmasked

OPTIONS = {"sequence_length": 16, "batch_size": 4, "window_documents": 8, "shuffle_buffer": 20}
IN_ORDER = {"shuffle_buffer": 0, "repeat": False, "drop_remainder": False}


def make(documents=DOCUMENTS, **options):
    return causal_pretraining_dataset(documents, TOKENIZER, **{**OPTIONS, **options})


def test_structure_shapes_and_types():
    x, y, weight = make().element_spec
    assert {k: (v.shape.as_list(), v.dtype) for k, v in x.items()} == {
        "token_ids": ([4, 16], tf.int32),
        "segment_ids": ([4, 16], tf.int32),
        "padding_mask": ([4, 16], tf.bool),
    }
    assert (y.shape.as_list(), y.dtype) == ([4, 16], tf.int32)
    assert (weight.shape.as_list(), weight.dtype) == ([4, 16], tf.float32)


def test_rows_are_running_text_and_targets_the_words_after():
    seen = []
    # Room for five sentences, so that none is cut.
    for x, y, weight in make(sequence_length=17, **IN_ORDER):
        for row, mask, following, weights in zip(
            *(t.numpy() for t in (x["token_ids"], x["padding_mask"], y, weight)), strict=True
        ):
            text = row[mask][1:-1]
            assert row[0] == 2 and row[mask][-1] == 3 and (row[~mask] == 0).all()
            assert text.tolist() == list(range(text[0], text[0] + len(text)))
            assert document_of(text[0]) == document_of(text[-1])
            assert following[weights > 0].tolist() == [*text, 3]
            assert weights.sum() == mask.sum() - 1
            seen.extend(text)
    assert sorted(seen) == list(range(10, 850)), "each word of the corpus was to come once"


def test_rows_are_those_of_the_masked_lm():
    masked = pretraining_dataset(
        DOCUMENTS, TOKENIZER, next_sentence=False, short_sequence_probability=0.0, seed=3, **OPTIONS
    )
    causal = make(seed=3)
    for ours, theirs in zip(causal.take(30), masked.take(30), strict=True):
        np.testing.assert_array_equal(ours[0]["token_ids"], unmasked(theirs))


def test_same_arguments_same_batches_and_a_late_start_is_the_rest():
    batches = list(make(seed=5).take(40))
    tf.random.set_seed(1)
    assert_same(list(make(seed=5).take(40)), batches)
    assert_same(list(make(seed=5, start_step=30).take(10)), batches[30:])
    other = next(iter(make(seed=6)))
    assert (other[0]["token_ids"].numpy() != batches[0][0]["token_ids"].numpy()).any()


def test_short_documents_and_empty_lines():
    documents = [["10"], [""], ["11 12", " "]]
    rows = [x["token_ids"].numpy().tolist() for x, _, _ in make(documents, **IN_ORDER)]
    padding = [0] * 12
    assert rows == [[[2, 10, 3, 0, *padding], [2, 11, 12, 3, *padding]]]


def test_what_makes_no_row_is_refused():
    with pytest.raises(ValueError, match="There are no documents"):
        make([])
    with pytest.raises(ValueError, match="start_step=-1"):
        make(start_step=-1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="make no training row"):
        list(make([[" "]]).take(1))


def test_docstring_examples():
    names = {"tokenizer": small.tokenizer()}
    assert doctest.testmod(causal_pretraining, extraglobs=names) == (0, 4)
