"""Measure this package beside others.

    python tools/benchmark.py tokenize
    python tools/benchmark.py steps --oracle-python=PYTHON
    python tools/benchmark.py texts --oracle-python=PYTHON --table=train.tsv --vocabulary=vocab.txt

Each sub-command is one function that adds its flags and one that runs.
"""

import argparse
import pathlib
import pydoc_data.topics
import random
import time
from collections.abc import Callable

import tensorflow as tf
import tqdm
from benchmark_steps import add_steps_flags, steps
from benchmark_texts import add_texts_flags, texts

from keras_bert_impl.text.tokenizer import BertTokenizer
from keras_bert_impl.text.vocabulary import read_vocabulary, train_vocabulary

TEXTS_AN_ELEMENT = 512
MIXED = (
    "The café's crème brûlée costs €7.50, says Zoë.",
    "Съешь же ещё этих мягких французских булок.",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Deich.",
    "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。",
    "いろはにほへと ちりぬるを。漢字かな交じり文",
    "모든 국민은 법 앞에 평등하다.",
    "بسم الله الرحمن الرحيم",
    "ऋषियों को सताने वाले दुष्ट राक्षस",
    "Nice work 👍🏽 see you tomorrow 👩‍👧 ok",
)


def add_tokenize_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--texts", type=int, default=16384, help="texts a round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the best counts")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 512])
    parser.add_argument("--vocabulary", type=pathlib.Path, help="default: trained on the texts")
    parser.add_argument("--seed", type=int, default=0)
    for kind in ("english", "chinese", "mixed"):
        help_text = "a UTF-8 file, one text a line; default: text made from the seed"
        parser.add_argument(f"--{kind}", type=pathlib.Path, help=help_text)


def tokenize(args: argparse.Namespace) -> None:
    """Texts a second of BertTokenizer and its rivals, uncased."""
    rng = random.Random(args.seed)
    made = {"english": _english(rng), "chinese": _chinese(rng), "mixed": _mixed(rng)}
    texts = {}
    for kind, lines in made.items():
        path = getattr(args, kind)
        lines = path.read_text(encoding="utf-8").splitlines() if path else lines
        texts[kind] = (lines * -(-args.texts // len(lines)))[: args.texts]
    if args.vocabulary:
        vocabulary = read_vocabulary(args.vocabulary)
    else:
        every = [line for lines in texts.values() for line in lines]
        vocabulary = train_vocabulary(every, 30_522, progress=False)
        vocabulary += [f"[unused{i}]" for i in range(30_522 - len(vocabulary))]

    rivals = _tokenizers(vocabulary)
    cases = [(kind, size) for kind in texts for size in args.batch_sizes]
    best: dict[tuple, float] = {}
    with tqdm.tqdm(total=len(cases) * len(rivals) * args.rounds) as bar:
        for kind, size in cases:
            runs = {name: make(texts[kind], size) for name, make in rivals.items()}
            for _ in range(args.rounds):  # in turn, so that a busy moment falls on all
                for name, run in runs.items():
                    seconds = run()
                    key = (kind, size, name)
                    best[key] = min(best.get(key, seconds), seconds)
                    bar.update()

    print(f"{'text':8} {'batch':>5}  {'tokenizer':24} {'texts/s':>10}  ours is faster by")
    for (kind, size, name), seconds in best.items():
        ratio = seconds / best[kind, size, "ours"]
        print(f"{kind:8} {size:5}  {name:24} {1 / seconds:10,.0f}  {ratio:6.2f} x")


def _tokenizers(vocabulary: list[str]) -> dict[str, Callable]:
    """For each tokenizer a function of (texts, batch size) that gives a run, in seconds a text."""
    import keras_hub
    import tensorflow_text

    def in_tf_data(function):
        def make(texts, batch_size):
            dataset = tf.data.Dataset.from_tensor_slices(texts).batch(batch_size)
            dataset = dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)
            # Elements of many batches, so that Python's own time is not measured.
            sizes = dataset.map(lambda ids: tf.size(ids.flat_values))
            sizes = sizes.batch(max(1, TEXTS_AN_ELEMENT // batch_size))

            def run():
                elements = iter(sizes)
                next(elements)  # starting is not measured
                start = time.perf_counter()
                timed = sum(1 for _ in elements) * TEXTS_AN_ELEMENT
                return (time.perf_counter() - start) / timed

            return run

        return make

    fast_bert = tensorflow_text.FastBertTokenizer(
        vocabulary, lower_case_nfd_strip_accents=True, token_out_type=tf.int32
    )
    tokenizers = {
        "ours": in_tf_data(BertTokenizer(vocabulary)),
        "KerasHub BertTokenizer": in_tf_data(
            keras_hub.tokenizers.BertTokenizer(vocabulary, lowercase=True)
        ),
        "TF.Text FastBertTokenizer": in_tf_data(fast_bert.tokenize),
    }
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError:
        print("tokenizers is not installed; left out.")
        return tokenizers
    rust = BertWordPieceTokenizer({token: id for id, token in enumerate(vocabulary)})

    def with_rust(texts, batch_size):
        batches = [texts[i : i + batch_size] for i in range(0, len(texts), batch_size)]

        def run():
            start = time.perf_counter()
            for batch in batches:
                rust.encode_batch(batch, add_special_tokens=False)
            return (time.perf_counter() - start) / len(texts)

        return run

    tokenizers["Rust encode_batch"] = with_rust
    return tokenizers


def _english(rng: random.Random) -> list[str]:
    """Paragraphs of Python's own language reference."""
    paragraphs = "\n\n".join(pydoc_data.topics.topics.values()).split("\n\n")
    lines = [" ".join(paragraph.split()) for paragraph in paragraphs]
    lines = [line for line in lines if line.isascii() and 40 <= len(line) <= 600]
    rng.shuffle(lines)
    return lines


def _chinese(rng: random.Random) -> list[str]:
    """Ideographs by Zipf's law, with punctuation and a word of English now and then."""
    characters = [*map(chr, range(0x4E00, 0x4E00 + 5000))]
    rng.shuffle(characters)
    weights = [1 / (rank + 3) for rank in range(5000)]

    def sentence():
        parts = []
        for _ in range(rng.randint(1, 6)):
            parts.append("".join(rng.choices(characters, weights, k=rng.randint(4, 16))))
            parts.append(rng.choice("，，，。。？！、"))
        if rng.random() < 0.3:
            parts.insert(1, rng.choice(("BERT", "2019", "Google")))
        return "".join(parts)

    return [sentence() for _ in range(2000)]


def _mixed(rng: random.Random) -> list[str]:
    """A line in one of many scripts, or two of them; every other line English."""
    english = _english(rng)
    lines = []
    for line in english[:1000]:
        lines += [line, " ".join(rng.choices(MIXED, k=rng.randint(1, 4)))]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("tokenize", help=tokenize.__doc__)
    add_tokenize_flags(command)
    command.set_defaults(run=tokenize)
    command = commands.add_parser("steps", help=steps.__doc__)
    add_steps_flags(command)
    command.set_defaults(run=steps)
    command = commands.add_parser("texts", help=texts.__doc__)
    add_texts_flags(command)
    command.set_defaults(run=texts)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
