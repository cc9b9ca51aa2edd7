"""A vocabulary, a backbone and batches small enough that tests of whole models take a second."""

import numpy as np

from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS

LETTERS = [chr(ord("a") + i) for i in range(26)]
WORDS = ["the", "cat", "dog", "sat", "ran", "on", "mat", "un", "##aff", "##able", ".", ","]
VOCABULARY = [*SPECIAL_TOKENS, *LETTERS, *WORDS]
TEXTS = ["the cat sat on the mat .", "the dog ran", "a cat , a dog", "unaffable"]


def tokenizer(**options) -> BertTokenizer:
    return BertTokenizer(VOCABULARY, **options)


def backbone(**changes) -> BertBackbone:
    sizes = {
        "vocabulary_size": len(VOCABULARY),
        "num_layers": 2,
        "num_heads": 2,
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "max_sequence_length": 32,
        # Large enough that every part of a row changes its outputs.
        "initializer_range": 0.3,
    }
    return BertBackbone(**{**sizes, **changes})


def prepared(rows=4, length=12, seed=0) -> dict[str, np.ndarray]:
    """Rows of ids in all lengths, with both segments and padding."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(4, length + 1, (rows, 1))
    padding_mask = np.arange(length) < lengths
    token_ids = draw.integers(len(SPECIAL_TOKENS), len(VOCABULARY), (rows, length))
    return {
        "token_ids": np.where(padding_mask, token_ids, 0).astype("int32"),
        "segment_ids": ((np.arange(length) >= lengths // 2) & padding_mask).astype("int32"),
        "padding_mask": padding_mask,
    }
