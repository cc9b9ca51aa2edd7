"""ELMo's encoder: characters of words in, vectors of all layers out, left and right apart."""

from collections.abc import Sequence
from typing import Any

import keras
import keras_hub
from keras import ops

from keras_bert_impl.data.characters import MAX_CHARACTERS, NUM_CHARACTERS
from keras_bert_impl.layers.character_cnn import ELMO_FILTERS, CharacterCNN
from keras_bert_impl.layers.lstm_with_projection import ProjectedLSTM

SMALL_FILTERS = ((1, 16), (2, 16), (3, 32), (4, 32), (5, 64), (6, 64), (7, 64))
# "small" trains on a laptop. "elmo": Peters et al. 2018, section 3.4, and the published options.
ELMO_SIZES: dict[str, dict[str, Any]] = {
    "small": {"lstm_units": 512, "projection_dim": 128, "filters": SMALL_FILTERS},
    "elmo": {"lstm_units": 4096, "projection_dim": 512, "filters": ELMO_FILTERS},
}


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class ElmoBackbone(keras_hub.models.Backbone):
    """Two stacks of LSTMs over a character CNN (Peters et al. 2018, arXiv:1802.05365, section 3).

    One stack reads a row from the left, the other from the right. They share the words' vectors
    and nothing else, and neither sees the other's states, so that each half of a layer's vectors
    is a language model's. From the second layer on a layer's input is added to its output.

    Args:
        lstm_units: int. Numbers of each LSTM's cell state.
        projection_dim: int. Length of the words' vectors and of each direction's states.
        num_layers: int. LSTM layers each way; 2 in ELMo.
        filters: sequence of (width, number), as in `CharacterCNN`.
        embedding_dim, num_highways: int, as in `CharacterCNN`.
        dropout: float in [0, 1). On the input of each layer.
        cell_clip, projection_clip: float or None, as in `ProjectedLSTM`; 3 in ELMo.
        max_characters: int. Characters of a word, its two ends included; 50 in ELMo.
        num_characters: int. Rows of the characters' table.
        dtype: str or `keras.DTypePolicy`.

    Inputs, a dict:
        characters: (batch, words, max_characters) int32, from `sentence_characters`.
        padding_mask: (batch, words) bool, true on real words.

    Outputs, a dict:
        states: list of num_layers + 1 tensors (batch, words, 2 * projection_dim). The first is
            the words' vectors twice, side by side; the others the left-to-right states and the
            right-to-left states of each layer. `ScalarMix` makes one vector a word of them.

    Raises:
        ValueError: if a size is not positive, or words are shorter than the widest filter.

    Example:

    >>> backbone = ElmoBackbone(lstm_units=32, projection_dim=8)
    >>> words = split_words(tf.constant(["the cat sat", "a dog"]))
    >>> characters, padding_mask = sentence_characters(words)
    >>> states = backbone({"characters": characters, "padding_mask": padding_mask})["states"]
    >>> [tuple(state.shape) for state in states]
    [(2, 5, 16), (2, 5, 16), (2, 5, 16)]
    """

    def __init__(
        self,
        lstm_units: int = ELMO_SIZES["small"]["lstm_units"],
        projection_dim: int = ELMO_SIZES["small"]["projection_dim"],
        num_layers: int = 2,
        filters: Sequence[tuple[int, int]] = SMALL_FILTERS,
        embedding_dim: int = 16,
        num_highways: int = 2,
        dropout: float = 0.1,
        cell_clip: float | None = 3.0,
        projection_clip: float | None = 3.0,
        max_characters: int = MAX_CHARACTERS,
        num_characters: int = NUM_CHARACTERS,
        dtype=None,
        **kwargs,
    ):
        sizes = {
            "lstm_units": lstm_units,
            "projection_dim": projection_dim,
            "num_layers": num_layers,
            "embedding_dim": embedding_dim,
            "max_characters": max_characters,
            "num_characters": num_characters,
        }
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, but is {size}.")

        # Layers
        self.character_cnn = CharacterCNN(
            num_characters,
            embedding_dim=embedding_dim,
            filters=filters,
            num_highways=num_highways,
            projection_dim=projection_dim,
            dtype=dtype,
            name="character_cnn",
        )

        def stack(name, backward):
            return [
                ProjectedLSTM(
                    lstm_units,
                    projection_dim,
                    backward=backward,
                    cell_clip=cell_clip,
                    projection_clip=projection_clip,
                    dtype=dtype,
                    name=f"{name}_{i}",
                )
                for i in range(num_layers)
            ]

        self.forward_layers = stack("forward", backward=False)
        self.backward_layers = stack("backward", backward=True)

        # Functional model
        inputs = {
            "characters": keras.Input((None, max_characters), dtype="int32", name="characters"),
            "padding_mask": keras.Input((None,), dtype="bool", name="padding_mask"),
        }
        words = self.character_cnn(inputs["characters"])  # (batch, words, projection_dim)
        directions = []
        for layers in (self.forward_layers, self.backward_layers):
            states, x = [words], words
            for i, layer in enumerate(layers):
                x = keras.layers.Dropout(dropout, dtype=dtype, name=f"{layer.name}_dropout")(x)
                output = layer(x, inputs["padding_mask"])
                x = output if i == 0 else output + x
                states.append(x)
            directions.append(states)
        states = [ops.concatenate(pair, axis=-1) for pair in zip(*directions, strict=True)]
        super().__init__(inputs=inputs, outputs={"states": states}, dtype=dtype, **kwargs)

        # Config
        self.lstm_units = lstm_units
        self.projection_dim = projection_dim
        self.num_layers = num_layers
        self.filters = self.character_cnn.filters
        self.embedding_dim = embedding_dim
        self.num_highways = num_highways
        self.dropout = dropout
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.max_characters = max_characters
        self.num_characters = num_characters

    @classmethod
    def from_size(cls, size: str, **overrides) -> "ElmoBackbone":
        """A backbone of a named size, with fresh weights.

        Args:
            size: str. `"small"`, the constructor's defaults, or `"elmo"`, as published: 93.6
                million weights.
            **overrides: any argument of the constructor.

        Raises:
            ValueError: if the size is unknown.
        """
        if size not in ELMO_SIZES:
            raise ValueError(f"Unknown size {size!r}. Known sizes: {', '.join(ELMO_SIZES)}.")
        return cls(**{**ELMO_SIZES[size], **overrides})

    def get_config(self):
        return {
            **super().get_config(),
            "lstm_units": self.lstm_units,
            "projection_dim": self.projection_dim,
            "num_layers": self.num_layers,
            "filters": self.filters,
            "embedding_dim": self.embedding_dim,
            "num_highways": self.num_highways,
            "dropout": self.dropout,
            "cell_clip": self.cell_clip,
            "projection_clip": self.projection_clip,
            "max_characters": self.max_characters,
            "num_characters": self.num_characters,
        }
