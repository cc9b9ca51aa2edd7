"""Every Python file belongs to a Bazel target."""

import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = sorted(
    {
        path.parent
        for top in ("keras_bert_impl", "recipes", "tools", "tests")
        for path in (ROOT / top).rglob("*.py")
    }
)


@pytest.mark.skipif("TEST_SRCDIR" in os.environ, reason="Bazel shows its tests no BUILD files.")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_is_named_or_globbed(folder):
    build = (folder / "BUILD").read_text()
    if 'glob(["*.py"])' in build or "pytest_tests(" in build:
        return
    named = set(re.findall(r'"(\w+)(?:\.py)?"', build))
    files = {path.stem for path in folder.glob("*.py")}
    assert files - named == set(), f"add these to {folder / 'BUILD'}"
