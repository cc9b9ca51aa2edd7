import doctest

import numpy as np
import pytest

from keras_bert_impl.models import causal_lm_preprocessor
from keras_bert_impl.models.causal_lm_preprocessor import BertCausalLMPreprocessor
from keras_bert_impl.text.tokenizer import BertTokenizer
from tests import small

CLS, SEP = 2, 3


def preprocessor(sequence_length=16, **options):
    return BertCausalLMPreprocessor(small.tokenizer(), sequence_length, **options)


def ids(*tokens):
    return [small.VOCABULARY.index(token) for token in tokens]


def test_the_row_is_shifted_by_one():
    x, y, weights = preprocessor()(["the cat", "unaffable", ""])
    un, aff, able = ids("un", "##aff", "##able")
    the, cat = ids("the", "cat")
    assert np.array(x["token_ids"]).tolist() == [
        [CLS, the, cat, SEP, 0],
        [CLS, un, aff, able, SEP],
        [CLS, SEP, 0, 0, 0],
    ]
    assert np.array(y).tolist() == [[the, cat, SEP, 0, 0], [un, aff, able, SEP, 0], [SEP] + [0] * 4]
    assert np.array(weights).tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 0, 0, 0, 0]]


def test_a_single_text_is_a_row_without_a_batch():
    x, y, weights = preprocessor()("the cat")
    assert np.array(x["token_ids"]).tolist() == [CLS, *ids("the", "cat"), SEP]
    assert np.array(y).tolist() == [*ids("the", "cat"), SEP, 0]
    assert np.array(weights).tolist() == [1, 1, 1, 0]


def test_long_texts_are_cut():
    x, y, _ = preprocessor(4)(["the cat sat on the mat"])
    assert np.array(x["token_ids"]).tolist() == [[CLS, *ids("the", "cat"), SEP]]
    assert np.array(y).tolist() == [[*ids("the", "cat"), SEP, 0]]


def test_labels_are_refused():
    with pytest.raises(ValueError, match="makes its own targets"):
        preprocessor()(["the cat"], y=[1])


def test_prompts_are_open_at_their_end():
    rows = preprocessor().prompts(["the cat", ""], max_length=5)
    assert rows["token_ids"].numpy().tolist() == [
        [CLS, *ids("the", "cat"), 0, 0],
        [CLS, 0, 0, 0, 0],
    ]
    assert rows["padding_mask"].numpy().sum(axis=1).tolist() == [3, 1]


def test_prompts_that_leave_no_room_are_named():
    with pytest.raises(ValueError, match="prompt 'the cat sat' has 4 tokens.*max_length=4 leaves"):
        preprocessor().prompts(["the", "the cat sat"], max_length=4)
    with pytest.raises(ValueError, match="single text: build the preprocessor with pair=False"):
        preprocessor(pair=True).prompts(["the"], max_length=4)


@pytest.mark.parametrize(
    ("prompt", "tokens", "expected"),
    [
        ("The  CAT", ["sat", "."], "The  CAT sat ."),
        ("The cat \n", ["sat", "[SEP]", "dog"], "The cat sat"),
        ("Un", ["##aff", "##able", "cat"], "Unaffable cat"),
        ("", ["the", "cat"], "the cat"),
        ("The cat ", ["[SEP]"], "The cat "),
        ("The cat", [], "The cat"),
    ],
)
def test_the_prompt_stays_and_words_are_joined(prompt, tokens, expected):
    assert preprocessor().continued(prompt, ids(*tokens)) == expected


def test_docstring_examples():
    names = {"BertTokenizer": BertTokenizer}
    assert doctest.testmod(causal_lm_preprocessor, extraglobs=names) == (0, 3)
