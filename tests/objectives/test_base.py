import keras
import pytest

from keras_bert_impl.data.phrase_table import PhraseTable
from keras_bert_impl.objectives.base import Objective, check_objectives
from keras_bert_impl.objectives.discourse_relation import DiscourseRelation
from keras_bert_impl.objectives.masked_lm import MaskedLM
from keras_bert_impl.objectives.sentence_order import SentenceOrder
from keras_bert_impl.objectives.sentence_reordering import SentenceReordering
from keras_bert_impl.objectives.table import OBJECTIVES, default_objectives
from tests import small

CHANGED = [
    MaskedLM(mask_rate=0.2, max_predictions=7, unit="phrase", max_ngram=2, marked_text=True),
    DiscourseRelation(["but", "so"], weight=0.5),
    SentenceReordering(max_segments=2),
]


@pytest.mark.parametrize(
    "objective", [*(cls() for cls in OBJECTIVES.values()), *CHANGED], ids=lambda o: o.name
)
def test_an_objective_comes_again_from_its_config(objective):
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(objective))
    assert type(again) is type(objective)
    assert vars(again) == vars(objective)


def test_a_phrase_table_is_not_saved():
    table = PhraseTable(small.tokenizer(), phrases=["the cat"])
    objective = MaskedLM(unit="phrase", phrases=table)
    assert MaskedLM.from_config(objective.get_config()).phrases is None


def test_names_are_those_of_the_table():
    assert all(cls.name == name for name, cls in OBJECTIVES.items())
    assert [o.name for o in check_objectives(default_objectives())] == [
        "masked_lm",
        "next_sentence",
    ]


def test_the_number_of_classes_follows_the_options():
    assert SentenceReordering(2).num_classes == 3
    assert DiscourseRelation(["but", "so"]).num_classes == 2


def test_impossible_objectives():
    with pytest.raises(ValueError, match="weight=0 must be above 0"):
        SentenceOrder(weight=0)
    with pytest.raises(ValueError, match="no objectives"):
        check_objectives([])
    with pytest.raises(ValueError, match="two objectives 'sentence_order'"):
        check_objectives([SentenceOrder(), SentenceOrder()])
    with pytest.raises(ValueError, match="is no objective"):
        check_objectives([SentenceOrder])
    with pytest.raises(ValueError, match="Unknown unit 'word'"):
        MaskedLM(unit="word")
    with pytest.raises(ValueError, match="from one of them"):
        MaskedLM(phrases=object(), marked_text=True)
    with pytest.raises(ValueError, match="'but' is there twice"):
        DiscourseRelation(["but", "But"])
    with pytest.raises(NotImplementedError):
        Objective().head(None)
