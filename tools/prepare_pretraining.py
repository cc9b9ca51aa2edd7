r"""Tokenize, pair and pack text once, into files that pretraining reads from any step on.

    python tools/prepare_pretraining.py --input=text.txt --vocabulary=vocab.txt --output=rows
    python recipes/pretrain.py --prepared=rows --vocabulary=vocab.txt --output=runs/mine ...

Worth it for runs of days, for several machines, and where text is read more than a few times. Run
the same command again and it goes on at the file where it stopped.
"""

import keras
from absl import app, flags

import keras_bert_impl as kbi

_INPUT = flags.DEFINE_list("input", None, "Text files: a sentence a line.", required=True)
_VOCABULARY = flags.DEFINE_string("vocabulary", None, "WordPiece vocabulary file.")
_MODEL = flags.DEFINE_string("model", None, "Preset or checkpoint with the vocabulary, instead.")
_LOWERCASE = flags.DEFINE_bool("lowercase", True, "Lowercase text and strip accents.")
_OUTPUT = flags.DEFINE_string("output", None, "Folder for the files.", required=True)
_SEQUENCE_LENGTH = flags.DEFINE_integer("sequence_length", 128, "Tokens of each row.")
_NEXT_SENTENCE = flags.DEFINE_bool("next_sentence", True, "Pairs of texts, not single ones.")
_SHORT = flags.DEFINE_float("short_sequence_probability", 0.1, "Share of shorter rows.")
_NUM_FILES = flags.DEFINE_integer("num_files", 64, "Files of each copy.")
_COPIES = flags.DEFINE_integer("copies", 2, "Epochs with pairs of their own.")
_SEED = flags.DEFINE_integer("seed", 0, "Of pairs.")


def main(_):
    if (_VOCABULARY.value is None) == (_MODEL.value is None):
        raise app.UsageError("Pass either --vocabulary or --model.")
    if _MODEL.value is not None:
        tokenizer = kbi.load_tokenizer(_MODEL.value)
    else:
        tokenizer = kbi.BertTokenizer(_VOCABULARY.value, lowercase=_LOWERCASE.value)
    progress = keras.utils.Progbar(_NUM_FILES.value * _COPIES.value, unit_name="file")
    kbi.prepare_pretraining(
        kbi.read_documents(_INPUT.value),
        tokenizer,
        _OUTPUT.value,
        sequence_length=_SEQUENCE_LENGTH.value,
        next_sentence=_NEXT_SENTENCE.value,
        short_sequence_probability=_SHORT.value,
        num_files=_NUM_FILES.value,
        copies=_COPIES.value,
        seed=_SEED.value,
        fingerprints=[kbi.file_fingerprint(path) for path in _INPUT.value],
        done=lambda files, rows: progress.update(files, [("rows", rows / files)]),
    )
    print(f"{kbi.RowFiles(_OUTPUT.value).num_rows} rows an epoch in {_OUTPUT.value}")


if __name__ == "__main__":
    app.run(main)
