"""A WordPiece vocabulary: read, check, train, save."""

import collections
import itertools
import os
import pathlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf
import tqdm

from keras_bert_impl.text.normalization import Normalizer

PAD_TOKEN = "[PAD]"
UNK_TOKEN = "[UNK]"
CLS_TOKEN = "[CLS]"
SEP_TOKEN = "[SEP]"
MASK_TOKEN = "[MASK]"
SPECIAL_TOKENS = (PAD_TOKEN, UNK_TOKEN, CLS_TOKEN, SEP_TOKEN, MASK_TOKEN)

# What marks a piece that continues a word.
CONTINUATION = "##"


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    r"""Read a vocabulary file: one token a line, its id the line's number from 0.

    Only the line's end (`\n` or `\r\n`) is cut off, so a token may hold any other character.

    Args:
        path: str or path. A UTF-8 text file, such as a released model's vocab.txt.

    Returns:
        The tokens, by id.

    Raises:
        FileNotFoundError: where there is no such file.
        ValueError: for a file that is empty or not UTF-8, and as `check_vocabulary`. The message
            names the file and the line.

    Example:

    >>> save_vocabulary([*SPECIAL_TOKENS, "a"], "/tmp/vocab.txt")
    >>> read_vocabulary("/tmp/vocab.txt")[-2:]
    ['[MASK]', 'a']
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such vocabulary file. Expected a text file with one token a line, such "
            "as the vocab.txt that comes with a BERT checkpoint."
        )
    lines = path.read_bytes().split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise ValueError(f"{path}: the file is empty. Expected one token a line.")
    tokens = []
    for number, line in enumerate(lines, start=1):
        try:
            tokens.append(line.rstrip(b"\r\n").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}:{number}: byte {error.start} of the line is not UTF-8 ({error.reason}). "
                "Expected a UTF-8 text file; convert it, or choose the right file."
            ) from None
    check_vocabulary(tokens, str(path))
    return tokens


def check_vocabulary(tokens: Sequence[str], source: str = "vocabulary") -> None:
    """Raise where a list of tokens cannot serve as a vocabulary.

    Args:
        tokens: list of str, by id.
        source: str. Where they come from, for the message.

    Raises:
        ValueError: for no tokens, an empty token, one that is no str, a token that stands twice,
            or a special token that is missing.

    Example:

    >>> check_vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    Traceback (most recent call last):
    ValueError: vocabulary: the special token '[MASK]' is missing...
    """
    if not tokens:
        raise ValueError(f"{source}: no tokens. Expected one token for each id.")
    line_of: dict[str, int] = {}
    for number, token in enumerate(tokens, start=1):
        if not isinstance(token, str):
            raise ValueError(
                f"{source}:{number}: expected a str, but received {token!r} of type "
                f"{type(token).__name__}."
            )
        if not token:
            raise ValueError(
                f"{source}:{number}: the token is empty. Expected one token a line; if the line "
                "holds an id's place, put a name such as [unused1] there."
            )
        if token in line_of:
            raise ValueError(
                f"{source}:{number}: the token {token!r} already stands in line {line_of[token]}. "
                "Each token has one id: remove or rename one of the two."
            )
        line_of[token] = number
    for token in SPECIAL_TOKENS:
        if token not in line_of:
            raise ValueError(
                f"{source}: the special token {token!r} is missing from {len(tokens)} tokens. "
                f"BERT needs all of {', '.join(SPECIAL_TOKENS)}: add the token (in place of an "
                "[unused] one if the model is trained already), or choose the right vocabulary."
            )


def save_vocabulary(tokens: Sequence[str], path: str | os.PathLike) -> None:
    """Write a vocabulary file: complete under its name, or not there at all.

    Args:
        tokens: list of str, by id.
        path: str or path. An existing file is replaced.

    Raises:
        ValueError: as `check_vocabulary`, and for a token that holds a line's end.

    Example:

    >>> save_vocabulary([*SPECIAL_TOKENS, "a", "##b"], "/tmp/vocab.txt")
    """
    check_vocabulary(tokens, "vocabulary to save")
    for number, token in enumerate(tokens):
        if "\n" in token or token.endswith("\r"):
            raise ValueError(
                f"Token {token!r} of id {number} holds a line's end: it would not come back from "
                "a file with one token a line."
            )
    path = pathlib.Path(path)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", newline="\n", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        file.writelines(f"{token}\n" for token in tokens)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def train_vocabulary(
    texts: Iterable[str] | tf.data.Dataset,
    vocabulary_size: int,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_on_cjk: bool = True,
    max_token_length: int = 50,
    max_unique_characters: int = 10_000,
    batch_size: int = 1024,
    progress: bool = True,
) -> list[str]:
    """Learn a WordPiece vocabulary from texts (BERT paper, section 3; Wu et al. 2016).

    Words are counted through the very normalization that the tokenizer applies. The same texts in
    any order give the same vocabulary.

    Args:
        texts: iterable of str or bytes, or a dataset of strings (batched or not). Read once, a
            batch at a time; only the words' counts are kept.
        vocabulary_size: int. The most tokens, special tokens included. There may be fewer: as
            many as the texts give.
        lowercase, strip_accents, split_on_cjk: as the `BertTokenizer` that will use it.
        max_token_length: int. Longer words are left out of the count.
        max_unique_characters: int. Only so many of the commonest characters become tokens.
        batch_size: int. Texts normalized at a time; bounds memory.
        progress: bool. Show a bar on standard error.

    Returns:
        The tokens by id: the special tokens, `[PAD]` with id 0, then characters, then pieces by
        falling count.

    Raises:
        ValueError: where the texts hold no word, or the size leaves no room for single characters.

    Example:

    >>> vocabulary = train_vocabulary(["low lower lowest"] * 9, 30, progress=False)
    >>> "low" in vocabulary
    True
    """
    counts = count_words(
        texts,
        lowercase=lowercase,
        strip_accents=lowercase if strip_accents is None else strip_accents,
        split_on_cjk=split_on_cjk,
        batch_size=batch_size,
        progress=progress,
    )
    if not counts:
        raise ValueError("The texts hold no word. Expected text to learn a vocabulary from.")
    return learn_pieces(counts, vocabulary_size, max_token_length, max_unique_characters)


def count_words(
    texts: Iterable[str] | tf.data.Dataset,
    lowercase: bool,
    strip_accents: bool,
    split_on_cjk: bool,
    batch_size: int = 1024,
    progress: bool = True,
) -> collections.Counter[str]:
    """Count the words of texts as the tokenizer sees them.

    Returns:
        Word to count.
    """
    normalizer = Normalizer(lowercase, strip_accents, split_on_cjk)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def words(batch):
        points = tf.strings.unicode_decode(batch, "UTF-8", errors="ignore")
        encoded = tf.strings.unicode_encode(normalizer(points).characters, "UTF-8")
        word, _, count = tf.unique_with_counts(encoded)
        return word, count

    counts: collections.Counter[bytes] = collections.Counter()
    with tqdm.tqdm(unit=" texts", desc="Counting words", disable=not progress) as bar:
        for batch in _batches(texts, batch_size):
            for word, count in zip(*(x.numpy().tolist() for x in words(batch)), strict=True):
                counts[word] += count
            bar.update(len(batch))
    return collections.Counter({word.decode(): count for word, count in counts.items()})


def _batches(texts, batch_size: int) -> Iterator:
    if isinstance(texts, tf.data.Dataset):
        if texts.element_spec.shape.rank:
            texts = texts.unbatch()
        yield from texts.batch(batch_size)
        return
    texts = iter(texts)
    while batch := list(itertools.islice(texts, batch_size)):
        yield tf.constant(batch, tf.string)


def learn_pieces(
    word_counts: dict[str, int],
    vocabulary_size: int,
    max_token_length: int = 50,
    max_unique_characters: int = 10_000,
) -> list[str]:
    """Choose the pieces that make up the counted words.

    Every piece that stands at least as often as a threshold is kept, longest first, a kept
    piece's occurrences no longer counting for its prefixes. The threshold is searched for, and
    the rarest pieces beyond the size are cut.

    Returns:
        As `train_vocabulary`.
    """
    room = vocabulary_size - len(SPECIAL_TOKENS)
    words = sorted((w, n) for w, n in word_counts.items() if len(w) <= max_token_length)
    characters = collections.Counter[str]()
    for word, count in words:
        for place, character in enumerate(word):
            characters[CONTINUATION * (place > 0) + character] += count
    by_count = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
    alphabet = dict(by_count[: min(room, 2 * max_unique_characters)])
    if not alphabet:
        raise ValueError(
            f"vocabulary_size={vocabulary_size} leaves no room for text beside "
            f"{len(SPECIAL_TOKENS)} special tokens. Ask for more."
        )

    low, high = 1, max(count for _, count in words)
    best = None
    while low <= high:
        threshold = int((low * high) ** 0.5)
        pieces = _pieces_above(words, alphabet, threshold)
        enough = len(pieces | alphabet.keys()) >= room
        if enough or best is None or len(pieces) > len(best):
            best = pieces
        if enough and len(pieces | alphabet.keys()) <= 1.05 * room:
            break
        if enough:
            low = threshold + 1
        else:
            high = threshold - 1
    longer = sorted((best or {}).items(), key=lambda item: (-item[1], item[0]))
    rest = [piece for piece, _ in longer if piece not in alphabet]
    return [*SPECIAL_TOKENS, *sorted(alphabet), *rest[: room - len(alphabet)]]


def _pieces_above(words, alphabet, threshold: int, rounds: int = 4) -> dict[str, int]:
    """Pieces that stand at least `threshold` times, with their counts."""
    pieces = None
    for _ in range(rounds):
        counts: dict[str, int] = collections.defaultdict(int)
        for word, count in words:
            length = len(word)
            for start in range(length) if pieces is None else _starts(word, pieces):
                prefix = CONTINUATION if start else ""
                for end in range(start + 1, length + 1):
                    counts[prefix + word[start:end]] += count
        kept = {}
        # No piece that stands too seldom can be kept, for counts only fall from here.
        common = [piece for piece, count in counts.items() if count >= threshold]
        for piece in sorted(common, key=len, reverse=True):
            count = counts[piece]
            if count < threshold:
                continue
            kept[piece] = count
            first = len(CONTINUATION) + 1 if piece.startswith(CONTINUATION) else 1
            for end in range(first, len(piece)):
                counts[piece[:end]] -= count
        pieces = kept | {piece: n for piece, n in alphabet.items() if piece not in kept}
    assert pieces is not None
    return pieces


def _starts(word: str, pieces) -> list[int]:
    """Where the pieces of a word begin, cut greedily; none where it cannot be cut."""
    starts, start = [], 0
    while start < len(word):
        starts.append(start)
        prefix = CONTINUATION if start else ""
        end = len(word)
        while prefix + word[start:end] not in pieces:
            end -= 1
            if end == start:
                return []
        start = end
    return starts
