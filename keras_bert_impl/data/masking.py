"""Masked-LM targets, drawn anew at each step: which tokens, and what stands in their place.

Paper, section 3.1 (task 1) and appendix A.1; google-research/bert, create_pretraining_data.py,
`create_masked_lm_predictions`. Units other than pieces: `data/masking_units.py`.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert_impl.data.masking_units import groups_of, marked_begins, ngram_begins, word_begins
from keras_bert_impl.data.randomness import fold_in, uniform, uniform_int
from keras_bert_impl.data.word_units import ENTITY, PHRASE
from keras_bert_impl.text.vocabulary import CONTINUATION

UNITS = ("piece", "whole_word", "ngram", "phrase", "entity")


class DynamicMasker:
    """Chooses tokens of each row to predict and hides most of them.

    Of each row min(max_predictions, max(1, round(mask_rate * length))) tokens are chosen, length
    counted with `[CLS]` and `[SEP]` and rounded half to even, as the reference; never special
    tokens or padding, so a row without others has none. A chosen token becomes `[MASK]` in 80% of
    cases, a random token in 10%, and stays in 10%; each token draws for itself.

    Tokens are chosen by units: in random order, each whole. A unit whose tokens would exceed the
    count is passed over, so a row may end below the count, and longer units are chosen a little
    less often than they are drawn.

    Args:
        vocabulary_size: int. Random tokens are drawn from the ids below it.
        mask_token_id: int. The id of `[MASK]`.
        special_token_ids: ints. Ids that are never chosen; those of a tokenizer have `[UNK]`
            among them, which the reference would choose.
        mask_rate: float. Share of tokens to choose. Default 0.15, the paper's.
        max_predictions: int. Most choices of a row, and slots in the outputs. Default 20, the
            reference's for rows of 128.
        mask_token_rate: float. Share of choices that become `[MASK]`. Default 0.8, the paper's.
        random_token_rate: float. Share that become a random token. Default 0.1, the paper's;
            the remaining 0.1 stay as they are.
        continuation_ids: ints or None, the default. The ids of pieces that continue a word
            (`##ing`), for all units but pieces; without them each piece is taken for a word.
        exclude_special_from_random: bool. False, the default, draws random tokens from the whole
            vocabulary, as the reference, `[PAD]` and `[MASK]` among them; true leaves
            `special_token_ids` out.
        unit: str, what is chosen whole. `"piece"`, the default without continuation_ids.
            `"whole_word"`, the default with them, as the reference's whole-word checkpoints were
            trained. `"ngram"`: runs of 1 to max_ngram words, P(n) proportional to 1 / n, as ALBERT;
            `[UNK]` and the row's end cut them short. `"phrase"` or `"entity"`: the marked units of
            that kind, and whole words outside of them, as ERNIE 1.0's second and third stage.
        max_ngram: int. Words of the longest n-gram. Default 3, ALBERT's.

    Call arguments:
        token_ids: (batch, length) int.
        padding_mask: (batch, length) bool, true on real tokens; None where all are.
        units: (batch, length) int, marks of `data/word_units.py`. Needed for phrases and entities,
            and not looked at for other units.
        seed: (2,) int tensor, or a pair of numbers such as `(seed, step)`. The masks are a
            function of it and of the rows alone, eagerly, in a `tf.function` and in `tf.data`;
            wider padding changes nothing.

    Returns:
        A dict:
        token_ids: (batch, length) int32, with the replacements.
        mask_positions: (batch, max_predictions) int32, ascending; 0 in empty slots.
        mask_ids: (batch, max_predictions) int32, the original ids; 0 in empty slots.
        mask_weights: (batch, max_predictions) float32, 1, and 0 in empty slots.

    Raises:
        ValueError: for rates, ids or n-grams out of range, an unknown unit, or phrases and entities
            called without marks.

    Example:

    >>> masker = DynamicMasker(vocabulary_size=100, mask_token_id=4, special_token_ids=range(5))
    >>> masked = masker(tf.constant([[2, 50, 51, 52, 3]]), seed=(7, 0))
    >>> int(tf.reduce_sum(masked["mask_weights"]))
    1
    """

    def __init__(
        self,
        vocabulary_size: int,
        mask_token_id: int,
        special_token_ids: Sequence[int],
        mask_rate: float = 0.15,
        max_predictions: int = 20,
        mask_token_rate: float = 0.8,
        random_token_rate: float = 0.1,
        continuation_ids: Sequence[int] | None = None,
        exclude_special_from_random: bool = False,
        unit: str | None = None,
        max_ngram: int = 3,
    ):
        if not 0 < mask_rate <= 1:
            raise ValueError(f"mask_rate={mask_rate} must be above 0 and at most 1.")
        if max_predictions < 1:
            raise ValueError(f"max_predictions={max_predictions} must be at least 1.")
        if min(mask_token_rate, random_token_rate) < 0 or mask_token_rate + random_token_rate > 1:
            raise ValueError(
                f"mask_token_rate={mask_token_rate} and random_token_rate={random_token_rate} "
                "are shares of the chosen tokens: neither negative, together at most 1."
            )
        if unit is None:
            unit = "piece" if continuation_ids is None else "whole_word"
        if unit not in UNITS:
            raise ValueError(f"Unknown unit {unit!r}. Choose one of {', '.join(UNITS)}.")
        if unit == "whole_word" and continuation_ids is None:
            raise ValueError(
                "unit='whole_word' needs continuation_ids, the ids of ## pieces. "
                "DynamicMasker.for_tokenizer() finds them."
            )
        if max_ngram < 1:
            raise ValueError(f"max_ngram={max_ngram} must be at least 1.")
        special_token_ids = sorted({int(i) for i in special_token_ids})
        if continuation_ids is not None:
            continuation_ids = sorted({int(i) for i in continuation_ids})
        for i in [mask_token_id, *special_token_ids, *(continuation_ids or [])]:
            if not 0 <= i < vocabulary_size:
                raise ValueError(f"Id {i} is outside a vocabulary of {vocabulary_size} pieces.")
        self.vocabulary_size = vocabulary_size
        self.mask_token_id = mask_token_id
        self.special_token_ids = special_token_ids
        self.mask_rate = mask_rate
        self.max_predictions = max_predictions
        self.mask_token_rate = mask_token_rate
        self.random_token_rate = random_token_rate
        self.continuation_ids = continuation_ids
        self.exclude_special_from_random = exclude_special_from_random
        self.unit = unit
        self.max_ngram = max_ngram
        if exclude_special_from_random and len(special_token_ids) == vocabulary_size:
            raise ValueError("Every id is special: none is left to draw random tokens from.")

    @classmethod
    def for_tokenizer(
        cls, tokenizer: Any, *, whole_word: bool = False, unit: str | None = None, **options
    ):
        """The masker for a tokenizer's vocabulary.

        Args:
            tokenizer: has `vocabulary_size()`, `mask_token_id`, `special_token_ids`, and for
                units other than pieces `get_vocabulary()`.
            whole_word: bool. Choose whole words: the same as `unit="whole_word"`.
            unit: str or None, as in the constructor; None is `"piece"`. Pieces that begin with
                `##` go with the piece before them in all other units.
            **options: further arguments of the constructor.

        Raises:
            ValueError: as the constructor, or for whole_word with another unit.
        """
        if whole_word and unit not in (None, "whole_word"):
            raise ValueError(f"whole_word=True and unit={unit!r} are two units. Pass one of them.")
        unit = unit or ("whole_word" if whole_word else "piece")
        if unit != "piece":
            options["continuation_ids"] = [
                i
                for i, piece in enumerate(tokenizer.get_vocabulary())
                if piece.startswith(CONTINUATION)
            ]
        return cls(
            vocabulary_size=tokenizer.vocabulary_size(),
            mask_token_id=tokenizer.mask_token_id,
            special_token_ids=tokenizer.special_token_ids,
            unit=unit,
            **options,
        )

    def __call__(self, token_ids, padding_mask=None, *, units=None, seed) -> dict[str, tf.Tensor]:
        token_ids = tf.cast(token_ids, tf.int32)  # (batch, length)
        if padding_mask is None:
            padding_mask = tf.ones_like(token_ids, tf.bool)
        order_seed, action_seed, random_seed, ngram_seed = (fold_in(seed, i) for i in range(4))

        maskable = padding_mask & ~_is_one_of(token_ids, self.special_token_ids)
        limit = tf.minimum(
            self.prediction_counts(tf.reduce_sum(tf.cast(padding_mask, tf.int32), axis=1)),
            tf.reduce_sum(tf.cast(maskable, tf.int32), axis=1),
        )  # (batch,)
        groups = groups_of(self._begins(token_ids, maskable, units, ngram_seed))
        chosen = choose_groups(groups, maskable, limit, order_seed)

        positions, filled = _positions(chosen, self.max_predictions)  # (batch, slots)
        original = tf.gather(token_ids, positions, batch_dims=1)
        shown = self._replacements(original, action_seed, random_seed)
        return {
            "token_ids": _add_at(token_ids, positions, tf.where(filled, shown - original, 0)),
            "mask_positions": positions,
            "mask_ids": tf.where(filled, original, 0),
            "mask_weights": tf.cast(filled, tf.float32),
        }

    def prediction_counts(self, lengths: tf.Tensor) -> tf.Tensor:
        """(batch,) int32 tokens to choose of rows of so many tokens, special ones counted."""
        # float64 and half to even, as Python's round() on Python's floats
        rounded = tf.cast(tf.round(tf.cast(lengths, tf.float64) * self.mask_rate), tf.int32)
        return tf.minimum(self.max_predictions, tf.maximum(1, rounded))

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, fit for JSON."""
        return {
            "vocabulary_size": self.vocabulary_size,
            "mask_token_id": self.mask_token_id,
            "special_token_ids": self.special_token_ids,
            "mask_rate": self.mask_rate,
            "max_predictions": self.max_predictions,
            "mask_token_rate": self.mask_token_rate,
            "random_token_rate": self.random_token_rate,
            "continuation_ids": self.continuation_ids,
            "exclude_special_from_random": self.exclude_special_from_random,
            "unit": self.unit,
            "max_ngram": self.max_ngram,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]):
        """A masker from what `get_config` returned."""
        return cls(**config)

    def _begins(self, token_ids, maskable, units, seed):
        """(batch, length) bool: which tokens begin a unit."""
        if self.unit == "piece" or self.continuation_ids is None:
            begins = tf.ones_like(token_ids, tf.bool)
        else:
            begins = word_begins(token_ids, self.continuation_ids, self.vocabulary_size)
        if self.unit == "ngram":
            return ngram_begins(begins, ~maskable, self.max_ngram, seed)
        if self.unit in ("phrase", "entity"):
            if units is None:
                raise ValueError(
                    f"unit={self.unit!r} needs `units`, the marks of phrases and entities. See "
                    "data/word_units.py for how texts get them."
                )
            return marked_begins(begins, units, PHRASE if self.unit == "phrase" else ENTITY)
        return begins

    def _replacements(self, original, action_seed, random_seed):
        """(batch, slots) int32: what stands in place of each original id."""
        draw = uniform(tf.shape(original), action_seed)
        if self.exclude_special_from_random:
            special = set(self.special_token_ids)
            candidates = tf.constant([i for i in range(self.vocabulary_size) if i not in special])
            draws = uniform_int(tf.shape(original), tf.shape(candidates)[0], random_seed)
            random_ids = tf.gather(candidates, draws)
        else:
            random_ids = uniform_int(tf.shape(original), self.vocabulary_size, random_seed)
        shown = tf.where(draw < self.mask_token_rate + self.random_token_rate, random_ids, original)
        return tf.where(draw < self.mask_token_rate, self.mask_token_id, shown)


