"""What pretrain.py is told to train for, by flags."""

import pytest
from absl import app, flags
from absl.testing import flagsaver

from recipes import objectives_flags
from tests import small

FLAGS = flags.FLAGS
if not FLAGS.is_parsed():
    FLAGS.mark_as_parsed()
flags.DEFINE_integer("test_num_steps", 1000, "As in pretrain.py.")


def chosen():
    objectives = objectives_flags.chosen_objectives(small.tokenizer(), {"mask_rate": 0.2})
    return objectives, objectives_flags.chosen_schedule(objectives)


def test_the_default_pair_has_a_dataset_of_its_own():
    assert chosen() == (None, None)
    assert objectives_flags.settings(None, None) == {}
    with flagsaver.flagsaver(mask_unit="whole_word"):
        assert chosen() == (None, None)
    for change in ({"mask_unit": "ngram"}, {"task_embeddings": True}, {"task_steps": ["1"]}):
        with flagsaver.flagsaver(**change):
            names = [o.name for o in chosen()[0]]
            assert names == ["masked_lm", "next_sentence"]


def test_options_of_single_objectives(tmp_path):
    (tmp_path / "entities.txt").write_text("the cat\n")
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\na\tb\tso \na\tb\tbut\n")
    with flagsaver.flagsaver(
        objectives=["masked_lm", "sentence_reordering", "discourse_relation", "ir_relevance"],
        mask_unit="entity",
        entities=str(tmp_path / "entities.txt"),
        max_segments=2,
        discourse_pairs=str(tmp_path / "pairs.tsv"),
    ):
        objectives, schedule = chosen()
        assert schedule is None
        masked_lm, reordering, discourse, _ = objectives
        assert (masked_lm.unit, masked_lm.mask_rate, masked_lm.phrases is None) == (
            "entity",
            0.2,
            False,
        )
        assert reordering.max_segments == 2
        assert discourse.connectives == ["but", "so"]
        measured, not_measured = objectives_flags.held_out_schedule(objectives)
        assert not_measured == ["discourse_relation"]
        assert measured.get_config()["tasks"] == [
            "masked_lm+sentence_reordering",
            "masked_lm+ir_relevance",
        ]
        settings = objectives_flags.settings(objectives, schedule)
        assert set(settings["objectives_files"]) == {"entities", "discourse_pairs"}


def test_a_schedule_and_its_steps():
    with flagsaver.flagsaver(
        objectives=["masked_lm", "sentence_order", "sentence_distance"],
        task_schedule="continual",
        task_steps=["4", "2"],
    ):
        objectives, schedule = chosen()
        tasks = ["masked_lm+sentence_order", "masked_lm+sentence_distance"]
        assert schedule.get_config() == {"tasks": tasks, "stages": [[2], [2, 2]]}
        assert objectives_flags.settings(objectives, schedule)["tasks"] == schedule.get_config()
        flag = FLAGS["test_num_steps"]
        assert objectives_flags.num_steps(flag, schedule) == 6
        assert objectives_flags.num_steps(flag, None) == 1000
        flag.parse("5")
        with pytest.raises(app.UsageError, match="--num_steps=5 ends before the schedule, .* 6"):
            objectives_flags.num_steps(flag, schedule)
        flag.parse("9")
        assert objectives_flags.num_steps(flag, schedule) == 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objectives": ["masked"]}, "Unknown objectives masked. There are masked_lm"),
        ({"task_schedule": "sequential"}, "needs --task_steps"),
        ({"task_schedule": "continual", "tasks": ["masked_lm"]}, "each task: masked_lm"),
        ({"task_steps": ["3", "x"]}, "--task_steps=3,x must be a number for each task"),
        ({"task_steps": ["3", "4"]}, "for each task: masked_lm.next_sentence"),
    ],
)
def test_flags_that_do_not_go_together(change, message):
    with flagsaver.flagsaver(**change), pytest.raises(app.UsageError, match=message):
        chosen()
