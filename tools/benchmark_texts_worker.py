"""One contestant of `tools/benchmark.py texts`: raw text in, on a model of random weights.

    python tools/benchmark_texts_worker.py '{"package": "ours", "work": "serve", ...}'

Works: `fine_tune`, an epoch of a classifier on the table's texts; `serve`, the answer to some texts
at once; `prepare`, the input of masked-LM pretraining. Each package does it as its own pages
say, with the settings that are fastest there: padding to a batch's longest and rows of like length
together where there is such a setting. Only what the package itself needs is imported.
"""

import csv
import itertools
import json
import os
import sys
import tempfile

import numpy as np
from benchmark_turns import answer

SIZES = {"mini": (4, 256), "small": (4, 512), "base": (12, 768)}
LONGEST = 128
BATCH_SIZE, POOL_BATCHES = 32, 64


def read(task):
    """(texts, labels 0 or 1), in a random order that is the same for all."""
    with open(task["table"], encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    order = np.random.default_rng(0).permutation(len(rows))
    names = sorted({row["label"] for row in rows})
    return [rows[i]["text"] for i in order], [names.index(rows[i]["label"]) for i in order]


def requests(task):
    """Lists of texts, again and again."""
    texts, _ = read(task)
    size = task["rows"]
    count = min(64, len(texts) // size)
    return itertools.cycle([texts[i * size : (i + 1) * size] for i in range(count)])


def ours(task):
    import keras
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    import keras_bert_impl as kbi

    tokenizer = kbi.BertTokenizer(task["vocabulary"], lowercase=True)
    if task["work"] == "prepare":
        texts, _ = read(task)
        documents = [texts[i : i + 8] for i in range(0, len(texts), 8)]
        data = kbi.pretraining_dataset(
            documents, tokenizer, sequence_length=LONGEST, batch_size=task["rows"]
        )
        return count_tokens(data)
    keras.config.set_dtype_policy(task["precision"])
    backbone = kbi.BertBackbone.from_size(task["size"], tokenizer.vocabulary_size())
    preprocessor = kbi.BertPreprocessor(tokenizer, LONGEST)
    classifier = kbi.BertTextClassifier(backbone, 2, preprocessor=preprocessor)
    if task["work"] == "serve":
        with tempfile.TemporaryDirectory() as folder:
            weights = task["precision"].removeprefix("mixed_")
            classifier.export(folder, weights=weights, constants=task["constants"])
            loaded = tf.saved_model.load(folder)
        serve = loaded.signatures["serving_default"]
        asked = requests(task)
        return lambda: int(serve(text=tf.constant(next(asked)))["probabilities"].numpy().size > 0)
    texts, labels = read(task)
    classifier.compile(kbi.BertAdamW(5e-5))
    return fit(classifier, texts, labels, task)


def keras_hub(task):
    import keras
    import keras_hub
    import tensorflow as tf

    tokenizer = keras_hub.models.BertTokenizer(task["vocabulary"], lowercase=True)
    if task["work"] == "prepare":
        texts, _ = read(task)
        preprocessor = keras_hub.models.BertMaskedLMPreprocessor(tokenizer, LONGEST)
        data = tf.data.Dataset.from_tensor_slices(texts).repeat().batch(task["rows"])
        data = data.map(preprocessor, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
        return count_tokens(data)
    keras.config.set_dtype_policy(task["precision"])
    layers, hidden_dim = SIZES[task["size"]]
    backbone = keras_hub.models.BertBackbone(
        tokenizer.vocabulary_size(), layers, hidden_dim // 64, hidden_dim, 4 * hidden_dim
    )
    length = LONGEST if task["work"] == "serve" else 512  # its default, to train
    classifier = keras_hub.models.BertTextClassifier(
        backbone,
        2,
        preprocessor=keras_hub.models.BertTextClassifierPreprocessor(tokenizer, length),
    )
    if task["work"] == "serve":
        forward = tf.function(lambda texts: classifier(classifier.preprocessor(texts)))
        asked = requests(task)
        return lambda: int(forward(tf.constant(next(asked))).numpy().size > 0)
    texts, labels = read(task)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile(keras.optimizers.AdamW(5e-5, global_clipnorm=1.0), loss)
    return fit(classifier, texts, labels, task)


def fit(classifier, texts, labels, task):
    count = task["texts"]
    if task["package"] == "keras_hub":
        count = min(count, 4 * BATCH_SIZE)  # an epoch at length 512 takes long enough
    x, y = np.array(texts[:count]), np.array(labels[:count])

    def epoch():
        classifier.fit(x, y, batch_size=BATCH_SIZE, verbose=0)
        return count

    return epoch


def count_tokens(data):
    """Takes a batch; what is no padding counts."""
    batches = iter(data)

    def step():
        x = next(batches)[0]
        return int(x["padding_mask"].numpy().sum())

    return step


def transformers(task):
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    tokenizer = BertTokenizerFast(task["vocabulary"], do_lower_case=True)
    texts, labels = read(task)
    if task["work"] == "prepare":
        return masked_by_collator(tokenizer, texts, task["rows"])
    layers, hidden_dim = SIZES[task["size"]]
    config = BertConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=layers,
        hidden_size=hidden_dim,
        num_attention_heads=hidden_dim // 64,
        intermediate_size=4 * hidden_dim,
    )
    model = BertForSequenceClassification(config)
    low = task["precision"] == "mixed_bfloat16"
    precision = torch.autocast("cpu", torch.bfloat16, enabled=low)
    if task["work"] == "serve":
        model.eval()
        if task["compiled"]:
            model = torch.compile(model, dynamic=True)
        asked = requests(task)

        def serve():
            batch = tokenizer(
                next(asked), padding=True, truncation=True, max_length=LONGEST, return_tensors="pt"
            )
            with torch.inference_mode(), precision:
                return int(model(**batch).logits.float().softmax(-1).numpy().size > 0)

        return serve
    return torch_epoch(model.train(), tokenizer, texts, labels, precision, task["texts"])


def torch_epoch(model, tokenizer, texts, labels, precision, count):
    """Tokenized at once, then batches of like length, padded to their longest."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), 5e-5, fused=True)
    texts, labels, draw = texts[:count], labels[:count], np.random.default_rng(0)

    def epoch():
        ids = tokenizer(texts, truncation=True, max_length=LONGEST)["input_ids"]
        order = draw.permutation(count)
        pool = BATCH_SIZE * POOL_BATCHES
        batches = []
        for first in range(0, count, pool):
            rows = sorted(order[first : first + pool], key=lambda row: len(ids[row]))
            batches += [rows[i : i + BATCH_SIZE] for i in range(0, len(rows), BATCH_SIZE)]
        for index in draw.permutation(len(batches)):
            rows = batches[index]
            batch = tokenizer.pad({"input_ids": [ids[i] for i in rows]}, return_tensors="pt")
            with precision:
                loss = model(**batch, labels=torch.tensor([labels[i] for i in rows])).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return count

    return epoch


def masked_by_collator(tokenizer, texts, size):
    from transformers import DataCollatorForLanguageModeling

    collate = DataCollatorForLanguageModeling(tokenizer)
    starts = itertools.cycle(range(0, len(texts) - size, size))

    def step():
        first = next(starts)
        ids = tokenizer(texts[first : first + size], truncation=True, max_length=LONGEST)
        return int(
            collate([{"input_ids": row} for row in ids["input_ids"]])["attention_mask"].sum()
        )

    return step


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    task = json.loads(sys.argv[1])
    answer(globals()[task["package"]](task), warm_up=2 if task["work"] == "fine_tune" else 8)
