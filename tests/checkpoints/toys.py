"""Toy checkpoints as other packages write them, and the outputs that transformers gave for them."""

import json
import pathlib

import numpy as np
import safetensors.numpy

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "the", "cat"),
    *(f"[unused{i}]" for i in range(1, 50)),
]
CONFIG = {
    "architectures": ["BertForPreTraining"],
    "model_type": "bert",
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 20,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
INPUTS = ("token_ids", "segment_ids", "padding_mask")


def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / f"{name}.npz") as file:
        return dict(file)


def weights() -> dict[str, np.ndarray]:
    """A BertForPreTraining's, under transformers' names."""
    return golden("toy_weights")


def inputs(*more: str) -> dict[str, np.ndarray]:
    batch = golden("toy_batch")
    return {name: batch[name] for name in (*INPUTS, *more)}


def heads_of(architecture: str) -> dict[str, np.ndarray]:
    """The weights that transformers saves for a class."""
    everything = weights()
    encoder = {n: w for n, w in everything.items() if n.startswith("bert.")}
    no_pooler = {n: w for n, w in encoder.items() if "pooler" not in n}
    masked_lm = {n: w for n, w in everything.items() if n.startswith("cls.predictions")}
    next_sentence = {n: w for n, w in everything.items() if n.startswith("cls.seq")}
    rng = np.random.default_rng(8)

    def linear(name, size):
        weight = rng.normal(size=(size, 32)).astype("float32")
        return {f"{name}.weight": weight, f"{name}.bias": rng.normal(size=size).astype("float32")}

    return {
        "BertModel": {n.removeprefix("bert."): w for n, w in encoder.items()},
        "BertForPreTraining": everything,
        "BertForMaskedLM": no_pooler | masked_lm,
        "BertForNextSentencePrediction": encoder | next_sentence,
        "BertForSequenceClassification": encoder | linear("classifier", 3),
        "BertForTokenClassification": no_pooler | linear("classifier", 3),
        "BertForQuestionAnswering": no_pooler | linear("qa_outputs", 2),
        "BertForMultipleChoice": encoder | linear("classifier", 1),
    }[architecture]


def write_hugging_face(
    folder: pathlib.Path,
    architecture: str = "BertForPreTraining",
    tensors: dict[str, np.ndarray] | None = None,
    tokenizer: dict | None = None,
    vocabulary: list[str] | None = VOCABULARY,
    **config,
) -> pathlib.Path:
    """A folder as transformers saves it, by the safetensors library."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = heads_of(architecture) if tensors is None else tensors
    safetensors.numpy.save_file(
        {name: np.ascontiguousarray(value) for name, value in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    config = {**CONFIG, "architectures": [architecture], **config}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    if vocabulary is not None:
        (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    if tokenizer is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), "utf-8")
    return folder


def assert_close(ours, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(ours), expected, rtol=0, atol=tolerance)
