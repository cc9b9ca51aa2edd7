import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_impl.models.preprocessor import (
    BertMaskedLMPreprocessor,
    BertPreprocessor,
    BertPretrainerPreprocessor,
)
from tests import small

PAD, UNK, CLS, SEP, MASK = range(5)
THE, CAT, DOG, SAT, RAN = (small.VOCABULARY.index(w) for w in ["the", "cat", "dog", "sat", "ran"])

ALL = [BertPreprocessor, BertMaskedLMPreprocessor, BertPretrainerPreprocessor]


def lists(inputs):
    return {name: np.array(value).tolist() for name, value in inputs.items()}


def pairs(first, second):
    return {"text_a": first, "text_b": second}


# Ids


def test_single_texts_are_packed_and_padded_to_the_longest():
    inputs = BertPreprocessor(small.tokenizer())(["the cat", "dog"])
    assert lists(inputs) == {
        "token_ids": [[CLS, THE, CAT, SEP], [CLS, DOG, SEP, PAD]],
        "segment_ids": [[0, 0, 0, 0], [0, 0, 0, 0]],
        "padding_mask": [[True] * 4, [True, True, True, False]],
    }
    assert {name: value.dtype.name for name, value in inputs.items()} == {
        "token_ids": "int32",
        "segment_ids": "int32",
        "padding_mask": "bool",
    }


def test_pairs_are_two_segments():
    inputs = BertPreprocessor(small.tokenizer(), pair=True)(pairs(["the cat"], ["dog"]))
    assert lists(inputs) == {
        "token_ids": [[CLS, THE, CAT, SEP, DOG, SEP]],
        "segment_ids": [[0, 0, 0, 0, 1, 1]],
        "padding_mask": [[True] * 6],
    }


def test_padding_to_the_maximum():
    inputs = BertPreprocessor(small.tokenizer(), 5, padding="max_length")(["cat"])
    assert lists(inputs)["token_ids"] == [[CLS, CAT, SEP, PAD, PAD]]


@pytest.mark.parametrize(
    ("truncation", "expected"),
    [
        ("longest_first", [CLS, THE, CAT, SEP, DOG, RAN, SEP]),
        ("only_first", [CLS, THE, SEP, DOG, RAN, DOG, SEP]),
        ("only_second", [CLS, THE, CAT, SAT, SEP, DOG, SEP]),
        ("round_robin", [CLS, THE, CAT, SEP, DOG, RAN, SEP]),
    ],
)
def test_truncation_is_as_told(truncation, expected):
    preprocessor = BertPreprocessor(small.tokenizer(), 7, pair=True, truncation=truncation)
    inputs = preprocessor(pairs(["the cat sat"], ["dog ran dog"]))
    assert lists(inputs)["token_ids"] == [expected]


def test_an_empty_text_is_two_special_tokens():
    assert lists(BertPreprocessor(small.tokenizer())([""]))["token_ids"] == [[CLS, SEP]]


def test_a_single_string_is_a_row_without_batch_axis():
    inputs = BertPreprocessor(small.tokenizer())("the cat")
    assert lists(inputs)["token_ids"] == [CLS, THE, CAT, SEP]
    inputs = BertPreprocessor(small.tokenizer(), pair=True)(pairs("the", "cat"))
    assert lists(inputs)["segment_ids"] == [0, 0, 0, 1, 1]


def test_labels_and_weights_pass_through():
    x, y, weights = BertPreprocessor(small.tokenizer())(
        ["the", "cat"], y=np.array([1, 0]), sample_weight=np.array([0.5, 2.0])
    )
    assert x["token_ids"].shape == (2, 3)
    assert np.array(y).tolist() == [1, 0]
    assert np.array(weights).tolist() == [0.5, 2.0]


@pytest.mark.parametrize("pair", [False, True])
def test_eager_dataset_and_function_give_the_same(pair):
    preprocessor = BertPreprocessor(small.tokenizer(), 9, pair=pair, padding="max_length")
    texts = pairs(small.TEXTS, small.TEXTS[::-1]) if pair else small.TEXTS
    eager = lists(preprocessor(texts))
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(len(small.TEXTS)).map(preprocessor)
    assert lists(next(iter(dataset))) == eager
    tensors = tf.nest.map_structure(tf.constant, texts) if pair else tf.constant(texts)
    assert lists(tf.function(lambda x: preprocessor(x))(tensors)) == eager
    rows = tf.data.Dataset.from_tensor_slices(texts).map(preprocessor)
    assert [lists(row)["token_ids"] for row in rows] == eager["token_ids"]


def test_strings_may_be_a_list_an_array_or_a_tensor():
    preprocessor = BertPreprocessor(small.tokenizer())
    expected = lists(preprocessor(small.TEXTS))
    assert lists(preprocessor(np.array(small.TEXTS))) == expected
    assert lists(preprocessor(np.array(small.TEXTS, object))) == expected
    assert lists(preprocessor(tf.constant(small.TEXTS))) == expected
    assert lists(preprocessor({"text": small.TEXTS})) == expected


# Masked-LM targets


