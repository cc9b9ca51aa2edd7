"""Tags of words to the entities they mark: IOB1, IOB2 (BIO), IOE and BIOES, well formed or not."""

from collections.abc import Sequence
from typing import NamedTuple

# A word that is outside of every entity.
OUTSIDE = "O"
_PREFIXES = ("B", "I", "E", "S")


class Entity(NamedTuple):
    """A span of words of one type.

    Attributes:
        type: str. What stands behind the prefix: `"PER"` of `"B-PER"`.
        first, last: int. Its first and last word, counted from 0.
    """

    type: str
    first: int
    last: int


def split_tag(tag: str) -> tuple[str, str]:
    """Prefix and type of a tag.

    Args:
        tag: str. `"O"`, or a prefix B, I, E or S, and the type behind a hyphen. A bare prefix,
            for entities of one type, has the type `"_"`, as in seqeval.

    Raises:
        ValueError: for any other tag.

    Example:

    >>> split_tag("B-LOC-city"), split_tag("O")
    (('B', 'LOC-city'), ('O', ''))
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, _, kind = tag.partition("-")
    if prefix not in _PREFIXES:
        raise ValueError(
            f"{tag!r} is no entity tag: expected O, or B-, I-, E- or S- with a type behind it."
        )
    return prefix, kind or "_"


def entities_of(tags: Sequence[str]) -> list[Entity]:
    """The entities that a sentence's tags mark, by the rules of conlleval.

    No sequence is refused: an entity begins with any tag that cannot go on with the entity
    before, so `O I-PER` begins one (IOB1), and `B-PER I-LOC` is two.

    Args:
        tags: a tag for each word.

    Returns:
        The entities in order; none overlap.

    Raises:
        ValueError: for a tag that `split_tag` refuses.

    Example:

    >>> entities_of(["B-PER", "I-PER", "O", "I-LOC"])
    [Entity(type='PER', first=0, last=1), Entity(type='LOC', first=3, last=3)]
    """
    entities: list[Entity] = []
    before = None  # prefix and type of the word before, where it was in an entity
    for word, tag in enumerate(tags):
        prefix, kind = split_tag(tag)
        if prefix == OUTSIDE:
            before = None
        elif before is None or _begins_anew(before, (prefix, kind)):
            entities.append(Entity(kind, word, word))
            before = prefix, kind
        else:
            entities[-1] = entities[-1]._replace(last=word)
            before = prefix, kind
    return entities


def _begins_anew(before: tuple[str, str], now: tuple[str, str]) -> bool:
    """Whether a word begins an entity although the word before it is in one."""
    return before[1] != now[1] or before[0] in ("E", "S") or now[0] in ("B", "S")
