r"""From raw text to a served model, on public-domain text, in minutes on a laptop.

    python recipes/quickstart.py

Each step prints the command it runs, so that you can run it on text of your own. Interrupt it
whenever you like: run again, it goes on with what is missing.
"""

import csv
import json
import pathlib
import subprocess
import sys
import time

from absl import app, flags
from bible_text import write_texts

_OUTPUT = flags.DEFINE_string("output", "runs/quickstart", "Folder for all that is made.")
_DISTRIBUTION = flags.DEFINE_string("distribution", "auto", "As in the other recipes.")

HERE = pathlib.Path(__file__).parent


def main(_):
    output = pathlib.Path(_OUTPUT.value)
    output.mkdir(parents=True, exist_ok=True)
    start = time.time()

    step("Text: chapters are documents, verses are sentences")
    write_texts(output)

    step("WordPiece vocabulary")
    vocabulary = output / "vocab.txt"
    if not vocabulary.exists():
        run(
            "../tools/build_vocabulary.py", input=output / "train.txt", output=vocabulary, size=4000
        )

    step("Pretraining: masked LM and next sentence")
    pretrained = output / "pretrained"
    if not (pretrained / "metrics.json").exists():
        run(
            "pretrain.py",
            input=output / "train.txt",
            held_out=output / "held_out.txt",
            vocabulary=vocabulary,
            output=pretrained,
            size="tiny",
            num_heads=4,
            dropout=0,  # the text is read about three times
            sequence_length=64,
            max_predictions=10,
            batch_size=32,
            num_steps=1600,
            warmup=0.1,
            learning_rate=3e-3,
            beta_2=0.98,
            epoch_steps=100,
            save_every=100,
            distribution=_DISTRIBUTION.value,
        )

    step("Fine-tuning: are these two the same verse in two translations?")
    classifier = output / "classifier"
    if not (classifier / "metrics.json").exists():
        run(
            "finetune_classifier.py",
            model=pretrained / "model",
            train=output / "pairs_train.tsv",
            dev=output / "pairs_held_out.tsv",
            text="web",
            text_pair="asv",
            class_names="other,same",
            output=classifier,
            sequence_length=64,
            batch_sizes=64,
            epochs=1,
            learning_rates=5e-4,
            distribution=_DISTRIBUTION.value,
        )

    step("Export: a SavedModel that takes strings")
    served = output / "served" / "1"
    if not served.exists():
        run("export.py", model=classifier / "model", output=served)

    step("A fresh process with TensorFlow alone asks it three pairs")
    run(
        "ask_served.py",
        served,
        "Where you go, I will go; and where you stay, I will stay.",
        "whither thou goest, I will go; and where thou lodgest, I will lodge",
        "Where you go, I will go; and where you stay, I will stay.",
        "And they two went until they came to Bethlehem.",
        "But be doers of the word, and not only hearers, deluding your own selves.",
        "But be ye doers of the word, and not hearers only, deluding your own selves.",
    )

    report(output, time.time() - start)


def step(title):
    print(f"\n=== {title}", flush=True)


def run(script, *arguments, **flag_values):
    """A recipe or tool in a process of its own; its command is printed as one would type it."""
    path = (HERE / script).resolve()
    words = [*map(str, arguments), *(f"--{name}={v}" for name, v in flag_values.items())]
    shown = path.relative_to(HERE.parent.resolve())
    print(f"$ python {shown} " + " ".join(w if " " not in w else repr(w) for w in words))
    sys.stdout.flush()
    try:
        done = subprocess.run([sys.executable, str(path), *words], check=False)
    except KeyboardInterrupt:
        sys.exit("\nInterrupted. What is finished is kept: run again.")
    if done.returncode:
        sys.exit(f"{shown} ended with code {done.returncode}. What is finished is kept: run again.")


def report(output, seconds):
    """The table of what came out, and the curves as a picture."""
    pretraining = json.loads((output / "pretrained" / "metrics.json").read_text())
    classifier = json.loads((output / "classifier" / "metrics.json").read_text())
    log = list(csv.DictReader((output / "pretrained" / "log.csv").open()))
    spent = sum(float(row["seconds"]) for row in log)
    lines = [
        ("", "this model", "baseline"),
        (
            "masked-LM loss, held-out books (nats; unigram)",
            f"{pretraining['masked_lm_loss']:.3f}",
            f"{pretraining['unigram_loss']:.3f}",
        ),
        (
            "masked-LM accuracy (most frequent token)",
            f"{pretraining['masked_lm_accuracy']:.1%}",
            f"{pretraining['most_frequent_accuracy']:.1%}",
        ),
        ("next-sentence accuracy (coin)", f"{pretraining['next_sentence_accuracy']:.1%}", "50.0%"),
        (
            "pair accuracy, held-out books (majority)",
            f"{classifier['accuracy']:.1%}",
            f"{classifier['majority_accuracy']:.1%}",
        ),
        ("pretraining, seconds", f"{spent:.0f}", ""),
        ("pretraining, tokens/s", f"{pretraining['tokens'] / spent:.0f}", ""),
        ("fine-tuning, seconds", f"{classifier['seconds']:.0f}", ""),
        ("this run, seconds", f"{seconds:.0f}", ""),
    ]
    step("What came out")
    width = max(len(line[0]) for line in lines)
    for name, ours, baseline in lines:
        print(f"{name:<{width}}  {ours:>10}  {baseline:>10}")
    draw_curves(output / "curves.png", log, pretraining)
    print(
        f"\nCurves: {output / 'curves.png'}\nServe it: docs/serving.md, folder {output / 'served'}"
    )


def draw_curves(path, log, pretraining):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    _, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    seconds = [sum(float(row["seconds"]) for row in log[: i + 1]) for i in range(len(log))]
    axes[0].plot(seconds, [float(row["masked_lm_loss"]) for row in log], label="training")
    axes[0].axhline(pretraining["unigram_loss"], color="gray", linestyle=":", label="unigram")
    axes[0].plot(seconds[-1], pretraining["masked_lm_loss"], "o", label="held-out books")
    axes[0].set(xlabel="seconds", ylabel="masked-LM loss (nats)", title="Pretraining")
    axes[1].plot(seconds, [float(row["next_sentence_accuracy"]) for row in log])
    axes[1].axhline(0.5, color="gray", linestyle=":")
    axes[1].set(xlabel="seconds", ylabel="accuracy", title="Next sentence, training")
    axes[0].legend()
    pyplot.savefig(path, dpi=120)


if __name__ == "__main__":
    app.run(main)
