"""Steps of training and of the forward pass, beside KerasHub and transformers, in one run.

The `steps` command of tools/benchmark.py. Each contestant is a process of its own
(`benchmark_worker.py`); they take turns, so that a busy moment of the machine falls on all.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from typing import Any

import tqdm

WORKER = pathlib.Path(__file__).with_name("benchmark_worker.py")
PRECISIONS = ("float32", "mixed_bfloat16")


def add_steps_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--work", nargs="+", default=["train", "forward"])
    parser.add_argument("--sizes", nargs="+", default=["base", "mini"])
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--precisions", nargs="+", default=list(PRECISIONS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="steps a turn")
    parser.add_argument("--oracle-python", help="a Python with torch and transformers")
    parser.add_argument("--compiled", action="store_true", help="torch.compile too")
    parser.add_argument("--output", type=pathlib.Path, help="a JSON file, and a chart beside it")


def steps(args: argparse.Namespace) -> None:
    """Tokens a second of training and forward steps, and peak memory."""
    rows = []
    for work in args.work:
        for size in args.sizes:
            for batch in args.rows:
                rows += compare(args, work, size, batch)
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(rows, indent=2), "utf-8")
        draw(rows, args.output.with_suffix(".png"))


def compare(args, work: str, size: str, batch: int) -> list[dict]:
    """One table: all contestants on one shape."""
    contestants = {}
    for precision in args.precisions:
        for package in ("ours", "keras_hub"):
            contestants[f"{package} {precision}"] = (sys.executable, package, precision, False)
        if args.oracle_python:
            for compiled in (False, True)[: 1 + args.compiled]:
                name = f"transformers {precision}" + " compiled" * compiled
                contestants[name] = (args.oracle_python, "transformers", precision, compiled)
        contestants[f"matrix product {precision}"] = (
            sys.executable,
            "matrix_product",
            precision,
            False,
        )
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    memory = {}
    workers: dict[str, Any] = {}
    shape = {"work": work, "size": size, "rows": batch, "length": args.length}
    try:
        for name, (python, package, precision, compiled) in contestants.items():
            task = {**shape, "package": package, "precision": precision, "compiled": compiled}
            workers[name] = start(python, task)
        for _ in tqdm.trange(args.rounds, desc=f"{work} {size} {batch} x {args.length}"):
            for name, worker in workers.items():
                print(args.steps, file=worker.stdin, flush=True)
                seconds[name].append(float(worker.stdout.readline()) / args.steps)
        for name, worker in workers.items():
            print("end", file=worker.stdin, flush=True)
            memory[name] = float(worker.stdout.readline())
    finally:
        for worker in workers.values():
            worker.kill()
    tokens = batch * args.length
    rows = []
    best_peer = min(
        (statistics.median(s) for name, s in seconds.items() if _is_peer(name)), default=None
    )
    print(f"{work}, {size}, {batch} x {args.length}: tokens/s, spread, peak memory")
    for name, values in seconds.items():
        if name.startswith("matrix"):
            continue
        median = statistics.median(values)
        row = {
            **shape,
            "contestant": name,
            "tokens_per_second": tokens / median,
            "lowest": tokens / max(values),
            "highest": tokens / min(values),
            "peak_memory_mib": memory[name],
        }
        rows.append(row)
        text = (
            f"  {name:40} {row['tokens_per_second']:8.0f} "
            f"({row['lowest']:.0f} to {row['highest']:.0f})  {memory[name]:6.0f} MiB"
        )
        if name.startswith("ours") and best_peer:
            text += f"  {best_peer / median:.2f} x the best peer"
        print(text)
    for name, values in seconds.items():
        if name.startswith("matrix"):
            rate = 2 * tokens * 768 * 3072 / statistics.median(values) / 1e9
            print(f"  {name}: {rate:.0f} GFLOP/s at {tokens} x 768 x 3072")
    return rows


def _is_peer(name: str) -> bool:
    return name.startswith(("keras_hub", "transformers"))


def start(python: str, task: dict) -> subprocess.Popen:
    """A worker that has built its model and warmed up."""
    worker = subprocess.Popen(
        [python, str(WORKER), json.dumps(task)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    while True:
        line = worker.stdout.readline() if worker.stdout else ""
        if line.strip() == "ready":
            return worker
        if not line:
            raise RuntimeError(f"The worker of {task} ended: run {WORKER} by hand to see why.")


def draw(rows: list[dict], path: pathlib.Path) -> None:
    """A bar a contestant, a panel a shape."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shapes = sorted({(row["work"], row["size"], row["rows"]) for row in rows})
    figure, axes = pyplot.subplots(len(shapes), squeeze=False, figsize=(9, 2.5 * len(shapes)))
    for axis, shape in zip(axes[:, 0], shapes, strict=True):
        of_shape = [row for row in rows if (row["work"], row["size"], row["rows"]) == shape]
        names = [row["contestant"] for row in of_shape]
        colors = ["C1" if name.startswith("ours") else "C0" for name in names]
        axis.barh(names, [row["tokens_per_second"] for row in of_shape], color=colors)
        axis.set_title(f"{shape[0]}, {shape[1]}, {shape[2]} rows: tokens/s")
    figure.tight_layout()
    figure.savefig(path)
