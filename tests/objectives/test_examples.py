"""The examples in the docstrings run."""

import pytest
import tensorflow as tf

from keras_bert_impl.objectives.table import OBJECTIVES
from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS
from tests.docstrings import run_examples


@pytest.mark.parametrize(
    ("module", "num_examples"),
    [
        ("capitalization", 1),
        ("dataset", 2),
        ("discourse_relation", 3),
        ("given_rows", 2),
        ("ir_relevance", 3),
        ("masked_lm", 1),
        ("next_sentence", 1),
        ("schedule", 4),
        ("sentence_distance", 1),
        ("sentence_order", 1),
        ("sentence_reordering", 2),
        ("table", 1),
        ("token_document_relation", 2),
    ],
)
def test_docstring_examples(module, num_examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\na\tb\tso\n")
    (tmp_path / "clicks.tsv").write_text("query\ttitle\tclicked\na\tb\t1\n")
    names = {
        "tf": tf,
        "BertTokenizer": BertTokenizer,
        "SPECIAL_TOKENS": SPECIAL_TOKENS,
        "tokenizer": BertTokenizer([*SPECIAL_TOKENS, "a", "b"]),
        **{cls.__name__: cls for cls in OBJECTIVES.values()},
    }
    assert run_examples(f"objectives.{module}", names) == num_examples
