r"""Write a fine-tuned task as a SavedModel that takes raw strings (docs/serving.md).

python recipes/export.py --model=runs/classifier/model --output=runs/served/1
"""

from absl import app, flags

import keras_bert_impl as kbi

_MODEL = flags.DEFINE_string("model", None, "Preset folder of the task.", required=True)
_OUTPUT = flags.DEFINE_string(
    "output", None, "New folder; TF Serving wants it named by a version number.", required=True
)


def main(_):
    kbi.load_task(_MODEL.value).export(_OUTPUT.value)
    print(f"Wrote {_OUTPUT.value}")


if __name__ == "__main__":
    app.run(main)
