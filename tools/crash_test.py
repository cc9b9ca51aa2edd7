"""Kill a pretraining run again and again, and compare its weights with a run left in peace.

    python tools/crash_test.py --kills=100 --output=runs/crash_test

A small model with dropout, dynamic masks and pairs on generated text is trained by
recipes/pretrain.py. Half of the kills (SIGKILL) come while a state is being written, half at a
random moment; the same command then goes on. At the end all weights must be equal bit for bit,
and every step taken once. Exits with 1 where they are not.
"""

import csv
import json
import pathlib
import random
import shutil
import subprocess
import sys
import time

import h5py
import numpy as np
from absl import app, flags
from tqdm import tqdm

from keras_bert_impl.text.vocabulary import SPECIAL_TOKENS, save_vocabulary
from keras_bert_impl.training.state_files import StateFolder

_KILLS = flags.DEFINE_integer("kills", 100, "How often the run is killed.")
_OUTPUT = flags.DEFINE_string("output", "runs/crash_test", "Folder; made anew.")
_SEED = flags.DEFINE_integer("seed", 0, "Of the text and of the moments.")
_LONGEST = flags.DEFINE_float("longest", 2.0, "Most seconds between the first step and a kill.")

RECIPE = pathlib.Path(__file__).parents[1] / "recipes" / "pretrain.py"
WORDS = [f"word{i}" for i in range(200)]
ENDINGS = ["##s", "##ed"]
SAVE_EVERY = 7


def write_text(folder: pathlib.Path, draw: random.Random) -> None:
    words = [word + ending for word in WORDS for ending in ("", "s", "ed")]
    documents = [
        "\n".join(" ".join(draw.choices(words, k=draw.randint(3, 15))) for _ in range(5))
        for _ in range(200)
    ]
    (folder / "text.txt").write_text("\n\n".join(documents) + "\n")
    save_vocabulary([*SPECIAL_TOKENS, *WORDS, *ENDINGS], folder / "vocab.txt")


def command(folder: pathlib.Path, output: str, num_steps: int) -> list[str]:
    values = {
        "input": folder / "text.txt",
        "vocabulary": folder / "vocab.txt",
        "output": folder / output,
        "size": "tiny",
        "sequence_length": 32,
        "max_predictions": 5,
        "batch_size": 16,
        "num_steps": num_steps,
        "epoch_steps": 50,
        "save_every": SAVE_EVERY,
        "warmup": 0.1,
        "learning_rate": 1e-3,
        "whole_word": True,
    }
    return [sys.executable, str(RECIPE), *(f"--{name}={value}" for name, value in values.items())]


def run_until_killed(words: list[str], output: pathlib.Path, draw: random.Random, in_write: bool):
    """Start the run and kill it. Returns whether it was still running."""
    states = StateFolder(output / "states")
    before = states.steps()[-1:]
    with open(output.with_suffix(".log"), "a") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    saves_to_wait_for = draw.randint(0, 3)
    try:
        while process.poll() is None and states.steps()[-1:] == before:
            time.sleep(0.002)
        if not in_write:
            time.sleep(draw.uniform(0, _LONGEST.value))
        else:
            for saves in range(saves_to_wait_for + 1):
                while process.poll() is None and not list(states.path.glob("part-*")):
                    pass
                if saves < saves_to_wait_for:
                    while process.poll() is None and list(states.path.glob("part-*")):
                        pass
        return process.poll() is None
    finally:
        process.kill()
        process.wait()


def weights_of(preset: pathlib.Path) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}

    def visit(name, node):
        if isinstance(node, h5py.Dataset):
            arrays[name] = np.array(node)

    with h5py.File(preset / "model.weights.h5") as file:
        file.visititems(visit)
    return arrays


def main(_):
    folder = pathlib.Path(_OUTPUT.value)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    draw = random.Random(_SEED.value)
    write_text(folder, draw)
    # Each life takes a few states' steps; enough that all kills find the run at work.
    num_steps = 50 * (_KILLS.value * 6 * SAVE_EVERY // 50 + 2)
    whole = command(folder, "whole", num_steps)
    with open(folder / "whole.log", "w") as log:
        subprocess.run(whole, check=True, stdout=log, stderr=log)

    words = command(folder, "killed", num_steps)
    killed, left_parts = 0, 0
    for kill in tqdm(range(_KILLS.value), desc="kills"):
        if not run_until_killed(words, folder / "killed", draw, in_write=kill % 2 == 0):
            print(f"The run was over after {killed} kills: lower --longest.")
            break
        killed += 1
        left_parts += bool(list((folder / "killed" / "states").glob("part-*")))
    with open(folder / "killed.log", "a") as log:
        subprocess.run(words, check=True, stdout=log, stderr=log)

    expected, found = (weights_of(folder / name / "model") for name in ("whole", "killed"))
    # Arrays of one and not of the other differ too.
    different = sorted(expected.keys() ^ found.keys()) + [
        name
        for name in expected.keys() & found.keys()
        if not np.array_equal(expected[name], found[name])
    ]
    times = {"seconds", "input_waits"}
    rows = [
        [{k: v for k, v in row.items() if k not in times} for row in csv.DictReader(file.open())]
        for file in (folder / "whole" / "log.csv", folder / "killed" / "log.csv")
    ]
    result = {
        "steps": num_steps,
        "kills": killed,
        "of these while a state was being written": left_parts,
        "arrays": len(expected),
        "arrays that differ": different,
        "log equal": rows[0] == rows[1],
        "last state": StateFolder(folder / "killed" / "states").steps()[-1],
    }
    print(json.dumps(result, indent=2))
    if different or rows[0] != rows[1] or not expected or result["last state"] != num_steps:
        sys.exit(1)


if __name__ == "__main__":
    app.run(main)
