import gzip
import json

import pytest

from keras_bert_impl.data import sources
from keras_bert_impl.data.sources import (
    check_labels,
    check_numbers,
    check_text_file,
    read_documents,
    read_table,
)


def write(path, content):
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def documents_in(*paths):
    return [[s.decode() for s in document.numpy()] for document in read_documents(paths)]


def test_blank_lines_and_the_ends_of_files_end_documents(tmp_path):
    one = write(tmp_path / "one.txt", "\n\na one\n  a two \n\n \t\n\u00a0\u2003\nb\u00a0one\n")
    two = write(tmp_path / "two.txt.gz", "c one\r\nc two\r\n\r\nd one")
    assert documents_in(one, two) == [
        ["a one", "a two"],
        ["b\u00a0one"],
        ["c one", "c two"],
        ["d one"],
    ]
    assert [d.shape.rank for d in read_documents(str(one))] == [1, 1]


@pytest.mark.parametrize("block_lines", [1, 2, 3, 7, 1024])
def test_documents_longer_than_a_block_stay_whole(tmp_path, monkeypatch, block_lines):
    monkeypatch.setattr(sources, "_BLOCK_LINES", block_lines)
    documents = [[f"{d} {s}" for s in range(size)] for d, size in enumerate([1, 9, 2, 30, 1])]
    path = write(tmp_path / "text.txt", "\n\n\n".join("\n".join(d) for d in documents))
    assert documents_in(path) == documents


def test_blank_lines_are_pythons(tmp_path):
    # the reference strips lines with str.strip
    codes = {*range(0x20), 0x85, 0xA0, 0x1680, 0x180E, 0x2028, 0x2029, 0x200B, 0x3000, 0xFEFF}
    codes -= {ord("\n"), ord("\r")}
    paths = [
        write(tmp_path / f"{code:x}.txt", f"before {code:x}\n{chr(code)}\nafter {code:x}\n")
        for code in codes
    ]
    last_lines = {document[-1] for document in documents_in(*paths)}
    parted = {code for code in codes if f"before {code:x}" in last_lines}
    assert parted == {code for code in codes if chr(code).isspace()}


def test_a_file_of_blank_lines_has_no_documents(tmp_path):
    assert documents_in(write(tmp_path / "blank.txt", "\n \n\n")) == []


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file .*nowhere.txt"):
        read_documents(tmp_path / "nowhere.txt")
    with pytest.raises(FileNotFoundError, match="nowhere.tsv"):
        read_table(tmp_path / "nowhere.tsv", ["a"])
    with pytest.raises(ValueError, match="no paths"):
        read_documents([])


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        check_text_file(tmp_path)


@pytest.mark.parametrize("name", ["empty.txt", "empty.txt.gz"])
def test_empty_file(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name} is empty"):
        read_documents(write(tmp_path / name, ""))


def test_a_file_that_is_no_gzip(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(b"plain text")
    with pytest.raises(ValueError, match="text.txt.gz cannot be read: Not a gzipped file"):
        check_text_file(path)
    whole = gzip.compress(b"some text that is cut off" * 99)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="text.txt.gz cannot be read"):
        check_text_file(path)


@pytest.mark.parametrize("block_bytes", [1, 2, 5, 1 << 20])
@pytest.mark.parametrize("name", ["latin.txt", "latin.txt.gz"])
def test_text_that_is_not_utf8_names_the_line(tmp_path, monkeypatch, name, block_bytes):
    monkeypatch.setattr(sources, "_BLOCK_BYTES", block_bytes)
    good = write(tmp_path / ("good-" + name), "caf\u00e9\n\U0001f600\u4e2d\n")
    check_text_file(good)
    path = write(tmp_path / name, "caf\u00e9\ntwo\n".encode() + b"caf\xe9 au lait\nfour\n")
    with pytest.raises(ValueError, match=rf"{name}:3: not UTF-8: byte 0xe9"):
        check_text_file(path)
    with pytest.raises(ValueError, match=rf"{name}:2: not UTF-8: byte 0xf0"):  # cut in a character
        check_text_file(write(tmp_path / name, b"one\n\xf0\x9f"))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_tsv_by_column_name(tmp_path, suffix):
    path = write(
        tmp_path / f"train.tsv{suffix}", 'id\tlabel\ttext\n7\t1\tsay "a\n8\t0\tsecond, one"\n\n'
    )
    table = read_table(path, ["text", "label"])
    assert table.columns == {"text": ['say "a', 'second, one"'], "label": ["1", "0"]}
    assert table.lines == [2, 3]
    assert table.where(1) == f"{path}:3"


