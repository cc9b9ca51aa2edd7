"""The documentation that the packages beside this one carry in their code, as documents.

Prose that every installation has, with an order of its own: what a thing is stands before its
arguments, and those before what it returns. A document is a docstring, a line of it a sentence.
"""

import ast
import importlib.resources
import inspect
import os
import pathlib
import re
import warnings
import zlib
from collections.abc import Iterator

PACKAGES = ["tensorflow", "keras", "keras_hub", "numpy"]
FEWEST_SENTENCES = 4  # of a document
HELD_OUT_MODULES = 12  # one of as many
MOST_KNOWN = 0.5  # share of a held-out document's sentences that are trained on

_PARAGRAPHS = re.compile(r"\n\s*\n")
_ITEM = re.compile(r"\s*(\*{0,2}\w+ ?:|[-*] |\d+\.)")  # an argument, a heading, a point of a list
_RULE = re.compile(r"[\s=~^*-]*")
_SENTENCE_END = re.compile(r"(?<=[.?!:])\s+(?=[A-Z`*\"(])")
_WORD = re.compile(r"[A-Za-z]{2}")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def write_docstrings(folder: pathlib.Path) -> list[str]:
    """Write train.txt and held_out.txt, which is of other modules; their paths."""
    documents = list(dict.fromkeys(_documents()))
    train = [sentences for held, sentences in documents if not held]
    known = {sentence for sentences in train for sentence in sentences}
    held_out = [
        sentences
        for held, sentences in documents
        if held and sum(x in known for x in sentences) <= MOST_KNOWN * len(sentences)
    ]
    paths = []
    for name, part in {"train.txt": train, "held_out.txt": held_out}.items():
        text = "\n\n".join("\n".join(sentences) for sentences in part) + "\n"
        beside = folder / f"part-{name}"
        beside.write_text(text, "utf-8")
        os.replace(beside, folder / name)
        paths.append(str(folder / name))
    return paths


def _documents() -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Whether it is to be held out, and its sentences, of each docstring."""
    for package in PACKAGES:
        root = pathlib.Path(str(importlib.resources.files(package)))
        for path in sorted(root.rglob("*.py")):
            module = path.relative_to(root.parent).as_posix()
            if "test" in module:
                continue
            held_out = zlib.crc32(module.encode()) % HELD_OUT_MODULES == 0
            with warnings.catch_warnings(action="ignore"):  # of escapes in their strings
                tree = ast.parse(path.read_bytes())
            for node in ast.walk(tree):
                docstring = ast.get_docstring(node) if isinstance(node, _DOCUMENTED) else None
                sentences = tuple(_sentences(docstring or ""))
                if len(sentences) >= FEWEST_SENTENCES:
                    yield held_out, sentences


def _sentences(docstring: str) -> Iterator[str]:
    """Its sentences in order, each on one line; code is left out."""
    for paragraph in _PARAGRAPHS.split(inspect.cleandoc(docstring)):
        if ">>>" in paragraph or "```" in paragraph:
            continue
        items: list[str] = []
        for line in paragraph.splitlines():
            if _RULE.fullmatch(line):
                continue
            if items and not _ITEM.match(line):
                items[-1] += f" {line.strip()}"
            else:
                items.append(line.strip())
        for item in items:
            yield from (x for x in _SENTENCE_END.split(item) if _WORD.search(x))
