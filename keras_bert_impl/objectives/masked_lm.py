"""Which tokens were hidden? The masked LM (paper, section 3.1, task 1), in all its units.

ERNIE 1.0's knowledge masking is the same with another unit; see `data/masking.py`.
"""

import keras
import tensorflow as tf

from keras_bert_impl.data.masking import UNITS, DynamicMasker
from keras_bert_impl.data.word_units import UNIT_BITS, pieces_of_marked_text, strip_marks
from keras_bert_impl.layers.heads import masked_lm_head
from keras_bert_impl.objectives.base import TokenObjective
from keras_bert_impl.training.losses import MaskedLMLoss


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class MaskedLM(TokenObjective):
    """The masked LM. Where it is among the objectives, all rows are masked.

    Args:
        mask_rate, max_predictions, max_ngram: as in `DynamicMasker`.
        unit: str, as in `DynamicMasker`. What is chosen whole. Default `"piece"`.
        phrases: a `PhraseTable` that finds phrases and entities, or None. It belongs to the data:
            `get_config` leaves it out.
        marked_text: bool. Whether phrases and entities are marked in the texts, as
            `pieces_of_marked_text` reads them. The marks are taken out for all objectives.
        weight: float, as in `Objective`.

    Raises:
        ValueError: for an unknown unit, or for units from two sources.

    Example:

    >>> MaskedLM(unit="ngram").name
    'masked_lm'
    """

    name = "masked_lm"
    reads_mask_positions = True
    reads_all_tokens = False

    def __init__(
        self,
        mask_rate: float = 0.15,
        max_predictions: int = 20,
        unit: str = "piece",
        max_ngram: int = 3,
        phrases=None,
        marked_text: bool = False,
        weight: float = 1.0,
    ):
        super().__init__(weight)
        if unit not in UNITS:
            raise ValueError(f"Unknown unit {unit!r}. Choose one of {', '.join(UNITS)}.")
        if phrases is not None and marked_text:
            raise ValueError("Pass phrases or marked_text=True: units come from one of them.")
        self.mask_rate = mask_rate
        self.max_predictions = max_predictions
        self.unit = unit
        self.max_ngram = max_ngram
        self.phrases = phrases
        self.marked_text = marked_text

    @property
    def _reads_units(self) -> bool:
        return self.unit in ("phrase", "entity")

    def plain(self, texts):
        return strip_marks(texts) if self.marked_text else texts

    def num_bits(self, sequence_length):
        return UNIT_BITS if self._reads_units else 0

    def marks(self, lines):
        if self.marked_text:
            return pieces_of_marked_text(lines.texts, lines.tokenizer)[1].flat_values
        if self.phrases is None:
            raise ValueError(
                f"unit={self.unit!r} needs to know the phrases and entities. Pass "
                "phrases=PhraseTable(...) or marked_text=True."
            )
        pieces = lines.pieces
        return self.phrases(pieces.values if pieces.ragged_rank == 2 else pieces).flat_values

    def targets(self, rows, marks, *, tokenizer, seed):
        masker = DynamicMasker.for_tokenizer(
            tokenizer,
            mask_rate=self.mask_rate,
            max_predictions=self.max_predictions,
            unit=self.unit,
            max_ngram=self.max_ngram,
        )
        units = marks if self._reads_units else None
        masked = masker(rows["token_ids"], rows["padding_mask"], units=units, seed=seed)
        inputs = {name: masked[name] for name in ("token_ids", "mask_positions")}
        return inputs, masked["mask_ids"], tf.cast(masked["mask_weights"], tf.float32)

    def head(self, backbone):
        return masked_lm_head(backbone)

    def logits(self, head, encoded, inputs):
        return head(encoded["sequence_output"], inputs["mask_positions"])

    def loss(self):
        return MaskedLMLoss()

    def get_config(self):
        return {
            **super().get_config(),
            "mask_rate": self.mask_rate,
            "max_predictions": self.max_predictions,
            "unit": self.unit,
            "max_ngram": self.max_ngram,
            "marked_text": self.marked_text,
        }
