import pytest
import tensorflow as tf

from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import (
    SPECIAL_TOKENS,
    check_vocabulary,
    read_vocabulary,
    save_vocabulary,
    train_vocabulary,
)

TEXTS = ["The lowest of the low, lower still.", "Newer and newest; wider, widest 中文!"] * 20


def test_only_line_ends_are_cut_off(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\r\n".join([*SPECIAL_TOKENS, " a ", "\u00a0", "b\u2028c"]).encode())
    assert read_vocabulary(path)[5:] == [" a ", "\u00a0", "b\u2028c"]


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.txt: no such vocabulary file"):
        read_vocabulary(tmp_path / "none.txt")


def test_empty_file_is_refused(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="vocab.txt: the file is empty"):
        read_vocabulary(path)


def test_line_that_is_no_utf8_is_named(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"[PAD]\n[UNK]\nab\xff\n")
    with pytest.raises(ValueError, match="vocab.txt:3: byte 2 of the line is not UTF-8"):
        read_vocabulary(path)


def test_both_lines_of_a_duplicate_are_named(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, "a", "b", "a"]))
    with pytest.raises(ValueError, match="vocab.txt:8: the token 'a' already stands in line 6"):
        read_vocabulary(path)


def test_empty_token_is_named():
    with pytest.raises(ValueError, match="vocabulary:6: the token is empty"):
        check_vocabulary([*SPECIAL_TOKENS, ""])


def test_missing_special_token_is_named(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    with pytest.raises(ValueError, match=r"vocab.txt: the special token '\[MASK\]' is missing"):
        read_vocabulary(path)


def test_saved_vocabulary_comes_back(tmp_path):
    tokens = [*SPECIAL_TOKENS, " a", "##é", "\u2028"]
    save_vocabulary(tokens, tmp_path / "vocab.txt")
    assert read_vocabulary(tmp_path / "vocab.txt") == tokens
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]


def test_token_with_a_line_end_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="holds a line's end"):
        save_vocabulary([*SPECIAL_TOKENS, "a\nb"], tmp_path / "vocab.txt")


def test_trained_vocabulary_covers_its_texts():
    vocabulary = train_vocabulary(TEXTS, 200, progress=False)
    assert vocabulary[:5] == list(SPECIAL_TOKENS)
    assert len(vocabulary) == len(set(vocabulary)) <= 200
    assert {"low", "the", "中", "文", ","} <= set(vocabulary)
    assert "##中" not in vocabulary
    tokenizer = BertTokenizer(vocabulary)
    assert tokenizer.unk_token_id not in tokenizer(TEXTS).values.numpy()


def test_size_is_never_exceeded():
    for size in (6, 20, 40, 60):
        assert len(train_vocabulary(TEXTS, size, progress=False)) <= size
    with pytest.raises(ValueError, match="vocabulary_size=5 leaves no room"):
        train_vocabulary(TEXTS, 5, progress=False)


def test_training_depends_neither_on_order_nor_on_batches():
    expected = train_vocabulary(TEXTS, 60, progress=False)
    assert train_vocabulary(TEXTS[::-1], 60, batch_size=3, progress=False) == expected
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS)
    assert train_vocabulary(dataset, 60, progress=False) == expected
    assert train_vocabulary(dataset.batch(7), 60, progress=False) == expected


def test_training_follows_the_options():
    assert "The" in train_vocabulary(TEXTS, 200, lowercase=False, progress=False)
    kept = train_vocabulary(["É É"], 20, strip_accents=False, progress=False)
    assert kept[5:] == ["é"]


def test_texts_without_a_word_are_refused():
    with pytest.raises(ValueError, match="The texts hold no word"):
        train_vocabulary(["", " "], 20, progress=False)
