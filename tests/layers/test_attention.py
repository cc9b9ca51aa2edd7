import keras
import numpy as np
import pytest

from keras_bert_impl.layers.attention import (
    CausalMask,
    SelfAttention,
    attention_probabilities,
    make_attention_mask,
)
from tests.layers.configs import check_every_option_survives


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def attention(hidden_dim=8, num_heads=2, **options):
    layer = SelfAttention(num_heads, initializer_range=0.5, **options)
    layer.build((None, None, hidden_dim))
    return layer


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# Masks


def test_no_mask_is_none():
    assert make_attention_mask() is None


def test_padding_is_not_looked_at():
    mask = make_attention_mask(np.array([[True, True, False], [True, False, False]]))
    assert np.array(mask).tolist() == [[[[True, True, False]]], [[[True, False, False]]]]


def test_padding_mask_of_ints_is_one_of_bools():
    mask = make_attention_mask(np.array([[1, 0]]))
    assert np.array(mask).tolist() == [[[[True, False]]]]


def test_sequence_ids_are_blocks():
    mask = make_attention_mask(sequence_ids=np.array([[0, 0, 1]]))
    assert np.array(mask)[0, 0].tolist() == [
        [True, True, False],
        [True, True, False],
        [False, False, True],
    ]


def test_causal_is_the_lower_triangle():
    mask = make_attention_mask(causal_length=3)
    assert np.array(mask)[0, 0].tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_masks_are_joined_by_and():
    mask = make_attention_mask(
        np.array([[True, True, True, False]]), np.array([[0, 0, 1, 1]]), causal_length=4
    )
    assert np.array(mask)[0, 0].tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [False, False, True, False],
        [False, False, True, False],
    ]


def test_the_causal_mask_knows_the_length_of_its_rows():
    padding_mask = np.array([[True, True, False]])
    expected = make_attention_mask(padding_mask, causal_length=3)
    np.testing.assert_array_equal(CausalMask()(padding_mask), expected)
    symbolic = CausalMask()(keras.Input((None,), dtype="bool"))
    assert symbolic.shape == (None, 1, None, None)
    assert symbolic.dtype == "bool"


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("masks", "changed", "unmoved", "moved"),
    [
        # The last two tokens are padding: no other token sees them change.
        ({"padding_mask": np.arange(6)[None] < 4}, [4, 5], [0, 1, 2, 3], [4, 5]),
        # A packed example does not see its neighbour change.
        ({"sequence_ids": np.array([[0, 0, 0, 1, 1, 1]])}, [3, 4], [0, 1, 2], [3, 4, 5]),
        # No token sees a later one change.
        ({"causal_length": 6}, [3], [0, 1, 2], [3, 4, 5]),
    ],
    ids=["padding", "sequence_ids", "causal"],
)
def test_what_is_masked_moves_nothing(masks, changed, unmoved, moved, training):
    # A rate too small to drop anything, which takes the training path all the same.
    layer = attention(dropout=1e-12)
    x = random(1, 6, 8)
    other = x.copy()
    other[:, changed] += random(1, len(changed), 8, seed=1)
    mask = make_attention_mask(**masks)
    before, after = (
        np.array(layer(value, attention_mask=mask, training=training)) for value in (x, other)
    )
    np.testing.assert_array_equal(before[:, unmoved], after[:, unmoved])
    assert (np.abs(before - after)[:, moved].max(axis=-1) > 1e-3).all()


# The product


