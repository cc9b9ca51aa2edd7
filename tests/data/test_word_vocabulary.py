import doctest

import pytest
import tensorflow as tf

from keras_bert_impl.data import word_vocabulary
from keras_bert_impl.data.word_vocabulary import WordVocabulary

DOCUMENTS = [["b a b", "c"], ["a b d", ""]]


def test_words_are_counted_and_ordered():
    assert WordVocabulary.of_documents(DOCUMENTS).words == ("b", "a", "c", "d")
    assert WordVocabulary.of_documents(DOCUMENTS, max_words=3).words == ("b", "a", "c")
    assert WordVocabulary.of_documents(DOCUMENTS, min_count=2).words == ("b", "a")
    dataset = tf.data.Dataset.from_tensor_slices(tf.ragged.constant(DOCUMENTS))
    assert WordVocabulary.of_documents(dataset).words == ("b", "a", "c", "d")


def test_numbers_and_words():
    vocabulary = WordVocabulary(["b", "é"])
    assert len(vocabulary) == 5
    assert vocabulary.ids(tf.ragged.constant([["é", "x"], [], ["b"]])).to_list() == [
        [4, 0],
        [],
        [3],
    ]
    assert vocabulary.ids(tf.constant([["b", ""]])).numpy().tolist() == [[3, 0]]
    assert [vocabulary.word(i) for i in range(5)] == ["<unknown>", "<begin>", "<end>", "b", "é"]
    with pytest.raises(ValueError, match="5 is outside of the vocabulary: 0 to 4"):
        vocabulary.word(5)


def test_works_in_a_dataset():
    data = tf.data.Dataset.from_tensors(tf.constant(["b", "x"])).map(WordVocabulary(["b"]).ids)
    assert next(iter(data)).numpy().tolist() == [3, 0]


def test_comes_back_from_a_file(tmp_path):
    vocabulary = WordVocabulary.of_documents([["Ünder \u4eba ."]])
    vocabulary.save(tmp_path / "words.txt")
    assert WordVocabulary.read(tmp_path / "words.txt").words == vocabulary.words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "b", "a"], "Word 2, 'a', stands in the vocabulary twice"),
        (["a", ""], "Word 1 is ''"),
        (["a b"], "Word 0 is 'a b': a word is not empty and holds no gap"),
    ],
)
def test_what_is_no_word_is_refused(words, message):
    with pytest.raises(ValueError, match=message):
        WordVocabulary(words)


def test_no_words_are_refused():
    with pytest.raises(ValueError, match="No word is left: 4 different words, min_count=9"):
        WordVocabulary.of_documents(DOCUMENTS, min_count=9)


def test_docstring_examples():
    assert doctest.testmod(word_vocabulary) == (0, 3)
