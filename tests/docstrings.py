"""Runs the examples of a module's docstrings."""

import doctest
import importlib


def run_examples(module: str, names: dict) -> int:
    """How many docstrings have examples; all of them must hold."""
    loaded = importlib.import_module(f"keras_bert_impl.{module}")
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [
        test for test in finder.find(loaded, globs={**vars(loaded), **names}) if test.examples
    ]
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for example in examples:
        assert runner.run(example).failed == 0
    return len(examples)
