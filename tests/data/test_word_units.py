import random
import re

import pytest
import tensorflow as tf

from keras_bert_impl.data.word_units import (
    ENTITY,
    PHRASE,
    begins_unit,
    pieces_of_marked_text,
    segment_lines,
    strip_marks,
    unit_kind,
    unit_marks,
)
from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS

WORDS = ["new", "york", "is", "big", "##ger", "[", "]", "{", "}", "\u5317", "\u4eac", "\u5927"]
WORDS += [".", "\u00e9", "##\u00e9"]


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer([*SPECIAL_TOKENS, *WORDS], strip_accents=False)


def test_marks_hold_kind_and_beginning():
    kind, begins = tf.constant([0, 0, 1, 1, 2, 2]), tf.constant([0, 1, 0, 1, 0, 1])
    marks = unit_marks(kind, begins)
    assert marks.numpy().tolist() == [0, 0, 2, 3, 4, 5]
    assert unit_kind(marks).numpy().tolist() == [0, 0, 1, 1, 2, 2]
    assert begins_unit(marks).numpy().tolist() == [False, False, False, True, False, True]


def expected_units(text, tokenizer):
    """Ids and marks by Python: the text between brackets is tokenized on its own."""
    ids, units = [], []
    for part in re.split(r"(\[\[[^\[\]{}]+\]\]|\{\{[^\[\]{}]+\}\})", text):
        kind = 0
        if re.fullmatch(r"\[\[[^\[\]{}]+\]\]", part):
            kind, part = PHRASE, part[2:-2]
        elif re.fullmatch(r"\{\{[^\[\]{}]+\}\}", part):
            kind, part = ENTITY, part[2:-2]
        pieces = tokenizer(part).numpy().tolist()
        ids += pieces
        units += [2 * kind + (kind > 0 and i == 0) for i in range(len(pieces))]
    return ids, units


def test_generated_texts_as_in_plain_python(tokenizer):
    rng = random.Random(1)
    words = [
        "New",
        "york",
        "bigger",
        "\u5317",
        "\u4eac\u5927",
        ".",
        "\u00e9\u00e9",
        "[",
        "]",
        "[[",
        "}}",
    ]
    texts = []
    for _ in range(200):
        parts = []
        for _ in range(rng.randint(0, 6)):
            inside = " ".join(rng.choices(words, k=rng.randint(0, 3)))
            parts.append(rng.choice(["{}", "[[{}]]", "{{{{{}}}}}", "{}"]).format(inside))
        texts.append(" ".join(parts))
    ids, units = pieces_of_marked_text(texts, tokenizer)
    expected = [expected_units(text, tokenizer) for text in texts]
    assert ids.to_list() == [row[0] for row in expected]
    assert units.to_list() == [row[1] for row in expected]
    assert {0, 2, 3, 4, 5} == {unit for row in units.to_list() for unit in row}
    assert ids.to_list() == tokenizer(strip_marks(texts)).to_list()


@pytest.mark.parametrize(
    ("text", "stripped", "units"),
    [
        ("[[New York]] is {{big}}", "New York is big", [3, 2, 0, 5]),
        ("[[New]][[York]]", "NewYork", [3]),  # one word, unknown
        ("big[[ger]] [[big]]ger", "bigger bigger", [0, 3, 3, 0]),  # a part of a word
        ("[[\u5317\u4eac]]\u5927[[\u5927]]", "\u5317\u4eac\u5927\u5927", [3, 2, 0, 3]),
        ("[[ ]] is [[]]", "  is [[]]", [0, 0, 0, 0, 0]),
        ("[[ new york ]]", " new york ", [3, 2]),
        ("[[new [[york]]", "[[new york", [0, 0, 0, 3]),
        ("[[new {{york}} is]]", "[[new york is]]", [0, 0, 0, 5, 0, 0, 0]),
        ("[[new\x01\x02 york]]", "new york", [3, 2]),
        ("\x01new york\x03", "new york", [0, 0]),
        ("", "", []),
    ],
)
def test_marked_text_by_hand(tokenizer, text, stripped, units):
    assert strip_marks(text).numpy().decode() == stripped
    assert pieces_of_marked_text([text], tokenizer)[1].to_list() == [units]


def test_no_texts_and_the_same_in_a_dataset(tokenizer):
    ids, units = pieces_of_marked_text(tf.zeros([0], tf.string), tokenizer)
    assert ids.to_list() == units.to_list() == []
    texts = ["[[New York]] is", "", "{{big}}"]
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(3)
    (made,) = dataset.map(lambda batch: pieces_of_marked_text(batch, tokenizer))
    eager = pieces_of_marked_text(texts, tokenizer)
    assert [x.to_list() for x in made] == [x.to_list() for x in eager]


def test_a_segmenters_words_are_marked(tokenizer):
    def segmenter(text):
        return re.findall(r"\u5317\u4eac|\u4eac\u5927|\w+|.", text)

    lines = ["\u5317\u4eac\u5927 is big", "", "new [[york]] {{{\u5317\u4eac}}", "\u5927\u5317\n"]
    marked = list(segment_lines(lines, segmenter))
    assert marked[0] == "[[\u5317\u4eac]]\u5927 [[is]] [[big]]"
    assert marked[1] == ""
    ids, units = pieces_of_marked_text(marked, tokenizer)
    assert ids.to_list() == tokenizer(lines).to_list()  # nothing is lost, brackets neither
    assert units.to_list()[2] == [3, 0, 0, 3, 0, 0, 0, 0, 0, 3, 2, 0, 0]


def test_a_segmenter_that_changes_the_text_is_refused():
    with pytest.raises(ValueError, match="Line 2: the segmenter gave the words 'a / b'"):
        list(segment_lines(["ab", "a b"], str.split))
