"""Pretraining: heads of several objectives on one backbone, their losses summed."""

import keras

from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.masked_lm import mask_positions_input
from keras_bert_impl.models.preprocessor import BertPretrainerPreprocessor
from keras_bert_impl.models.task import BertTask
from keras_bert_impl.models.text_classifier import check_class_labels
from keras_bert_impl.objectives.base import check_objectives
from keras_bert_impl.objectives.table import default_objectives


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertPretrainer(BertTask):
    """BERT as it is pretrained (paper, section 3.1 and appendix A.2).

    Args:
        backbone: a `BertBackbone`.
        preprocessor: a `BertPretrainerPreprocessor`, or None where ids come prepared, as
            `pretraining_dataset()` prepares them from documents, and `objectives_dataset()` for
            other objectives than the default ones. Its raw pairs are for the default ones alone.
        objectives: list of `Objective`s, no two of one name. Default the paper's, `MaskedLM()` and
            `NextSentence()`.

    Inputs: the backbone's, and with a masked LM `mask_positions`, (batch, slots) int32.

    Outputs, a dict of logits by objective, by default:
        masked_lm: (batch, slots, vocabulary_size).
        next_sentence: (batch, 2).

    Raises:
        ValueError: for objectives that do not go together.

    Example:

    >>> pretrainer = BertPretrainer(backbone)
    >>> data = pretraining_dataset(documents, tokenizer, sequence_length=64, batch_size=2)
    >>> history = pretrainer.fit(data, steps_per_epoch=2, verbose=0)
    """

    backbone_cls = BertBackbone
    preprocessor_cls = BertPretrainerPreprocessor
    draws_targets = True
    packs_rows = True

    def __init__(self, backbone, preprocessor=None, objectives=None, **kwargs):
        # Layers
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.has_default_objectives = objectives is None
        self.objectives = check_objectives(
            default_objectives() if objectives is None else objectives
        )
        self.uses_pooler = any(o.uses_pooler for o in self.objectives)
        if not any(o.reads_all_tokens for o in self.objectives):
            self.reads = ("cls_positions",) * self.uses_pooler
            if any(o.reads_mask_positions for o in self.objectives):
                self.reads += ("mask_positions",)
        for objective in self.objectives:
            setattr(self, f"{objective.name}_head", objective.head(backbone))

        # Functional model
        inputs = dict(backbone.input)
        if any(o.reads_mask_positions for o in self.objectives):
            inputs["mask_positions"] = mask_positions_input()
        outputs = self.logits(backbone(backbone.input), inputs)
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

    def logits(self, encoded, inputs):
        return {
            objective.name: objective.logits(
                getattr(self, f"{objective.name}_head"), encoded, inputs
            )
            for objective in self.objectives
        }

    def compile(self, optimizer="auto", loss="auto", *, loss_weights=None, **kwargs):
        """As `BertTask.compile`; loss_weights are by default the objectives' own."""
        weights = {objective.name: objective.weight for objective in self.objectives}
        if (
            isinstance(loss, str)
            and loss == "auto"
            and loss_weights is None
            and set(weights.values()) != {1.0}
        ):
            loss_weights = weights
        super().compile(optimizer, loss, loss_weights=loss_weights, **kwargs)

    def default_loss(self):
        return {objective.name: objective.loss() for objective in self.objectives}

    def default_metrics(self):
        return {objective.name: objective.metrics() for objective in self.objectives}

    def check_labels(self, y):
        if not isinstance(y, dict) or "next_sentence" in y:
            check_class_labels(y["next_sentence"] if isinstance(y, dict) else y, 2)

    def get_config(self):
        config = super().get_config()
        if not self.has_default_objectives:
            config["objectives"] = [
                keras.saving.serialize_keras_object(objective) for objective in self.objectives
            ]
        return config

    @classmethod
    def from_config(cls, config):
        if config.get("objectives") is not None:
            objectives = [
                keras.saving.deserialize_keras_object(o) if isinstance(o, dict) else o
                for o in config["objectives"]
            ]
            config = {**config, "objectives": objectives}
        return super().from_config(config)
