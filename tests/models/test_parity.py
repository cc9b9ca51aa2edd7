"""The toy model against Hugging Face's in float64, from golden files: see tests/golden/make_golden.py."""

import pathlib

import numpy as np
import pytest

from keras_bert_impl.models.backbone import BertBackbone
from tests.models import parity

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
CONFIG = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 20,
}
ACTIVATIONS = {"erf": "gelu", "tanh": "gelu_approximate"}


def golden(name):
    with np.load(GOLDEN / f"{name}.npz") as file:
        return dict(file)


@pytest.fixture(scope="module", params=ACTIVATIONS)
def toy(request):
    """(our outputs, our gradients, their outputs, their gradients by our paths)."""
    pretrainer = parity.build(CONFIG, ACTIVATIONS[request.param])
    parity.set_weights(pretrainer, parity.by_our_paths(golden("toy_weights"), 2))
    theirs = golden(f"toy_{request.param}")
    prefix = "gradient/"
    gradients = {k.removeprefix(prefix): v for k, v in theirs.items() if k.startswith(prefix)}
    outputs, our_gradients = parity.run(pretrainer, golden("toy_batch"))
    return outputs, our_gradients, theirs, parity.by_our_paths(gradients, 2)


OUTPUTS = ["sequence_output", "pooled_output", "masked_lm", "next_sentence", "loss"]


@pytest.mark.parametrize("name", OUTPUTS)
def test_output_is_that_of_hugging_face(toy, name):
    outputs, _, expected, _ = toy
    np.testing.assert_allclose(outputs[name], expected[name], rtol=0, atol=1e-5)


def test_gradients_of_the_joint_loss_are_those_of_hugging_face(toy):
    _, gradients, _, expected = toy
    assert gradients.keys() == expected.keys()
    for path, gradient in gradients.items():
        np.testing.assert_allclose(gradient, expected[path], rtol=0, atol=1e-4, err_msg=path)
        assert np.abs(expected[path]).max() > 1e-3, f"{path} has a trivial gradient"


def test_erf_and_tanh_are_told_apart():
    erf, tanh = golden("toy_erf"), golden("toy_tanh")
    assert np.abs(erf["masked_lm"] - tanh["masked_lm"]).max() > 1e-4


def test_base_size_has_the_papers_parameters():
    backbone = BertBackbone.from_size("base", vocabulary_size=30522)
    assert backbone.count_params() == 109_482_240
