"""The BERT encoder: ids in, one vector a token and one vector a row out."""

import keras
import keras_hub
from keras import ops

from keras_bert_impl.layers.attention import CausalMask, make_attention_mask
from keras_bert_impl.layers.embeddings import BertEmbeddings, with_task_ids
from keras_bert_impl.layers.encoder_layer import BertEncoderLayer
from keras_bert_impl.layers.initialization import INITIALIZER_RANGE, LAYER_NORM_EPSILON
from keras_bert_impl.layers.pooler import BertPooler

# num_layers, hidden_dim. Base and large: Devlin et al. 2018, section 3. The smaller ones:
# Turc et al. 2019, table 1. Heads are hidden_dim / 64, the intermediate width 4 * hidden_dim.
SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}


def is_packed(inputs) -> bool:
    """Whether a model's inputs are rows of several examples, see `data/row_packing.py`."""
    return isinstance(inputs, dict) and "cls_positions" in inputs


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertBackbone(keras_hub.models.Backbone):
    """A Transformer encoder (Devlin et al. 2018, arXiv:1810.04805, section 3).

    Each position sees all others; with `causal=True` none sees what comes after it, which makes
    the body of GPT (Radford et al. 2018) and of the paper's left-to-right model (section 5.1).

    Args:
        vocabulary_size: int. Rows of the token table.
        num_layers: int. Encoder blocks.
        num_heads: int. Attention heads of each block; must divide `hidden_dim`.
        hidden_dim: int. Length of each vector.
        intermediate_dim: int. Width inside each block's two-layer network.
        dropout: float in [0, 1). After the embeddings and after both parts of each block.
        max_sequence_length: int. Rows of the position table, hence the longest input.
        num_segments: int. Rows of the segment table.
        activation: str. `"gelu"` (exact, through erf), `"gelu_approximate"` (tanh), or a
            name of `keras.activations`.
        attention_dropout: float in [0, 1), default as `dropout`. On attention probabilities.
        layer_norm_epsilon: float. Added to the variance in each layer norm.
        initializer_range: float. Standard deviation of the truncated normal that weights
            start from.
        causal: bool. Position i sees positions 0 to i alone. The first then sees only itself, so
            `pooled_output` says nothing of the text.
        num_tasks: int. Pretraining tasks that have a vector each, added to all tokens of a row
            (ERNIE 2.0, Sun et al. 2019, section 4.1). Default 0: none, as in BERT.
        recompute: bool. Compute each block again in the backward pass instead of keeping what lies
            inside: less memory, more time, the same numbers to rounding.
        dtype: str or `keras.DTypePolicy`. Softmax and layer norm are computed in float32
            at least, whatever is chosen.

    Inputs, a dict:
        token_ids: (batch, length) int32.
        segment_ids: (batch, length) int32.
        padding_mask: (batch, length) bool, true on real tokens.
        task_ids: (batch, 1) int32, with `num_tasks` above 0 only. May be left out: then all rows
            are of task 0.

    Outputs, a dict:
        sequence_output: (batch, length, hidden_dim).
        pooled_output: (batch, hidden_dim).

    Called on rows of several examples, as `pack_rows` makes them, it takes besides
    position_ids and sequence_ids, (batch, length) int32, and cls_positions, (batch, examples)
    int32. No example sees another, and pooled_output is (batch, examples, hidden_dim).

    Called with read_positions besides, (batch, slots) int32, it gives sequence_output at these
    alone, (batch, slots, hidden_dim), and no pooled_output. The last block then computes no more
    than it must.

    Raises:
        ValueError: if a size is not positive, if `num_heads` does not divide `hidden_dim`, or
            if the activation is unknown; called with read_positions of another rank than 2.

    Example:

    >>> backbone = BertBackbone.from_size("tiny", vocabulary_size=30522)
    >>> ids = np.ones((2, 16), "int32")
    >>> outputs = backbone({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0})
    >>> tuple(outputs["sequence_output"].shape)
    (2, 16, 128)
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        dropout: float = 0.1,
        max_sequence_length: int = 512,
        num_segments: int = 2,
        activation: str = "gelu",
        attention_dropout: float | None = None,
        layer_norm_epsilon: float = LAYER_NORM_EPSILON,
        initializer_range: float = INITIALIZER_RANGE,
        causal: bool = False,
        num_tasks: int = 0,
        recompute: bool = False,
        dtype=None,
        **kwargs,
    ):
        sizes = {
            "vocabulary_size": vocabulary_size,
            "num_layers": num_layers,
            "num_heads": num_heads,
            "hidden_dim": hidden_dim,
            "intermediate_dim": intermediate_dim,
            "max_sequence_length": max_sequence_length,
            "num_segments": num_segments,
        }
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, but is {size}.")
        if hidden_dim % num_heads:
            raise ValueError(
                f"hidden_dim={hidden_dim} is not divisible by num_heads={num_heads}: each head "
                "takes an equal part of the vector."
            )

        # Layers
        self.embeddings = BertEmbeddings(
            vocabulary_size,
            hidden_dim,
            max_sequence_length=max_sequence_length,
            num_segments=num_segments,
            dropout=dropout,
            layer_norm_epsilon=layer_norm_epsilon,
            initializer_range=initializer_range,
            num_tasks=num_tasks,
            dtype=dtype,
            name="embeddings",
        )
        self.token_embedding = self.embeddings.token_embedding
        self.encoder_layers = [
            BertEncoderLayer(
                num_heads,
                intermediate_dim,
                activation=activation,
                dropout=dropout,
                attention_dropout=attention_dropout,
                layer_norm_epsilon=layer_norm_epsilon,
                initializer_range=initializer_range,
                recompute=recompute,
                dtype=dtype,
                name=f"encoder_layer_{i}",
            )
            for i in range(num_layers)
        ]
        self.pooler = BertPooler(initializer_range=initializer_range, dtype=dtype, name="pooler")

        # Functional model
        inputs = {
            "token_ids": keras.Input((None,), dtype="int32", name="token_ids"),
            "segment_ids": keras.Input((None,), dtype="int32", name="segment_ids"),
            "padding_mask": keras.Input((None,), dtype="bool", name="padding_mask"),
        }
        if num_tasks:
            inputs["task_ids"] = keras.Input((1,), dtype="int32", name="task_ids")
        x = self.embeddings(
            inputs["token_ids"], inputs["segment_ids"], task_ids=inputs.get("task_ids")
        )
        make_mask = CausalMask(name="causal_mask") if causal else make_attention_mask
        mask = make_mask(inputs["padding_mask"])
        for layer in self.encoder_layers:
            x = layer(x, attention_mask=mask)
        super().__init__(
            inputs=inputs,
            outputs={"sequence_output": x, "pooled_output": self.pooler(x)},
            dtype=dtype,
            **kwargs,
        )

        # Config
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.activation = activation
        self.attention_dropout = dropout if attention_dropout is None else attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.causal = causal
        self.num_tasks = num_tasks

    @property
    def recompute(self) -> bool:
        """Whether blocks are computed again in the backward pass; may be set at any time."""
        return self.encoder_layers[0].recompute

    @recompute.setter
    def recompute(self, value: bool):
        for layer in self.encoder_layers:
            layer.recompute = value

    def __call__(self, inputs, *args, **kwargs):
        return super().__call__(with_task_ids(self, inputs), *args, **kwargs)

    def call(self, inputs, training=None, mask=None, **kwargs):
        read = inputs.get("read_positions") if isinstance(inputs, dict) else None
        if not is_packed(inputs) and read is None:
            return super().call(inputs, training=training, mask=mask, **kwargs)
        if read is not None and len(read.shape) != 2:
            raise ValueError(f"read_positions must be (batch, slots), but are {tuple(read.shape)}.")
        x = self.embeddings(
            inputs["token_ids"],
            inputs["segment_ids"],
            inputs.get("position_ids"),
            task_ids=inputs.get("task_ids"),
        )
        # Of packed rows padding is a sequence of its own.
        seen = {"sequence_ids" if is_packed(inputs) else "padding_mask"}
        mask = make_attention_mask(
            **{name: inputs[name] for name in seen},
            causal_length=ops.shape(inputs["token_ids"])[1] if self.causal else None,
        )
        *layers, last = self.encoder_layers
        for layer in layers:
            x = layer(x, attention_mask=mask)
        x = last(x, attention_mask=mask, positions=read)
        if read is not None:
            return {"sequence_output": x}
        return {"sequence_output": x, "pooled_output": self.pooler(x, inputs["cls_positions"])}

    @classmethod
    def from_size(cls, size: str, vocabulary_size: int, **overrides) -> "BertBackbone":
        """A backbone of one of the papers' sizes, with fresh weights.

        Args:
            size: str. `"tiny"`, `"mini"`, `"small"`, `"medium"`, `"base"` or `"large"`.
            vocabulary_size: int. Rows of the token table.
            **overrides: any argument of the constructor.

        Raises:
            ValueError: if the size is unknown.
        """
        if size not in SIZES:
            raise ValueError(f"Unknown size {size!r}. Known sizes: {', '.join(SIZES)}.")
        num_layers, hidden_dim = SIZES[size]
        config = {
            "num_layers": num_layers,
            "hidden_dim": hidden_dim,
            "num_heads": hidden_dim // 64,
            "intermediate_dim": 4 * hidden_dim,
            **overrides,
        }
        return cls(vocabulary_size, **config)

    @classmethod
    def from_preset(cls, preset, load_weights=True, **kwargs):
        """Weights and sizes from a preset or from another package's checkpoint.

        Args:
            preset: str or path. A preset of this package or of KerasHub; a folder of Hugging
                Face transformers, google-research/bert or TF Model Garden, or an archive of one;
                a handle `hf://` or `kaggle://`. A local path never touches the network.
            load_weights: bool. False builds the same model with random weights.
            **kwargs: `init_missing=True` lets a pooler that the checkpoint lacks start from
                random weights; arguments of the constructor override the checkpoint's.

        Returns:
            The backbone. Read from another package's checkpoint it has a `load_report`.

        Raises:
            FileNotFoundError: where nothing is there.
            ValueError: for a checkpoint that is damaged, incomplete or of another model.

        Example:

        >>> backbone = BertBackbone.from_preset("uncased_L-12_H-768_A-12")
        """
        # The one step from a model to foreign formats; loaded on demand, so that models can be
        # used where nothing is converted.
        from keras_bert_impl.checkpoints import loading

        if loading.is_foreign(cls, preset):
            return loading.from_preset(cls, preset, load_weights, **kwargs)
        return super().from_preset(str(preset), load_weights, **kwargs)

    def default_lora_layer_names(self):
        """LoRA adapts the attention's fused product (Hu et al. 2021 adapts query and value)."""
        return ["query_key_value"]

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "max_sequence_length": self.max_sequence_length,
            "num_segments": self.num_segments,
            "activation": self.activation,
            "attention_dropout": self.attention_dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "causal": self.causal,
            "num_tasks": self.num_tasks,
            "recompute": self.recompute,
        }
