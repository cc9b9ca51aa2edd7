import random

import pytest
import tensorflow as tf

from keras_bert_impl.objectives.discourse_relation import (
    CONNECTIVES,
    discourse_pairs,
    discourse_pairs_within,
    read_discourse_pairs,
)


def strings(documents):
    return tf.ragged.constant(documents, dtype=tf.string, ragged_rank=1)


def as_rows(made):
    first, second, label = made
    return [
        (a.decode(), b.decode(), c)
        for a, b, c in zip(first.numpy(), second.numpy(), label.numpy().tolist(), strict=True)
    ]


def begins_with(sentence, connective):
    """What is left of the sentence, or None if it does not begin with the connective."""
    words, rest = connective.split(), sentence.lstrip()
    for i, word in enumerate(words):
        if rest[: len(word)].lower() != word:
            return None
        rest = rest[len(word) :]
        if i < len(words) - 1:
            if rest == rest.lstrip():
                return None
            rest = rest.lstrip()
    left = rest.lstrip(" ,;:\t")
    if left == rest or not any(c.isalnum() for c in left):
        return None
    return left


def longest(text, connectives):
    found = [(len(c), i, begins_with(text, c)) for i, c in enumerate(connectives)]
    return max((x for x in found if x[2] is not None), default=None)


def expected_pairs(documents, connectives):
    made = []
    for document in documents:
        for first, second in zip(document, document[1:], strict=False):
            match = longest(second, connectives)
            if match and any(c.isalnum() for c in first):
                made.append((first, match[2], match[1]))
    return made


def expected_cuts(documents, connectives):
    made = []
    for sentence in (s for document in documents for s in document):
        for i, character in enumerate(sentence):
            if character in ",;:" and any(c.isalnum() for c in sentence[:i]):
                match = longest(sentence[i + 1 :], connectives)
                if match:
                    made.append((sentence[:i], match[2], match[1]))
                    break
    return made


def make_documents(rng, connectives):
    words = ["he", "ran", "Soon", "android", "but", "SO", "so far", "...", "x"]
    openings = [*connectives, *(c.upper() for c in connectives), *(c.title() for c in connectives)]

    def sentence():
        parts = rng.choices(words, k=rng.randint(0, 4))
        if rng.random() < 0.5:
            opening = rng.choice(openings).replace(" ", rng.choice([" ", "  "]))
            parts.insert(rng.choice([0, 0, 2]), rng.choice(["", " ", ", "]) + opening)
        gaps = [rng.choice([" ", ", ", "; ", "", ",", ": "]) for _ in parts]
        return "".join(p + g for p, g in zip(parts, gaps, strict=True))

    return [[sentence() for _ in range(rng.choice([0, 1, 2, 9]))] for _ in range(60)]


@pytest.mark.parametrize("connectives", [CONNECTIVES, ("and", "so", "So far", "but")])
def test_as_in_plain_python(connectives):
    lowercase = [c.lower() for c in connectives]
    documents = make_documents(random.Random(1), lowercase)
    pairs = as_rows(discourse_pairs(strings(documents), connectives))
    assert pairs == expected_pairs(documents, lowercase) and len(pairs) > 40
    cuts = as_rows(discourse_pairs_within(strings(documents), connectives))
    assert cuts == expected_cuts(documents, lowercase) and len(cuts) > 20
    assert len({label for *_, label in pairs + cuts}) > 3


@pytest.mark.parametrize(
    ("second", "rest", "connective"),
    [
        ("But he fell.", "he fell.", "but"),
        ("ON  THE OTHER HAND,he fell.", "he fell.", "on the other hand"),
        ("however: he fell", "he fell", "however"),
        ("\tSo\u00a0he fell", "he fell", "so"),
        ("Butter is good.", None, None),
        ("Anderson fell.", None, None),
        ("However, ...", None, None),
        ("However", None, None),
        ("He fell, however.", None, None),
        ("\u017fo he fell", None, None),  # a long s, which RE2 takes for an s
    ],
)
def test_what_counts_as_a_beginning(second, rest, connective):
    made = as_rows(discourse_pairs(strings([["He ran.", second]])))
    assert made == ([] if rest is None else [("He ran.", rest, CONNECTIVES.index(connective))])


