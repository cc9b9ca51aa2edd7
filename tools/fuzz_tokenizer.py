"""Compare BertTokenizer with google-research/bert's own, on every code point and on random text.

    python tools/fuzz_tokenizer.py code-points
    python tools/fuzz_tokenizer.py strings --count 1000000 --seed 0
    python tools/fuzz_tokenizer.py offsets --count 20000

Needs bert-tensorflow (the `test` extra). Text comes in chunks, each a function of the seed and its
number alone: a run that was stopped goes on with `--first-chunk`. Exit status 1 where a
difference was found.
"""

import argparse
import random
import sys
import unicodedata
from collections.abc import Iterator

import tensorflow as tf
import tqdm
from absl import flags
from bert import tokenization as reference_module

from keras_bert_impl.text.normalization import CODE_POINTS
from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import CONTINUATION, SPECIAL_TOKENS

SURROGATES = range(0xD800, 0xE000)
MAX_SHOWN = 20

# Real text, public domain or written for this: ten scripts and more.
SAMPLES = (
    "The quick brown fox can't jump over 3.5 lazy dogs; e-mail: fox@example.com (http://a.b/c?d=1).",
    "In the beginning God created the heaven and the earth.",
    "Où est passé l'été? Ça dépend: «naïveté», cœur, Noël à 20 €.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. STRAẞE Straße",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia. ¿Qué?",
    "Příliš žluťoučký kůň úpěl ďábelské ódy. Zażółć gęślą jaźń.",
    "Tiếng Việt có rất nhiều dấu thanh điệu. Việt Nam",
    "İstanbul'da ışık ve IŞIK, ılık su.",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία. ΟΔΟΣ ΣΊΣΥΦΟΣ Σ. ΑΣ.Α ΑΣ-Α ΟΔΌΣ»",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Йод ЁЖ",
    "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ",
    "بِسْمِ ٱللَّهِ ٱلرَّحْمَٰنِ ٱلرَّحِيمِ نص حکیم کھلے بندوں، ۱۲۳",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश। क़ ख़",
    "আমি কাঁচ খেতে পারি, তাতে আমার কোনো ক্ষতি হয় না। ড়",
    "யாமறிந்த மொழிகளிலே தமிழ்மொழி போல் இனிதாவது எங்கும் காணோம்",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน",
    "སེམས་ཅན་ཐམས་ཅད་བདེ་བ་དང་ལྡན་པར་གྱུར་ཅིག",
    "天地玄黃,宇宙洪荒。日月盈昃,辰宿列張!「你好」世界 GPT-4模型",
    "いろはにほへと ちりぬるを ガギグゲゴ パピプペポ ｶﾞｷﾞ 漢字かな交じり文、テスト。",
    "모든 국민은 법 앞에 평등하다. 누구든지 성별·종교에 의하여",
    "ꦱꦧꦼꦤ꧀ꦮꦺꦴꦁꦏꦭꦲꦶꦂꦫꦏꦺꦏꦤ꧀ꦛꦶꦩꦂꦢꦶꦏ ᬲᬫᬶᬦᬮᭀᬓ᭄ᬫᬦᬸᬱ",
    "Ⴀⴀ ᲐაႠ ᎠᏣᎳᎩ Ꭰꭰ ᏸ Աա ՀԱՅ և 𐐀𐐨 𞤀𞤢",
    "👩‍👩‍👧‍👦 family 🏳️‍🌈 1️⃣ 🇫🇷 👍🏽ok emoji🙂glued",
    "foo\u200dbar foo\u00adbar foo\u200bbar hello\x97world hello\x0bworld foo\x00bar foo\ufffdbar",
    "a\u00a0b\u2028c\u2029d\u3000e\u1680f\u2003g\ufeffh\u180ei\u061cj",
    "[MASK] [CLS] [unused1] [SEP]x [unused99] $1 €2 don't",
    "ＡＢｃ ﬁ ﬃ ① ² ™ ½ Å Å ≠ ≮ ` ´ ; ·",
)
# Where bugs live: what joins, breaks, reorders, changes length, or depends on its neighbours.
SHARP = [
    *[
        "Σ",
        "Σ",
        "Σ",
        "Σ",
        "ς",
        "σ",
        "İ",
        "ı",
        "ß",
        "ẞ",
        "ŉ",
        "ǰ",
        "ΐ",
        "ﬀ",
        "Ǆ",
        "ǅ",
        "'",
        ".",
        "·",
        ":",
        "-",
        "_",
        ",",
        "[",
        "]",
        "#",
        "##",
        "[UNK]",
    ],
    *map(chr, (0, 9, 10, 11, 12, 13, 0x1C, 0x1F, 0x20, 0x7F, 0x85, 0xA0, 0xAD, 0x34F, 0x345)),
    *map(chr, (0x61C, 0x180E, 0x200B, 0x200C, 0x200D, 0x200E, 0x2028, 0x2029, 0x202F, 0x2060)),
    *map(chr, (0x3000, 0xFE0F, 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF, 0xE0001, 0xE0100, 0x10FFFF)),
    *map(chr, (0x300, 0x301, 0x308, 0x327, 0x323, 0x338, 0x344, 0x3099, 0x20DD, 0x488)),
    *map(chr, (0x302E, 0x302F, 0x1B44, 0x1BAA, 0xA953, 0xA9C0, 0x1D165, 0x1D16D, 0x1D15E, 0x16FF0)),
    *map(chr, (0x1100, 0x1161, 0x11A8, 0xAC00, 0xAC01, 0x0CCB, 0x0DDD, 0x0B4C, 0x0F73, 0x0958)),
    *map(chr, (0x37E, 0x387, 0x1FEF, 0x1FFD, 0x2000, 0x2126, 0x212A, 0x226E, 0x2ADC, 0xFB1D)),
    *map(
        chr, (0x3400, 0x4DBF, 0x9FFF, 0xF900, 0xFA0E, 0x2A6DF, 0x2B73F, 0x2B820, 0x2CEB0, 0x2F800)
    ),
]
MARKS = [chr(p) for p in range(CODE_POINTS) if unicodedata.category(chr(p)) in ("Mn", "Mc", "Me")]
CASED = [chr(p) for p in range(0x2000) if unicodedata.category(chr(p)) in ("Lu", "Lt", "Ll")]


