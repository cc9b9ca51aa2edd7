"""The examples in the docstrings run."""

import doctest
import gzip
import importlib
import types

import pytest
import tensorflow as tf

from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS


@pytest.mark.parametrize(
    ("module", "num_examples"),
    [("packing", 2), ("masking", 1), ("sentence_pairs", 1), ("sources", 2), ("pretraining", 1)],
)
def test_docstring_examples(module, num_examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.tsv").write_text("sentence\tlabel\na b\t1\nb\t0\n")
    (tmp_path / "part-1.txt").write_text("a b\nb a\n\na\n")
    (tmp_path / "part-2.txt.gz").write_bytes(gzip.compress(b"b b\n"))
    names = {"tf": tf, "types": types, "tokenizer": BertTokenizer([*SPECIAL_TOKENS, "a", "b"])}
    loaded = importlib.import_module(f"keras_bert_impl.data.{module}")
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [
        test for test in finder.find(loaded, globs={**vars(loaded), **names}) if test.examples
    ]
    assert len(examples) == num_examples
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for example in examples:
        assert runner.run(example).failed == 0
