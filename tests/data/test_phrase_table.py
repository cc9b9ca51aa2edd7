import gzip
import random

import pytest
import tensorflow as tf

from keras_bert_impl.data.phrase_table import PhraseTable, read_phrases
from keras_bert_impl.data.word_units import ENTITY, PHRASE
from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer([*SPECIAL_TOKENS, "a", "b", "c", "##a", "##b", "##c", "\u4e2d", "\u6587"])


def expected_units(pieces, table, continues):
    """Marks by a loop. `table` is a dict of tuples of pieces to kinds."""
    units, i = [], 0
    while i < len(pieces):
        found = [
            (n, table[tuple(pieces[i : i + n])])
            for n in range(1, len(pieces) - i + 1)
            if tuple(pieces[i : i + n]) in table
            and pieces[i] not in continues
            and (i + n == len(pieces) or pieces[i + n] not in continues)
        ]
        size, kind = max(found, default=(1, 0))
        units += [2 * kind + (kind > 0 and k == 0) for k in range(size)]
        i += size
    return units


def test_generated_texts_as_by_a_loop(tokenizer):
    rng = random.Random(1)

    def text(most):
        return " ".join(
            "".join(rng.choice("abc") for _ in range(rng.choice([1, 1, 2])))
            for _ in range(rng.randint(1, most))
        )

    phrases = list({text(4) for _ in range(25)})
    entities = list({text(3) for _ in range(15)}) + phrases[:3]
    table = {tuple(tokenizer(p).numpy().tolist()): PHRASE for p in phrases}
    table |= {tuple(tokenizer(p).numpy().tolist()): ENTITY for p in entities}
    continues = {i for i, p in enumerate(tokenizer.get_vocabulary()) if p.startswith("##")}
    pieces = tokenizer([text(30) for _ in range(150)] + ["", "", "a", "b c"])
    units = PhraseTable(tokenizer, phrases, entities)(pieces)
    expected = [expected_units(row, table, continues) for row in pieces.to_list()]
    assert units.to_list() == expected
    assert {0, 2, 3, 4, 5} == {unit for row in expected for unit in row}


@pytest.mark.parametrize(
    ("phrases", "entities", "text", "units"),
    [
        (["a b", "a b c"], [], "a b c a b", [3, 2, 2, 3, 2]),
        (["b c", "a b"], [], "a b c", [3, 2, 0]),  # from the left
        (["a"], [], "ab a", [0, 0, 3]),  # ends with its word
        (["ab"], [], "AB", [3, 2]),  # in any case of letters
        (["a b"], ["A B"], "a b", [5, 4]),
        (["a b c"], ["a b"], "a b c", [3, 2, 2]),
        (["\u4e2d\u6587"], [], "\u4e2d\u6587\u4e2d", [3, 2, 0]),
        (["a b"], [], "", []),
    ],
)
def test_by_hand(tokenizer, phrases, entities, text, units):
    assert PhraseTable(tokenizer, phrases, entities)(tokenizer([text])).to_list() == [units]


def test_no_phrase_reaches_over_a_row(tokenizer):
    table = PhraseTable(tokenizer, ["a b"])
    assert table(tokenizer(["a", "b", "c a", "b"])).to_list() == [[0], [0], [0, 0], [0]]
    assert table(tokenizer(tf.zeros([0], tf.string))).to_list() == []
    # a ## piece at a row's beginning continues nothing
    cut = tf.ragged.constant([[5], [8], [5]], dtype=tf.int32)
    assert PhraseTable(tokenizer, ["a"])(cut).to_list() == [[3], [0], [3]]


def test_the_same_in_a_dataset(tokenizer):
    table = PhraseTable(tokenizer, ["a b"], ["c"])
    texts = ["a b c", "", "c a b a"]
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(3)
    (units,) = dataset.map(lambda batch: table(tokenizer(batch)))
    assert units.to_list() == table(tokenizer(texts)).to_list() == [[3, 2, 5], [], [5, 3, 2, 0]]


def test_phrases_with_unknown_words_are_left_out(tokenizer):
    table = PhraseTable(tokenizer, ["a x", "b"])
    assert table.left_out == ["a x"]
    assert table(tokenizer(["a y b"])).to_list() == [[0, 0, 3]]
    with pytest.raises(ValueError, match="no phrases. 1 were left out"):
        PhraseTable(tokenizer, ["x"])
    with pytest.raises(ValueError, match="no phrases. 0 were left out"):
        PhraseTable(tokenizer)
    with pytest.raises(ValueError, match="The phrase ' ' has no pieces"):
        PhraseTable(tokenizer, ["a", " "])


def test_a_file_of_phrases(tmp_path):
    (tmp_path / "p.txt").write_text("\ufeffNew York\r\n\n b\n", encoding="utf-8")
    assert read_phrases(tmp_path / "p.txt") == ["New York", "b"]
    (tmp_path / "p.txt.gz").write_bytes(gzip.compress(b"a\nb\n"))
    assert read_phrases(tmp_path / "p.txt.gz") == ["a", "b"]
    (tmp_path / "blank.txt").write_text("\n\n")
    with pytest.raises(ValueError, match="blank.txt has no phrases"):
        read_phrases(tmp_path / "blank.txt")
    with pytest.raises(FileNotFoundError):
        read_phrases(tmp_path / "none.txt")