class Reference:
    """google-research/bert's tokenizer with a vocabulary held in memory."""

    def __init__(self, vocabulary: list[str], lowercase: bool):
        if not flags.FLAGS.is_parsed():
            flags.FLAGS.mark_as_parsed()
        self._ids = {token: id for id, token in enumerate(vocabulary)}
        self._basic = reference_module.BasicTokenizer(do_lower_case=lowercase)
        self._wordpiece = reference_module.WordpieceTokenizer(self._ids)

    def words(self, text: str) -> list[str]:
        """The words before they are cut into pieces."""
        return self._basic.tokenize(text)

    def ids(self, text: str | bytes) -> list[int]:
        """The ids of a text."""
        return [
            self._ids[piece]
            for word in self._basic.tokenize(text)
            for piece in self._wordpiece.tokenize(word)
        ]


def random_text(rng: random.Random) -> str:
    """One random string: pieces of real text, marks, sharp characters, any code points."""
    block = rng.randrange(0, CODE_POINTS, 256)
    parts: list[str] = []
    for _ in range(rng.randint(1, 12)):
        kind = rng.random()
        if kind < 0.3:
            sample = rng.choice(SAMPLES)
            start = rng.randrange(len(sample))
            parts.append(sample[start : start + rng.randint(1, 24)])
        elif kind < 0.5:
            parts.append(rng.choice(SHARP))
        elif kind < 0.6:
            parts.extend(rng.choices(MARKS, k=rng.randint(1, 4)))
        elif kind < 0.7:
            parts.extend(rng.choices(CASED, k=rng.randint(1, 4)))
        elif kind < 0.8:
            parts.extend(chr(block + rng.randrange(256)) for _ in range(rng.randint(1, 4)))
        elif kind < 0.9:
            parts.append(chr(rng.randrange(rng.choice((0x80, 0x3000, 0x20000, CODE_POINTS)))))
        elif kind < 0.99:
            parts.append(" ")
        else:
            parts.append(
                rng.choice("aéΣ中한ดß") * rng.choice((50, 51, 99, 101, 199, 200, 201, 300))
            )
    return "".join(c for c in "".join(parts) if ord(c) not in SURROGATES)


