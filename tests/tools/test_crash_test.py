"""The short form of tools/crash_test.py."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_a_run_killed_again_and_again_ends_with_the_weights_of_one_left_in_peace(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "tools" / "crash_test.py",
            "--kills=2",
            f"--output={tmp_path}/runs",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout[done.stdout.index("{") :])
    assert result["kills"] == 2
    assert result["arrays"] > 0
    assert result["arrays that differ"] == []
    assert result["log equal"] is True
