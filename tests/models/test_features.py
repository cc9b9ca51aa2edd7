"""The features of the paper's table 7, beside the encoder's layers called one by one."""

import doctest

import keras
import numpy as np
import pytest

from keras_bert_impl.layers.attention import make_attention_mask
from keras_bert_impl.models import features
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.features import BertFeatures, hidden_states
from tests import small

NUM_LAYERS = 5


@pytest.fixture(scope="module")
def backbone():
    return small.backbone(num_layers=NUM_LAYERS)


@pytest.fixture(scope="module")
def states(backbone):
    """The embeddings' output and each layer's, the layers called one by one."""
    x = small.prepared()
    states = [backbone.embeddings(x["token_ids"], x["segment_ids"])]
    mask = make_attention_mask(x["padding_mask"])
    for layer in backbone.encoder_layers:
        states.append(layer(states[-1], attention_mask=mask))
    return [np.array(state) for state in states]


def of(backbone, chosen):
    return keras.tree.map_structure(np.array, BertFeatures(backbone, chosen)(small.prepared()))


def test_single_layers(backbone, states):
    np.testing.assert_allclose(of(backbone, "embeddings"), states[0], atol=1e-5)
    np.testing.assert_allclose(of(backbone, "last"), states[5], atol=1e-5)
    np.testing.assert_allclose(of(backbone, "second_to_last"), states[4], atol=1e-5)
    assert all(np.abs(a - b).max() > 0.1 for a, b in zip(states, states[1:], strict=False))


def test_the_last_layer_is_the_backbones_output(backbone):
    outputs = backbone(small.prepared())
    np.testing.assert_array_equal(of(backbone, "last"), outputs["sequence_output"])


def test_the_last_four_summed_and_side_by_side(backbone, states):
    total = states[2] + states[3] + states[4] + states[5]
    np.testing.assert_allclose(of(backbone, "sum_last_four"), total, atol=1e-5)
    beside = of(backbone, "concat_last_four")
    assert beside.shape == (4, 12, 64)
    np.testing.assert_allclose(beside, np.concatenate(states[2:], axis=-1), atol=1e-5)


def test_the_weighted_sum_takes_embeddings_and_all_layers(backbone, states):
    model = BertFeatures(backbone, "weighted_sum")
    x = small.prepared()
    np.testing.assert_allclose(model(x), np.mean(states, axis=0), atol=1e-5)
    model.scalar_mix.weight_logits.assign(np.log([1.0, 2, 3, 4, 5, 5]))
    model.scalar_mix.gamma.assign(2)
    expected = sum(share * state for share, state in zip([1, 2, 3, 4, 5, 5], states, strict=True))
    np.testing.assert_allclose(model(x), expected / 10, atol=1e-5)


def test_layers_by_number_as_the_original_counts_them(backbone, states):
    outputs = of(backbone, [-1, -2, 0, -5])
    for ours, state in zip(outputs, (5, 4, 1, 1), strict=True):
        np.testing.assert_allclose(ours, states[state], atol=1e-5)
    np.testing.assert_allclose(of(backbone, [-3]), states[3], atol=1e-5)


def test_weights_are_the_backbones_own():
    backbone = small.backbone(num_layers=2)
    model, count = BertFeatures(backbone, "second_to_last"), len(backbone.weights)
    assert len(model.weights) == count
    before = np.array(model(small.prepared()))
    bias = backbone.encoder_layers[0].output_layer_norm.beta
    bias.assign(np.array(bias) + 1)
    np.testing.assert_allclose(model(small.prepared()), before + 1, atol=1e-5)
    # No node is added to the backbone's graph by taking from it.
    assert len(backbone.encoder_layers[0]._inbound_nodes) == 1


def test_layers_above_are_not_computed(backbone):
    names = {layer.name for layer in BertFeatures(backbone, [1]).operations}
    assert {"encoder_layer_0", "encoder_layer_1"} <= names
    assert not {"encoder_layer_2", "pooler"} & names


def test_a_frozen_backbone_trains_the_mix_alone():
    keras.utils.set_random_seed(0)
    backbone = small.backbone(num_layers=1)
    backbone.trainable = False
    model = BertFeatures(backbone, "weighted_sum")
    assert [w.path for w in model.trainable_weights] == [
        "scalar_mix/weight_logits",
        "scalar_mix/gamma",
    ]
    x = small.prepared()
    target = np.array(BertFeatures(backbone, "embeddings")(x))
    model.compile(keras.optimizers.Adam(0.2), "mse")
    model.fit(x, target, epochs=30, verbose=0)
    assert float(model.scalar_mix.layer_weights()[0]) > 0.9


@pytest.mark.parametrize(
    ("num_layers", "chosen", "message"),
    [
        (3, "sum_last_four", "'sum_last_four' needs 4 encoder layers, but the backbone has 3"),
        (3, "concat_last_four", "'concat_last_four' needs 4 encoder layers"),
        (1, "second_to_last", "'second_to_last' needs 2 encoder layers, but the backbone has 1"),
        (1, "first", "Unknown features 'first'. Choose one of embeddings, last, second_to_last"),
        (3, [-1, -4], r"There is no layer -4: the backbone has 3 encoder layers, -3\.\.2"),
        (3, [3], "There is no layer 3"),
        (3, [], "No layers are given"),
    ],
)
def test_features_that_the_backbone_lacks_are_refused(num_layers, chosen, message):
    with pytest.raises(ValueError, match=message):
        BertFeatures(small.backbone(num_layers=num_layers), chosen)


@pytest.mark.parametrize("chosen", ["concat_last_four", "weighted_sum", [-1, 0]], ids=str)
def test_comes_back_from_a_file(backbone, chosen, tmp_path):
    model = BertFeatures(backbone, chosen, name="chosen")
    if chosen == "weighted_sum":
        model.scalar_mix.weight_logits.assign(range(6))
    model.save(tmp_path / "features.keras")
    again = keras.saving.load_model(tmp_path / "features.keras")
    assert type(again) is BertFeatures
    assert again.get_config() == model.get_config()
    x = small.prepared()
    for ours, theirs in zip(
        keras.tree.flatten(again(x)),
        keras.tree.flatten(model(x)),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_half_precision():
    backbone = small.backbone(num_layers=4, dtype="mixed_float16")
    assert hidden_states(backbone)[0].dtype == "float16"
    full = small.backbone(num_layers=4)
    full.set_weights(backbone.get_weights())
    for name in ("weighted_sum", "sum_last_four"):
        np.testing.assert_allclose(of(backbone, name), of(full, name), atol=0.05)


def test_docstring_examples():
    globs = {**vars(features), "np": np, "BertBackbone": BertBackbone}
    (example,) = (
        test for test in doctest.DocTestFinder().find(features, globs=globs) if test.examples
    )
    assert doctest.DocTestRunner().run(example).failed == 0
