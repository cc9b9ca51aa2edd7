"""Pretrain twice, in float32 and in a lower precision, and compare the loss curves.

    python tools/compare_precision.py --output=runs/precision --low=mixed_bfloat16 -- \
        --input=text.txt --vocabulary=vocab.txt --size=mini --num_steps=1000 --batch_size=32

What comes after `--` are flags of recipes/pretrain.py. Both runs see the same batches. Exits with 1
where a mean over 50 steps differs by more than --tolerance.
"""

import csv
import pathlib
import subprocess
import sys

from absl import app, flags

_OUTPUT = flags.DEFINE_string("output", "runs/precision", "Folder of both runs.")
_LOW = flags.DEFINE_string("low", "mixed_bfloat16", "Precision to compare with float32.")
_TOLERANCE = flags.DEFINE_float("tolerance", 0.02, "Largest relative difference.")

RECIPE = pathlib.Path(__file__).parents[1] / "recipes" / "pretrain.py"


def losses(precision: str, recipe_flags: list[str]) -> list[float]:
    output = pathlib.Path(_OUTPUT.value) / precision
    words = [f"--precision={precision}", f"--output={output}", "--epoch_steps=50"]
    subprocess.run([sys.executable, str(RECIPE), *words, *recipe_flags], check=True)
    with open(output / "log.csv", newline="") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def main(argv):
    curves = [losses(precision, argv[1:]) for precision in ("float32", _LOW.value)]
    differences = []
    print(f"steps  float32  {_LOW.value}  difference")
    for i, (high, low) in enumerate(zip(*curves, strict=True)):
        differences.append(abs(low / high - 1))
        print(f"{50 * (i + 1):5d}  {high:7.4f}  {low:7.4f}  {100 * (low / high - 1):+.2f} %")
    print(f"largest difference: {100 * max(differences):.2f} %")
    sys.exit(max(differences) > _TOLERANCE.value)


if __name__ == "__main__":
    app.run(main)
