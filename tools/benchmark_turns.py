"""Contestants in processes of their own that take turns, so that a busy moment falls on all.

Both sides of the pipe: `take_turns` asks, `answer` is what a contestant's program ends in. It
imports nothing beyond Python's own library, as contestants stand in environments of their own.
"""

import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple


class Contestant(NamedTuple):
    """How one is started: `python script task-as-JSON`."""

    python: str
    script: pathlib.Path
    task: dict


class Result(NamedTuple):
    """Rates of each turn, units a second, and peak memory in MiB."""

    rates: list[float]
    memory: float

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


def take_turns(
    contestants: dict[str, Contestant], rounds: int, steps: int, title: str
) -> dict[str, Result]:
    """What each one's turns came to; one that cannot start is told and left out."""
    import tqdm

    rates: dict[str, list[float]] = {}
    workers = {}
    try:
        for name, contestant in contestants.items():
            worker = _start(contestant)
            if worker is None:
                command = [contestant.python, contestant.script, repr(json.dumps(contestant.task))]
                print(f"{name} did not start; see why by:", *command)
            else:
                workers[name], rates[name] = worker, []
        for _ in tqdm.trange(rounds, desc=title):
            for name, worker in workers.items():
                seconds, units = map(float, _ask(worker, steps).split())
                rates[name].append(units / seconds)
        return {name: Result(rates[name], float(_ask(workers[name], "end"))) for name in workers}
    finally:
        for worker in workers.values():
            worker.kill()


def table(results: dict[str, Result], unit: str) -> list[dict]:
    """Prints a line for each contestant and returns what it says; names of ours begin with `ours`."""
    peers = [r.median for name, r in results.items() if not name.startswith(("ours", "matrix"))]
    rows = []
    for name, result in results.items():
        row = {
            "contestant": name,
            "unit": unit,
            "median": result.median,
            "lowest": min(result.rates),
            "highest": max(result.rates),
            "peak_memory_mib": result.memory,
        }
        rows.append(row)
        text = f"  {name:40} {row['median']:10.1f} {unit}"
        text += f" ({row['lowest']:.1f} to {row['highest']:.1f})  {result.memory:6.0f} MiB"
        if name.startswith("ours") and peers:
            row["of_best_peer"] = result.median / max(peers)
            text += f"  {row['of_best_peer']:.2f} x the best peer"
        print(text, flush=True)
    return rows


def write(rows: list[dict], path: pathlib.Path) -> None:
    """A JSON file, and beside it a chart: a panel for each `title`, a bar for each contestant."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=2), "utf-8")
    titles = list(dict.fromkeys(row["title"] for row in rows))
    figure, axes = pyplot.subplots(len(titles), squeeze=False, figsize=(9, 2.5 * len(titles)))
    for axis, title in zip(axes[:, 0], titles, strict=True):
        of_title = [row for row in rows if row["title"] == title][::-1]
        names = [row["contestant"] for row in of_title]
        colors = ["C1" if name.startswith("ours") else "C0" for name in names]
        spread = [
            [row["median"] - row["lowest"] for row in of_title],
            [row["highest"] - row["median"] for row in of_title],
        ]
        axis.barh(names, [row["median"] for row in of_title], color=colors, xerr=spread)
        axis.set_title(f"{title}: {of_title[0]['unit']}")
    figure.tight_layout()
    figure.savefig(path.with_suffix(".png"))
    pyplot.close(figure)


def answer(step: Callable[[], int], warm_up: int = 3) -> None:
    """Takes the steps that are asked for; `step` returns how many units it did."""
    for _ in range(warm_up):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        start = time.perf_counter()
        units = sum(step() for _ in range(int(line)))
        print(time.perf_counter() - start, units, flush=True)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)


def _start(contestant: Contestant) -> subprocess.Popen | None:
    """A worker that has built its model and warmed up."""
    worker = subprocess.Popen(
        [contestant.python, str(contestant.script), json.dumps(contestant.task)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert worker.stdout is not None
    for line in worker.stdout:
        if line.strip() == "ready":
            return worker
    return None


def _ask(worker: subprocess.Popen, question: object) -> str:
    assert worker.stdin is not None and worker.stdout is not None
    print(question, file=worker.stdin, flush=True)
    answered = worker.stdout.readline()
    if not answered:
        raise RuntimeError(f"A contestant ended in the middle: {worker.args!r}")
    return answered
