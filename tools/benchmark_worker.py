"""One contestant of `tools/benchmark.py steps`: steps of one model.

    python tools/benchmark_worker.py '{"package": "ours", "work": "train", ...}'

Only what the package itself needs is imported, so that transformers can stand in an environment of
its own.
"""

import json
import os
import sys

import numpy as np
from benchmark_turns import answer

VOCABULARY_SIZE = 30_522
SLOTS = 20  # predictions a row of 128 tokens, as google-research/bert trains


def batch(rows, length):
    """Rows without padding: all packages do the same work on them."""
    draw = np.random.default_rng(0)
    slots = max(1, SLOTS * length // 128)
    return {
        "token_ids": draw.integers(1000, VOCABULARY_SIZE, (rows, length)).astype("int32"),
        "segment_ids": np.zeros((rows, length), "int32"),
        "padding_mask": np.ones((rows, length), bool),
        "mask_positions": np.stack(
            [np.sort(draw.choice(length, slots, replace=False)) for _ in range(rows)]
        ).astype("int32"),
        "mask_ids": draw.integers(1000, VOCABULARY_SIZE, (rows, slots)).astype("int32"),
    }


def ours(task):
    import keras
    import tensorflow as tf

    import keras_bert_impl as kbi

    keras.config.set_dtype_policy(task["precision"])
    data = batch(task["rows"], task["length"])
    recompute = task.get("recompute", False)
    backbone = kbi.BertBackbone.from_size(task["size"], VOCABULARY_SIZE, recompute=recompute)
    x = {name: data[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    if task["work"] == "forward":
        model = kbi.BertFeatures(backbone, features="last")
        model.make_predict_function()  # what `predict` calls for each batch
        x = {name: tf.constant(array) for name, array in x.items()}
        return lambda: model.predict_function([(x,)]).numpy()
    model = kbi.BertMaskedLM(backbone)
    model.compile(kbi.BertAdamW(1e-4))
    x["mask_positions"] = data["mask_positions"]
    weights = np.ones(data["mask_ids"].shape, "float32")
    return keras_steps(model, (x, data["mask_ids"], weights))


def keras_hub(task):
    import keras
    import keras_hub
    import tensorflow as tf

    keras.config.set_dtype_policy(task["precision"])
    layers, hidden_dim = {"base": (12, 768), "mini": (4, 256)}[task["size"]]
    backbone = keras_hub.models.BertBackbone(
        VOCABULARY_SIZE, layers, hidden_dim // 64, hidden_dim, 4 * hidden_dim
    )
    data = batch(task["rows"], task["length"])
    x = {name: data[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    if task["work"] == "forward":
        forward = tf.function(lambda x: backbone(x, training=False)["sequence_output"])
        x = {name: tf.constant(array) for name, array in x.items()}
        return lambda: forward(x).numpy()
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-4, global_clipnorm=1.0), loss)
    x["mask_positions"] = data["mask_positions"]
    weights = np.ones(data["mask_ids"].shape, "float32")
    return keras_steps(model, (x, data["mask_ids"], weights))


def keras_steps(model, data):
    """The step that `fit` takes, on one batch."""
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensors(data).repeat()
    model._symbolic_build(data_batch=dataset.element_spec)
    model.make_train_function()
    iterator = iter(dataset)
    return lambda: float(model.train_function(iterator)["loss"])


def transformers(task):
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertModel

    layers, hidden_dim = {"base": (12, 768), "mini": (4, 256)}[task["size"]]
    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=hidden_dim,
        num_attention_heads=hidden_dim // 64,
        intermediate_size=4 * hidden_dim,
    )
    data = batch(task["rows"], task["length"])
    x = {
        "input_ids": torch.tensor(data["token_ids"]).long(),
        "token_type_ids": torch.tensor(data["segment_ids"]).long(),
        "attention_mask": torch.tensor(data["padding_mask"]).long(),
    }
    low = task["precision"] == "mixed_bfloat16"
    precision = torch.autocast("cpu", torch.bfloat16, enabled=low)
    if task["work"] == "forward":
        model = BertModel(config).eval()
        if task["compiled"]:
            model = torch.compile(model)

        def forward():
            with torch.inference_mode(), precision:
                return model(**x).last_hidden_state

        return forward
    model = BertForMaskedLM(config).train()
    labels = np.full(data["token_ids"].shape, -100)
    np.put_along_axis(labels, data["mask_positions"], data["mask_ids"], axis=1)
    x["labels"] = torch.tensor(labels).long()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    run = torch.compile(model) if task["compiled"] else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with precision:
            loss = run(**x).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss)

    return step


def matrix_product(task):
    """The machine's own rate: the largest product of a layer, in TensorFlow."""
    import tensorflow as tf

    dtype = "bfloat16" if task["precision"] == "mixed_bfloat16" else "float32"
    a = tf.cast(tf.random.normal((task["rows"] * task["length"], 768)), dtype)
    b = tf.cast(tf.random.normal((768, 3072)), dtype)
    product = tf.function(lambda a, b: tf.matmul(a, b))
    return lambda: product(a, b).numpy()


def main(task):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    step = globals()[task["package"]](task)
    tokens = task["rows"] * task["length"]

    def counted():
        step()
        return tokens

    answer(counted)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
