"""Pretraining on one device and on two, for test_mirrored.py, in a process of its own.

python -m tests.end_to_end.mirrored_pretraining FILE
"""

import sys

import keras
import numpy as np
import tensorflow as tf

import keras_bert_impl as kbi
from tests import small

# Rows of very different lengths, so that the devices get unequal numbers of masked tokens.
DOCUMENTS = [["the cat sat on the mat .", "a dog"], ["unaffable cat , the dog", "ran on"]] * 4


def train(choice):
    keras.utils.set_random_seed(0)
    data = kbi.pretraining_dataset(
        DOCUMENTS, small.tokenizer(), sequence_length=20, max_predictions=4, batch_size=4
    )
    with kbi.distribution_scope(choice):
        pretrainer = kbi.BertPretrainer(small.backbone(num_layers=1, dropout=0.0))
        pretrainer.compile(kbi.BertAdamW(kbi.WarmupLinearDecay(1e-3, 10, 2)))
    history = pretrainer.fit(data, steps_per_epoch=4, verbose=0).history
    evaluated = pretrainer.evaluate(data.take(3), verbose=0, return_dict=True)
    return [np.array(w) for w in pretrainer.weights], history, evaluated


def main(path):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    arrays = {}
    for choice in ("none", "mirrored"):
        weights, history, evaluated = train(choice)
        arrays.update({f"{choice}/weight_{i}": weight for i, weight in enumerate(weights)})
        arrays.update({f"{choice}/fit_{name}": value for name, value in history.items()})
        arrays.update({f"{choice}/evaluate_{name}": value for name, value in evaluated.items()})
    np.savez(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
