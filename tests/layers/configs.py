"""What the config tests of all layers share."""

import inspect

import keras


def check_every_option_survives(cls, required, changes):
    """Each option, changed by itself, comes back from the config.

    Args:
        cls: class of a layer.
        required: dict of the arguments without default.
        changes: dict of a value other than the default for each option.
    """
    options = set(inspect.signature(cls.__init__).parameters) - {"self", "kwargs"}
    assert options == set(required) | set(changes), "an option is not tested"
    plain = cls(**required).get_config()
    for option, value in changes.items():
        layer = cls(**{**required, option: value})
        config = layer.get_config()
        assert config[option] == value
        assert config[option] != plain[option]
        assert cls.from_config(config).get_config() == config
    for dtype in ("mixed_float16", "float64"):
        layer = cls(**required, dtype=dtype, name="named")
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
        assert type(again) is cls
        assert again.dtype_policy.name == dtype
        assert again.name == "named"
