"""Both pretraining tasks on one backbone: masked LM and next sentence, their losses summed."""

import keras

from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.masked_lm import mask_positions_input, masked_lm_head
from keras_bert_impl.models.next_sentence import next_sentence_head
from keras_bert_impl.models.preprocessor import BertPretrainerPreprocessor
from keras_bert_impl.models.task import BertTask
from keras_bert_impl.models.text_classifier import check_class_labels
from keras_bert_impl.training.losses import MaskedLMLoss


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertPretrainer(BertTask):
    """BERT as it is pretrained (paper, section 3.1 and appendix A.2).

    Args:
        backbone: a `BertBackbone`.
        preprocessor: a `BertPretrainerPreprocessor`, or None where ids come prepared, as
            `pretraining_dataset()` prepares them from documents.

    Inputs: the backbone's, and `mask_positions`, (batch, slots) int32.

    Outputs, a dict:
        masked_lm: (batch, slots, vocabulary_size) logits.
        next_sentence: (batch, 2) logits.

    Example:

    >>> pretrainer = BertPretrainer(backbone)
    >>> data = pretraining_dataset(documents, tokenizer, sequence_length=64, batch_size=2)
    >>> history = pretrainer.fit(data, steps_per_epoch=2, verbose=0)
    """

    backbone_cls = BertBackbone
    preprocessor_cls = BertPretrainerPreprocessor
    draws_targets = True

    def __init__(self, backbone, preprocessor=None, **kwargs):
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.masked_lm_head = masked_lm_head(backbone)
        self.next_sentence_head = next_sentence_head(backbone)

        inputs = {**backbone.input, "mask_positions": mask_positions_input()}
        encoded = backbone(backbone.input)
        outputs = {
            "masked_lm": self.masked_lm_head(encoded["sequence_output"], inputs["mask_positions"]),
            "next_sentence": self.next_sentence_head(encoded["pooled_output"]),
        }
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    def default_loss(self):
        return {
            "masked_lm": MaskedLMLoss(),
            "next_sentence": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        }

    def default_metrics(self):
        return {
            name: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
            for name in ("masked_lm", "next_sentence")
        }

    def check_labels(self, y):
        check_class_labels(y["next_sentence"] if isinstance(y, dict) else y, 2)
