r"""Train a WordPiece vocabulary on text files, one text a line.

python tools/build_vocabulary.py --input=text.txt --output=vocab.txt --size=30000
"""

import tensorflow as tf
from absl import app, flags

import keras_bert_impl as kbi

_INPUT = flags.DEFINE_list("input", None, "Text files.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "File to write, one token a line.", required=True)
_SIZE = flags.DEFINE_integer("size", 30_000, "Most tokens, special ones included.")
_LOWERCASE = flags.DEFINE_bool("lowercase", True, "Lowercase text and strip accents.")
_SPLIT_ON_CJK = flags.DEFINE_bool("split_on_cjk", True, "Each Chinese character is a word.")


def main(_):
    for path in _INPUT.value:
        kbi.check_text_file(path)
    tokens = kbi.train_vocabulary(
        tf.data.TextLineDataset(_INPUT.value),
        _SIZE.value,
        lowercase=_LOWERCASE.value,
        split_on_cjk=_SPLIT_ON_CJK.value,
    )
    kbi.save_vocabulary(tokens, _OUTPUT.value)
    print(f"Wrote {len(tokens)} tokens to {_OUTPUT.value}")


if __name__ == "__main__":
    app.run(main)
