"""What every task shares: raw text or prepared ids in `fit`, `evaluate`, `predict`, `export`."""

import re
import warnings

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from keras_bert_impl.data.batches import (
    TUPLE_ERROR,
    as_arrays,
    check_id_arrays,
    check_id_batch,
    dataset_of_arrays,
    fill_rows,
    is_prepared,
    refuse_tuple,
    split_arrays,
    with_known_length,
    with_weights,
)
from keras_bert_impl.data.batching import (
    POOL_BATCHES,
    batches_of_like_length,
    batches_of_tokens,
    check_tokens,
    order_of_texts,
    padded_evenly,
)
from keras_bert_impl.data.row_packing import POOL_EXAMPLES, check_sizes, packed_batches
from keras_bert_impl.data.streams import holds_own_rows, steps_in_a_row
from keras_bert_impl.layers.embeddings import with_task_ids
from keras_bert_impl.models.backbone import is_packed
from keras_bert_impl.models.fixed_weights import PredictsFast
from keras_bert_impl.models.preprocessor import pop_options
from keras_bert_impl.models.reading import encoded_where_read
from keras_bert_impl.training.batch_losses import BatchLosses
from keras_bert_impl.training.distribution import (
    num_replicas,
    refuse_idle_distribution,
    worker_position,
)
from keras_bert_impl.training.input_waits import InputWaits
from keras_bert_impl.training.optimizers import BertAdamW
from keras_bert_impl.training.steps import test_step, train_step, whole_batch_loss

BATCH_SIZE = 32  # as keras.Model.fit


