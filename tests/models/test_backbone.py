import inspect

import keras
import numpy as np
import pytest

from keras_bert_impl.models.backbone import SIZES, BertBackbone
from tests import small


def parameters(num_layers, hidden_dim, vocabulary_size, positions=512, segments=2):
    """Tables and norm; four attention matrices, two wide ones, two norms a layer; the pooler."""
    d = hidden_dim
    embeddings = (vocabulary_size + positions + segments) * d + 2 * d
    layer = 4 * (d * d + d) + (d * 4 * d + 4 * d) + (4 * d * d + d) + 2 * 2 * d
    return embeddings + num_layers * layer + d * d + d


@pytest.mark.parametrize("size", ["tiny", "mini", "small", "medium"])
def test_sizes_have_the_papers_parameters(size):
    backbone = BertBackbone.from_size(size, vocabulary_size=1000)
    assert backbone.count_params() == parameters(*SIZES[size], 1000)
    assert backbone.num_heads == backbone.hidden_dim // 64
    assert backbone.intermediate_dim == 4 * backbone.hidden_dim


def test_base_and_large_are_the_papers():
    # test_parity.py builds base and counts.
    assert parameters(*SIZES["base"], 30522) == 109_482_240
    assert parameters(*SIZES["large"], 30522) == 335_141_888


def test_a_size_can_be_varied():
    backbone = BertBackbone.from_size("tiny", vocabulary_size=100, num_layers=1, num_heads=4)
    assert (backbone.num_layers, backbone.num_heads, backbone.hidden_dim) == (1, 4, 128)


def test_an_unknown_size_is_named_with_those_there_are():
    with pytest.raises(ValueError, match="Unknown size 'huge'. Known sizes: tiny, mini, small"):
        BertBackbone.from_size("huge", vocabulary_size=100)


def test_outputs_are_a_vector_a_token_and_one_a_row():
    backbone, x = small.backbone(), small.prepared(rows=3, length=9)
    outputs = backbone(x)
    assert sorted(outputs) == ["pooled_output", "sequence_output"]
    assert outputs["sequence_output"].shape == (3, 9, 16)
    first = np.array(outputs["sequence_output"])[:, 0]
    kernel, bias = (np.array(w) for w in backbone.pooler.weights)
    np.testing.assert_allclose(outputs["pooled_output"], np.tanh(first @ kernel + bias), atol=1e-5)


def test_padding_changes_nothing():
    backbone, x = small.backbone(), small.prepared(rows=3, length=9)
    longer = {name: np.pad(value, [(0, 0), (0, 7)]) for name, value in x.items()}
    longer["token_ids"][:, 9:] = 6
    short, long = (np.array(backbone(rows)["sequence_output"]) for rows in (x, longer))
    np.testing.assert_allclose(short[x["padding_mask"]], long[:, :9][x["padding_mask"]], atol=1e-5)


def test_a_causal_backbone_sees_nothing_that_comes_after():
    x = small.prepared(rows=3, length=9)
    other = {**x, "token_ids": x["token_ids"].copy()}
    other["token_ids"][:, 3] = x["token_ids"][:, 3] % 20 + 10
    backbone = small.backbone(causal=True)
    before, after = (np.array(backbone(rows)["sequence_output"]) for rows in (x, other))
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert (np.abs(before - after)[:, 3].max(axis=-1) > 1e-3).all()
    both_ways = small.backbone()
    both_ways.set_weights(backbone.get_weights())
    before, after = (np.array(both_ways(rows)["sequence_output"]) for rows in (x, other))
    assert (np.abs(before - after)[:, :3].max(axis=-1) > 1e-4).all()


def test_a_causal_row_of_padding_alone_stays_finite():
    x = {name: np.zeros_like(rows) for name, rows in small.prepared().items()}
    assert np.isfinite(small.backbone(causal=True)(x)["sequence_output"]).all()


def test_rows_longer_than_the_position_table_are_refused():
    with pytest.raises(ValueError, match="rows of 33 tokens, but the position table has 32"):
        small.backbone()(small.prepared(length=33))


