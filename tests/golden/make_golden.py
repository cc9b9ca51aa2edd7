"""Makes the golden files that tests/models/test_parity.py compares with. Needs the oracle extra.

    python tests/golden/make_golden.py

A toy BERT of Hugging Face transformers with both pretraining heads, in float64: weights,
inputs, outputs, the joint loss and its gradients. The weights are float32 numbers, so the
files hold them exactly, and the outputs are what exact arithmetic would give to about 1e-12.
"""

import pathlib

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).parent
EPSILON = 1e-5  # google-research/bert, run_pretraining.py: sum(w * l) / (sum(w) + 1e-5)

CONFIG = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 20,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
ACTIVATIONS = {"erf": "gelu", "tanh": "gelu_new"}


def make_weights(model, seed: int) -> dict[str, np.ndarray]:
    """Random float32 weights, large enough that every part of the model matters."""
    rng = np.random.default_rng(seed)
    weights = {}
    for name, parameter in model.named_parameters():
        if "LayerNorm.weight" in name:
            value = rng.normal(1.0, 0.2, parameter.shape)
        elif name.endswith("bias"):
            value = rng.normal(0.0, 0.3, parameter.shape)
        else:
            value = rng.normal(0.0, 0.25, parameter.shape)
        weights[name] = value.astype("float32")
    return weights


def make_batch(seed: int) -> dict[str, np.ndarray]:
    """Three rows: full, padded, nearly empty; empty prediction slots point at position 0."""
    rng = np.random.default_rng(seed)
    length, slots = 20, 5
    lengths, ends_of_a, masked = np.array([20, 13, 3]), np.array([9, 6, 3]), np.array([5, 2, 1])
    places = np.arange(length)
    padding_mask = places < lengths[:, None]
    token_ids = np.where(padding_mask, rng.integers(5, 61, (3, length)), 0)
    segment_ids = ((places >= ends_of_a[:, None]) & padding_mask).astype("int32")
    filled = np.arange(slots) < masked[:, None]
    positions = np.stack([rng.choice(np.arange(1, n - 1), slots, n < 8) for n in lengths])
    return {
        "token_ids": token_ids.astype("int32"),
        "segment_ids": segment_ids,
        "padding_mask": padding_mask,
        "mask_positions": np.where(filled, positions, 0).astype("int32"),
        "mask_ids": np.where(filled, rng.integers(5, 61, (3, slots)), 0).astype("int32"),
        "mask_weights": filled.astype("float32"),
        "next_sentence": np.array([0, 1, 1], "int32"),
    }


def joint_loss(masked_lm_logits, next_sentence_logits, batch):
    """The reference's loss: masked LM per masked token, plus next sentence per row."""
    losses = torch.nn.functional.cross_entropy(
        masked_lm_logits.flatten(0, 1),
        torch.tensor(batch["mask_ids"]).long().flatten(),
        reduction="none",
    )
    weights = torch.tensor(batch["mask_weights"]).to(losses.dtype).flatten()
    masked_lm = (weights * losses).sum() / (weights.sum() + EPSILON)
    labels = torch.tensor(batch["next_sentence"]).long()
    return masked_lm + torch.nn.functional.cross_entropy(next_sentence_logits, labels)


def run(model, batch) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Outputs of a BertForPreTraining, with the joint loss, and its gradients by parameter."""
    model.eval()
    model.zero_grad()
    encoded = model.bert(
        input_ids=torch.tensor(batch["token_ids"]).long(),
        token_type_ids=torch.tensor(batch["segment_ids"]).long(),
        attention_mask=torch.tensor(batch["padding_mask"]).long(),
    )
    masked_lm, next_sentence = model.cls(encoded.last_hidden_state, encoded.pooler_output)
    positions = torch.tensor(batch["mask_positions"]).long()[:, :, None]
    masked_lm = torch.take_along_dim(masked_lm, positions, dim=1)
    loss = joint_loss(masked_lm, next_sentence, batch)
    loss.backward()
    outputs = {
        "sequence_output": encoded.last_hidden_state,
        "pooled_output": encoded.pooler_output,
        "masked_lm": masked_lm,
        "next_sentence": next_sentence,
        "loss": loss,
    }
    outputs = {name: value.detach().numpy() for name, value in outputs.items()}
    return outputs, {name: p.grad.numpy() for name, p in model.named_parameters()}


def make_model(activation: str, config: dict, dtype=torch.float64):
    """A BertForPreTraining whose attention is computed term by term, as the paper writes it."""
    config = transformers.BertConfig(hidden_act=activation, **config)
    config._attn_implementation = "eager"
    return transformers.BertForPreTraining(config).to(dtype)


def save_torch_files(weights) -> None:
    """The toy as pytorch-transformers named it in 2019, and small tensors of every kind."""
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): torch.tensor(value)
        for name, value in weights.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(20)[None]
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"]
    torch.save(old, HERE / "toy_2019.bin")
    numbers = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 4
    kinds = {
        "float32": numbers,
        "transposed": numbers.T,
        "row": numbers[1],
        "float64": numbers.double(),
        "float16": numbers.half(),
        "bfloat16": numbers.bfloat16(),
        "int64": numbers.long(),
        "bool": numbers > 1,
        "scalar": torch.tensor(2.5),
        "parameter": torch.nn.Parameter(numbers + 1),
    }
    torch.save(kinds, HERE / "kinds_zip.bin")
    torch.save(kinds, HERE / "kinds_stream.bin", _use_new_zipfile_serialization=False)


def main():
    weights = make_weights(make_model("gelu", CONFIG), seed=1)
    batch = make_batch(seed=2)
    np.savez_compressed(HERE / "toy_weights.npz", **weights)
    np.savez_compressed(HERE / "toy_batch.npz", **batch)
    save_torch_files(weights)
    for name, activation in ACTIVATIONS.items():
        model = make_model(activation, CONFIG)
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                parameter.copy_(torch.tensor(weights[key]))
        outputs, gradients = run(model, batch)
        gradients = {f"gradient/{key}": g.astype("float32") for key, g in gradients.items()}
        np.savez_compressed(HERE / f"toy_{name}.npz", **outputs, **gradients)
        print(name, {key: f"max |{np.abs(v).max():.3f}|" for key, v in outputs.items()})


if __name__ == "__main__":
    main()