def test_masked_rows_and_their_targets_make_the_original():
    options = {"mask_rate": 0.5, "max_predictions": 4, "padding": "max_length"}
    preprocessor = BertMaskedLMPreprocessor(small.tokenizer(), 12, **options)
    x, y, weights = preprocessor(small.TEXTS)
    plain = BertPreprocessor(small.tokenizer(), 12, padding="max_length")(small.TEXTS)
    positions, weights = np.array(x["mask_positions"]), np.array(weights)
    assert positions.shape == weights.shape == np.array(y).shape == (4, 4)
    # Half of 9, 5, 7 and 5 tokens, half to even, but at most 4 and at most the words.
    assert weights.sum(axis=1).tolist() == [4, 2, 4, 2]
    restored = np.array(x["token_ids"])
    for row in range(4):
        filled = positions[row][weights[row] > 0]
        restored[row, filled] = np.array(y)[row][weights[row] > 0]
    np.testing.assert_array_equal(restored, plain["token_ids"])
    assert (np.array(x["token_ids"]) == MASK).any()


def test_masks_are_a_function_of_seed_and_step():
    def masked(seed, step):
        preprocessor = BertMaskedLMPreprocessor(small.tokenizer(), seed=seed, mask_rate=0.5)
        return lists(preprocessor(small.TEXTS * 4, step=step)[0])["mask_positions"]

    assert masked(1, 5) == masked(1, 5)
    assert masked(1, 5) != masked(1, 6)
    assert masked(1, 5) != masked(2, 5)


def test_whole_words_are_masked_together():
    preprocessor = BertMaskedLMPreprocessor(
        small.tokenizer(), mask_rate=0.6, whole_word=True, max_predictions=3
    )
    for step in range(5):
        x, _, weights = preprocessor(["unaffable"], step=step)
        assert lists(x)["mask_positions"] == [[1, 2, 3]]
        assert np.array(weights).tolist() == [[1, 1, 1]]


def test_a_single_string_can_be_masked():
    x, y, weights = BertMaskedLMPreprocessor(small.tokenizer(), max_predictions=2)("the cat")
    assert x["token_ids"].shape == (4,)
    assert y.shape == weights.shape == x["mask_positions"].shape == (2,)


def test_pretraining_has_both_targets():
    preprocessor = BertPretrainerPreprocessor(small.tokenizer(), max_predictions=3)
    x, y, weights = preprocessor(pairs(["the cat", "a"], ["dog", "b"]), y=[0, 1])
    assert x["mask_positions"].shape == y["masked_lm"].shape == weights["masked_lm"].shape == (2, 3)
    assert np.array(y["next_sentence"]).tolist() == [0, 1]
    assert np.array(weights["next_sentence"]).tolist() == [1, 1]


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truncation": "last"}, "Unknown truncation 'last'. Choose one of longest_first"),
        ({"padding": "none"}, "Unknown padding 'none'. Choose one of"),
        ({"sequence_length": 2}, "sequence_length=2 leaves no room for text beside 2 special"),
        ({"sequence_length": 3, "pair": True}, "beside 3 special tokens"),
    ],
)
def test_options_that_make_no_rows_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        BertPreprocessor(small.tokenizer(), **options)


@pytest.mark.parametrize(
    ("pair", "x", "message"),
    [
        (False, (["a"], ["b"]), "a pair of texts or"),
        (True, (["a"], ["b"]), "a pair of texts or"),
        (True, ["a"], 'packs pairs: pass {"text_a": strings, "text_b": strings}. Received list'),
        (True, {"text_a": ["a"]}, r"Received a dict with keys \['text_a'\]"),
        (False, pairs(["a"], ["b"]), r"packs single texts, but received a dict with keys"),
        (False, [[1, 2]], "Expected strings, but received int32"),
        (False, [["a", "b"]], r"one string a row, shape \(\) or \(batch,\).* shape \(1, 2\)"),
    ],
)
@pytest.mark.parametrize("cls", ALL)
def test_inputs_that_are_no_texts_are_refused(cls, pair, x, message):
    labels = {"y": [0]} if cls is BertPretrainerPreprocessor else {}
    with pytest.raises(ValueError, match=message):
        cls(small.tokenizer(), pair=pair)(x, **labels)


def test_the_masked_lm_takes_no_labels():
    with pytest.raises(ValueError, match="makes its own targets"):
        BertMaskedLMPreprocessor(small.tokenizer())(["a"], y=[0])


def test_the_pretrainer_asks_for_labels():
    with pytest.raises(ValueError, match=r"0 where B follows A.*pretraining_dataset\(\)"):
        BertPretrainerPreprocessor(small.tokenizer())(pairs(["a"], ["b"]))


# Config

OPTIONS = {"sequence_length": 9, "truncation": "only_first", "padding": "max_length"}
MASK_OPTIONS = {"mask_rate": 0.3, "max_predictions": 7, "whole_word": True, "seed": 5}


@pytest.mark.parametrize("cls", ALL)
def test_every_option_survives_the_config(cls):
    plain = cls(small.tokenizer()).get_config()
    changes = {**OPTIONS, "pair": not plain["pair"]}
    if cls is not BertPreprocessor:
        changes.update(MASK_OPTIONS)
    assert set(plain) - {"name", "trainable", "dtype", "config_file", "tokenizer"} == set(changes)
    for option, value in changes.items():
        changed = cls(small.tokenizer(), **{option: value})
        again = cls.from_config(changed.get_config())
        assert type(again) is cls
        assert again.get_config() == changed.get_config()
        assert getattr(again, option) == value != plain[option]


def test_the_tokenizers_options_survive_in_the_preprocessors_config():
    changed = BertPreprocessor(small.tokenizer(lowercase=False, split_on_cjk=False))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(changed))
    assert again.tokenizer.lowercase is False
    assert again.tokenizer.split_on_cjk is False