CHANGES = {
    "vocabulary_size": 50,
    "num_layers": 1,
    "num_heads": 4,
    "hidden_dim": 8,
    "intermediate_dim": 24,
    "dropout": 0.3,
    "max_sequence_length": 16,
    "num_segments": 3,
    "activation": "gelu_approximate",
    "attention_dropout": 0.2,
    "layer_norm_epsilon": 1e-6,
    "initializer_range": 0.1,
    "causal": True,
    "num_tasks": 2,
    "recompute": True,
    "dtype": "mixed_float16",
}


@pytest.mark.parametrize("option", CHANGES)
def test_every_option_survives_the_config(option):
    options = set(inspect.signature(BertBackbone.__init__).parameters) - {"self", "kwargs"}
    assert options == set(CHANGES), "an option is not tested"
    changed = small.backbone(**{option: CHANGES[option]})
    again = BertBackbone.from_config(changed.get_config())
    assert again.get_config() == changed.get_config()
    assert [(w.path, w.shape) for w in again.weights] == [
        (w.path, w.shape) for w in changed.weights
    ]
    if option == "dtype":
        assert again.dtype_policy.name == "mixed_float16"
    else:
        assert getattr(again, option) == CHANGES[option] != getattr(small.backbone(), option)


def test_attention_drops_as_the_rest_unless_told():
    backbone = small.backbone(dropout=0.3)
    assert [layer.attention.dropout_rate for layer in backbone.encoder_layers] == [0.3, 0.3]


def test_options_reach_the_layers():
    backbone = small.backbone(
        dropout=0.3, attention_dropout=0.2, layer_norm_epsilon=1e-6, activation="relu"
    )
    assert backbone.embeddings.dropout_rate == 0.3
    assert backbone.embeddings.layer_norm_epsilon == 1e-6
    for layer in backbone.encoder_layers:
        config = layer.get_config()
        assert (config["dropout"], config["attention_dropout"]) == (0.3, 0.2)
        assert (config["layer_norm_epsilon"], config["activation"]) == (1e-6, "relu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 3}, "hidden_dim=16 is not divisible by num_heads=3"),
        ({"num_layers": 0}, "num_layers must be at least 1, but is 0"),
        ({"max_sequence_length": -1}, "max_sequence_length must be at least 1, but is -1"),
        ({"activation": "swoosh"}, "Unknown activation 'swoosh'"),
    ],
)
def test_sizes_that_make_no_model_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        small.backbone(**changes)


def test_half_precision_outputs_are_close():
    x = small.prepared()
    whole = small.backbone()
    half = small.backbone(dtype="mixed_float16")
    half.set_weights(whole.get_weights())
    outputs = half(x)["sequence_output"]
    assert keras.backend.standardize_dtype(outputs.dtype) == "float16"
    np.testing.assert_allclose(np.array(outputs, "float32"), whole(x)["sequence_output"], atol=0.03)


def test_lora_trains_adapters_and_their_layers_bias_alone():
    backbone, x = small.backbone(), small.prepared()
    before = np.array(backbone(x)["sequence_output"])
    backbone.enable_lora(rank=2)
    paths = [variable.path for variable in backbone.trainable_variables]
    assert sorted(paths) == sorted(
        f"encoder_layer_{i}/attention/query_key_value/{part}"
        for i in range(2)
        for part in ("lora_kernel_a", "lora_kernel_b", "bias")
    )
    # The adapters start at no change.
    np.testing.assert_allclose(backbone(x)["sequence_output"], before, atol=1e-6)


def test_int8_quantization_stays_close():
    backbone, x = small.backbone(), small.prepared()
    before = np.array(backbone(x)["sequence_output"])
    backbone.quantize("int8")
    after = np.array(backbone(x)["sequence_output"])
    assert any(str(w.dtype) == "int8" for w in backbone.weights)
    assert np.abs(after - before).max() > 0
    assert np.abs(after - before).mean() < 0.05 * before.std()
