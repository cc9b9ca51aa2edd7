"""Training by steps into a preset, once: what is finished stays, what was stopped goes on."""

import functools
import json
import pathlib

import fine_tuning
import numpy as np

import keras_bert_impl as kbi


def train_once(make_model, make_dataset, folder, schedule, settings, keep=None, **adam):
    """Train a model by steps, unless that was done.

    Args:
        make_model: function that gives a model, not compiled.
        make_dataset: function of the number of steps done, to the batches that follow.
        folder: path, of all that is written.
        schedule: the learning rate by step; its `num_steps` are trained. None trains nothing.
        settings: dict of JSON values that a stopped run must have been begun with.
        keep: function of the model to what is saved, default the model itself.
        **adam: more arguments of `BertAdamW`.

    Returns:
        (path of the preset, dict of the `tokens` seen and of the `seconds` that it took).
    """
    folder = pathlib.Path(folder)
    preset, record = folder / "model", folder / "training.json"
    if not preset.exists():
        print(f"\n--- {folder.name}", flush=True)
        model = make_model()
        cost = {"tokens": 0, "seconds": 0.0}
        if schedule is not None:
            make_dataset = functools.cache(make_dataset)  # its graph takes seconds, serves twice
            model.compile(optimizer=kbi.BertAdamW(schedule, **adam))
            steps = schedule.num_steps
            kbi.fit_steps(
                model,
                make_dataset,
                num_steps=steps,
                epoch_steps=min(steps, 100),
                folder=folder,
                settings={**settings, "schedule": schedule.get_config(), **adam},
                keep=1,
                monitor=None,
            )
            log = kbi.read_table(folder / "log.csv", ["seconds"])
            cost["seconds"] = round(sum(kbi.check_numbers(log, "seconds")), 1)
            batches = make_dataset(0).take(20).as_numpy_iterator()
            cost["tokens"] = round(np.mean([x["padding_mask"].sum() for x, *_ in batches]) * steps)
        folder.mkdir(parents=True, exist_ok=True)
        fine_tuning.write_json(record, cost)
        fine_tuning.save_model(model if keep is None else keep(model), preset)
    return preset, json.loads(record.read_text(encoding="utf-8"))


def train_causal_lm(
    make_model, documents, tokenizer, folder, schedule, *, batch_size, length, seed, **adam
):
    """`train_once` of a `BertCausalLM` on the text of documents."""

    def batches(step):
        return kbi.causal_pretraining_dataset(
            documents,
            tokenizer,
            sequence_length=length,
            batch_size=batch_size,
            seed=seed,
            start_step=step,
        )

    settings = {"batch_size": batch_size, "sequence_length": length, "seed": seed}
    return train_once(make_model, batches, folder, schedule, settings, **adam)
