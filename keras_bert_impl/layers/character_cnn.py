"""A word's vector from its characters: convolutions, their maxima, highways, a projection."""

from collections.abc import Sequence

import keras
from keras import ops

# (width, number) as published with ELMo (allenai/bilm-tf); 2048 together.
ELMO_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class Highway(keras.layers.Layer):
    """`g * relu(W x + b) + (1 - g) * x`, g = sigmoid(V x + c) (Srivastava et al. 2015).

    c starts at -2, as published with ELMo, so that a new layer mostly hands x on.

    Call arguments:
        x: (..., dim).

    Returns:
        (..., dim).
    """

    def build(self, x_shape):
        def dense(name, **options):
            layer = keras.layers.Dense(x_shape[-1], dtype=self.dtype_policy, name=name, **options)
            layer.build(x_shape)
            return layer

        self.transform = dense("transform", activation="relu")
        self.gate = dense(
            "gate", activation="sigmoid", bias_initializer=keras.initializers.Constant(-2.0)
        )
        self.built = True

    def call(self, x):
        gate = self.gate(x)
        return gate * self.transform(x) + (1 - gate) * x

    def compute_output_shape(self, x_shape):
        return x_shape


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class CharacterCNN(keras.layers.Layer):
    """Characters of words to a vector a word (Peters et al. 2018, section 3.4; Kim et al. 2016).

    Each character is a row of a table. Filters of several widths run over the word's characters;
    of each filter the largest value in the word is kept, through relu. Highway layers and a linear
    projection follow. No word is unknown.

    Args:
        num_characters: int. Rows of the table; see `data/characters.py`.
        embedding_dim: int. Length of a character's vector; 16 in ELMo.
        filters: sequence of (width, number). A width is at most the characters of a word.
        num_highways: int. 2 in ELMo.
        projection_dim: int. Length of a word's vector.

    Call arguments:
        characters: (batch, words, characters) int.

    Returns:
        (batch, words, projection_dim).

    Raises:
        ValueError: at construction, without filters; when called, for words shorter than the
            widest filter.
    """

    def __init__(
        self,
        num_characters: int,
        embedding_dim: int = 16,
        filters: Sequence[tuple[int, int]] = ELMO_FILTERS,
        num_highways: int = 2,
        projection_dim: int = 512,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not filters:
            raise ValueError("filters is empty. Pass (width, number) pairs such as ((1, 32),).")
        self.num_characters = num_characters
        self.embedding_dim = embedding_dim
        self.filters = tuple((int(width), int(number)) for width, number in filters)
        self.num_highways = num_highways
        self.projection_dim = projection_dim

    def build(self, characters_shape):
        shape = tuple(characters_shape)
        widest = max(width for width, _ in self.filters)
        if shape[-1] is not None and shape[-1] < widest:
            raise ValueError(
                f"Words of {shape[-1]} characters are shorter than the widest filter, {widest}. "
                "Make them longer (max_characters), or pass narrower filters."
            )
        policy = self.dtype_policy
        self.embedding = keras.layers.Embedding(
            self.num_characters,
            self.embedding_dim,
            embeddings_initializer=keras.initializers.RandomUniform(-1.0, 1.0),
            dtype=policy,
            name="embedding",
        )
        self.embedding.build(shape)
        self.convolutions = []
        for width, number in self.filters:
            layer = keras.layers.Conv1D(number, width, dtype=policy, name=f"convolution_{width}")
            layer.build((None, shape[-1], self.embedding_dim))
            self.convolutions.append(layer)
        total = sum(number for _, number in self.filters)
        self.highways = [
            Highway(dtype=policy, name=f"highway_{i}") for i in range(self.num_highways)
        ]
        self.projection = keras.layers.Dense(self.projection_dim, dtype=policy, name="projection")
        for layer in (*self.highways, self.projection):
            layer.build((*shape[:-1], total))
        self.built = True

    def call(self, characters):
        batch, words, length = ops.shape(characters)
        x = self.embedding(characters)  # (batch, words, characters, embedding_dim)
        x = ops.reshape(x, (-1, length, self.embedding_dim))
        # relu after the maximum: the same, on fewer numbers.
        x = [ops.relu(ops.max(convolve(x), axis=1)) for convolve in self.convolutions]
        x = ops.concatenate(x, axis=-1)  # (batch * words, filters)
        x = ops.reshape(x, (batch, words, sum(number for _, number in self.filters)))
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)  # (batch, words, projection_dim)

    def compute_output_shape(self, characters_shape):
        return (*characters_shape[:-1], self.projection_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "num_characters": self.num_characters,
            "embedding_dim": self.embedding_dim,
            "filters": self.filters,
            "num_highways": self.num_highways,
            "projection_dim": self.projection_dim,
        }
