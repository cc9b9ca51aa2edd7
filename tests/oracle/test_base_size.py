"""Base size, live against Hugging Face transformers. Needs the oracle extra: `make oracle`."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.golden import make_golden  # noqa: E402
from tests.models import parity  # noqa: E402

pytestmark = pytest.mark.oracle

CONFIG = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
ACTIVATIONS = {"erf": ("gelu", "gelu"), "tanh": ("gelu_new", "gelu_approximate")}


def make_weights(model):
    """Normal with deviation 0.03, around 1 in layer norms: biases too, so that they matter."""
    rng = np.random.default_rng(3)
    weights = {}
    for name, parameter in model.named_parameters():
        mean = 1.0 if "LayerNorm.weight" in name else 0.0
        value = rng.standard_normal(tuple(parameter.shape), dtype="float32")
        weights[name] = (mean + 0.03 * value).astype("float32")
    return weights


def make_batch():
    """Four rows of up to 128 tokens: two segments, padding, 20 prediction slots some empty."""
    rng = np.random.default_rng(4)
    lengths, masked = np.array([128, 90, 40, 7]), np.array([19, 14, 6, 1])
    places, slots = np.arange(128), np.arange(20)
    padding_mask = places < lengths[:, None]
    segments = (places >= lengths[:, None] // 2) & padding_mask
    filled = slots < masked[:, None]
    positions = np.stack([rng.choice(np.arange(1, n - 1), 20, n < 25) for n in lengths])
    return {
        "token_ids": np.where(padding_mask, rng.integers(1000, 30522, (4, 128)), 0).astype("int32"),
        "segment_ids": segments.astype("int32"),
        "padding_mask": padding_mask,
        "mask_positions": np.where(filled, positions, 0).astype("int32"),
        "mask_ids": np.where(filled, rng.integers(1000, 30522, (4, 20)), 0).astype("int32"),
        "mask_weights": filled.astype("float32"),
        "next_sentence": np.array([0, 1, 1, 0], "int32"),
    }


@pytest.fixture(scope="module", params=ACTIVATIONS)
def base(request):
    theirs_name, ours_name = ACTIVATIONS[request.param]
    model = make_golden.make_model(theirs_name, CONFIG, torch.float32)
    weights = make_weights(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.tensor(weights[name]))
    batch = make_batch()
    pretrainer = parity.build(CONFIG, ours_name)
    parity.set_weights(pretrainer, parity.by_our_paths(weights, 12))
    ours = parity.run(pretrainer, batch)
    single = make_golden.run(model, batch)
    double = make_golden.run(model.double(), batch)
    return ours, single, double


def difference(a, b):
    return float(np.abs(a.astype("float64") - b).max())


@pytest.mark.parametrize(
    "name", ["sequence_output", "pooled_output", "masked_lm", "next_sentence", "loss"]
)
def test_output_is_that_of_hugging_face(base, name):
    (ours, _), (single, _), (double, _) = base
    print(
        f"{name}: ours to float32 {difference(ours[name], single[name]):.1e}, "
        f"to float64 {difference(ours[name], double[name]):.1e}; "
        f"their float32 to float64 {difference(single[name], double[name]):.1e}; "
        f"largest value {np.abs(double[name]).max():.2f}"
    )
    assert difference(ours[name], single[name]) <= 1e-5
    assert difference(ours[name], double[name]) <= 1e-5


def test_gradients_of_the_joint_loss_are_those_of_hugging_face(base):
    (_, ours), (_, single), _ = base
    expected = parity.by_our_paths(single, 12)
    assert ours.keys() == expected.keys()
    worst = max(difference(ours[path], expected[path]) for path in ours)
    print(f"gradients: largest difference {worst:.1e}")
    assert worst <= 1e-4
