"""The masked language model: a backbone that fills in masked tokens."""

import keras

from keras_bert_impl.layers.heads import masked_lm_head
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.preprocessor import BertMaskedLMPreprocessor
from keras_bert_impl.models.task import BertTask
from keras_bert_impl.training.losses import MaskedLMLoss


def mask_positions_input():
    """The symbolic input that tells the head where to look."""
    return keras.Input((None,), dtype="int32", name="mask_positions")


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertMaskedLM(BertTask):
    """BERT trained to fill in masked tokens (paper, section 3.1, task 1).

    Args:
        backbone: a `BertBackbone`.
        preprocessor: a `BertMaskedLMPreprocessor`, or None where ids come prepared.

    Inputs: the backbone's, and `mask_positions`, (batch, slots) int32.

    Outputs: (batch, slots, vocabulary_size) logits.

    Example:

    >>> backbone = BertBackbone.from_size("tiny", vocabulary_size=tokenizer.vocabulary_size())
    >>> masked_lm = BertMaskedLM(backbone, BertMaskedLMPreprocessor(tokenizer, 64))
    >>> history = masked_lm.fit(["some text", "more text"], batch_size=2, verbose=0)
    """

    backbone_cls = BertBackbone
    preprocessor_cls = BertMaskedLMPreprocessor
    draws_targets = True
    uses_pooler = False
    packs_rows = True
    reads = ("mask_positions",)

    def __init__(self, backbone, preprocessor=None, **kwargs):
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.masked_lm_head = masked_lm_head(backbone)

        inputs = {**backbone.input, "mask_positions": mask_positions_input()}
        logits = self.logits(backbone(backbone.input), inputs)
        super().__init__(inputs=inputs, outputs=logits, **kwargs)

    def logits(self, encoded, inputs):
        return self.masked_lm_head(encoded["sequence_output"], inputs["mask_positions"])

    def default_loss(self):
        return MaskedLMLoss()

    def default_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
