"""Converts a BERT checkpoint to another package's format, heads and tokenizer and all.

    python tools/convert_checkpoint.py --source=uncased_L-12_H-768_A-12.zip --target=out \
        --format=hugging_face

The source may be a folder or archive of Hugging Face, Google (TF1), TF Model Garden, KerasHub or
this package, or a handle hf:// or kaggle://. Prints what it read, wrote and left over.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import app, flags

from keras_bert_impl.checkpoints import loading, resizing
from keras_bert_impl.checkpoints.locations import local_folder

_SOURCE = flags.DEFINE_string("source", None, "What to read.", required=True)
_TARGET = flags.DEFINE_string("target", None, "Folder to write.", required=True)
_FORMAT = flags.DEFINE_enum(
    "format", "hugging_face", sorted(loading.WRITERS), "Whose format to write."
)
_LOWERCASE = flags.DEFINE_bool(
    "lowercase", None, "Say whether the model is uncased, where the source does not or is wrong."
)
_HEADS = flags.DEFINE_bool("heads", True, "False keeps the encoder and its pooler only.")
_NEW_TOKENS = flags.DEFINE_string("new_tokens", None, "File with a token to add in each line.")
_POSITIONS = flags.DEFINE_integer("max_sequence_length", None, "Rows of the position table.")
_METHOD = flags.DEFINE_enum(
    "position_method", "interpolate", ["interpolate", "repeat"], "How a longer table is filled."
)
_PAD = flags.DEFINE_integer("pad_vocabulary_to", None, "Pad the token table to a multiple.")


def main(argv):
    del argv
    try:
        with local_folder(_SOURCE.value) as folder:
            checkpoint = loading.read_checkpoint(folder, _LOWERCASE.value)
            checkpoint.check_vocabulary()
            if not _HEADS.value:
                checkpoint = checkpoint.without_heads()
            if _NEW_TOKENS.value:
                tokens = pathlib.Path(_NEW_TOKENS.value).read_text("utf-8").split()
                checkpoint = resizing.extend_vocabulary(checkpoint, tokens)
            if _POSITIONS.value:
                checkpoint = resizing.resize_positions(checkpoint, _POSITIONS.value, _METHOD.value)
            if _PAD.value:
                checkpoint = resizing.pad_vocabulary(checkpoint, _PAD.value)
            names = loading.save_checkpoint(checkpoint, _TARGET.value, _FORMAT.value)
    except (ValueError, FileNotFoundError) as error:
        sys.exit(f"error: {error}")
    print(f"{_TARGET.value}: wrote {len(names)} tensors: {', '.join(names)}")
    if checkpoint.left_over:
        print(f"left over in {_SOURCE.value}: {', '.join(checkpoint.left_over)}")


if __name__ == "__main__":
    app.run(main)