def random_bytes(rng: random.Random) -> bytes:
    """One random string that is, more often than not, no UTF-8."""
    data = bytearray(random_text(rng).encode())
    for _ in range(rng.randint(0, 4)):
        place = rng.randint(0, len(data))
        data[place : place + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 2))
    return bytes(data)


def vocabulary_for(words: list[str], rng: random.Random, missing: float) -> list[str]:
    """A vocabulary that tells words apart: their characters, some longer pieces, some left out."""
    pieces: set[str] = set()
    for word in words:
        pieces.update(word)
        pieces.update(CONTINUATION + character for character in word)
        start = rng.randrange(len(word))
        piece = word[start : start + rng.randint(1, 8)]
        pieces.add(CONTINUATION * (start > 0) + piece)
    tokens = [piece for piece in sorted(pieces) if rng.random() >= missing and piece != "##"]
    tokens = [token for token in tokens if token not in SPECIAL_TOKENS]
    rng.shuffle(tokens)
    return [*SPECIAL_TOKENS, *tokens]


def differences(texts: list, lowercase: bool, rng: random.Random, missing: float) -> Iterator[str]:
    """Say where the two tokenizers differ on texts, with a vocabulary made for these."""
    basic = Reference(list(SPECIAL_TOKENS), lowercase)
    words = sorted({word for text in texts for word in basic.words(text)})
    vocabulary = vocabulary_for(words, rng, missing)
    reference = Reference(vocabulary, lowercase)
    tokenizer = BertTokenizer(vocabulary, lowercase=lowercase)
    for text, ids in zip(texts, tokenizer.tokenize(tf.constant(texts)).to_list(), strict=True):
        expected = reference.ids(text)
        if ids != expected:
            yield (
                f"lowercase={lowercase} {text!r}: expected "
                f"{[vocabulary[i] for i in expected]}, got {[vocabulary[i] for i in ids]}"
            )


def code_point_texts(points: range) -> list[str]:
    """Each code point alone, between letters, doubled, and after a space."""
    characters = [chr(point) for point in points if point not in SURROGATES]
    return [t for c in characters for t in (c, f"a{c}b", c + c, f"a {c}")]


def string_texts(seed: int, chunk: int, size: int) -> list[bytes]:
    """One chunk of random strings; a tenth of them are not UTF-8."""
    rng = random.Random(f"{seed}:{chunk}")
    return [
        random_bytes(rng) if rng.random() < 0.1 else random_text(rng).encode() for _ in range(size)
    ]


def offset_errors(texts: list[str], rng: random.Random) -> Iterator[str]:
    """Say where offsets are not those of the original spelling."""
    basic = Reference(list(SPECIAL_TOKENS), lowercase=True)
    words = sorted({word for text in texts for word in basic.words(text)})
    vocabulary = vocabulary_for(words, rng, missing=0.02)
    tokenizer = BertTokenizer(vocabulary)
    reference = Reference(vocabulary, lowercase=True)
    tokens = tokenizer.tokenize_with_offsets(tf.constant(texts))
    rows = zip(texts, *(x.to_list() for x in tokens), strict=True)
    for text, ids, starts, ends, byte_starts, byte_ends, word_ids in rows:
        problem = None
        data = text.encode()
        covered: set[int] = set()
        # Canonical ordering moves these marks, and their pieces with them.
        moved = sum(map(_is_movable, unicodedata.normalize("NFD", text))) > 1
        if ids != reference.ids(text):
            problem = "ids differ"
        pieces = list(zip(ids, starts, ends, byte_starts, byte_ends, strict=True))
        for id, start, end, byte_start, byte_end in pieces:
            covered.update(range(start, end))
            spelled = text[start:end]
            if not 0 <= start < end <= len(text):
                problem = f"span {start}:{end} is out of the text"
            elif data[byte_start:byte_end] != spelled.encode():
                problem = f"bytes {byte_start}:{byte_end} are not characters {start}:{end}"
            elif (
                vocabulary[id] != "[UNK]" and not moved and not _stands_for(spelled, vocabulary[id])
            ):
                problem = f"{spelled!r} does not stand for {vocabulary[id]!r}"
        if (starts != sorted(starts) and not moved) or word_ids != sorted(word_ids):
            problem = "pieces are out of order"
        problem = problem or _lost(text, covered)
        if problem:
            yield f"{text!r}: {problem}"


