"""What docs/language_models.md shows runs as it stands."""

import pathlib
import re

import numpy as np
import tensorflow as tf

import keras_bert_impl as kbi

PAGE = pathlib.Path(__file__).parents[2] / "docs/language_models.md"


def test_the_page_runs_from_top_to_bottom():
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 5
    names = {}
    tf.config.run_functions_eagerly(True)  # nothing runs often enough to be worth its tracing
    try:
        for example in examples:
            for steps in ("steps_per_epoch=20", "steps_per_epoch=5"):
                example = example.replace(steps, "steps_per_epoch=1")
            exec(example.replace("LSTM(64", "LSTM(4"), names)
        assert names["causal_lm"].generate("the cat", max_length=5).startswith("the cat")
    finally:
        tf.config.run_functions_eagerly(False)
    x = names["x"]
    assert x["characters"].shape == (2, 5, 50)
    assert names["tagger"].predict(x, verbose=0).shape == (2, 5, 9)
    # The mean of the words of each row, marks among them.
    (mix,) = (layer for layer in names["tagger"].layers if isinstance(layer, kbi.ScalarMix))
    vectors = np.array(mix(names["elmo"](x)["states"]))
    mask = x["padding_mask"].numpy()[..., None]
    kernel, bias = (np.array(w) for w in names["classifier"].layers[-1].weights)
    expected = (vectors * mask).sum(axis=1) / mask.sum(axis=1) @ kernel + bias
    np.testing.assert_allclose(names["classifier"](x), expected, atol=1e-4)
