"""From raw text, beside KerasHub and transformers, in one run: fine-tuning, serving, preparing.

The `texts` command of tools/benchmark.py; a contestant is `benchmark_texts_worker.py`.
"""

import argparse
import pathlib
import sys

from benchmark_turns import Contestant, table, take_turns, write

WORKER = pathlib.Path(__file__).with_name("benchmark_texts_worker.py")
UNITS = {"fine_tune": "texts/s", "serve": "requests/s", "prepare": "tokens/s"}


def add_texts_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--work", nargs="+", default=list(UNITS), choices=list(UNITS))
    parser.add_argument("--table", type=pathlib.Path, required=True, help="TSV of text and label")
    parser.add_argument("--vocabulary", type=pathlib.Path, required=True, help="vocab.txt, uncased")
    parser.add_argument("--sizes", nargs="+", default=["mini", "base"])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32], help="texts a request")
    parser.add_argument("--precisions", nargs="+", default=["float32", "mixed_bfloat16"])
    parser.add_argument("--texts", type=int, default=1024, help="texts to fine-tune on")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--oracle-python", help="a Python with torch and transformers")
    parser.add_argument("--compiled", action="store_true", help="torch.compile too, to serve")
    parser.add_argument("--output", type=pathlib.Path, help="a JSON file, and a chart beside it")


def texts(args: argparse.Namespace) -> None:
    """Texts fine-tuned on, requests answered and tokens prepared a second, from raw text."""
    cases = []  # (what differs, steps a turn)
    for work in args.work:
        if work == "prepare":
            # Many more than the prefetched batches, which wait ready-made.
            cases.append(({"work": work, "size": "base", "rows": 32}, 500))
        elif work == "fine_tune":
            cases += [({"work": work, "size": size, "rows": 32}, 1) for size in args.sizes]
        else:
            cases += [
                ({"work": work, "size": size, "rows": rows}, 16 if size != "base" else 8)
                for size in args.sizes
                for rows in args.rows
            ]
    lines = []
    for case, steps in cases:
        title = "{work}, {size}, {rows} rows".format(**case)
        results = take_turns(_contestants(args, case), args.rounds, steps, title)
        print(f"{title}: median, lowest to highest, peak memory")
        lines += [{"title": title, **case, **row} for row in table(results, UNITS[case["work"]])]
        if args.output:
            write(lines, args.output)  # as far as it is


def _contestants(args: argparse.Namespace, case: dict) -> dict[str, Contestant]:
    files = {"table": str(args.table), "vocabulary": str(args.vocabulary), "texts": args.texts}
    contestants = {}

    def add(name, python, **task):
        defaults = {"precision": "float32", "compiled": False, "constants": False}
        task = {**case, **files, **defaults, **task}
        contestants[name] = Contestant(python, WORKER, task)

    for precision in args.precisions if case["work"] != "prepare" else [""]:
        for package in ("ours", "keras_hub"):
            add(f"{package} {precision}", sys.executable, package=package, precision=precision)
        if case["work"] == "serve":
            task = {"package": "ours", "precision": precision, "constants": True}
            add(f"ours {precision} constants", sys.executable, **task)
        if args.oracle_python:
            task = {"package": "transformers", "precision": precision}
            add(f"transformers {precision}", args.oracle_python, **task)
            if args.compiled and case["work"] == "serve":
                name = f"transformers {precision} compiled"
                add(name, args.oracle_python, **task, compiled=True)
    return contestants
