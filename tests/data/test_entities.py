import doctest
import itertools

import pytest
from seqeval.metrics.sequence_labeling import get_entities

from keras_bert_impl.data import entities
from keras_bert_impl.data.entities import Entity, entities_of, split_tag


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-PER", [("PER", 0, 0)]),
        ("B-PER I-PER O B-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),
        # IOB1: B only where an entity follows one of its type.
        ("I-PER I-PER B-PER O I-LOC", [("PER", 0, 1), ("PER", 2, 2), ("LOC", 4, 4)]),
        ("S-LOC B-PER I-PER E-PER O", [("LOC", 0, 0), ("PER", 1, 3)]),
        ("B-PER B-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        # Not well formed.
        ("O I-PER", [("PER", 1, 1)]),
        ("B-PER I-LOC", [("PER", 0, 0), ("LOC", 1, 1)]),
        ("E-PER E-PER I-PER", [("PER", 0, 0), ("PER", 1, 1), ("PER", 2, 2)]),
        ("S-PER I-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        ("B-PER E-PER E-PER", [("PER", 0, 1), ("PER", 2, 2)]),
        # Types with hyphens, and none at all.
        ("B-LOC-city I-LOC-city", [("LOC-city", 0, 1)]),
        ("B I O I", [("_", 0, 1), ("_", 3, 3)]),
    ],
)
def test_entities_of_tags(tags, expected):
    assert entities_of(tags.split()) == [Entity(*entity) for entity in expected]


def test_every_short_sequence_reads_as_in_seqeval():
    tags = ["O"] + [f"{prefix}-{kind}" for prefix in "BIES" for kind in "XY"]
    for sequence in itertools.product(tags, repeat=4):
        expected = [Entity(*entity) for entity in get_entities(list(sequence))]
        assert entities_of(sequence) == expected, sequence


@pytest.mark.parametrize("tag", ["NN", "", "L-PER", "o", "-PER", "0"])
def test_other_tags_are_refused(tag):
    with pytest.raises(ValueError, match=f"'{tag}' is no entity tag"):
        split_tag(tag)
    with pytest.raises(ValueError, match=f"'{tag}' is no entity tag"):
        entities_of(["O", tag])


def test_docstring_examples():
    assert doctest.testmod(entities) == (0, 2)
