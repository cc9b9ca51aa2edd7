import doctest

import numpy as np
import pytest

from keras_bert_impl.data import swag
from keras_bert_impl.data.swag import read_swag

HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3"
QUOTED = (
    '0,lsmdc1,1,"He sat, once. She","He sat, once.",She,gold,'
    '"nods, then leaves.","says ""no"".",walks off.,runs.,2'
)
NO_START = "1,anetv,2,A man cooks.,A man cooks.,,gen,He eats.,He cuts.,He sings.,He naps.,0"


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_choices_are_the_second_sentence_with_each_ending(tmp_path):
    path = write(tmp_path / "train.csv", HEADER + ",label", QUOTED, NO_START)
    examples = read_swag(path)
    assert examples.x["text_a"].tolist() == ["He sat, once.", "A man cooks."]
    assert examples.x["choices"].tolist() == [
        ["She nods, then leaves.", 'She says "no".', "She walks off.", "She runs."],
        ["He eats.", "He cuts.", "He sings.", "He naps."],
    ]
    assert examples.y.tolist() == [2, 0]
    assert examples.y.dtype == np.int32
    assert examples.table.where(1) == f"{path}:3"


def test_the_test_set_has_no_labels(tmp_path):
    path = write(tmp_path / "test.csv", HEADER, QUOTED[:-2], NO_START[:-2])
    examples = read_swag(path, labeled=False)
    assert examples.x["choices"].shape == (2, 4)
    assert examples.y is None
    with pytest.raises(ValueError, match=f"{path}:1: no column 'label'"):
        read_swag(path)


def test_a_row_that_is_no_example_is_named(tmp_path):
    path = write(tmp_path / "val.csv", HEADER + ",label", QUOTED, NO_START[:-1] + "4")
    with pytest.raises(ValueError, match=f"{path}:3: label is '4', but must be .* from 0 to 3"):
        read_swag(path)
    write(path, HEADER + ",label", QUOTED, NO_START.replace("He sings.", " "))
    with pytest.raises(ValueError, match=f"{path}:3: ending2 is empty"):
        read_swag(path)


def test_docstring_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    endings = "drives.,opens the door.,sits.,leaves."
    row = f"0,v,1,s,He rides to the hall.,He,gold,{endings},3"
    write(tmp_path / "val.csv", HEADER + ",label", row)
    result = doctest.testmod(swag)
    assert (result.attempted, result.failed) == (2, 0)
