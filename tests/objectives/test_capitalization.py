import random
import unicodedata

import pytest
import tensorflow as tf

from keras_bert_impl.data.marked_pieces import mark, unmark
from keras_bert_impl.data.packing import pack
from keras_bert_impl.objectives.capitalization import capitalized_pieces
from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS

LETTERS = "abce\u00e9\u03b1\u0434\u01c6\u00df5"
PIECES = [*SPECIAL_TOKENS, ",", "-", "abc", "##abc", *LETTERS, *(f"##{c}" for c in LETTERS)]


@pytest.fixture(scope="module", params=[True, False])
def tokenizer(request):
    return BertTokenizer(PIECES, lowercase=request.param)


def make_words(rng, count):
    words = []
    for _ in range(count):
        word = "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 7)))
        words.append(
            rng.choice([word, word.upper(), word[0].upper() + word[1:], word + "Q", "\u01c5a"])
        )
    return words


def test_each_piece_tells_of_its_words_first_character(tokenizer):
    rng = random.Random(1)
    texts, expected = [], []
    for count in [0, 1, 30, 7, 0, 12]:
        words = [w for word in make_words(rng, count) for w in rng.choice([[word], [word, ","]])]
        texts.append("".join(word + rng.choice([" ", "  ", "\x05 "]) for word in words))
        expected.append(
            [
                int(unicodedata.category(word[0]) in ("Lu", "Lt"))
                for word in words
                for _ in tokenizer(word)
            ]
        )
    ids, capitalized = capitalized_pieces(texts, tokenizer)
    assert ids.to_list() == tokenizer(texts).to_list()
    assert capitalized.to_list() == expected
    assert 0 < sum(map(sum, expected)) < sum(map(len, expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Abcabc abc", [1, 1, 0]),
        ("\u00c9a", [1, 1]),
        ("e\u0301A E\u0301a", [0, 0, 1, 1]),  # letter and accent: one character to the reader
        ("aB-Ab", [0, 0, 0, 1, 1]),
        ("5A", [0, 0]),
        ("\u4e2dA", [0, 1]),
        ("", []),
    ],
)
def test_words_by_hand(text, expected):
    _, capitalized = capitalized_pieces([text], BertTokenizer([*PIECES, "\u4e2d"]))
    assert capitalized.to_list() == [expected]


def test_bytes_that_are_no_utf_8_shift_nothing():
    tokenizer = BertTokenizer(PIECES)
    _, capitalized = capitalized_pieces([b"\xffa \xffB a\xff C"], tokenizer)
    assert capitalized.to_list() == [[0, 1, 0, 1]]


def test_no_texts():
    ids, capitalized = capitalized_pieces(tf.zeros([0], tf.string), BertTokenizer(PIECES))
    assert ids.to_list() == capitalized.to_list() == []


def test_the_same_in_a_dataset_and_through_packing():
    tokenizer = BertTokenizer(PIECES)
    texts = ["Abc a", "a B", "", "C"]
    ids, capitalized = capitalized_pieces(texts, tokenizer)
    size = tokenizer.vocabulary_size()

    def marked(texts):
        return mark(*capitalized_pieces(texts, tokenizer), size)

    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(4).map(marked)
    (from_dataset,) = dataset
    packed = pack(from_dataset, from_dataset[::-1], sequence_length=9, tokenizer=tokenizer)
    token_ids, bits = unmark(packed["token_ids"], size)
    again = pack(ids, ids[::-1], sequence_length=9, tokenizer=tokenizer)
    assert token_ids.numpy().tolist() == again["token_ids"].numpy().tolist()
    assert bits.numpy()[0].tolist()[:3] == [0, *capitalized.to_list()[0]]
    special = tf.reduce_any(token_ids[..., tf.newaxis] == tokenizer.special_token_ids, axis=-1)
    assert tf.reduce_sum(tf.where(special, bits, 0)) == 0 and tf.reduce_sum(bits) == 6