def test_nothing_crosses_documents_and_short_ones_are_handled():
    assert as_rows(discourse_pairs(strings([["He ran."], ["But he fell."], []]))) == []
    assert as_rows(discourse_pairs(strings([["But he fell."]]))) == []
    assert as_rows(discourse_pairs(strings([["..."], ["...", "But he fell."]]))) == []
    for nothing in ([], [[]]):
        assert as_rows(discourse_pairs(strings(nothing))) == []
        assert as_rows(discourse_pairs_within(strings(nothing))) == []


def test_chinese_needs_no_space():
    documents = strings(
        [["\u4ed6\u8dd1\u4e86\u3002", "\u4f46\u662f\u4ed6\u6454\u5012\u4e86\u3002"]]
    )
    made = as_rows(discourse_pairs(documents, ["\u6240\u4ee5", "\u4f46\u662f"]))
    assert made == [("\u4ed6\u8dd1\u4e86\u3002", "\u4ed6\u6454\u5012\u4e86\u3002", 1)]
    whole = strings([["\u4ed6\u8dd1\u4e86\uff0c\u4f46\u662f\u4ed6\u6454\u5012\u4e86"]])
    made = as_rows(discourse_pairs_within(whole, ["\u6240\u4ee5", "\u4f46\u662f"]))
    assert made == [("\u4ed6\u8dd1\u4e86", "\u4ed6\u6454\u5012\u4e86", 1)]


def test_the_same_in_a_dataset():
    documents = make_documents(random.Random(2), CONNECTIVES)
    windows = tf.data.Dataset.from_tensor_slices(strings(documents)).ragged_batch(7)
    for maker in (discourse_pairs, discourse_pairs_within):
        made = [row for window in windows.map(maker) for row in as_rows(window)]
        assert made == as_rows(maker(strings(documents))) and made


def test_impossible_arguments():
    documents = strings([["a"]])
    with pytest.raises(ValueError, match="'but' is there twice, at 0 and 2"):
        discourse_pairs(documents, ["but", "so", "But"])
    with pytest.raises(ValueError, match="no connectives"):
        discourse_pairs(documents, [])
    with pytest.raises(ValueError, match="Connective 1 is blank"):
        discourse_pairs(documents, ["but", " "])
    with pytest.raises(ValueError, match=r"ragged \(documents, sentences\) strings"):
        discourse_pairs(tf.constant(["a"]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "sentence1\tsentence2\tlabel\nHe ran.\the fell.\tbut\nA.\tB.\tso\n"),
        ("a.csv", 'idx,sentence1,sentence2,label\n1,"He ran.",he fell.,but\n2,A.,B.,so\n'),
        (
            "a.jsonl",
            '{"sentence1": "He ran.", "sentence2": "he fell.", "label": "but"}\n'
            '{"sentence1": "A.", "sentence2": "B.", "label": "so"}\n',
        ),
    ],
)
def test_pairs_of_a_file(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    made = as_rows(read_discourse_pairs(path, connectives=["so", "but"]))
    assert made == [("He ran.", "he fell.", 1), ("A.", "B.", 0)]
    with pytest.raises(ValueError, match="label is 'so', but must be one of but, and"):
        read_discourse_pairs(path, connectives=["but", "and"])


def test_numbers_as_labels(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ty\tz\nA.\tB.\t3\n")
    options = {"num_classes": 4, "columns": ("x", "y", "z")}
    assert as_rows(read_discourse_pairs(tmp_path / "a.tsv", **options)) == [("A.", "B.", 3)]
