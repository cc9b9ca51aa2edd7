import doctest
import gzip

import pytest

from keras_bert_impl.data import conll
from keras_bert_impl.data.conll import read_conll, write_conll

CONLL_2003 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
"""
WORDS = [["EU", "rejects"], ["Peter", "Blackburn"]]
TAGS = [["B-ORG", "O"], ["B-PER", "I-PER"]]


@pytest.fixture
def read(tmp_path):
    """A function of a file's contents that reads them."""

    def read(text, name="some.conll", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_conll(path, **options)

    return read


def test_words_tags_and_lines(read, tmp_path):
    sentences = read(CONLL_2003)
    assert sentences.words == WORDS
    assert sentences.tags == TAGS
    assert sentences.lines == [[3, 4], [6, 7]]
    assert sentences.where(1, 0) == f"{tmp_path}/some.conll:6"
    assert sentences.separator == " "


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CONLL_2003.rstrip("\n"), id="no final newline"),
        pytest.param(CONLL_2003 + "\n \n\n", id="blank lines at the end"),
        pytest.param(CONLL_2003.replace("\n", "\r\n"), id="carriage returns"),
        pytest.param("\ufeff" + CONLL_2003, id="byte order mark"),
        pytest.param(CONLL_2003.replace(" ", "\t"), id="tabs"),
        pytest.param(CONLL_2003.replace(" ", "   "), id="several spaces"),
        pytest.param(CONLL_2003.replace("\n", " \n"), id="spaces at line ends"),
        pytest.param(CONLL_2003.replace("\n\nPeter", "\n \t\nPeter"), id="blank line of spaces"),
        pytest.param(CONLL_2003.replace("\n\nPeter", "\n-DOCSTART-\nPeter"), id="document start"),
    ],
)
def test_files_of_all_habits_read_alike(read, text):
    sentences = read(text)
    assert (sentences.words, sentences.tags) == (WORDS, TAGS)


def test_gzip_is_unpacked(read):
    assert read(gzip.compress(CONLL_2003.encode()), name="some.conll.gz").words == WORDS


def test_columns_are_chosen_by_number(read):
    text = "1\tEU\tB-ORG\tx\n2\trejects\tO\tx\n"
    sentences = read(text, word_column=1, tag_column=2)
    assert (sentences.words, sentences.tags) == ([["EU", "rejects"]], [["B-ORG", "O"]])
    assert sentences.separator == "\t"
    assert read(text, word_column=-3, tag_column=-2)[1:3] == sentences[1:3]
    untagged = read("EU\nrejects\n", tag_column=None)
    assert (untagged.words, untagged.tags) == ([["EU", "rejects"]], [[]])


@pytest.mark.parametrize("space", "\u00a0\u2028\u2029\u3000\u0085\x0b\x0c\x1c\x1d\x1e\r\u200b")
def test_odd_white_space_is_part_of_a_word(read, space):
    sentences = read(f"10{space}000 O\n{space} O\nx O\n")
    assert sentences.words == [[f"10{space}000", space, "x"]]
    assert sentences.lines == [[1, 2, 3]]


def test_spaces_are_part_of_a_word_beside_tabs(read):
    assert read("New York\tB-LOC\nis\tO\n").words == [["New York", "is"]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a B\n\nc\n", {}, ":3: columns expected, as in line 1: 2, but found: 1. The line is 'c'"),
        ("a\n", {}, ":1: the tag would be in the word's own column, 0.*tag_column=None"),
        ("a B\n", {"tag_column": 2}, r":1: the tag was to be in column 2, but there are 2 columns"),
        ("a B\n", {"word_column": 5}, r":1: the word was to be in column 5"),
        (
            "a\tO\n\tO\n",
            {},
            r":2: the word, column 0, is empty. Columns are parted by a single tab",
        ),
        ("a\tO\nb\t\n", {}, r":2: the tag, column -1, is empty"),
        (b"a O\n\xff O\n", {}, ":2: not UTF-8: byte 0xff"),
        ("", {}, "some.conll is empty"),
        ("\n-DOCSTART- O\n\n", {}, "has no sentences"),
    ],
)
def test_errors_name_file_and_line(read, tmp_path, text, options, message):
    with pytest.raises(ValueError, match=message) as error:
        read(text, **options)
    assert str(error.value).startswith(str(tmp_path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file .*nothing.conll"):
        read_conll(tmp_path / "nothing.conll")


def test_predictions_stand_beside_the_true_tags(tmp_path):
    path = tmp_path / "predictions.conll"
    predicted = [["O", "O"], ["B-PER", "I-PER"]]
    write_conll(path, WORDS, TAGS, predicted)
    assert path.read_bytes() == (
        b"EU B-ORG O\nrejects O O\n\nPeter B-PER B-PER\nBlackburn I-PER I-PER\n\n"
    )
    assert read_conll(path)[1:3] == (WORDS, predicted)
    assert read_conll(path, tag_column=1)[1:3] == (WORDS, TAGS)


def test_what_was_written_reads_back(tmp_path):
    path = tmp_path / "some.conll"
    words = [["New York", "\u2028", "10\u00a0000"], ["中", "é"]]
    tags = [["B-LOC", "O", "O"], ["O", "O"]]
    write_conll(path, words, tags, separator="\t")
    assert read_conll(path)[1:3] == (words, tags)


@pytest.mark.parametrize(
    ("words", "tags", "message"),
    [
        ([["a"]], [["O"], ["O"]], "Column 1 has 2 sentences, but there are 1"),
        ([["a"], ["b", "c"]], [["O"], ["O"]], r"columns of sentence 1 differ in length: \[2, 1\]"),
        ([["a"], ["b", "New York"]], [["O"], ["O", "O"]], r"Word 1 of sentence 1 has 'New York'.*"),
        ([["a"]], [[""]], "Word 0 of sentence 0 has ''"),
        ([["a\nb"]], [["O"]], r"Word 0 of sentence 0 has 'a\\nb'"),
    ],
)
def test_what_no_line_can_hold_is_not_written(tmp_path, words, tags, message):
    with pytest.raises(ValueError, match=message):
        write_conll(tmp_path / "some.conll", words, tags)


def test_docstring_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.conll").write_text("EU B-ORG\nrejects O\n")
    assert doctest.testmod(conll) == (0, 4)