class BertTask(PredictsFast, keras_hub.models.Task):
    """A backbone with a head, trained and asked with raw text or with prepared ids.

    `x` may be strings, a dict of string arrays for pairs, a dict of prepared arrays
    (`token_ids`, ...), or a `tf.data.Dataset` of batches of any of these. Preprocessing runs
    as a TensorFlow graph in `tf.data`, whatever the Keras backend.

    Ids outside the token table, rows longer than the position table and labels outside the
    head's range raise an error that names the row, before any step is taken.

    On a backbone with `num_tasks` prepared ids may bring `task_ids`, (rows, 1); rows without, and
    raw text, are of task 0.
    """

    # Subclasses: the name under which checkpoints know the dense layer `output_dense`.
    head_name: str | None = None
    # Subclasses: do the outputs depend on the pooler?
    uses_pooler = True
    # Subclasses: is a row of text one row of ids? Long texts may be cut into several.
    one_row_each = True
    # Subclasses: names of the positions whose vectors `logits` reads, see `models/reading.py`.
    # None: it reads all, or there is no `logits`.
    reads: tuple[str, ...] | None = None
    # Subclasses: have targets one entry a token?
    targets_by_token = False
    # Subclasses: may several examples share a row? Then `logits` makes the outputs.
    packs_rows = False
    # Subclasses: do targets draw random numbers, so that each batch needs a step number?
    draws_targets = False

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._check_vocabulary()
        if self.uses_pooler and self.backbone.causal:
            raise ValueError(
                f"{type(self).__name__} reads the vector of the first position, which in a backbone "
                "with causal=True has seen nothing but itself. Use BertCausalClassifier, or a "
                "backbone with causal=False."
            )

    def __call__(self, inputs, *args, **kwargs):
        return super().__call__(with_task_ids(self, inputs), *args, **kwargs)

    def logits(self, encoded, inputs):
        """The outputs, of a backbone's outputs and the model's inputs, dicts by name."""
        raise NotImplementedError

    def call(self, inputs, training=None, mask=None, **kwargs):
        if is_packed(inputs) and not self.packs_rows:
            raise ValueError(f"{type(self).__name__} takes one example a row.")
        if isinstance(inputs, dict) and self.reads is not None:
            return self.logits(*encoded_where_read(self.backbone, inputs, self.reads))
        if is_packed(inputs):
            return self.logits(self.backbone(inputs), inputs)
        if isinstance(inputs, dict):  # num_examples is for the losses
            inputs = {name: inputs[name] for name in inputs if name != "num_examples"}
        return super().call(inputs, training=training, mask=mask, **kwargs)

    def _check_vocabulary(self) -> None:
        """Raise if the tokenizer could make ids that the token table has no row for."""
        tokenizer = getattr(self.preprocessor, "tokenizer", None)
        if tokenizer is None:
            return
        try:
            size = tokenizer.vocabulary_size()
        except ValueError:  # none yet: a preset's or archive's assets are read after its config
            return
        if size > self.backbone.vocabulary_size:
            raise ValueError(
                f"The tokenizer's vocabulary has {size} tokens, but the backbone's table has "
                f"{self.backbone.vocabulary_size} rows (vocabulary_size). Build the backbone with "
                "at least as many rows, or use the vocabulary it was trained with."
            )

    @classmethod
    def from_preset(cls, preset, load_weights=True, **kwargs):
        """Backbone, head and preprocessor from a preset or from another package's checkpoint.

        Args:
            preset: as in `BertBackbone.from_preset`.
            load_weights: bool. False builds the same model with random weights.
            **kwargs: `init_missing=True` lets a head that the checkpoint lacks start from random
                weights, which is an error otherwise; `lowercase` overrides the tokenizer's;
                the arguments of the constructor, and those of the preprocessor, such as
                `sequence_length`.

        Returns:
            The task. Read from another package's checkpoint it has a `load_report`.

        Raises:
            FileNotFoundError: where nothing is there.
            ValueError: for a checkpoint that is damaged, incomplete or of another model.

        Example:

        >>> masked_lm = BertMaskedLM.from_preset("uncased_L-12_H-768_A-12")
        """
        # The one step from a model to foreign formats; loaded on demand, so that models can be
        # used where nothing is converted.
        from keras_bert_impl.checkpoints import loading

        if loading.is_foreign(cls, preset):
            return loading.from_preset(cls, preset, load_weights, **kwargs)
        loading.settle_classes(preset, kwargs)
        options = pop_options(cls.preprocessor_cls, kwargs)
        if options:
            kwargs["preprocessor"] = cls.preprocessor_cls.from_preset(str(preset), **options)
        return super().from_preset(str(preset), load_weights, **kwargs)

    def compile(
        self,
        optimizer="auto",
        loss="auto",
        *,
        metrics="auto",
        weighted_metrics="auto",
        loss_weights=None,
        accumulation_steps: int = 1,
        **kwargs,
    ):
        """As `keras.Model.compile`; what is left at "auto" is the task's own.

        Losses are means over the whole batch, see `training/batch_losses.py`: on one device or
        many, in one part or several, whatever the parts hold.

        Args:
            optimizer: default `BertAdamW(5e-5)`, without warmup or decay.
            loss, metrics, weighted_metrics: default the task's loss and metrics.
            loss_weights: float, or a dict of them by output name. Default 1.
            accumulation_steps: int. A batch is taken in so many parts, one after another, whose
                gradients are summed before the optimizer's one step: the same step, in the
                memory of a batch so much smaller. On several devices each takes its rows so.

        Raises:
            ValueError: if `accumulation_steps` is below 1, for the optimizer's own
                `gradient_accumulation_steps` under a strategy, or for a loss of an output that
                is not there.
        """
        if isinstance(optimizer, str) and optimizer == "auto":
            optimizer = BertAdamW(5e-5)
        if isinstance(loss, str) and loss == "auto":
            loss = self.default_loss()
        if isinstance(metrics, str) and metrics == "auto":
            metrics = None
        if isinstance(weighted_metrics, str) and weighted_metrics == "auto":
            weighted_metrics = self.default_metrics() if metrics is None else None
        if accumulation_steps < 1:
            raise ValueError(f"accumulation_steps={accumulation_steps} must be at least 1.")
        refuse_idle_distribution()
        self._counts_all_rows = metrics is not None
        if metrics is not None and self._fills_devices:  # rows that fill devices weigh nothing
            weighted_metrics = [*_as_list(weighted_metrics), *_as_list(metrics)]
            metrics = None
        super().compile(
            optimizer=optimizer,
            loss=loss,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            loss_weights=loss_weights,
            **kwargs,
        )
        if num_replicas() > 1 and getattr(self.optimizer, "gradient_accumulation_steps", None):
            raise ValueError(
                "Keras's gradient_accumulation_steps fails under a strategy. Leave it out of the "
                "optimizer and pass accumulation_steps to compile()."
            )
        self.accumulation_steps = accumulation_steps
        output_names = list(self.output) if isinstance(self.output, dict) else None
        self.batch_losses = BatchLosses(loss, loss_weights, output_names)
        # Keras's own object for losses is left with the running means of single outputs' losses,
        # which `metrics` lists; what it computes is computed by `batch_losses`.
        self._compile_loss.built = True
        for part in self.batch_losses.parts:
            if part.output is not None:
                self._compile_loss.metrics.append(keras.metrics.Mean(name=f"{part.output}_loss"))

    @property
    def output_loss_trackers(self):
        """The running means of single outputs' losses, in the order of `batch_losses`."""
        return self._compile_loss.metrics

    def get_compile_config(self):
        config = super().get_compile_config()
        return {**config, "accumulation_steps": self.accumulation_steps}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The loss of a whole batch, as `compile` was told."""
        return whole_batch_loss(self, x, y, y_pred, sample_weight)

    def train_step(self, *args):
        return train_step(self, *args)

    def test_step(self, *args):
        return test_step(self, *args)

    def compile_from_config(self, config):
        """Compile as the saved model was, so that training goes on where it was.

        Keras leaves a model with a `compile` of its own uncompiled, its optimizer's state lost.
        """
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Under tf.distribute: let loss and metrics see the shapes of a batch.

        Keras reads a batch and takes the mean over the devices, which fails for masks of bool
        and where devices get unequal numbers of rows. Shapes alone do.
        """
        if iterator is not None:
            data_batch = iterator.data_adapter.get_tf_dataset().element_spec
        super()._maybe_symbolic_build(data_batch=data_batch)

    def default_loss(self):
        """The loss that `compile` takes when told none."""
        raise NotImplementedError

    def default_metrics(self):
        """The weighted metrics that `compile` takes when told none."""
        raise NotImplementedError

    def check_labels(self, y) -> None:
        """Raise a ValueError naming the first row of the array `y` that is no label here."""

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        sample_weight=None,
        validation_data=None,
        validation_split=None,
        shuffle=True,
        group_by_length=True,
        examples_per_row: int = 1,
        tokens_per_batch: int | None = None,
        **kwargs,
    ):
        """As `keras.Model.fit`.

        A batch's loss is the same mean over its examples however these share rows.

        Args:
            shuffle: bool. Arrays are shuffled anew each epoch.
            group_by_length: bool. Rows of raw text of like length share a batch, see
                `data/batching.py`, so that little of it is padding. Needs `shuffle` and a
                preprocessor that pads to the longest row.
            examples_per_row: int. Above 1, at most so many examples of an array share a row of the
                preprocessor's sequence_length, or of prepared ids' width, see
                `data/row_packing.py`. `batch_size` counts such rows; all batches have one shape.
                Validation data keeps one example a row.
            tokens_per_batch: int, instead of `batch_size`, of arrays. Batches have as many rows as
                fit into so many tokens, padding counted. With one example a row they are of few
                lengths, each with its number of rows, see `batches_of_tokens`.

        Raises:
            ValueError: for options that do not go together, and as `prepared_dataset`.
        """
        if validation_split and validation_data is None:
            if isinstance(x, tf.data.Dataset):
                raise ValueError("validation_split needs arrays; x is a tf.data.Dataset.")
            (x, y, sample_weight), validation_data = split_arrays(
                x, y, sample_weight, validation_split
            )
        if examples_per_row != 1 or tokens_per_batch is not None:
            dataset = self.full_dataset(
                x, y, sample_weight, batch_size, shuffle, examples_per_row, tokens_per_batch
            )
        elif shuffle and group_by_length and self._groups_by_length(x):
            dataset = self._grouped_dataset(x, y, sample_weight, batch_size or BATCH_SIZE)
        else:
            dataset = self.prepared_dataset(x, y, sample_weight, batch_size, shuffle=shuffle)
            if not isinstance(x, tf.data.Dataset):
                dataset = with_known_length(dataset)
        dataset = self._for_devices(dataset)
        for callback in kwargs.get("callbacks") or ():
            if isinstance(callback, InputWaits):
                dataset = callback.measured(dataset)
        if validation_data is not None and not isinstance(validation_data, tf.data.Dataset):
            held_x, held_y, held_weight = keras.utils.unpack_x_y_sample_weight(validation_data)
            validation_data = self._asked(held_x, held_y, held_weight, batch_size)
        elif validation_data is not None:
            validation_data = self.prepared_dataset(validation_data)
        if validation_data is not None:
            validation_data = with_known_length(validation_data)
        with warnings.catch_warnings():
            if not self.uses_pooler:
                message = "Gradients do not exist for variables .*pooler"
                warnings.filterwarnings("ignore", message=message)
            # The dataset is shuffled already; Keras would warn that it does not.
            return super().fit(
                dataset,
                validation_data=self._for_devices(validation_data),
                shuffle=False,
                **kwargs,
            )

    @property
    def _fills_devices(self) -> bool:
        """Whether batches must be a multiple of the devices: JAX cuts them into equal parts."""
        return keras.backend.backend() == "jax" and num_replicas() > 1

    def _for_devices(self, dataset):
        """A dataset of global batches as the devices in scope can share them."""
        if dataset is None:
            return None
        spec = dataset.element_spec
        counts_examples = isinstance(spec, tuple) and "num_examples" in spec[0]
        if counts_examples and getattr(self, "_counts_all_rows", False):
            raise ValueError(
                "These batches have rows or places without an example, which metrics would count. "
                "Pass weighted_metrics to compile() in place of metrics."
            )
        if self._fills_devices:
            replicas = num_replicas()
            if holds_own_rows(dataset):
                keras.distribution.distribution().auto_shard_dataset = False
                replicas //= worker_position()[1]
            return _map(dataset, lambda *batch: fill_rows(batch, replicas))
        if holds_own_rows(dataset):
            # TensorFlow cuts what a machine gives into parts for all machines, one a step.
            return steps_in_a_row(dataset, worker_position()[1])
        # Of several machines each makes all batches and takes its rows of each. Left to itself
        # TensorFlow gives each machine other files, hence other batches than one machine has.
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
        return dataset.with_options(options)

    def _groups_by_length(self, x) -> bool:
        """Whether x is raw text, rows of which are padded no further than a batch needs."""
        is_raw = not (isinstance(x, tf.data.Dataset) or is_prepared(x))
        padding = getattr(self.preprocessor, "padding", None)
        return is_raw and padding == "longest" and not self.draws_targets

    def _grouped_dataset(self, x, y, sample_weight, batch_size) -> tf.data.Dataset:
        pools = self.prepared_dataset(x, y, sample_weight, POOL_BATCHES * batch_size, shuffle=True)
        dataset = batches_of_like_length(pools, batch_size, targets_by_token=self.targets_by_token)
        if self.one_row_each:
            rows = len(next(iter(x.values())) if isinstance(x, dict) else x)
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(-(-rows // batch_size)))
        return with_known_length(dataset).prefetch(2)

    def full_dataset(
        self,
        x,
        y=None,
        sample_weight=None,
        batch_size=None,
        shuffle=False,
        examples_per_row: int = 1,
        tokens_per_batch: int | None = None,
    ) -> tf.data.Dataset:
        """As `prepared_dataset`, in batches of few shapes with next to no padding; see `fit`."""
        if examples_per_row == 1 and tokens_per_batch is None:
            return self.prepared_dataset(x, y, sample_weight, batch_size, shuffle)
        self._check_full(x, y, batch_size, examples_per_row, tokens_per_batch)
        if is_prepared(x):
            row_length = np.shape(x["token_ids"])[-1]
        else:
            row_length = self.preprocessor.sequence_length
        check_sizes(row_length, examples_per_row)
        if tokens_per_batch is not None:
            check_tokens(tokens_per_batch, row_length)
        if tokens_per_batch is not None and examples_per_row == 1:
            pools = self.prepared_dataset(x, y, sample_weight, POOL_EXAMPLES, shuffle=shuffle)
            dataset = batches_of_tokens(
                _map(pools, with_weights),
                tokens_per_batch,
                sequence_length=row_length,
                targets_by_token=self.targets_by_token,
            )
            return with_known_length(dataset).prefetch(2)
        # The same pools in each epoch, so that each has as many rows.
        arguments = (x, y, sample_weight, POOL_EXAMPLES, "once" if shuffle else False)
        if self.draws_targets:  # in rows that are full
            pools = _map(self._batches(*arguments), self.preprocessor.without_targets)
        else:
            pools = self.prepared_dataset(*arguments)
        batches = packed_batches(
            pools,
            (tokens_per_batch or 0) // row_length or batch_size or BATCH_SIZE,
            row_length=row_length,
            examples_per_row=examples_per_row,
            shuffle=shuffle,
            targets_by_token=self.targets_by_token,
        )
        if self.draws_targets:
            batches = self._with_steps(batches, self.preprocessor.with_targets)
        return with_known_length(batches).prefetch(2)

    def _check_full(self, x, y, batch_size, examples_per_row, tokens_per_batch) -> None:
        if isinstance(x, tf.data.Dataset) or x is None:
            raise ValueError("examples_per_row and tokens_per_batch need x as arrays.")
        if batch_size is not None and tokens_per_batch is not None:
            raise ValueError("Pass batch_size or tokens_per_batch: each says how large a batch is.")
        if y is None and not self.draws_targets:
            raise ValueError("y is missing.")
        if not is_prepared(x) and self.preprocessor is None:
            self._preprocessed(None)  # says so
        if examples_per_row == 1:
            return
        if not self.packs_rows:
            raise ValueError(f"{type(self).__name__} takes one example a row: examples_per_row=1.")
        if is_prepared(x) and self.draws_targets:
            raise ValueError(
                "Rows of several examples are masked once they are full. Pass raw text, or a "
                "dataset that pretraining_dataset(examples_per_row=...) made."
            )

    def evaluate(self, x=None, y=None, batch_size=None, sample_weight=None, **kwargs):
        """As `keras.Model.evaluate`."""
        if not kwargs.get("_use_cached_eval_dataset"):
            x = with_known_length(self._asked(x, y, sample_weight, batch_size))
            x = self._for_devices(x)
            y = sample_weight = None
        return super().evaluate(x, y, sample_weight=sample_weight, **kwargs)

    def predict(self, x=None, batch_size=None, **kwargs):
        """As `keras.Model.predict`: every row comes back, in order.

        Raw texts are asked by length, so that little of a batch is padding.
        """
        order = None
        if self._sorts_by_length(x) and kwargs.get("steps") is None:
            order = order_of_texts(x, batch_size or BATCH_SIZE)
        if order is not None:
            x = keras.tree.map_structure(lambda rows: rows[order], as_arrays(x))
        dataset = self._for_devices(self._asked(x, batch_size=batch_size))
        outputs = super().predict(dataset, **kwargs)
        if self._fills_devices:
            outputs = self._without_filling(outputs, dataset)
        if order is None:
            return outputs
        places = np.argsort(order)
        return keras.tree.map_structure(lambda rows: rows[places], outputs)

    def _asked(self, x, y=None, sample_weight=None, batch_size=None) -> tf.data.Dataset:
        """As `prepared_dataset`; batches of texts have few lengths, since each is compiled for."""
        dataset = self.prepared_dataset(x, y=y, sample_weight=sample_weight, batch_size=batch_size)
        if not self._sorts_by_length(x):
            return dataset
        longest = self.preprocessor.sequence_length

        def padded(x, *targets):
            x = padded_evenly(x, longest)
            return (x, *targets) if targets else x

        return _map(dataset, padded)

    def _sorts_by_length(self, x) -> bool:
        """Whether `predict` may ask in another order and length: each row for itself, not by token."""
        return self._groups_by_length(x) and self.one_row_each and not self.targets_by_token

    @staticmethod
    def _without_filling(outputs, dataset):
        """The outputs of real rows."""
        masks = (keras.utils.unpack_x_y_sample_weight(b)[0]["padding_mask"] for b in dataset)
        real = np.concatenate([np.any(m, axis=tuple(range(1, m.ndim))) for m in masks])
        return keras.tree.map_structure(lambda rows: rows[real], outputs)

    # KerasHub's own make a tensor of y, which with two heads is a dict; so Keras's are called.

    def train_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """As `keras.Model.train_on_batch`, on raw text or prepared ids."""
        x, y, sample_weight = self._one_batch(x, y, sample_weight)
        return keras.Model.train_on_batch(self, x, y, sample_weight, **kwargs)

    def test_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """As `keras.Model.test_on_batch`, on raw text or prepared ids."""
        x, y, sample_weight = self._one_batch(x, y, sample_weight)
        return keras.Model.test_on_batch(self, x, y, sample_weight, **kwargs)

    def predict_on_batch(self, x, **kwargs):
        """As `keras.Model.predict_on_batch`, on raw text or prepared ids."""
        return super().predict_on_batch(self._one_batch(x, None, None)[0], **kwargs)

    def _one_batch(self, x, y, sample_weight):
        rows = len(next(iter(x.values()))) if isinstance(x, dict) else len(x)
        dataset = self.prepared_dataset(x, y, sample_weight, batch_size=max(rows, 1))
        batch = next(dataset.as_numpy_iterator())
        return keras.utils.unpack_x_y_sample_weight(batch)

    def preprocess_samples(self, x, y=None, sample_weight=None):
        """Prepared batches pass; `prepared_dataset` has done the work by now."""
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)

    def prepared_dataset(
        self, x, y=None, sample_weight=None, batch_size=None, shuffle=False
    ) -> tf.data.Dataset:
        """Whatever `fit` takes, as a dataset of checked batches of ids.

        Args:
            x, y, sample_weight: as in `fit`.
            batch_size: int, default `BATCH_SIZE`. Must be None where x is a dataset.
            shuffle: bool, or `"once"`. Arrays only: another order each time the dataset is read,
                or the same one.

        Raises:
            ValueError: for tuples of texts, unequal numbers of rows, or labels and ids out of
                range.
        """
        dataset = self._batches(x, y, sample_weight, batch_size, shuffle)
        if not is_prepared(dataset):
            one_batch = not isinstance(x, tf.data.Dataset) and int(dataset.cardinality()) == 1
            drawn_anew = shuffle or self.draws_targets  # each time that the dataset is read
            at_once = y is None and one_batch and not drawn_anew
            dataset = self._preprocessed(dataset, at_once)
        return _map(dataset, self._check_batch).prefetch(2)

    def _batches(self, x, y, sample_weight, batch_size, shuffle) -> tf.data.Dataset:
        """Whatever `fit` takes, in batches as it is."""
        if isinstance(x, tf.data.Dataset):
            given = {"y": y, "sample_weight": sample_weight, "batch_size": batch_size}
            for name, value in given.items():
                if value is not None:
                    raise ValueError(
                        f"x is a tf.data.Dataset, whose batches already hold all, but {name} was "
                        "passed too. Leave it out."
                    )
            return x
        x, y, sample_weight = map(as_arrays, (refuse_tuple(x), y, sample_weight))
        if x is None:
            raise ValueError("x is missing.")
        if y is not None:
            self.check_labels(y)
        if is_prepared(x):
            check_id_arrays(x, self._tables, self.backbone.max_sequence_length)
        return dataset_of_arrays(
            x, y, sample_weight, batch_size=batch_size or BATCH_SIZE, shuffle=shuffle
        )

    def _preprocessed(self, dataset, at_once=False):
        """Batches of raw text as ids; a single one, `at_once`, without building a graph for it."""
        if self.preprocessor is None:
            raise ValueError(
                f"{type(self).__name__} received raw text but has no preprocessor. Pass one to "
                "its constructor, or pass prepared ids: a dict with token_ids, segment_ids and "
                "padding_mask."
            )
        self._check_vocabulary()
        spec = dataset.element_spec
        if isinstance(spec, tuple) and any(s.dtype == tf.string for s in tf.nest.flatten(spec[1:])):
            raise ValueError(f"The labels of this dataset are strings. {TUPLE_ERROR}")
        if at_once:
            batch = self.preprocessor(refuse_tuple(next(iter(dataset))))
            return tf.data.Dataset.from_tensors(batch)
        if not self.draws_targets:
            return _map(dataset, lambda x, *labels: self.preprocessor(refuse_tuple(x), *labels))
        return self._with_steps(dataset, self.preprocessor)

    def _with_steps(self, dataset, preprocess):
        """Each batch preprocessed with a step number of its own."""
        # A fresh number for each batch of each epoch, the same in every run with this seed.
        steps = tf.data.Dataset.random(self.preprocessor.seed, rerandomize_each_iteration=True)

        def with_step(step, batch):
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
            # Any int32: the masker takes it as one half of a seed.
            step = tf.cast(step % (2**31 - 1), tf.int32)
            return preprocess(refuse_tuple(x), y=y, sample_weight=sample_weight, step=step)

        return _map(tf.data.Dataset.zip(steps, dataset), with_step)

    def _check_batch(self, *batch):
        x = check_id_batch(batch[0], self._tables, self.backbone.max_sequence_length)
        return x if len(batch) == 1 else (x, *batch[1:])

    @property
    def _tables(self) -> dict[str, int]:
        return {
            "token_ids": self.backbone.vocabulary_size,
            "segment_ids": self.backbone.num_segments,
            **({"task_ids": self.backbone.num_tasks} if self.backbone.num_tasks else {}),
            "position_ids": self.backbone.max_sequence_length,
        }

    def serve(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Raw texts to what a served model answers, as a TensorFlow graph.

        Args:
            texts: string tensors by the names of the preprocessor's `text_specs`.

        Returns:
            As `serve_ids`. A task with richer answers gives those.
        """
        names = self.preprocessor.text_names
        return self.serve_ids(
            self.preprocessor.texts_to_inputs(tuple(texts[name] for name in names))
        )

    def serve_ids(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Prepared ids to what a served model answers, as a TensorFlow graph.

        Args:
            inputs: the model's inputs.

        Returns:
            What `answer` gives, and `label`, string, of the likeliest class where the task has
            class names.
        """
        answers = self.answer(self(inputs, training=False))
        class_names = getattr(self, "class_names", None)
        if class_names is not None and "probabilities" in answers:
            likeliest = tf.argmax(answers["probabilities"], axis=-1)
            answers = {**answers, "label": tf.gather(tf.constant(class_names), likeliest)}
        return answers

    def quantize(self, mode=None, config=None, filters=None, **kwargs):
        """As `keras.Model.quantize`, of the dense layers and tables that can be.

        The preprocessor, which Keras would take for a layer too, stays as it is.
        """
        names = [filters] if isinstance(filters, str) else filters

        def is_chosen(layer):
            if type(layer) not in (keras.layers.Dense, keras.layers.Embedding):
                return False
            if filters is None or callable(filters):
                return filters is None or filters(layer)
            return any(re.search(name, layer.name) for name in names)

        super().quantize(mode, config=config, filters=is_chosen, **kwargs)

    def export(self, filepath, format="tf_saved_model", weights=None, constants=False, **kwargs):
        """Write what another program can serve.

        Args:
            filepath: str. A folder for a SavedModel.
            format: str. `"tf_saved_model"` writes a SavedModel that takes raw strings and one
                that takes ids, see `serving/saved_model.py`; anything else is Keras's own
                export of the bare model.
            weights: str. For a SavedModel `"float32"` or `"bfloat16"`, see
                `serving/saved_model.py`. Default as the task is.
            constants: bool. For a SavedModel: matrices as constants, which is faster on CPUs and
                takes more memory.
        """
        if format != "tf_saved_model":
            if weights is not None or constants:
                given = f"constants={constants}" if weights is None else f"weights={weights!r}"
                raise ValueError(f"{given} is for tf_saved_model, not for {format}.")
            super().export(filepath, format=format, **kwargs)
            return
        # The one step from a model to what serves it; loaded on demand, so that models can
        # be used where nothing is exported.
        from keras_bert_impl.serving.saved_model import export_saved_model

        export_saved_model(self, filepath, weights, constants)


def _as_list(metrics) -> list:
    return [] if metrics is None else metrics if isinstance(metrics, list) else [metrics]


def _map(dataset: tf.data.Dataset, function) -> tf.data.Dataset:
    """`dataset.map` in parallel, with errors of the function as they were raised."""
    function = tf.autograph.experimental.do_not_convert(function)
    return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)
