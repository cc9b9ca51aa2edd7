"""Commands, each in a process of its own, forked from one that has TensorFlow imported already."""

import dataclasses
import multiprocessing
import os
import pathlib
import runpy
import sys
import tempfile

import tensorflow as tf

ROOT = pathlib.Path(__file__).parents[2]
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["keras_bert_impl", "matplotlib.pyplot"])


@dataclasses.dataclass
class Done:
    """What came of a command: as subprocess.CompletedProcess tells it."""

    returncode: int
    stdout: str
    stderr: str


def command(script, *arguments, **flag_values) -> list[str]:
    """The words after `python`."""
    flag_words = [f"--{name}={value}" for name, value in flag_values.items()]
    return [str(ROOT / script), *map(str, arguments), *flag_words]


def run(script, *arguments, devices: int = 1, eager: bool = False, **flag_values) -> Done:
    """What `python script arguments --name=value ...` comes to.

    `devices` cuts the processor into logical devices. `eager` is for runs of a few steps, which
    take less time than to compile them.
    """
    words = command(script, *arguments, **flag_values)
    with tempfile.TemporaryDirectory() as folder:
        outputs = [pathlib.Path(folder, name) for name in ("stdout", "stderr")]
        process = FORKS.Process(target=_run, args=(words, outputs, devices, eager))
        process.start()
        process.join()
        assert process.exitcode is not None
        return Done(process.exitcode, *(path.read_text() for path in outputs))


def _run(words, outputs, devices, eager):
    for descriptor, path in zip((1, 2), outputs, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    tf.config.run_functions_eagerly(eager)
    if devices > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * devices
        )
    sys.argv = words
    sys.path.insert(0, os.path.dirname(words[0]))
    runpy.run_path(words[0], run_name="__main__")
