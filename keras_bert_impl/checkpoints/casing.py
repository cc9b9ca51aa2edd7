"""Cased or uncased? What a checkpoint does not say, its vocabulary does."""

import pathlib
import re
from collections.abc import Mapping, Sequence

from keras_bert_impl.checkpoints.checkpoint import TokenizerFiles, warn
from keras_bert_impl.text.vocabulary import read_vocabulary

VOCABULARY = "vocab.txt"
# So small a share of capitals is a vocabulary's slip, not its casing.
FEW = 0.01


def capitals(tokens: Sequence[str]) -> int:
    """How many tokens a lowercasing tokenizer could never give; special tokens aside."""
    return sum(
        token != token.lower() for token in tokens if not (token[0] == "[" and token[-1] == "]")
    )


def looks_cased(tokens: Sequence[str]) -> bool:
    """Whether a vocabulary holds capitals, as only a cased model's does."""
    return capitals(tokens) > FEW * len(tokens)


def read_google_tokenizer(
    folder: pathlib.Path, known: Mapping, lowercase: bool | None, name: str
) -> TokenizerFiles | None:
    """The vocabulary, with the casing that the caller, a record of it or a guess gives.

    Args:
        folder: path. Holds vocab.txt, or the answer is None.
        known: options on record.
        lowercase: bool or None. Counts before all else.
        name: str. What the release is called.
    """
    if not (folder / VOCABULARY).is_file():
        return None
    options = dict(known)
    tokens = read_vocabulary(folder / VOCABULARY)
    if lowercase is not None:
        options["lowercase"] = lowercase
    elif "lowercase" not in options:
        options["lowercase"] = guess_lowercase(name, tokens)
    return TokenizerFiles(tokens, **options)


def guess_lowercase(name: str, tokens: Sequence[str]) -> bool:
    """Whether a model is uncased, by its vocabulary; warns where its name says otherwise.

    Only a cased model's vocabulary holds capitals. Google's scripts look at the name, which
    anyone may change.
    """
    by_vocabulary = not looks_cased(tokens)
    match = re.search(r"(?:^|[^a-z])(un)?cased", name.lower())
    if match and (match[1] is not None) != by_vocabulary:
        warn(
            f"The name {name!r} says {match[0].strip('_-./')}, but {capitals(tokens)} of "
            f"{len(tokens)} tokens of the vocabulary have capitals: taken as "
            f"{'uncased' if by_vocabulary else 'cased'}. Pass lowercase=True or lowercase=False to "
            "say which."
        )
    return by_vocabulary
