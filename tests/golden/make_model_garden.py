"""Makes the TF2 checkpoints that tests/checkpoints/test_model_garden.py reads.

    pip install tf-models-official    # 2.20, in an environment of its own
    python tests/golden/make_model_garden.py

Model Garden's own code builds, saves and runs them: an encoder, and a pretrainer saved both as a
model and by its `checkpoint_items`, as its trainer does, with an optimizer beside it.
"""

import os
import pathlib

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
from official.nlp import modeling

HERE = pathlib.Path(__file__).parent / "model_garden"
VOCABULARY, HIDDEN, LENGTH = 31, 16, 12


def randomize(model, seed):
    """Weights large enough that every part matters."""
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        mean = 1.0 if "gamma" in weight.name else 0.0
        weight.assign(rng.normal(mean, 0.3, weight.shape).astype("float32"))


def make_encoder():
    return modeling.networks.BertEncoder(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        num_layers=2,
        num_attention_heads=4,
        max_sequence_length=LENGTH,
        type_vocab_size=2,
        intermediate_size=24,
        dict_outputs=True,
    )


def main():
    rng = np.random.default_rng(5)
    lengths = np.array([[12], [7]])
    mask = np.arange(LENGTH) < lengths
    batch = {
        "input_word_ids": np.where(mask, rng.integers(1, VOCABULARY, (2, LENGTH)), 0),
        "input_mask": mask.astype("int32"),
        "input_type_ids": ((np.arange(LENGTH) > 3) & mask).astype("int32"),
    }
    batch = {name: value.astype("int32") for name, value in batch.items()}
    HERE.mkdir(exist_ok=True)

    encoder = make_encoder()
    randomize(encoder, seed=6)
    tf.train.Checkpoint(model=encoder).write(str(HERE / "encoder" / "bert_model.ckpt"))
    outputs = encoder(batch)

    inner = make_encoder()
    head = modeling.layers.ClassificationHead(HIDDEN, 2, name="next_sentence", dropout_rate=0.0)
    # The task's configuration passes the encoder's activation; the class's default is none.
    gelu = lambda x: tf.nn.gelu(x, approximate=True)  # noqa: E731
    pretrainer = modeling.models.BertPretrainerV2(inner, gelu, classification_heads=[head])
    positions = np.array([[1, 5], [2, 3]], "int32")
    pretrainer({**batch, "masked_lm_positions": positions})
    randomize(pretrainer, seed=7)
    optimizer = tf.Variable(3.0, name="slot")
    tf.train.Checkpoint(model=pretrainer).write(str(HERE / "pretrainer" / "bert_model.ckpt"))
    tf.train.Checkpoint(**pretrainer.checkpoint_items, optimizer=optimizer).write(
        str(HERE / "items" / "bert_model.ckpt")
    )
    trained = pretrainer({**batch, "masked_lm_positions": positions})
    np.savez_compressed(
        HERE / "outputs.npz",
        token_ids=batch["input_word_ids"],
        segment_ids=batch["input_type_ids"],
        padding_mask=mask,
        mask_positions=positions,
        encoder_sequence=outputs["sequence_output"],
        encoder_pooled=outputs["pooled_output"],
        masked_lm=trained["mlm_logits"],
        next_sentence=trained["next_sentence"],
    )


if __name__ == "__main__":
    main()
