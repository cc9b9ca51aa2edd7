"""A few steps for all objectives at once, on prepared batches, for test_all_together.py.

    python -m tests.objectives.all_together BATCHES FOUND FOLDER RUN...

A run is `none` or `mirrored`, on two devices, or `resumed`: what `none` saved, from its middle on.
"""

import csv
import os
import pathlib
import pickle
import sys

import numpy as np

STEPS, STOP, LENGTH = 7, 4, 24


def objectives():
    import keras_bert_impl as kbi

    return [cls() for cls in kbi.OBJECTIVES.values()]


def run(name, batches, folder):
    """Weights and running losses after the last step, by name."""
    import keras
    import tensorflow as tf

    import keras_bert_impl as kbi
    from tests import small

    scope = kbi.distribution_scope("mirrored" if name == "mirrored" else "none")
    states = folder / ("mirrored" if name == "mirrored" else "none")
    if name == "resumed":
        for path in (states / "states").glob(f"*{STEPS:08d}*"):
            path.unlink()
    keras.utils.set_random_seed(0)

    def rest(step):
        stacked = tf.nest.map_structure(lambda *x: np.stack(x), *batches[step:])
        return tf.data.Dataset.from_tensor_slices(stacked)

    with scope:
        backbone = small.backbone(num_layers=1, dropout=0.0, num_tasks=len(objectives()))
        model = kbi.BertPretrainer(backbone, objectives=objectives())
        start = folder.parent / "start.npz"  # backends draw other weights
        if start.exists():
            with np.load(start) as file:
                model.set_weights([file[name] for name in file])
        else:
            np.savez(start, *model.get_weights())
        # Adam makes steps of this size also of gradients that are 0 but for rounding.
        model.compile(kbi.BertAdamW(kbi.WarmupLinearDecay(1e-4, 12, 3)))
        done = kbi.fit_steps(
            model,
            rest,
            num_steps=STEPS,
            epoch_steps=STEPS,
            save_every=STOP,
            folder=states,
            settings={},
            verbose=0,
        )
    found = {f"weight/{i}": w for i, w in enumerate(model.get_weights())}
    with open(states / "log.csv", newline="") as file:
        (log,) = csv.DictReader(file)
    ours = [name for name in log if name.endswith(("loss", "accuracy")) and log[name] != "NA"]
    found.update({f"log/{name}": np.array(float(log[name])) for name in ours})
    return {**found, "done": np.array(done)}


def main(batches, path, folder, *runs):
    if os.environ.get("KERAS_BACKEND") != "jax":
        import tensorflow as tf

        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
        )
    batches = pickle.loads(pathlib.Path(batches).read_bytes())
    found = {}
    for name in runs:
        found.update(
            {f"{name}/{k}": v for k, v in run(name, batches, pathlib.Path(folder)).items()}
        )
    np.savez(path, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
