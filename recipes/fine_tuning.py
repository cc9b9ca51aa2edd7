"""What the fine-tuning recipes share: a grid of runs, the best of which on held-out data is kept.

The paper tries a few learning rates, batch sizes and seeds for each task and chooses by the dev
set (section 4.1, appendix A.3). Every recipe has the flags below. A run that was finished is not
done again: interrupt it whenever you like, and run the same command.
"""

import csv
import functools
import itertools
import json
import math
import os
import pathlib
import shutil
from typing import Any

import keras
import numpy as np
from absl import app, flags

import keras_bert_impl as kbi

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "Where to start: whatever from_preset takes.", required=True)
flags.DEFINE_string("output", None, "Folder for logs, metrics, predictions, model.", required=True)
flags.DEFINE_list("learning_rates", ["5e-5"], "Peak learning rates to try.")
flags.DEFINE_list("batch_sizes", ["32"], "Rows of each step, over all devices, to try.")
flags.DEFINE_list("epochs", ["3"], "Times through the training data, to try.")
flags.DEFINE_integer("seeds", 1, "Runs of each setting: of head, dropout and order.", lower_bound=1)
flags.DEFINE_integer("first_seed", 0, "Seed of the first of these.")
flags.DEFINE_integer("sequence_length", 128, "Longest row, in tokens.")
flags.DEFINE_integer("examples_per_row", 1, "Above 1, so many short texts may share a row.")
flags.DEFINE_float("warmup", 0.1, "Share of steps in which the rate rises.")
flags.DEFINE_enum("schedule", "linear", ["linear", "slanted_triangle"], "BERT's or ULMFiT's.")
flags.DEFINE_float("layer_decay", 1.0, "Rate of each layer, as a part of that above it.")
flags.DEFINE_bool("gradual_unfreezing", False, "Train from the top, a layer more each epoch.")
flags.DEFINE_integer("freeze_layers", 0, "Keep embeddings and so many layers; 0 trains all.")
flags.DEFINE_integer("patience", None, "Stop after so many epochs without a better dev loss.")
flags.DEFINE_enum(
    "precision",
    "float32",
    ["auto", "float32", "mixed_bfloat16", "mixed_float16"],
    "Of computation; auto takes bfloat16 where this machine is faster in it, and says so.",
)
flags.DEFINE_enum(
    "distribution", "auto", ["none", "mirrored", "multi_worker", "tpu", "auto"], "Devices."
)


def set_defaults(**values):
    """The paper's values for a recipe's task, in place of the defaults above."""
    for name, value in values.items():
        value = [str(v) for v in value] if isinstance(value, list) else value
        FLAGS.set_default(name, value)


@functools.cache
def precision() -> str:
    """The dtype policy of all runs."""
    policy, reason = kbi.choose_precision(FLAGS.precision)
    print(reason)
    return policy


def load(cls, preset=None, **options):
    """The task to train: a class of the package, from --model or another preset, by the flags."""
    options = {"sequence_length": FLAGS.sequence_length, **options}
    # The head is what such a run trains, so it may be missing.
    return cls.from_preset(preset or FLAGS.model, init_missing=True, dtype=precision(), **options)


def fine_tune(make_task, train, dev, measure, metric, sample_weight=None):
    """Train with each setting and seed, keep the best.

    Args:
        make_task: function that gives a fresh task.
        train, dev: tuples (x, y) as the task's `fit` takes.
        measure: function of `task.predict(dev[0])` to a dict of numbers.
        metric: the one of them to choose by; more is better.
        sample_weight: as in the task's `fit`.

    Returns:
        The best run's task, and its predictions for dev.

    Writes to --output: config.json (flags), runs.jsonl (a line for each run), metrics.json (of the
    best run, and mean and spread over seeds by setting), curves.png, model/.
    """
    output = pathlib.Path(FLAGS.output)
    runs = finished_runs(output)
    best: Any = max(runs, key=lambda run: worth(run, metric), default=None)
    task = predictions = None
    for setting in settings():
        if any(run["setting"] == setting for run in runs):
            print(f"Done already: {name_of(setting)}")
            continue
        print(f"\n--- {name_of(setting)}", flush=True)
        trained, log = train_once(make_task, train, dev, setting, sample_weight)
        answers = trained.predict(dev[0])
        run = {"setting": setting, "metrics": measure(answers), "log": log}
        if best is None or worth(run, metric) > worth(best, metric):
            best, task, predictions = run, trained, answers
            save_model(task, output / "model")
        add_run(output, run)
        runs.append(run)
        print({name: round(value, 4) for name, value in run["metrics"].items()})
    if task is None:
        task = type(make_task()).from_preset(str(output / "model"))
        predictions = task.predict(dev[0])
    write_json(output / "metrics.json", summary(best, runs))
    draw_curves(output / "curves.png", runs, metric)
    print(f"\nBest: {name_of(best['setting'])}\n{json.dumps(best['metrics'], indent=2)}")
    return task, predictions


def settings():
    """Every combination of the lists in the flags, with every seed."""
    return [
        {"learning_rate": float(rate), "batch_size": int(size), "epochs": int(n), "seed": seed}
        for rate, size, n in itertools.product(
            FLAGS.learning_rates, FLAGS.batch_sizes, FLAGS.epochs
        )
        for seed in range(FLAGS.first_seed, FLAGS.first_seed + FLAGS.seeds)
    ]


