"""Features of a fixed encoder: which of its layers a token's vector is made of."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_bert_impl.layers.embeddings import with_task_ids
from keras_bert_impl.layers.scalar_mix import ScalarMix
from keras_bert_impl.models.fixed_weights import PredictsFast

# The rows of the paper's table 7, the weighted sum as ELMo's.
FEATURES = (
    "embeddings",
    "last",
    "second_to_last",
    "sum_last_four",
    "concat_last_four",
    "weighted_sum",
)


def hidden_states(backbone) -> list:
    """The symbolic outputs of the embeddings and of each encoder layer, from the bottom up.

    They belong to the backbone's own graph: a `keras.Model` from `backbone.input` to any of them
    computes with the backbone's weights, and only as far up as it must.

    Args:
        backbone: a `BertBackbone`.

    Returns:
        num_layers + 1 symbolic tensors (batch, length, hidden_dim).
    """
    return [layer.output for layer in (backbone.embeddings, *backbone.encoder_layers)]


def layer_outputs(backbone, layers: Sequence[int]) -> list:
    """The symbolic outputs of some encoder layers.

    Args:
        backbone: a `BertBackbone`.
        layers: ints. 0 is the lowest encoder layer, -1 the last.

    Returns:
        A symbolic tensor (batch, length, hidden_dim) for each, in the order given.

    Raises:
        ValueError: for no layers, or a layer that the backbone does not have.
    """
    outputs = hidden_states(backbone)[1:]
    if not layers:
        raise ValueError("No layers are given. Pass for example [-1, -2, -3, -4].")
    for layer in layers:
        if not -len(outputs) <= layer < len(outputs):
            raise ValueError(
                f"There is no layer {layer}: the backbone has {len(outputs)} encoder layers, "
                f"{-len(outputs)}..{len(outputs) - 1}."
            )
    return [outputs[layer] for layer in layers]


def token_features(backbone, features: str):
    """The symbolic features of each token by their name in the paper.

    Args:
        backbone: a `BertBackbone`.
        features: str, one of `FEATURES`; see `BertFeatures`.

    Returns:
        A symbolic tensor (batch, length, dim).

    Raises:
        ValueError: for an unknown name, or a backbone with too few layers for it.
    """
    if features not in FEATURES:
        raise ValueError(f"Unknown features {features!r}. Choose one of {', '.join(FEATURES)}.")
    needed = {"second_to_last": 2, "sum_last_four": 4, "concat_last_four": 4}.get(features, 1)
    if backbone.num_layers < needed:
        raise ValueError(
            f"features={features!r} needs {needed} encoder layers, but the backbone has "
            f"{backbone.num_layers}."
        )
    states = hidden_states(backbone)
    if features == "weighted_sum":
        return ScalarMix(dtype=backbone.dtype_policy, name="scalar_mix")(states)
    if features == "sum_last_four":
        return sum(states[-3:], start=states[-4])
    if features == "concat_last_four":
        return ops.concatenate(states[-4:], axis=-1)  # (batch, length, 4 * hidden_dim)
    return states[{"embeddings": 0, "last": -1, "second_to_last": -2}[features]]


@keras.saving.register_keras_serializable(package="keras_bert_impl")
class BertFeatures(PredictsFast, keras.Model):
    """Ids to vectors of each token, from the layers that one likes (paper, section 5.3, table 7).

    It has no weights of its own but those of the weighted sum: what the backbone learns, it
    gives. For the paper's feature-based approach set `backbone.trainable = False` and build a
    model on its output.

    Args:
        backbone: a `BertBackbone`.
        features: str, or a list of int.
            `"embeddings"`: the output of the embedding layer.
            `"last"`, `"second_to_last"`: one encoder layer's.
            `"sum_last_four"`: the sum of the last four layers'.
            `"concat_last_four"`: these four side by side, the lowest first; dim is
            4 * hidden_dim, otherwise hidden_dim.
            `"weighted_sum"`: embeddings and all layers, weighed by a trainable `ScalarMix`, the
            attribute `scalar_mix`, all alike at the start.
            A list of int: these encoder layers, 0 the lowest, -1 the last, as the flag
            `--layers` of google-research/bert, extract_features.py.

    Inputs: the backbone's.

    Outputs: (batch, length, dim); for several layers a list of these. Vectors at padding hold
    nothing of use.

    Raises:
        ValueError: for unknown features, a layer that the backbone lacks, or too few layers.

    Example:

    >>> backbone = BertBackbone.from_size("mini", vocabulary_size=30522)
    >>> ids = np.ones((2, 16), "int32")
    >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    >>> tuple(BertFeatures(backbone, "concat_last_four")(inputs).shape)
    (2, 16, 1024)
    >>> [tuple(x.shape) for x in BertFeatures(backbone, [-1, 0])(inputs)]
    [(2, 16, 256), (2, 16, 256)]
    """

    def __init__(self, backbone, features: str | Sequence[int] = "last", **kwargs):
        if isinstance(features, str):
            outputs = token_features(backbone, features)
        else:
            features = list(features)
            outputs = layer_outputs(backbone, features)
        super().__init__(inputs=backbone.input, outputs=outputs, **kwargs)
        self.backbone = backbone
        self.features = features

    def __call__(self, inputs, *args, **kwargs):
        return super().__call__(with_task_ids(self, inputs), *args, **kwargs)

    @property
    def scalar_mix(self) -> ScalarMix:
        """The weighted sum's layer; only where there is one."""
        return self.get_layer("scalar_mix")

    def get_config(self):
        return {
            "backbone": keras.saving.serialize_keras_object(self.backbone),
            "features": self.features,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        config["backbone"] = keras.saving.deserialize_keras_object(
            config["backbone"], custom_objects=custom_objects
        )
        return cls(**config)