def test_csv_with_quoted_commas_and_newlines(tmp_path):
    path = write(
        tmp_path / "train.csv",
        '\ufefftext,label\r\n"one, ""quoted""",1\r\n"on two\nlines",0\r\nlast,1\r\n',
    )
    table = read_table(path, ["text", "label"])
    assert table.columns["text"] == ['one, "quoted"', "on two\nlines", "last"]
    assert table.columns["label"] == ["1", "0", "1"]
    assert table.lines == [2, 3, 5]


def test_jsonl(tmp_path):
    rows = [
        {"text": "a\nb", "label": 1, "other": None},
        {"label": True, "text": ""},
        {"text": "c", "label": 0.5},
    ]
    path = write(tmp_path / "train.jsonl", "\n\n".join(json.dumps(row) for row in rows))
    table = read_table(path, ["text", "label"])
    assert table.columns == {"text": ["a\nb", "", "c"], "label": ["1", "true", "0.5"]}
    assert table.lines == [1, 3, 5]


def test_the_format_can_be_told(tmp_path):
    path = write(tmp_path / "train.txt", "a\tb\n1\t2\n")
    assert read_table(path, ["b"], format="tsv").columns == {"b": ["2"]}
    with pytest.raises(ValueError, match="unknown table format 'txt'.*tsv, csv, jsonl"):
        read_table(path, ["b"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.tsv", "", "t.tsv is empty"),
        ("t.tsv", "text\tlabel\n", "t.tsv has no rows"),
        ("t.jsonl", "\n\n", "t.jsonl has no rows"),
        ("t.tsv", "text\tlable\na\t1\n", r"t.tsv:1: no column 'label'. Columns: text, lable\."),
        ("t.csv", "text,label,text\na,1,b\n", "t.csv:1: more than one column 'text'"),
        ("t.tsv", "text\tlabel\na\t1\nb\n", r"t.tsv:3: 1 fields, but 2 columns \(text, label\)"),
        ("t.tsv", "text\tlabel\na\t1\tc\n", "t.tsv:2: 3 fields, but 2 columns"),
        ("t.csv", 'text,label\n"a\nb",1\nc\n', "t.csv:4: 1 fields, but 2 columns"),
        ("t.csv", 'text,label\na,1\n"open,1\nb,2\n', "t.csv:3: unexpected end of data"),
        ("t.csv", "text,label\na," + "x" * 200_000, "t.csv:2: field larger than field limit"),
        ("t.tsv", b"text\tlabel\na\t1\n\xff\t0\n", "t.tsv:3: not UTF-8"),
        ("t.jsonl", '{"text": "a", "label": 1}\n{"text": ', "t.jsonl:2: not JSON"),
        ("t.jsonl", '["a", 1]\n', "t.jsonl:1: expected a JSON object, got list"),
        ("t.jsonl", '{"text": "a", "y": 1}\n', "t.jsonl:1: no column 'label'. Columns: text, y"),
        ("t.jsonl", '{"text": null, "label": 1}\n', "t.jsonl:1: text is null, but must be a text"),
    ],
)
def test_bad_tables(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=message):
        read_table(path, ["text", "label"])


def test_labels(tmp_path):
    table = read_table(write(tmp_path / "t.tsv", "y\tz\n0\tno\n2\tyes \n"), ["y", "z"])
    assert check_labels(table, "y", num_classes=3) == [0, 2]
    assert check_labels(table, "z", class_names=["yes", "no"]) == [1, 0]
    with pytest.raises(ValueError, match=r"t.tsv:3: y is '2', but must be .* from 0 to 1"):
        check_labels(table, "y", num_classes=2)
    with pytest.raises(ValueError, match=r"t.tsv:2: z is 'no', but must be one of yes, maybe"):
        check_labels(table, "z", class_names=["yes", "maybe"])
    for wrong in ({}, {"num_classes": 2, "class_names": ["a", "b"]}):
        with pytest.raises(ValueError, match="either num_classes or class_names"):
            check_labels(table, "y", **wrong)


@pytest.mark.parametrize("label", ["-1", "1.0", "one", ""])
def test_labels_that_are_no_class(tmp_path, label):
    table = read_table(write(tmp_path / "t.tsv", f"y\tx\n0\ta\n{label}\tb\n"), ["y"])
    with pytest.raises(ValueError, match=f"t.tsv:3: y is '{label}'"):
        check_labels(table, "y", num_classes=2)


def test_numbers(tmp_path):
    table = read_table(write(tmp_path / "t.tsv", "y\tz\n0\t1\n2.5e-1\tnan\n"), ["y", "z"])
    assert check_numbers(table, "y") == [0.0, 0.25]
    with pytest.raises(ValueError, match="t.tsv:3: z is 'nan', but must be a number"):
        check_numbers(table, "z")
