import numpy as np
from keras import ops

from keras_bert_impl.models import decoding
from tests import small


def test_token_by_token_gives_the_vectors_of_all_at_once():
    backbone = small.backbone(causal=True)
    ids = small.prepared(rows=3, length=8)["token_ids"]
    x = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids >= 0}
    whole = np.array(backbone(x)["sequence_output"])
    cache = decoding.empty_cache(backbone, 3, 8)
    for i in range(8):
        vectors, cache = decoding.step(backbone, ops.convert_to_tensor(ids[:, i : i + 1]), cache, i)
        np.testing.assert_allclose(vectors[:, 0], whole[:, i], atol=1e-5)


def test_several_tokens_at_a_time_too():
    backbone = small.backbone(causal=True)
    ids = small.prepared(rows=2, length=8)["token_ids"]
    x = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids >= 0}
    cache = decoding.empty_cache(backbone, 2, 8)
    parts = []
    for first, last in ((0, 5), (5, 8)):
        vectors, cache = decoding.step(
            backbone, ops.convert_to_tensor(ids[:, first:last]), cache, first
        )
        parts.append(np.array(vectors))
    expected = np.array(backbone(x)["sequence_output"])
    np.testing.assert_allclose(np.concatenate(parts, axis=1), expected, atol=1e-5)


def test_what_stands_after_the_new_tokens_counts_for_nothing():
    backbone = small.backbone(causal=True)
    ids = ops.convert_to_tensor(small.prepared(rows=2, length=8)["token_ids"])
    empty = decoding.empty_cache(backbone, 2, 8)
    full = [(keys + 5, values - 3) for keys, values in empty]
    ours, theirs = (decoding.step(backbone, ids[:, :4], cache, 0)[0] for cache in (empty, full))
    np.testing.assert_array_equal(ours, theirs)
