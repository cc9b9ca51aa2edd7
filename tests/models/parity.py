"""What both parity tests share: the correspondence of parameters, written out by hand.

Independent of keras_bert_impl/checkpoints/, so that one mistake cannot stand in both.
"""

import numpy as np
import tensorflow as tf

from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.pretrainer import BertPretrainer


def build(config: dict, activation: str) -> BertPretrainer:
    """Our model for a configuration written in Hugging Face's names."""
    backbone = BertBackbone(
        vocabulary_size=config["vocab_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        hidden_dim=config["hidden_size"],
        intermediate_dim=config["intermediate_size"],
        max_sequence_length=config["max_position_embeddings"],
        dropout=0.0,
        activation=activation,
    )
    return BertPretrainer(backbone)


def by_our_paths(theirs: dict[str, np.ndarray], num_layers: int) -> dict[str, np.ndarray]:
    """Hugging Face's named parameters, or their gradients, under our variables' paths.

    A dense weight there is (out, in), here (in, out); query, key and value are one matrix here.
    """
    ours = {}

    def dense(path, *names):
        kernels = [theirs[f"{name}.weight"].T for name in names]
        biases = [theirs[f"{name}.bias"] for name in names]
        ours[f"{path}/kernel"] = np.concatenate(kernels, axis=1)
        ours[f"{path}/bias"] = np.concatenate(biases)

    def layer_norm(path, name):
        ours[f"{path}/gamma"] = theirs[f"{name}.weight"]
        ours[f"{path}/beta"] = theirs[f"{name}.bias"]

    for table, name in (("token", "word"), ("position", "position"), ("segment", "token_type")):
        path = f"embeddings/{table}_embedding/embeddings"
        ours[path] = theirs[f"bert.embeddings.{name}_embeddings.weight"]
    layer_norm("embeddings/layer_norm", "bert.embeddings.LayerNorm")
    for i in range(num_layers):
        path, name = f"encoder_layer_{i}", f"bert.encoder.layer.{i}"
        attention = f"{name}.attention.self"
        dense(
            f"{path}/attention/query_key_value",
            f"{attention}.query",
            f"{attention}.key",
            f"{attention}.value",
        )
        dense(f"{path}/attention/output_dense", f"{name}.attention.output.dense")
        layer_norm(f"{path}/attention_layer_norm", f"{name}.attention.output.LayerNorm")
        dense(f"{path}/intermediate_dense", f"{name}.intermediate.dense")
        dense(f"{path}/output_dense", f"{name}.output.dense")
        layer_norm(f"{path}/output_layer_norm", f"{name}.output.LayerNorm")
    dense("pooler/dense", "bert.pooler.dense")
    transform = "cls.predictions.transform"
    dense("masked_lm_head/transform_dense", f"{transform}.dense")
    layer_norm("masked_lm_head/transform_layer_norm", f"{transform}.LayerNorm")
    ours["masked_lm_head/output_bias"] = theirs["cls.predictions.bias"]
    dense("next_sentence_head/dense", "cls.seq_relationship")
    return ours


def set_weights(pretrainer, weights: dict[str, np.ndarray]) -> None:
    """Every variable from the dict, and nothing of the dict left over."""
    assert sorted(v.path for v in pretrainer.trainable_variables) == sorted(weights)
    for variable in pretrainer.trainable_variables:
        variable.assign(weights[variable.path])


def inputs_of(batch) -> dict[str, np.ndarray]:
    names = ("token_ids", "segment_ids", "padding_mask", "mask_positions")
    return {name: batch[name] for name in names}


def run(pretrainer, batch) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Outputs with the joint loss that `compile` gives by default, and its gradients by path."""
    x = inputs_of(batch)
    y = {"masked_lm": batch["mask_ids"], "next_sentence": batch["next_sentence"]}
    weights = {
        "masked_lm": batch["mask_weights"],
        "next_sentence": np.ones(len(batch["next_sentence"]), "float32"),
    }
    pretrainer.compile()
    variables = pretrainer.trainable_variables
    with tf.GradientTape() as tape:
        outputs = pretrainer(x, training=True)
        loss = pretrainer.compute_loss(x, y, outputs, weights)
    gradients = tape.gradient(loss, [v.value for v in variables])
    encoded = pretrainer.backbone({name: x[name] for name in pretrainer.backbone.input})
    outputs = {name: np.asarray(value) for name, value in {**outputs, **encoded}.items()}
    return {**outputs, "loss": np.asarray(loss)}, {
        v.path: tf.convert_to_tensor(g).numpy() for v, g in zip(variables, gradients, strict=True)
    }
