"""What docs/language_models.md shows runs as it stands."""

import pathlib
import re

import numpy as np
import tensorflow as tf

PAGE = pathlib.Path(__file__).parents[2] / "docs/language_models.md"


def test_the_page_runs_from_top_to_bottom():
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 5
    names = {}
    for example in examples:
        # Fewer steps and a smaller vocabulary of sizes than one would take.
        for long, short in (("steps_per_epoch=20", "steps_per_epoch=2"), ("LSTM(64", "LSTM(4")):
            example = example.replace(long, short)
        exec(example, names)
    assert names["causal_lm"].generate("the cat").startswith("the cat")
    x = names["x"]
    assert x["characters"].shape == (2, 5, 50)
    assert names["tagger"].predict(x, verbose=0).shape == (2, 5, 9)
    # The mean of the words of each row, marks among them.
    states = np.mean(names["elmo"](x)["states"], axis=0)
    mask = x["padding_mask"].numpy()[..., None]
    kernel, bias = (np.array(w) for w in names["classifier"].layers[-1].weights)
    expected = (states * mask).sum(axis=1) / mask.sum(axis=1) @ kernel + bias
    np.testing.assert_allclose(names["classifier"](x), expected, atol=1e-4)
    assert isinstance(x["characters"], tf.Tensor)
