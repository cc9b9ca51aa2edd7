"""Ten steps on batches cut in different ways, for test_parts.py, in a process of its own.

python -m tests.training.parts FILE DEVICES CHOICE/PARTS...

PARTS is a number of parts that accumulation takes a batch in, or `streams`: each worker makes the
rows of its own streams.
"""

import functools
import os
import sys

import numpy as np

KINDS = ["all", "one side", "none"]
# Batches that divide by 2 and 4, that do not, and that leave devices without a row.
ROWS = [8, 8, 8, 5, 5, 5, 8, 1, 5, 1]
SLOTS = 4


def batch(rows, seed, kind, vocabulary_size):
    from tests import small

    draw = np.random.default_rng(seed)
    x = small.prepared(rows, seed=seed)
    x["mask_positions"] = draw.integers(0, 4, (rows, SLOTS)).astype("int32")
    masked = (draw.random((rows, SLOTS)) < 0.5).astype("float32")
    if kind == "one side":
        masked[rows // 2 :] = 0  # all on one replica
    elif kind == "none":
        masked[:] = 0
    y = {
        "masked_lm": draw.integers(0, vocabulary_size, (rows, SLOTS)).astype("int32"),
        "next_sentence": draw.integers(0, 2, rows).astype("int32"),
    }
    weights = {"masked_lm": masked, "next_sentence": draw.random(rows).astype("float32")}
    return x, y, weights


def batches_of_rows(vocabulary_size):
    import tensorflow as tf

    batches = [
        tf.data.Dataset.from_tensors(batch(rows, i, KINDS[i % 3], vocabulary_size))
        for i, rows in enumerate(ROWS)
    ]
    return functools.reduce(tf.data.Dataset.concatenate, batches)


def batches_of_streams(vocabulary_size):
    import tensorflow as tf

    import keras_bert_impl as kbi

    def stream(number):
        batches = [
            tf.data.Dataset.from_tensors(batch(2, [step, number], KINDS[step % 3], vocabulary_size))
            for step in range(len(ROWS))
        ]
        return functools.reduce(tf.data.Dataset.concatenate, batches).repeat()

    worker, num_workers = kbi.worker_position()
    return kbi.dataset_of_streams(stream, 4, worker=worker, num_workers=num_workers)


def run(choice, parts):
    import keras

    import keras_bert_impl as kbi
    from tests import small

    scope = kbi.distribution_scope(choice)
    keras.utils.set_random_seed(0)
    of_streams = parts == "streams"
    make = batches_of_streams if of_streams else batches_of_rows
    data = make(len(small.VOCABULARY))
    with scope:
        pretrainer = kbi.BertPretrainer(small.backbone(num_layers=1, dropout=0.0))
        # The paper's peak rate. Adam makes steps of that size of gradients which are 0 but for
        # rounding, as those of keys' biases are.
        pretrainer.compile(
            kbi.BertAdamW(kbi.WarmupLinearDecay(1e-4, 12, 3)),
            accumulation_steps=1 if of_streams else int(parts),
        )
        steps = len(ROWS) if of_streams else None
        history = pretrainer.fit(data, steps_per_epoch=steps, verbose=0).history
        evaluated, predicted = {}, {}
        if not of_streams:
            evaluated = pretrainer.evaluate(data, verbose=0, return_dict=True)
            predicted = pretrainer.predict(data.map(lambda x, y, weights: x), verbose=0)
    found = {
        f"weight/{i}/{'/'.join(weight.path.split('/')[-2:])}": np.asarray(weight)
        for i, weight in enumerate(pretrainer.weights)
    }
    found.update({f"fit/{name}": np.array(value) for name, value in history.items()})
    found.update({f"evaluate/{name}": np.array(value) for name, value in evaluated.items()})
    found.update({f"predict/{name}": rows for name, rows in predicted.items()})
    return found


def main(path, devices, *runs):
    if os.environ.get("KERAS_BACKEND") != "jax" and "TF_CONFIG" not in os.environ:
        import tensorflow as tf

        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * int(devices),
        )
    if "JAX_WORKER" in os.environ:
        import keras

        address, index = os.environ["JAX_WORKER"].split("/")
        keras.distribution.initialize(address, num_processes=2, process_id=int(index))
    arrays = {}
    for name in runs:
        choice, parts = name.split("/")
        arrays.update({f"{name}/{k}": v for k, v in run(choice, parts).items()})
    np.savez(path, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