def test_fused_product_is_three_products_split_in_heads():
    hidden_dim, num_heads, head_dim = 8, 2, 4
    layer = attention(hidden_dim, num_heads)
    x, padding_mask = random(2, 5, hidden_dim), np.arange(5) < np.array([[5], [3]])
    layer.query_key_value.bias.assign(random(3 * hidden_dim, seed=2))
    layer.output_dense.bias.assign(random(hidden_dim, seed=3))
    kernel, bias = (np.array(w) for w in layer.query_key_value.weights)
    query, key, value = (
        x @ kernel[:, i * hidden_dim :][:, :hidden_dim] + bias[i * hidden_dim :][:hidden_dim]
        for i in range(3)
    )
    contexts = []
    for head in range(num_heads):
        part = slice(head * head_dim, (head + 1) * head_dim)
        scores = query[..., part] @ key[..., part].transpose(0, 2, 1) / np.sqrt(head_dim)
        scores = np.where(padding_mask[:, None, :], scores, -np.inf)
        contexts.append(softmax(scores) @ value[..., part])
    kernel, bias = (np.array(w) for w in layer.output_dense.weights)
    expected = np.concatenate(contexts, axis=-1) @ kernel + bias

    output = layer(x, attention_mask=make_attention_mask(padding_mask))
    np.testing.assert_allclose(output, expected, atol=1e-5)


def test_probabilities_sum_to_one_and_skip_what_is_masked():
    mask = make_attention_mask(np.array([[True, True, False]]))
    weights = np.array(attention_probabilities(random(1, 3, 2, 4), random(1, 3, 2, 4), mask))
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)
    assert (weights[..., 2] == 0).all()


@pytest.mark.parametrize("masked", [False, True])
def test_training_path_without_drops_is_the_inference_path(masked):
    layer = attention(dropout=1e-12)
    x = random(2, 5, 8)
    mask = make_attention_mask(np.arange(5) < np.array([[5], [3]])) if masked else None
    np.testing.assert_allclose(
        layer(x, attention_mask=mask, training=True),
        layer(x, attention_mask=mask, training=False),
        atol=1e-6,
    )


def test_new_positions_see_the_old_by_the_cache_as_if_all_were_there():
    layer = attention()
    x = random(2, 6, 8)
    whole = np.array(layer(x, attention_mask=make_attention_mask(causal_length=6)))
    cache = (np.full((2, 6, 2, 4), 7, "float32"),) * 2  # what is not written yet counts for nothing
    outputs = []
    for first, last in ((0, 3), (3, 4), (4, 6)):
        mask = (np.arange(6) <= np.arange(first, last)[:, None])[None, None]
        output, cache = layer.with_cache(x[:, first:last], cache, first, mask)
        outputs.append(np.array(output))
    np.testing.assert_allclose(np.concatenate(outputs, axis=1), whole, atol=1e-5)


def test_dropout_is_on_in_training_alone():
    layer = attention(dropout=0.5)
    x = random(2, 5, 8)
    np.testing.assert_array_equal(layer(x), layer(x, training=False))
    assert np.abs(np.array(layer(x, training=True)) - np.array(layer(x))).max() > 1e-3


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("training", [False, True])
def test_a_row_of_padding_alone_stays_finite(dtype, training):
    layer = attention(dropout=0.1, dtype=dtype)
    x = 50 * random(2, 5, 8)
    mask = make_attention_mask(np.array([[True] * 5, [False] * 5]))
    output = keras.ops.convert_to_numpy(
        keras.ops.cast(layer(x, attention_mask=mask, training=training), "float32")
    )
    assert np.isfinite(output).all()


def test_probabilities_are_float32_under_half_precision():
    query = random(1, 3, 2, 4).astype("float16")
    assert keras.backend.standardize_dtype(attention_probabilities(query, query).dtype) == "float32"


def test_weights_start_as_a_truncated_normal():
    layer = SelfAttention(4)
    layer.build((None, None, 128))
    kernel = np.array(layer.query_key_value.kernel)
    assert np.abs(kernel).max() <= 0.04
    assert kernel.std() == pytest.approx(0.8796 * 0.02, rel=0.03)
    assert not np.array(layer.query_key_value.bias).any()


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="hidden_dim=8 is not divisible by num_heads=3"):
        SelfAttention(3).build((None, None, 8))


def test_every_option_survives_the_config():
    check_every_option_survives(
        SelfAttention, {"num_heads": 2}, {"dropout": 0.3, "initializer_range": 0.1}
    )
