"""Runs a folder through Hugging Face transformers, in a process of its own.

    python tests/oracle/run_transformers.py FOLDER CLASS INPUTS.npz OUTPUTS.npz

INPUTS: token_ids, segment_ids, padding_mask, and `texts` where the tokenizer is to be run too.
OUTPUTS: what the class gives, the tokenizer's ids (padded with -1) and `complaints`, the missing,
unexpected and mismatched names and whatever was logged while loading.
"""

import logging
import sys

import numpy as np
import torch
import transformers


class _Listener(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


def main(folder, class_name, inputs_path, outputs_path):
    listener = _Listener()
    transformers.utils.logging.get_logger().addHandler(listener)
    model, info = getattr(transformers, class_name).from_pretrained(
        folder, output_loading_info=True
    )
    complaints = [f"{kind}: {name}" for kind, names in info.items() for name in names]
    model.eval()
    inputs = dict(np.load(inputs_path))
    with torch.no_grad():
        outputs = model(
            input_ids=torch.tensor(inputs["token_ids"]).long(),
            token_type_ids=torch.tensor(inputs["segment_ids"]).long(),
            attention_mask=torch.tensor(inputs["padding_mask"]).long(),
        )
    results = {name: value.numpy() for name, value in outputs.items()}
    if "texts" in inputs:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = [tokenizer(text)["input_ids"] for text in inputs["texts"].tolist()]
        longest = max(map(len, ids))
        results["tokenizer_ids"] = np.array([row + [-1] * (longest - len(row)) for row in ids])
    np.savez(outputs_path, complaints=np.array(complaints + listener.messages, str), **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
