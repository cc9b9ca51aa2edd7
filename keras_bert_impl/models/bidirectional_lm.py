"""ELMo's pretraining: guess each word from those before it, and from those after it."""

import keras
import keras_hub
from keras import ops

from keras_bert_impl.models.elmo import ElmoBackbone
from keras_bert_impl.training.losses import MaskedLMLoss

DIRECTIONS = ("forward", "backward")


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BidirectionalLM(keras_hub.models.Task):
    """Two language models with one softmax (Peters et al. 2018, section 3.1).

    The last layer's left-to-right state at a word gives the scores of the next word, its
    right-to-left state those of the word before. Words' vectors and softmax are shared, the LSTMs
    are not. The loss is the mean of both directions' means over the words there are. The softmax
    is a full one; the paper's, over 800,000 words, was sampled.

    Args:
        backbone: an `ElmoBackbone`.
        vocabulary_size: int. Words to choose from: `len(vocabulary)` of a `WordVocabulary`.
        dropout: float in [0, 1), default the backbone's. On the last states.

    Inputs: the backbone's, as `bidirectional_pretraining_dataset()` prepares them from documents,
    with the targets `forward` and `backward`.

    Outputs, a dict:
        forward: (batch, words, vocabulary_size) logits of the word after each.
        backward: the same of the word before each.

    Raises:
        ValueError: for a vocabulary_size below 1.

    Example:

    >>> documents = [["the cat sat", "a dog"], ["the dog ran"]]
    >>> vocabulary = WordVocabulary.of_documents(documents)
    >>> backbone = ElmoBackbone(lstm_units=16, projection_dim=8)
    >>> model = BidirectionalLM(backbone, vocabulary_size=len(vocabulary))
    >>> data = bidirectional_pretraining_dataset(documents, vocabulary, max_words=4, batch_size=2)
    >>> history = model.fit(data, steps_per_epoch=2, verbose=0)
    """

    backbone_cls = ElmoBackbone
    preprocessor_cls = None

    def __init__(self, backbone, vocabulary_size: int, dropout: float | None = None, **kwargs):
        kwargs.pop("preprocessor", None)  # KerasHub writes one into every task's config
        if vocabulary_size < 1:
            raise ValueError(f"vocabulary_size={vocabulary_size} must be at least 1.")
        dropout = backbone.dropout if dropout is None else dropout

        # Layers
        self.backbone = backbone
        self.preprocessor = None
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=backbone.dtype_policy, name="output_dropout"
        )
        self.softmax = keras.layers.Dense(
            vocabulary_size,
            # As published: logits of variance about 1 at the start.
            kernel_initializer=keras.initializers.RandomNormal(
                stddev=backbone.projection_dim**-0.5
            ),
            dtype=backbone.dtype_policy,
            name="softmax",
        )

        # Functional model
        last = self.output_dropout(backbone(backbone.input)["states"][-1])
        states = ops.split(last, 2, axis=-1)  # two (batch, words, projection_dim)
        logits = {name: self.softmax(state) for name, state in zip(DIRECTIONS, states, strict=True)}
        super().__init__(inputs=backbone.input, outputs=logits, **kwargs)

        # Config
        self.vocabulary_size = vocabulary_size
        self.dropout = dropout

    def compile(self, optimizer="auto", loss="auto", *, weighted_metrics="auto", **kwargs):
        """As `keras.Model.compile`; what is left at "auto" is the model's own.

        Args:
            optimizer: default Adagrad with rate 0.2, gradients of norm above 10 cut, as published.
            loss: default the mean over words in each direction, half of each.
            weighted_metrics: default each direction's accuracy.
        """
        if isinstance(optimizer, str) and optimizer == "auto":
            optimizer = keras.optimizers.Adagrad(
                0.2, initial_accumulator_value=1.0, global_clipnorm=10.0
            )
        if isinstance(loss, str) and loss == "auto":
            loss = {name: MaskedLMLoss(name=f"{name}_loss") for name in DIRECTIONS}
            kwargs.setdefault("loss_weights", dict.fromkeys(DIRECTIONS, 0.5))
        if isinstance(weighted_metrics, str) and weighted_metrics == "auto":
            weighted_metrics = {
                name: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
                for name in DIRECTIONS
            }
        super().compile(optimizer=optimizer, loss=loss, weighted_metrics=weighted_metrics, **kwargs)

    def compile_from_config(self, config):
        """Compile as the saved model was; Keras does not where `compile` is a class's own."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def fit(self, x=None, y=None, **kwargs):
        """As `keras.Model.fit`."""
        if y is None:
            kwargs.setdefault("shuffle", False)  # a dataset has its order; Keras would warn
        return super().fit(x, y, **kwargs)

    # KerasHub's own make a tensor of y, which with two outputs is a dict; so Keras's are called.

    def train_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """As `keras.Model.train_on_batch`."""
        return keras.Model.train_on_batch(self, x, y, sample_weight, **kwargs)

    def test_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """As `keras.Model.test_on_batch`."""
        return keras.Model.test_on_batch(self, x, y, sample_weight, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "dropout": self.dropout,
        }
