"""Steps of training and of the forward pass, beside KerasHub and transformers, in one run.

The `steps` command of tools/benchmark.py; a contestant is `benchmark_worker.py`.
"""

import argparse
import pathlib
import sys

from benchmark_turns import Contestant, table, take_turns, write

WORKER = pathlib.Path(__file__).with_name("benchmark_worker.py")
PRECISIONS = ("float32", "mixed_bfloat16")


def add_steps_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--work", nargs="+", default=["train", "forward"])
    parser.add_argument("--sizes", nargs="+", default=["base", "mini"])
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--lengths", type=int, nargs="+", default=[128])
    parser.add_argument("--precisions", nargs="+", default=list(PRECISIONS))
    parser.add_argument("--packages", nargs="+", default=["ours", "keras_hub", "transformers"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="steps a turn")
    parser.add_argument("--oracle-python", help="a Python with torch and transformers")
    parser.add_argument("--compiled", action="store_true", help="torch.compile too")
    parser.add_argument("--recompute", action="store_true", help="of ours, recompute=True too")
    parser.add_argument("--output", type=pathlib.Path, help="a JSON file, and a chart beside it")


def steps(args: argparse.Namespace) -> None:
    """Tokens a second of training and forward steps, and peak memory."""
    rows = []
    shapes = [
        {"work": work, "size": size, "rows": batch, "length": length}
        for work in args.work
        for size in args.sizes
        for batch in args.rows
        for length in args.lengths
    ]
    for shape in shapes:
        title = "{work}, {size}, {rows} x {length}".format(**shape)
        results = take_turns(_contestants(args, shape), args.rounds, args.steps, title)
        print(f"{title}: useful tokens/s, lowest to highest, peak memory")
        models = {name: r for name, r in results.items() if not name.startswith("matrix")}
        rows += [{"title": title, **shape, **row} for row in table(models, "tokens/s")]
        for name in results.keys() - models.keys():
            operations = 2 * 768 * 3072 * results[name].median / 1e9
            print(f"  {name}: {operations:.0f} GFLOP/s, by 768 x 3072")
        if args.output:
            write(rows, args.output)  # as far as it is


def _contestants(args: argparse.Namespace, shape: dict) -> dict[str, Contestant]:
    contestants = {}

    def add(name, python, **task):
        contestants[name] = Contestant(python, WORKER, {**shape, "compiled": False, **task})

    for precision in args.precisions:
        for package in args.packages:
            name = f"{package} {precision}"
            task = {"package": package, "precision": precision}
            if package != "transformers":
                add(name, sys.executable, **task)
                if args.recompute and package == "ours":
                    add(f"{name} recompute", sys.executable, **task, recompute=True)
            elif args.oracle_python:
                add(name, args.oracle_python, **task)
                if args.compiled:
                    add(f"{name} compiled", args.oracle_python, **{**task, "compiled": True})
        add(
            f"matrix product {precision}",
            sys.executable,
            package="matrix_product",
            precision=precision,
        )
    return contestants
