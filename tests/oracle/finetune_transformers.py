"""Fine-tunes a sentence classifier with transformers on torch, as this package's recipe does.

    python tests/oracle/finetune_transformers.py MODEL TRAIN.tsv DEV.tsv EPOCHS SEEDS OUTPUT.json

Tables have the columns text and label, "bad" or "good". The schedule, optimizer, clipping and
batches are the recipe's: batches of 32 rows of like length, padded to their longest.
OUTPUT: accuracy on DEV of each seed, and seconds of each epoch but the first.
"""

import json
import math
import pathlib
import sys
import time

import numpy as np
import torch
import transformers

BATCH_SIZE, POOL_BATCHES = 32, 64
LEARNING_RATE, WARMUP, WEIGHT_DECAY = 5e-5, 0.1, 0.01


def read(path):
    rows = [line.split("\t") for line in pathlib.Path(path).read_text("utf-8").splitlines()[1:]]
    return [row[0] for row in rows], np.array([row[1] == "good" for row in rows], int)


def batches_of_like_length(lengths, draw):
    order = draw.permutation(len(lengths))
    pool = BATCH_SIZE * POOL_BATCHES
    batches = []
    for first in range(0, len(order), pool):
        rows = sorted(order[first : first + pool], key=lambda row: lengths[row])
        batches += [rows[i : i + BATCH_SIZE] for i in range(0, len(rows), BATCH_SIZE)]
    return [batches[i] for i in draw.permutation(len(batches))]


def train(model_folder, tokenizer, train_ids, labels, epochs, seed):
    torch.manual_seed(seed)
    draw = np.random.default_rng(seed)
    model = transformers.BertForSequenceClassification.from_pretrained(model_folder, num_labels=2)
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others}]
    optimizer = torch.optim.AdamW(groups, LEARNING_RATE, eps=1e-6, weight_decay=0.0)
    num_steps = epochs * math.ceil(len(train_ids) / BATCH_SIZE)
    warmup = round(WARMUP * num_steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: step / warmup if step < warmup else 1 - step / num_steps
    )
    lengths, seconds = [len(ids) for ids in train_ids], []
    model.train()
    for _ in range(epochs):
        start = time.perf_counter()
        for rows in batches_of_like_length(lengths, draw):
            batch = tokenizer.pad({"input_ids": [train_ids[i] for i in rows]}, return_tensors="pt")
            loss = model(**batch, labels=torch.tensor(labels[rows])).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    return model.eval(), seconds


def accuracy(model, tokenizer, ids, labels):
    hits = 0
    with torch.no_grad():
        for first in range(0, len(ids), BATCH_SIZE):
            batch = tokenizer.pad(
                {"input_ids": ids[first : first + BATCH_SIZE]}, return_tensors="pt"
            )
            answers = model(**batch).logits.argmax(-1).numpy()
            hits += int((answers == labels[first : first + BATCH_SIZE]).sum())
    return hits / len(ids)


def main(model_folder, train_path, dev_path, epochs, seeds, output):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
    texts, labels = read(train_path)
    dev_texts, dev_labels = read(dev_path)
    ids, dev_ids = (
        tokenizer(t, truncation=True, max_length=128)["input_ids"] for t in (texts, dev_texts)
    )
    results = {"accuracy": [], "seconds": []}
    for seed in range(int(seeds)):
        model, seconds = train(model_folder, tokenizer, ids, labels, int(epochs), seed)
        results["accuracy"].append(accuracy(model, tokenizer, dev_ids, dev_labels))
        results["seconds"] += seconds[1:] or seconds
        print(results, flush=True)
    pathlib.Path(output).write_text(json.dumps(results), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