def train_once(make_task, train, dev, setting, sample_weight):
    """One run. Returns the task and its log, a list of dicts, one an epoch."""
    keras.utils.set_random_seed(setting["seed"])
    with kbi.distribution_scope(FLAGS.distribution):
        task = make_task()
        if FLAGS.freeze_layers:
            kbi.freeze(task, FLAGS.freeze_layers)
        num_batches = count_batches(task, train, setting["batch_size"])
        schedule = make_schedule(setting["learning_rate"], setting["epochs"] * num_batches)
        task.compile(optimizer=kbi.BertAdamW(schedule, layer_decay=FLAGS.layer_decay))
        callbacks = [kbi.Stopwatch(), kbi.InputWaits()]
        if FLAGS.gradual_unfreezing:
            callbacks.append(kbi.GradualUnfreezing())
        if FLAGS.patience is not None:
            callbacks.append(
                keras.callbacks.EarlyStopping(patience=FLAGS.patience, restore_best_weights=True)
            )
        history = task.fit(
            *train,
            sample_weight=sample_weight,
            batch_size=setting["batch_size"],
            examples_per_row=FLAGS.examples_per_row,
            epochs=setting["epochs"],
            validation_data=dev,
            callbacks=callbacks,
        )
    log = [
        {name: float(values[epoch]) for name, values in history.history.items()}
        for epoch in range(len(history.epoch))
    ]
    return task, log


def count_batches(task, train, batch_size):
    """Steps of an epoch. Long texts are cut into several rows and short ones share theirs."""
    dataset = task.full_dataset(
        *train, batch_size=batch_size, examples_per_row=FLAGS.examples_per_row
    )
    known = int(dataset.cardinality())
    return known if known > 0 else int(dataset.reduce(np.int64(0), lambda n, *_: n + 1))


def make_schedule(peak, num_steps):
    if FLAGS.schedule == "slanted_triangle":
        return kbi.SlantedTriangle(peak, num_steps, cut_frac=FLAGS.warmup)
    return kbi.WarmupLinearDecay(peak, num_steps, round(FLAGS.warmup * num_steps))


def finished_runs(output, also_free=()):
    """The runs that are done, if they are of the same flags but for those that are free."""
    output.mkdir(parents=True, exist_ok=True)
    free = {"output", "learning_rates", "batch_sizes", "epochs", "seeds", "first_seed", *also_free}
    config: dict = {}
    for module, module_flags in FLAGS.flags_by_module_dict().items():
        if not module.startswith("absl"):
            config |= {flag.name: flag.value for flag in module_flags}
    path = output / "config.json"
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        changed = sorted(
            name
            for name in (config.keys() | before.keys()) - free
            if config.get(name) != before.get(name)
        )
        if changed:
            raise app.UsageError(
                f"{output} holds runs with another {', '.join(f'--{name}' for name in changed)}: "
                f"{', '.join(repr(before.get(name)) for name in changed)}. Choose another --output."
            )
    write_json(path, config)
    path = output / "runs.jsonl"
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    if lines[-1]:  # a run that was killed while it wrote its line is not done
        path.write_text("\n".join([*lines[:-1], ""]), encoding="utf-8")
    return [json.loads(line) for line in lines[:-1]]


def add_run(output, run):
    """Note a finished run, for `finished_runs`."""
    with (output / "runs.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")


def worth(run, metric):
    """What runs are compared by; a run that diverged is the worst."""
    value = run["metrics"][metric]
    return -math.inf if math.isnan(value) else value


def name_of(setting):
    return ", ".join(f"{name} {value:g}" for name, value in setting.items())


def summary(best, runs):
    """The best run's metrics, and for each setting mean and standard deviation over its seeds."""
    by_setting: dict[str, list] = {}
    for run in runs:
        setting = {name: value for name, value in run["setting"].items() if name != "seed"}
        by_setting.setdefault(json.dumps(setting), []).append(run["metrics"])
    return {
        **best["metrics"],
        "setting": best["setting"],
        "seconds": sum(epoch["seconds"] for epoch in best["log"]),
        "settings": [
            {
                **json.loads(setting),
                "seeds": len(rows),
                "mean": {name: float(np.mean([row[name] for row in rows])) for name in rows[0]},
                "spread": {name: float(np.std([row[name] for row in rows])) for name in rows[0]},
            }
            for setting, rows in by_setting.items()
        ],
    }


def draw_curves(path, runs, metric):
    """Losses by epoch, and the metric of each run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for run in runs:
        epochs = range(1, len(run["log"]) + 1)
        (line,) = axes[0].plot(epochs, [epoch["loss"] for epoch in run["log"]])
        axes[0].plot(epochs, [epoch["val_loss"] for epoch in run["log"]], "--o", c=line.get_color())
    axes[0].set(xlabel="epoch", ylabel="loss", title="training (line), dev (dashes)")
    axes[1].barh(
        [name_of(run["setting"]) for run in runs], [run["metrics"][metric] for run in runs]
    )
    axes[1].set(xlabel=f"{metric}, dev")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def save_model(task, folder):
    """Write a preset, beside and then renamed, so that a kill leaves the one before."""
    beside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    task.save_to_preset(str(beside))
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)


def balanced_weights(y):
    """A weight for each row, so that every class counts the same in all."""
    counts = np.bincount(y)
    return (len(y) / (np.count_nonzero(counts) * counts[y])).astype("float32")


def warn_if_collapsed(answers):
    """Say so if a run ended with one answer to everything."""
    first = answers[0]
    if len(answers) > 1 and all(answer == first for answer in answers):
        print(
            f"Every answer is {first!r}: the run collapsed. Try other seeds, a lower learning rate "
            "or a longer warmup."
        )


def write_json(path, value):
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_table(path, header, rows):
    """A TSV file, its quotes being text."""
    beside = pathlib.Path(path).with_name(f".{pathlib.Path(path).name}.new")
    with beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(
            file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n"
        )
        writer.writerows([header, *rows])
    os.replace(beside, path)


def write_text(path, text):
    beside = pathlib.Path(path).with_name(f".{pathlib.Path(path).name}.new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)
