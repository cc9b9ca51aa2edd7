r"""ULMFiT: a language model of general text, then of the task's, then a classifier on top of it.

    python recipes/ulmfit.py --general=text.txt --vocabulary=vocab.txt --output=runs/ulmfit \
        --train=train.tsv --dev=dev.tsv --text=text --label=label --epochs=6 --learning_rates=1e-3

Howard and Ruder 2018 (arXiv:1801.06146). Stage 1 trains a causal language model on --general;
with --model, a preset of a `BertCausalLM`, it is left out. Stage 2 goes on with it on the training
table's texts, and --unlabelled, with a lower rate for lower layers and a slanted triangle. Stage 3
trains the classifier: the same, layers unfrozen from the top, one an epoch; its flags and files
are those of finetune_classifier.py. The paper's language model is an LSTM, ours a Transformer.
Run the same command again and it goes on where it was stopped.
"""

import pathlib

import fine_tuning
import finetune_classifier
import keras
from absl import app, flags
from train_once import train_causal_lm

import keras_bert_impl as kbi

_GENERAL = flags.DEFINE_list("general", [], "Stage 1: text files, as in pretrain.py.")
_VOCABULARY = flags.DEFINE_string("vocabulary", None, "Stage 1: WordPiece vocabulary file.")
_SIZE = flags.DEFINE_enum("size", "mini", list(kbi.SIZES), "Stage 1: size of the model, by name.")
_NUM_LAYERS = flags.DEFINE_integer("num_layers", None, "Stage 1: overrides the size's layers.")
_DROPOUT = flags.DEFINE_float("dropout", 0.1, "Stage 1: dropout.")
_GENERAL_STEPS = flags.DEFINE_integer("general_steps", 10_000, "Stage 1: steps.")
_GENERAL_RATE = flags.DEFINE_float("general_rate", 1e-3, "Stage 1: peak learning rate.")
_UNLABELLED = flags.DEFINE_list("unlabelled", [], "Stage 2: more text files of the task's kind.")
_TARGET_EPOCHS = flags.DEFINE_integer("target_epochs", 2, "Stage 2: times through the texts.")
_TARGET_RATE = flags.DEFINE_float("target_rate", 5e-4, "Stage 2: peak learning rate.")
_LM_BATCH_SIZE = flags.DEFINE_integer("lm_batch_size", 32, "Stages 1 and 2: rows of a step.")
_POOLING = flags.DEFINE_enum("pooling", "concat", ["last", "concat"], "Stage 3: of a row.")

DISCRIMINATIVE = 1 / 2.6  # section 3.2: each layer's rate, as a part of that above it
fine_tuning.set_defaults(
    model="",  # stage 1 makes one
    schedule="slanted_triangle",
    layer_decay=DISCRIMINATIVE,
    gradual_unfreezing=True,
    learning_rates=[5e-4],
    epochs=[6],
)
FLAGS = fine_tuning.FLAGS


def main(_):
    if not FLAGS.model and not (_GENERAL.value and _VOCABULARY.value):
        raise app.UsageError(
            "Pass --general and --vocabulary, or a trained language model: --model."
        )
    if FLAGS.regression:
        raise app.UsageError("ULMFiT's classifier has classes: leave --regression out.")
    output = pathlib.Path(FLAGS.output)
    fine_tuning.finished_runs(output)  # before the hours that the stages take
    general = FLAGS.model or general_lm(output / "general_lm")
    target = target_lm(general, output / "target_lm")

    def load(**options):
        return fine_tuning.load(
            kbi.BertCausalClassifier,
            preset=target,
            lm_weight=0.0,
            pooling=_POOLING.value,
            **options,
        )

    finetune_classifier.train(load)


def general_lm(folder):
    """Stage 1: a language model of general text (section 3.1). Returns its preset."""
    tokenizer = kbi.BertTokenizer(_VOCABULARY.value)
    length, num_steps = FLAGS.sequence_length, _GENERAL_STEPS.value
    sizes = {} if _NUM_LAYERS.value is None else {"num_layers": _NUM_LAYERS.value}

    def model():
        keras.utils.set_random_seed(FLAGS.first_seed)
        backbone = kbi.BertBackbone.from_size(
            _SIZE.value,
            tokenizer.vocabulary_size(),
            dropout=_DROPOUT.value,
            max_sequence_length=max(512, length),
            causal=True,
            **sizes,
        )
        return kbi.BertCausalLM(backbone, kbi.BertCausalLMPreprocessor(tokenizer, length))

    preset, cost = train_causal_lm(
        model,
        kbi.read_documents(_GENERAL.value),
        tokenizer,
        folder,
        kbi.WarmupLinearDecay(_GENERAL_RATE.value, num_steps, num_steps // 10),
        **rows(),
    )
    print(f"General language model: {cost['tokens']} tokens, {cost['seconds']:.0f} s")
    return preset


def target_lm(general, folder):
    """Stage 2: the language model reads the task's own texts (section 3.2). Returns its preset."""
    columns = [c for c in (FLAGS.text, FLAGS.text_pair) if c is not None]
    table = kbi.read_table(FLAGS.train, columns)
    texts = list(zip(*table.columns.values(), strict=True))
    for document in kbi.read_documents(_UNLABELLED.value) if _UNLABELLED.value else []:
        texts.append(tuple(text.decode("utf-8") for text in document.numpy()))
    num_steps = max(_TARGET_EPOCHS.value * len(texts) // _LM_BATCH_SIZE.value, 1)

    def model():
        keras.utils.set_random_seed(FLAGS.first_seed)
        return kbi.BertCausalLM.from_preset(general)

    preset, cost = train_causal_lm(
        model,
        texts,
        kbi.load_tokenizer(general),
        folder,
        kbi.SlantedTriangle(_TARGET_RATE.value, num_steps),
        layer_decay=DISCRIMINATIVE,
        **rows(),
    )
    print(f"Language model of the task: {cost['tokens']} tokens, {cost['seconds']:.0f} s")
    return preset


def rows():
    return {
        "length": FLAGS.sequence_length,
        "batch_size": _LM_BATCH_SIZE.value,
        "seed": FLAGS.first_seed,
    }


if __name__ == "__main__":
    app.run(main)
