"""A recipe run in the tests' own process, which saves the seconds that TensorFlow takes to start."""

import contextlib
import importlib
import pathlib
import sys

import tensorflow as tf
from absl import flags

RECIPES = pathlib.Path(__file__).parents[2] / "recipes"


@contextlib.contextmanager
def recipe(script):
    """The recipe as a module. Its flags and modules are forgotten afterwards: others have the same.

    Flags that another test's program has defined stand aside as long.
    """
    parsed, modules_before = flags.FLAGS.is_parsed(), set(sys.modules)
    others = {name: flags.FLAGS[name] for name in flags.FLAGS if flags.FLAGS[name].validators}
    for name in others:
        delattr(flags.FLAGS, name)
    flags_before = set(flags.FLAGS)
    sys.path.insert(0, str(RECIPES))
    try:
        yield importlib.import_module(script)
    finally:
        sys.path.remove(str(RECIPES))
        for flag in set(flags.FLAGS) - flags_before:
            delattr(flags.FLAGS, flag)
        flags.FLAGS.unparse_flags()
        for name, flag in others.items():
            flags.FLAGS[name] = flag
        if parsed:
            flags.FLAGS.mark_as_parsed()
        for name in set(sys.modules) - modules_before:
            path = getattr(sys.modules[name], "__file__", None)
            if path is not None and pathlib.Path(path).parent == RECIPES:
                del sys.modules[name]


def run(module, **flag_values):
    """What the command line would run."""
    flags.FLAGS.unparse_flags()
    for name in flags.FLAGS:
        flags.FLAGS[name].unparse()
    flags.FLAGS(["recipe", *(f"--{name}={value}" for name, value in flag_values.items())])
    # Two steps take less time than to compile them.
    tf.config.run_functions_eagerly(True)
    try:
        module.main(["recipe"])
    finally:
        tf.config.run_functions_eagerly(False)
