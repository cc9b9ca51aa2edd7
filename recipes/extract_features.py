r"""Vectors of each token, or of each text, from an encoder as it is (paper, section 5.3).

    python recipes/extract_features.py --model=uncased_L-12_H-768_A-12 --input=texts.txt \
        --output=features.jsonl --layers=-1,-2,-3,-4 --matrix=vectors.npy --pooling=mean

A text a line, or a pair as `first ||| second`; an empty line is a text without words. Line n of
--output, counted from 0, is as google-research/bert, extract_features.py writes it:

    {"linex_index": n, "features": [
      {"token": "[CLS]", "layers": [{"index": -1, "values": [0.123456, ...]}, ...]}, ...]}

Row n of --matrix, an array for `numpy.load`, is the text's one vector. Texts are read, and both
files written, a batch at a time. Each gets its name only when it is whole.
"""

import contextlib
import gzip
import itertools
import json
import os
import pathlib
import re

import keras
import numpy as np
import tqdm
from absl import app, flags

import keras_bert_impl as kbi

_MODEL = flags.DEFINE_string("model", None, "Whatever from_preset takes.", required=True)
_INPUT = flags.DEFINE_string("input", None, "Text file, or .gz: a text a line.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "JSONL file of each token's vectors.")
_MATRIX = flags.DEFINE_string("matrix", None, ".npy file of one vector a text.")

_LAYERS = flags.DEFINE_list(
    "layers", ["-1", "-2", "-3", "-4"], "For --output: -1 is the last layer, 0 the lowest."
)
_POOLING = flags.DEFINE_enum(
    "pooling",
    None,
    kbi.POOLINGS,
    "For --matrix: tokens to one vector; default the model's, or mean.",
)
_NORMALIZE = flags.DEFINE_bool(
    "normalize", None, "For --matrix: divide each vector by its length; default the model's, or no."
)
_FEATURES = flags.DEFINE_enum(
    "features", None, kbi.FEATURES, "For --matrix: layers to pool; default the model's, or last."
)
_SEQUENCE_LENGTH = flags.DEFINE_integer("sequence_length", 128, "Longest row, in tokens.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Texts at a time.", lower_bound=1)


def main(_):
    if not (_OUTPUT.value or _MATRIX.value):
        raise app.UsageError("Name a file to write: --output, --matrix or both.")
    kbi.check_text_file(_INPUT.value)
    num_texts = sum(1 for _ in read_texts(_INPUT.value))

    tokenizer = kbi.load_tokenizer(_MODEL.value)
    chosen = {"pooling": _POOLING, "normalize": _NORMALIZE, "features": _FEATURES}
    options = {name: flag.value for name, flag in chosen.items() if flag.value is not None}
    embedder = kbi.BertTextEmbedder.from_preset(_MODEL.value, **options)
    limit = embedder.backbone.max_sequence_length
    if _SEQUENCE_LENGTH.value > limit:
        raise app.UsageError(f"--sequence_length: the model takes rows of {limit} tokens at most.")

    # One model gives whatever is asked for, the encoder runs once.
    layers = [int(layer) for layer in _LAYERS.value]
    outputs = {}
    if _OUTPUT.value:
        outputs["layers"] = kbi.BertFeatures(embedder.backbone, layers).outputs
    if _MATRIX.value:
        outputs["vector"] = embedder.output
    model = keras.Model(embedder.backbone.input, outputs)

    with contextlib.ExitStack() as files:
        if _OUTPUT.value:
            path = files.enter_context(written_whole(_OUTPUT.value))
            jsonl = files.enter_context(open(path, "w", encoding="utf-8"))
        if _MATRIX.value:
            path = files.enter_context(written_whole(_MATRIX.value))
            shape = (num_texts, model.output["vector"].shape[-1])
            matrix = np.lib.format.open_memmap(path, "w+", "float32", shape)
        texts = read_texts(_INPUT.value)
        for start in tqdm.trange(0, num_texts, _BATCH_SIZE.value, unit="batch"):
            batch = list(itertools.islice(texts, _BATCH_SIZE.value))
            rows = pack_texts(batch, tokenizer)
            if embedder.backbone.num_tasks:
                rows["task_ids"] = np.zeros((len(batch), 1), "int32")
            found = model.predict_on_batch(rows)
            if _MATRIX.value:
                matrix[start : start + len(batch)] = found["vector"]
            if _OUTPUT.value:
                jsonl.writelines(lines_of(rows, found["layers"], layers, tokenizer, start))
        if _MATRIX.value:
            matrix.flush()


def read_texts(path):
    """(text, second text or "") of each line, told apart as the original does."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        for line in file:
            text = line.decode("utf-8").strip()
            pair = re.fullmatch(r"(.*) \|\|\| (.*)", text)
            yield pair.groups() if pair else (text, "")


def pack_texts(texts, tokenizer):
    """Rows `[CLS] a [SEP] b [SEP]`, without a second part where b has no tokens."""
    first, second = (tokenizer.tokenize(list(side)) for side in zip(*texts, strict=True))
    options = {
        "sequence_length": _SEQUENCE_LENGTH.value,
        "tokenizer": tokenizer,
        "pad_to": "max_length",
    }
    single, pair = kbi.pack(first, **options), kbi.pack(first, second, **options)
    is_pair = second.row_lengths().numpy()[:, None] > 0
    rows = {name: np.where(is_pair, pair[name], single[name]) for name in single}
    # As few columns as they need, in steps of 16, so that there are few shapes to compile for.
    longest = rows["padding_mask"].sum(axis=1).max()
    return {name: row[:, : -(-longest // 16) * 16] for name, row in rows.items()}


def lines_of(rows, outputs, layers, tokenizer, index):
    """The line of JSON of each row; `index` is the first row's number."""
    vocabulary = tokenizer.get_vocabulary()
    outputs = outputs if isinstance(outputs, list) else [outputs]
    lengths = rows["padding_mask"].sum(axis=1)
    for row, length in enumerate(lengths):
        # (layers, length, hidden_dim). Six decimals of a float32 are exact in float64.
        values = np.stack([output[row, :length] for output in outputs]).astype("float64")
        values = np.round(values, 6).tolist()
        features = [
            {
                "token": vocabulary[id],
                "layers": [
                    {"index": layer, "values": values[i][position]}
                    for i, layer in enumerate(layers)
                ],
            }
            for position, id in enumerate(rows["token_ids"][row, :length])
        ]
        yield json.dumps({"linex_index": index + row, "features": features}) + "\n"


@contextlib.contextmanager
def written_whole(path):
    """A path beside the given one, renamed to it when all went well."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"part-{path.name}")
    yield beside
    os.replace(beside, path)


if __name__ == "__main__":
    app.run(main)
