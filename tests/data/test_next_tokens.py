import doctest

import numpy as np

from keras_bert_impl.data import next_tokens as module
from keras_bert_impl.data.next_tokens import next_tokens


def test_each_token_is_to_predict_the_one_after_it():
    draw = np.random.default_rng(0)
    lengths = [0, 1, 2, 5, 6]
    padding_mask = np.arange(6) < np.array(lengths)[:, None]
    token_ids = np.where(padding_mask, draw.integers(5, 50, (5, 6)), 0)
    next_ids, weights = next_tokens({"token_ids": token_ids, "padding_mask": padding_mask})
    assert (next_ids.dtype.name, weights.dtype.name) == ("int32", "float32")
    for row, length in enumerate(lengths):
        known = max(length - 1, 0)
        assert next_ids[row].numpy().tolist() == [
            *token_ids[row, 1 : known + 1],
            *[0] * (6 - known),
        ]
        assert weights[row].numpy().tolist() == [1] * known + [0] * (6 - known)


def test_docstring_examples():
    assert doctest.testmod(module) == (0, 2)
