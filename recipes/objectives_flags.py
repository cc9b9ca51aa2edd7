"""Flags of pretrain.py that say what a model is pretrained for; see docs/objectives.md."""

from absl import app, flags

import keras_bert_impl as kbi

_OBJECTIVES = flags.DEFINE_list(
    "objectives",
    ["masked_lm", "next_sentence"],
    f"What to train for, side by side; of {', '.join(kbi.OBJECTIVES)}. Those that make rows take "
    "turns, a batch each.",
)
_TASKS = flags.DEFINE_list(
    "tasks",
    None,
    "What a step can train, in the order of a schedule: objectives, joined by + where they are "
    "trained together. Default: each that makes rows, with all those of tokens.",
)
_SCHEDULE = flags.DEFINE_enum(
    "task_schedule",
    "multi_task",
    ["multi_task", "sequential", "continual"],
    "Which task a step trains: any from the first on, one task after another, or in each stage one "
    "more, while those before go on.",
)
_TASK_STEPS = flags.DEFINE_list("task_steps", None, "Steps of each task. Default: all alike.")
_TASK_EMBEDDINGS = flags.DEFINE_bool(
    "task_embeddings", False, "Add a vector of its task to all tokens of a row."
)

_MASK_UNIT = flags.DEFINE_enum("mask_unit", "piece", kbi.UNITS, "What is masked as a whole.")
_WHOLE_WORD = flags.DEFINE_bool("whole_word", False, "The same as --mask_unit=whole_word.")
_PHRASES = flags.DEFINE_string("phrases", None, "File of phrases to find, one a line.")
_ENTITIES = flags.DEFINE_string("entities", None, "File of entities to find, one a line.")
_MARKED_TEXT = flags.DEFINE_bool(
    "marked_text", False, "Phrases are marked in the text as [[phrase]], entities as {{entity}}."
)
_MAX_SEGMENTS = flags.DEFINE_integer("max_segments", 3, "Most segments of sentence_reordering.")
_CLICK_LOG = flags.DEFINE_string(
    "click_log",
    None,
    "Table of query, title and clicked: rows of ir_relevance instead of headings.",
)
_DISCOURSE_PAIRS = flags.DEFINE_string(
    "discourse_pairs",
    None,
    "Table of sentence1, sentence2 and label: rows of discourse_relation instead of the text's.",
)
_FILES = {
    "phrases": _PHRASES,
    "entities": _ENTITIES,
    "click_log": _CLICK_LOG,
    "discourse_pairs": _DISCOURSE_PAIRS,
}


def mask_unit() -> str:
    """What is masked as a whole."""
    return "whole_word" if _WHOLE_WORD.value else _MASK_UNIT.value


def chosen_objectives(tokenizer, masking):
    """The objectives, or None for the default pair, which has a dataset of its own.

    Args:
        tokenizer: a `BertTokenizer`.
        masking: dict of the masked LM's options but for its unit.
    """
    names = _OBJECTIVES.value
    if (
        names == _OBJECTIVES.default
        and mask_unit() in ("piece", "whole_word")
        and (_TASKS.value, _TASK_STEPS.value) == (None, None)
        and not (_TASK_EMBEDDINGS.value or _MARKED_TEXT.value)
    ):
        return None
    unknown = [name for name in names if name not in kbi.OBJECTIVES]
    if unknown:
        raise app.UsageError(
            f"Unknown objectives {', '.join(unknown)}. There are {', '.join(kbi.OBJECTIVES)}."
        )
    options = {
        "masked_lm": lambda: {**masking, **masking_units(tokenizer)},
        "sentence_reordering": lambda: {"max_segments": _MAX_SEGMENTS.value},
        "ir_relevance": click_log,
        "discourse_relation": discourse_pairs,
    }
    return [kbi.OBJECTIVES[name](**options.get(name, dict)()) for name in names]


def masking_units(tokenizer):
    phrases = None
    if _PHRASES.value or _ENTITIES.value:
        phrases = kbi.PhraseTable(
            tokenizer,
            phrases=kbi.read_phrases(_PHRASES.value) if _PHRASES.value else (),
            entities=kbi.read_phrases(_ENTITIES.value) if _ENTITIES.value else (),
        )
    return {"unit": mask_unit(), "phrases": phrases, "marked_text": _MARKED_TEXT.value}


def click_log():
    path = _CLICK_LOG.value
    return {"click_log": None if path is None else kbi.read_click_log(path)}


def discourse_pairs():
    path = _DISCOURSE_PAIRS.value
    if path is None:
        return {}
    labels = kbi.read_table(path, ["label"]).columns["label"]
    connectives = sorted({label.strip() for label in labels})
    pairs = kbi.read_discourse_pairs(path, connectives=connectives)
    return {"connectives": connectives, "pairs": pairs}


def chosen_schedule(objectives):
    """Which task a step trains, or None where all are trained side by side."""
    name, steps = _SCHEDULE.value, _TASK_STEPS.value
    if objectives is None or (_TASKS.value, steps, name) == (None, None, "multi_task"):
        if name != "multi_task":
            raise app.UsageError(
                f"--task_schedule={name} needs --task_steps, a number for each task."
            )
        return None
    tasks = _TASKS.value or kbi.side_by_side(objectives).get_config()["tasks"]
    if steps is None and name != "multi_task":
        raise app.UsageError(
            f"--task_schedule={name} needs --task_steps, a number for each task: {', '.join(tasks)}."
        )
    if steps is not None and (not all(n.isdigit() for n in steps) or len(steps) != len(tasks)):
        raise app.UsageError(
            f"--task_steps={','.join(steps)} must be a number for each task: {', '.join(tasks)}."
        )
    make = {"multi_task": kbi.multi_task, "sequential": kbi.sequential, "continual": kbi.continual}
    return make[name](tasks, *([] if steps is None else [[int(n) for n in steps]]))


def held_out_schedule(objectives):
    """The tasks that are measured on held-out text, and the objectives that are not.

    Rows of a file were trained on, so they tell nothing here.
    """
    if objectives is None:
        return None, []
    of_files = [o.name for o in objectives if getattr(o, "documents", None) is not None]
    measured = [o for o in objectives if o.name not in of_files]
    if not measured:
        raise app.UsageError(f"--held_out: {', '.join(of_files)} are not measured on text.")
    return kbi.side_by_side(measured), of_files


def num_steps(given, schedule):
    """Steps of the run: as given, or the schedule's.

    Args:
        given: the flag of the run's steps.
        schedule: of `chosen_schedule`.
    """
    if schedule is None or _TASK_STEPS.value is None:
        return given.value
    if not given.present:
        return schedule.num_steps
    if given.value < schedule.num_steps and _SCHEDULE.value != "multi_task":
        raise app.UsageError(
            f"--num_steps={given.value} ends before the schedule, which has {schedule.num_steps}."
        )
    return given.value


def num_tasks(objectives) -> int:
    """Tasks that have a vector each."""
    return len(objectives) if _TASK_EMBEDDINGS.value else 0


def settings(objectives, schedule):
    """What a saved state's continuation depends on; nothing for the default pair.

    States of runs without a flag are older than it, and do not name it.
    """
    if objectives is None:
        return {}
    found = {"objectives": {o.name: o.get_config() for o in objectives}}
    if schedule is not None:
        found["tasks"] = schedule.get_config()
    files = {name: flag.value for name, flag in _FILES.items() if flag.value is not None}
    if files:
        found["objectives_files"] = {n: kbi.file_fingerprint(path) for n, path in files.items()}
    return found
