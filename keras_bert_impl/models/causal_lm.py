"""The causal language model: a backbone that goes on writing (GPT, and the paper's LTR model)."""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_bert_impl.data.batches import refuse_tuple
from keras_bert_impl.models import decoding
from keras_bert_impl.models.backbone import BertBackbone
from keras_bert_impl.models.causal_lm_preprocessor import BertCausalLMPreprocessor
from keras_bert_impl.models.task import BertTask
from keras_bert_impl.training.losses import MaskedLMLoss

# By name; of these the seed alone decides.
SAMPLERS = ("greedy", "random", "top_k", "top_p")


def check_causal(backbone, task: str) -> None:
    """Raise a ValueError for a backbone whose positions see what comes after them."""
    if not backbone.causal:
        raise ValueError(
            f"{task} needs a backbone in which no position sees what comes after it, but this one "
            "has causal=False: it would read the answer. Build it with causal=True, also in "
            "BertBackbone.from_preset(..., causal=True)."
        )


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertCausalLM(BertTask):
    """A model of the next token (Radford et al. 2018, GPT, section 3.1; BERT's LTR, section 5.1).

    The scores are `h @ table^T`, h the last layer's vectors and table the embeddings', as in GPT.
    The masked LM's dense layer before it is left out: there it helps with positions that hold
    `[MASK]`, here each position holds a token, and so the model has no weight that its backbone
    lacks.

    Args:
        backbone: a `BertBackbone` with `causal=True`.
        preprocessor: a `BertCausalLMPreprocessor`, or None where ids come prepared, as
            `causal_pretraining_dataset()` prepares them from documents.

    Inputs: the backbone's.

    Outputs: (batch, length, vocabulary_size) logits of the token after each.

    The loss is the mean over the real next tokens of a batch. Prepared ids take y and
    sample_weight of shape (batch, length).

    Raises:
        ValueError: for a backbone with `causal=False`.

    Example:

    >>> backbone = BertBackbone.from_size(
    ...     "tiny", vocabulary_size=tokenizer.vocabulary_size(), causal=True)
    >>> causal_lm = BertCausalLM(backbone, BertCausalLMPreprocessor(tokenizer, 64))
    >>> history = causal_lm.fit(["some text", "more text"], batch_size=2, verbose=0)
    >>> more = causal_lm.generate(["some"], max_length=8, sampler="top_k", seed=1)
    """

    backbone_cls = BertBackbone
    preprocessor_cls = BertCausalLMPreprocessor
    targets_by_token = True
    uses_pooler = False

    # KerasHub compiles `generate_step` for each backend; its CausalLM can be no base, see
    # docs/architecture.md.
    make_generate_function = keras_hub.models.CausalLM.make_generate_function

    def __init__(self, backbone, preprocessor=None, **kwargs):
        check_causal(backbone, type(self).__name__)
        self.backbone = backbone
        self.preprocessor = preprocessor

        sequence_output = backbone(backbone.input)["sequence_output"]
        logits = backbone.token_embedding(sequence_output, reverse=True)
        super().__init__(inputs=backbone.input, outputs=logits, **kwargs)
        self.sampler: Any = None
        self._asked_sampler = None
        self.generate_function = None

    def default_loss(self):
        # The same mean: over next tokens, as there over the tokens masked.
        return MaskedLMLoss(name="next_token_loss")

    def default_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    # Writing

    def generate(
        self,
        prompts: str | Sequence[str],
        max_length: int | None = None,
        sampler="greedy",
        seed: int = 0,
    ):
        """Go on writing after each prompt, up to `[SEP]` or to `max_length`.

        Args:
            prompts: a string, or a sequence of them, which are written together. An empty one
                begins a text.
            max_length: int, default the preprocessor's `sequence_length`. Most tokens of a row,
                `[CLS]` and the prompt included.
            sampler: `"greedy"` takes the likeliest token; `"random"` draws by the probabilities;
                `"top_k"` among the 5 likeliest; `"top_p"` among the likeliest that hold 0.1 of
                the probability together (nucleus; Holtzman et al. 2020). Or one of
                `keras_hub.samplers` with a `temperature`, k or p of your choice, such as
                `keras_hub.samplers.TopPSampler(p=0.9)`.
            seed: int. The same seed, model and prompts give the same texts.

        Returns:
            The prompts with what comes after them: a string, or a list of them. No special token
            is written; the prompt stays as it is, but for white space at its end.

        Raises:
            ValueError: without a preprocessor, for an unknown sampler, or a prompt or
                `max_length` that is too long.
        """
        if self.preprocessor is None:
            raise ValueError(
                "BertCausalLM has no preprocessor to read prompts with. Pass one to its "
                "constructor, or give prepared ids to generate_ids()."
            )
        one = isinstance(prompts, str)
        texts = [prompts] if one else [str(text) for text in refuse_tuple(prompts)]
        if not texts:
            return []
        max_length = self.preprocessor.sequence_length if max_length is None else max_length
        self._check_vocabulary()
        rows = self.preprocessor.prompts(texts, max_length)
        rows = {name: x.numpy() for name, x in rows.items()}
        tokenizer = self.preprocessor.tokenizer
        allowed = np.arange(self.backbone.vocabulary_size) < tokenizer.vocabulary_size()
        special = {getattr(tokenizer, f"{n}_token_id") for n in ("pad", "unk", "cls", "mask")}
        allowed[list(special)] = False
        written = self.generate_ids(
            rows["token_ids"], rows["padding_mask"], sampler, seed, tokenizer.sep_token_id, allowed
        )
        lengths = rows["padding_mask"].sum(axis=1)
        texts = [
            self.preprocessor.continued(text, ids[length:].tolist())
            for text, ids, length in zip(texts, written, lengths, strict=True)
        ]
        return texts[0] if one else texts

    def generate_ids(
        self,
        token_ids,
        padding_mask,
        sampler="greedy",
        seed: int = 0,
        stop_id: int | None = None,
        allowed=None,
    ) -> np.ndarray:
        """As `generate`, of ids.

        Args:
            token_ids: (batch, length) int. Prompts from column 0 on, at least one token each.
            padding_mask: (batch, length) bool, true on the prompts.
            sampler, seed: as in `generate`.
            stop_id: int, optional. Stop once each row has it; what a row has after it is of no use.
            allowed: (vocabulary_size,) bool, optional. The ids that may be written.

        Returns:
            (batch, length) int32, the prompts as they were and ids after them.

        Raises:
            ValueError: for rows longer than the position table, or without a token.
        """
        token_ids, padding_mask = np.asarray(token_ids, "int32"), np.asarray(padding_mask, bool)
        if token_ids.shape[1] > self.backbone.max_sequence_length:
            raise ValueError(
                f"max_length={token_ids.shape[1]}, but the position table has "
                f"{self.backbone.max_sequence_length} rows. Pass a smaller max_length."
            )
        if not padding_mask[:, 0].all():
            row = int(np.argmin(padding_mask[:, 0]))
            raise ValueError(f"Row {row} has no token to begin with. Put [CLS] first.")
        if allowed is None:
            allowed = np.ones([self.backbone.vocabulary_size], bool)
        self._choose_sampler(sampler, seed)
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask, "allowed": allowed}
        inputs = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
        stop_ids = None if stop_id is None else [stop_id]
        written = self.make_generate_function()(inputs, stop_token_ids=stop_ids)
        return ops.convert_to_numpy(written)

    def generate_step(self, inputs, stop_token_ids=None):
        """What is compiled: `generate_ids` of tensors, one batch."""
        return decoding.generate(
            self.backbone,
            inputs["token_ids"],
            inputs["padding_mask"],
            allowed=inputs["allowed"],
            sampler=self.sampler,
            stop_ids=stop_token_ids,
            model=self,
        )

    def _choose_sampler(self, sampler, seed: int) -> None:
        """Take a sampler as it would be with this seed; what was compiled for it is kept."""
        if isinstance(sampler, str) and sampler not in SAMPLERS:
            raise ValueError(
                f"Unknown sampler {sampler!r}. Choose one of {', '.join(SAMPLERS)}, or pass one of "
                "keras_hub.samplers."
            )
        chosen = keras_hub.samplers.get(sampler)  # a sampler itself comes back as it is
        asked = (sampler, chosen.get_config())
        if asked != self._asked_sampler:
            self.sampler, self._asked_sampler = chosen, asked
            self.generate_function = None
        for state in self.sampler.variables:
            state.assign(ops.convert_to_tensor([seed, 0], state.dtype))

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        self.generate_function = None  # it was compiled for another precision or backend option
