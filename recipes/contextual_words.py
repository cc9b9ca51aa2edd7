r"""One word in many sentences: its static vector and its contextual ones, measured and drawn.

    python recipes/contextual_words.py --model=uncased_L-12_H-768_A-12 --output=runs/bank

A word's row of the token table is the same wherever it stands; what a layer gives at the word
depends on its sentence. The README of google-research/bert tells the two kinds apart by "bank" in
"bank deposit" and in "river bank". Prints the mean cosine of the word in two sentences of one
sense, and of two senses, for the table and for each layer, and writes it to cosines.tsv; words.png
shows the vectors in the plane of their two largest components. Sentences of your own: --word, and
--input, a TSV with a column text and, where it is known, sense.
"""

import pathlib

import numpy as np
from absl import app, flags

import keras_bert_impl as kbi

_MODEL = flags.DEFINE_string("model", None, "Whatever from_preset takes.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "Folder for table and picture.", required=True)
_WORD = flags.DEFINE_string("word", "bank", "The word, in any case of letters.")
_INPUT = flags.DEFINE_string("input", None, "TSV of sentences; default: those below.")
_LAYER = flags.DEFINE_integer("layer", -1, "Layer to draw: 0 is the lowest, -1 the last.")

SENTENCES = [
    ("river", "We sat on the bank of the river and watched the boats."),
    ("river", "The river burst its bank after a week of rain."),
    ("river", "Willows grow along the muddy bank of the stream."),
    ("river", "He pulled his canoe up on the grassy bank."),
    ("river", "An otter slid down the bank into the water."),
    ("river", "They fished from the north bank of the lake."),
    ("river", "The path follows the left bank down to the sea."),
    ("river", "Flood water carried the sand from one bank to the other."),
    ("money", "She opened an account at the bank on Monday."),
    ("money", "The bank raised its interest rates again."),
    ("money", "He asked the bank for a loan to buy a house."),
    ("money", "Two men robbed a bank and took all the cash."),
    ("money", "My salary is paid to the bank every month."),
    ("money", "The central bank printed more money."),
    ("money", "The bank lost millions when its clients could not pay."),
    ("money", "You can change your dollars at any bank in town."),
]


def main(_):
    output = pathlib.Path(_OUTPUT.value)
    output.mkdir(parents=True, exist_ok=True)
    texts, senses = sentences()
    backbone = kbi.BertBackbone.from_preset(_MODEL.value, init_missing=True)
    vectors = word_vectors(backbone, kbi.load_tokenizer(_MODEL.value), texts, _WORD.value)
    names = ["table", *(f"layer {i}" for i in range(backbone.num_layers))]

    rows = [(name, *mean_cosines(x, senses)) for name, x in zip(names, vectors, strict=True)]
    lines = [("vectors", "within a sense", "between senses")]
    lines += [(name, *(f"{cosine:.3f}" for cosine in cosines)) for name, *cosines in rows]
    for line in lines:
        print("".join(f"{cell:<16}" for cell in line))
    text = "".join("\t".join(line) + "\n" for line in lines)
    (output / "cosines.tsv").write_text(text, encoding="utf-8")

    layer = range(backbone.num_layers)[_LAYER.value]
    chosen = {names[i]: plane(vectors[i]) for i in (0, layer + 1)}
    draw(output / "words.png", chosen, senses, _WORD.value)
    print(f"{output / 'cosines.tsv'}, {output / 'words.png'}")


def sentences():
    """Texts, and the sense of each: as given, or else its number."""
    if _INPUT.value is None:
        return [text for _, text in SENTENCES], [sense for sense, _ in SENTENCES]
    with open(_INPUT.value, encoding="utf-8") as file:
        named = "sense" in file.readline().rstrip("\n").split("\t")
    table = kbi.read_table(_INPUT.value, ["text", "sense"] if named else ["text"])
    texts = table.columns["text"]
    return texts, table.columns["sense"] if named else [str(i + 1) for i in range(len(texts))]


def word_pieces(tokenizer, text, word):
    """The places of a word's pieces among a text's, where it stands first.

    Raises:
        ValueError: for a text without the word.
    """
    tokens = tokenizer.tokenize_with_offsets(text)
    starts, ends, numbers = (np.array(x) for x in (tokens.starts, tokens.ends, tokens.word_ids))
    for number in dict.fromkeys(numbers.tolist()):
        places = np.flatnonzero(numbers == number)
        if text[starts[places].min() : ends[places].max()].lower() == word.lower():
            return places
    raise ValueError(f"The word {word!r} does not stand in {text!r}. Leave this sentence out.")


def word_vectors(backbone, tokenizer, texts, word):
    """The word's vectors in each text: the mean over its pieces.

    Returns:
        (1 + num_layers, texts, hidden_dim): of the token table, then of each layer's output.

    Raises:
        ValueError: for a text without the word, or with it beyond the model's longest row.
    """
    pieces = [word_pieces(tokenizer, text, word) for text in texts]
    length = backbone.max_sequence_length
    for text, places in zip(texts, pieces, strict=True):
        if places.max() + 2 >= length:  # [CLS] before, [SEP] after
            raise ValueError(f"{word!r} stands beyond the model's {length} tokens in {text!r}.")
    x = kbi.BertPreprocessor(tokenizer, length)(texts)
    x = {name: np.array(rows) for name, rows in x.items()}
    layers = kbi.BertFeatures(backbone, range(backbone.num_layers)).predict(x, verbose=0)
    layers = layers if isinstance(layers, list) else [layers]
    table = backbone.token_embedding.get_weights()[0][x["token_ids"]]
    return np.array(
        [
            [row[places + 1].mean(axis=0) for row, places in zip(rows, pieces, strict=True)]
            for rows in (table, *layers)
        ]
    )


def mean_cosines(vectors, senses):
    """The mean cosine of two sentences of one sense, and of two; nan where there are none."""
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    cosines = unit @ unit.T
    same = np.equal.outer(senses, senses)
    pair = np.triu(np.ones_like(same), k=1)  # each pair once, no sentence with itself
    found = [cosines[pair & chosen] for chosen in (same, ~same)]
    return [float(values.mean()) if values.size else float("nan") for values in found]


def plane(vectors):
    """(texts, 2): the vectors in the plane of their two largest principal components."""
    centered = vectors - vectors.mean(axis=0)
    u, s, _ = np.linalg.svd(centered, full_matrices=False)
    two = np.zeros([len(vectors), 2])
    two[:, : len(s[:2])] = u[:, :2] * s[:2]
    return two


def draw(path, points, senses, word):
    """A panel for each kind of vectors, a point for each sentence with its number."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(points), figsize=(5.5 * len(points), 5), squeeze=False, layout="constrained"
    )
    names = list(dict.fromkeys(senses))
    largest = 1.2 * max(np.abs(two).max() for two in points.values()) or 1.0
    for axis, (name, two) in zip(axes[0], points.items(), strict=True):
        for sense in names:
            chosen = [i for i, s in enumerate(senses) if s == sense]
            axis.scatter(*two[chosen].T, label=sense)
        for i, (x, y) in enumerate(two):
            axis.annotate(str(i + 1), (x, y), (4, 4), textcoords="offset points", fontsize=8)
        axis.set(title=f"{word}: {name}", xlim=(-largest, largest), ylim=(-largest, largest))
    if len(names) <= 10:
        axes[0][-1].legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    app.run(main)
