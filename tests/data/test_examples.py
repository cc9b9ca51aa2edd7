"""The examples in the docstrings run."""

import gzip
import types

import pytest
import tensorflow as tf

from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS
from tests.docstrings import run_examples


@pytest.mark.parametrize(
    ("module", "num_examples"),
    [
        ("packing", 2),
        ("row_packing", 1),
        ("batching", 2),
        ("masking", 1),
        ("masking_units", 1),
        ("marked_pieces", 5),
        ("phrase_table", 2),
        ("sentence_pairs", 1),
        ("sources", 2),
        ("pretraining", 1),
        ("word_units", 3),
    ],
)
def test_docstring_examples(module, num_examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.tsv").write_text("sentence\tlabel\na b\t1\nb\t0\n")
    (tmp_path / "part-1.txt").write_text("a b\nb a\n\na\n")
    (tmp_path / "part-2.txt.gz").write_bytes(gzip.compress(b"b b\n"))
    (tmp_path / "phrases.txt").write_text("a b\n")
    names = {
        "tf": tf,
        "types": types,
        "tokenizer": BertTokenizer([*SPECIAL_TOKENS, "a", "b"]),
        "BertTokenizer": BertTokenizer,
        "SPECIAL_TOKENS": SPECIAL_TOKENS,
    }
    assert run_examples(f"data.{module}", names) == num_examples
