"""Next-sentence prediction: does B follow A?"""

import keras

from keras_bert_impl.layers.heads import next_sentence_head
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.preprocessor import BertPreprocessor
from keras_bert_impl.models.task import BertTask
from keras_bert_impl.models.text_classifier import check_class_labels


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertNextSentence(BertTask):
    """BERT trained to tell following sentences from random ones (paper, section 3.1, task 2).

    Args:
        backbone: a `BertBackbone`.
        preprocessor: a `BertPreprocessor` with `pair=True`, or None where ids come prepared.

    Outputs: (batch, 2) logits: 0 B follows A, 1 B is random.
    """

    backbone_cls = BertBackbone
    preprocessor_cls = BertPreprocessor
    packs_rows = True
    reads = ("cls_positions",)
    class_names = ("is_next", "is_random")

    def __init__(self, backbone, preprocessor=None, **kwargs):
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.next_sentence_head = next_sentence_head(backbone)

        logits = self.logits(backbone(backbone.input), backbone.input)
        super().__init__(inputs=backbone.input, outputs=logits, **kwargs)

    def logits(self, encoded, inputs):
        return self.next_sentence_head(encoded["pooled_output"])

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def default_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def check_labels(self, y):
        check_class_labels(y, 2)

    def answer(self, logits):
        """Logits to what a served model answers: (batch, 2) probabilities."""
        return {"probabilities": keras.ops.softmax(keras.ops.cast(logits, "float32"))}