def _stands_for(spelled: str, token: str) -> bool:
    """Whether the token is the spelling normalized, but for what its outer characters share.

    A character that gives several, such as a Hangul syllable, may be cut between two pieces.
    """
    wanted = token.removeprefix(CONTINUATION) if len(token) > len(CONTINUATION) else token
    wanted = wanted.replace("ς", "σ")
    whole = _normalized(spelled)
    if sorted(wanted) == sorted(whole):
        return True
    kept = [text for text in map(_normalized, spelled) if text]
    spare = len(kept[0]) + len(kept[-1]) - 2
    return wanted in whole and len(whole) - len(wanted) <= spare


def _is_movable(character: str) -> bool:
    return unicodedata.combining(character) > 0 and unicodedata.category(character) != "Mn"


def _normalized(text: str) -> str:
    kept = []
    for character in unicodedata.normalize("NFD", text.lower()):
        gone = unicodedata.category(character) in ("Mn", "Cc", "Cf") or character == "\ufffd"
        if not gone:
            kept.append("σ" if character == "ς" else character)
    return "".join(kept)


def _lost(text: str, covered: set[int]) -> str | None:
    """A visible character that no piece covers, if there is one."""
    for place, character in enumerate(text):
        invisible = unicodedata.category(character) in ("Cc", "Cf") or character.isspace()
        if place in covered or invisible or character == "\ufffd":
            continue
        # A mark that stands alone between spaces gives no piece.
        if not _normalized(_word_around(text, place)):
            continue
        return f"U+{ord(character):04X} at {place} is covered by no piece"
    return None


def _word_around(text: str, place: int) -> str:
    before, after = text[:place], text[place:]
    return before[len(_up_to_space(before)) :] + after.split(None, 1)[0]


def _up_to_space(text: str) -> str:
    """The text up to and with its last space."""
    for end in range(len(text), 0, -1):
        if text[end - 1].isspace():
            return text[:end]
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("code-points", "strings", "offsets"))
    parser.add_argument("--count", type=int, default=1_000_000, help="random strings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chunk-size", type=int, default=5_000)
    parser.add_argument("--first-chunk", type=int, default=0)
    args = parser.parse_args()

    total = CODE_POINTS if args.what == "code-points" else args.count
    chunks = range(args.first_chunk, -(-total // args.chunk_size))
    found = 0
    bar = tqdm.tqdm(chunks, desc=args.what, unit="chunk")
    for chunk in bar:
        rng = random.Random(f"{args.seed}:{chunk}:vocabulary")
        size = min(args.chunk_size, total - chunk * args.chunk_size)
        if args.what == "offsets":
            errors = offset_errors(
                [t.decode(errors="ignore") for t in string_texts(args.seed, chunk, size)], rng
            )
        else:
            start = chunk * args.chunk_size
            whole = args.what == "code-points"
            texts = (
                code_point_texts(range(start, start + size))
                if whole
                else string_texts(args.seed, chunk, size)
            )
            errors = (
                error
                for lowercase in (True, False)
                for error in differences(texts, lowercase, rng, missing=0 if whole else 0.02)
            )
        for error in errors:
            found += 1
            if found <= MAX_SHOWN:
                tqdm.tqdm.write(error)
        bar.set_postfix(differences=found)
    print(f"{args.what}: {total:,} in all, seed {args.seed}, {found} differences")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