def choose_groups(groups, maskable, limit, seed) -> tf.Tensor:
    """Take whole groups in random order while they fit, passing over those that do not.

    Args:
        groups: (batch, length) int32. The group of each position, below length.
        maskable: (batch, length) bool. Positions that count and may be chosen.
        limit: (batch,) int32. Most positions to choose.
        seed: (2,) int64.

    Returns:
        (batch, length) bool: the chosen positions.
    """
    shape = tf.shape(groups)
    row = tf.range(shape[0])[:, tf.newaxis]
    size = tf.math.unsorted_segment_sum(
        tf.reshape(tf.cast(maskable, tf.int32), [-1]),
        tf.reshape(row * shape[1] + groups, [-1]),
        shape[0] * shape[1],
    )
    size = tf.reshape(size, shape)  # (batch, group)
    order = tf.argsort(uniform(shape, seed), axis=1, stable=True)
    size = tf.gather(size, order, batch_dims=1)  # in random order

    # Groups before the first that overflows are in. What they leave free is the most that any
    # later group may have, so all larger ones go at once. A few rounds, not one for each group.
    def overflowing(fits):
        total = tf.cumsum(tf.where(fits, size, 0), axis=1)
        return total, fits & (total > limit[:, tf.newaxis])

    def drop(fits):
        total, over = overflowing(fits)
        before = tf.cumsum(tf.cast(over, tf.int32), axis=1) == 0
        free = limit - tf.reduce_max(tf.where(before, total, 0), axis=1)
        return (fits & (before | (size <= free[:, tf.newaxis])),)

    (fits,) = tf.while_loop(
        lambda fits: tf.reduce_any(overflowing(fits)[1]), drop, [size > 0], parallel_iterations=1
    )
    fits = tf.gather(fits, tf.argsort(order, axis=1), batch_dims=1)  # by group again
    return tf.gather(fits, groups, batch_dims=1) & maskable


def _is_one_of(token_ids, ids):
    return tf.reduce_any(token_ids[..., tf.newaxis] == tf.constant(ids, tf.int32), axis=-1)


def _positions(chosen, slots):
    """(batch, slots) int32 ascending positions of true, 0 in empty slots; and which are filled."""
    length = tf.shape(chosen)[1]
    position = tf.where(chosen, tf.range(length), length)
    position = tf.sort(position, axis=1)[:, :slots]
    position = tf.pad(
        position, [[0, 0], [0, slots - tf.shape(position)[1]]], constant_values=length
    )
    position = tf.ensure_shape(position, [chosen.shape[0], slots])
    filled = position < length
    return tf.where(filled, position, 0), filled


def _add_at(token_ids, positions, change):
    """(batch, length): adding, so that empty slots, of change 0, touch nothing."""
    row = tf.broadcast_to(tf.range(tf.shape(positions)[0])[:, tf.newaxis], tf.shape(positions))
    return tf.tensor_scatter_nd_add(token_ids, tf.stack([row, positions], axis=-1), change)
