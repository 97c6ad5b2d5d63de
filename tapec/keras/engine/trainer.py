"""``fit``, ``evaluate`` and ``predict``: Keras' loops around compiled steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import callbacks as callbacks_module
from keras.src import optimizers as optimizers_module
from keras.src import tree
from keras.src.backend import config
from keras.src.trainers import trainer as base_trainer
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from keras.src.utils import traceback_utils
from keras.src.utils.python_utils import pythonify_logs

import tapec
from tapec.keras.engine.batches import Batches
from tapec.keras.engine.conversion import convert_to_numpy, convert_to_tensor
from tapec.keras.engine.ops.core import shape as sizes_of
from tapec.keras.engine.steps import CompiledSteps, plainly
from tapec.tensor import Tensor

Steps = Callable[[list[Any]], Any]


#: Called so in Keras before 3.16, and since then.
_Base: Any = getattr(base_trainer, "BaseTrainer", None) or base_trainer.Trainer


class Trainer(_Base):
    """What Keras mixes into its models: steps, made of tapes, and the loops around them."""

    #: What `fit` validates by, kept from epoch to epoch.
    _eval_epoch_iterator: Batches | None

    def __init__(self) -> None:
        super().__init__()
        self.train_function: Steps | None = None
        self.test_function: Steps | None = None
        self.predict_function: Steps | None = None

    # -- steps

    def _forward(self, x: Any, training: bool) -> Any:
        return self(x, training=training) if self._call_has_training_arg else self(x)

    def _measured(self, data: Any, training: bool) -> tuple[Any, Any]:
        """The loss, told to its metric, and what the other metrics are computed of."""
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        y_pred = self._forward(x, training)
        loss = self._compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
        )
        first = next(leaf for leaf in tree.flatten(x) if leaf is not None)
        self._loss_tracker.update_state(loss, sample_weight=sizes_of(first)[0])
        return loss, (x, y, y_pred, sample_weight)

    def train_step(self, data: Any) -> Any:
        """One step of gradient descent; models may have their own.

        Args:
            data: ``x``, ``(x, y)`` or ``(x, y, sample_weight)``.

        Returns:
            The metrics so far, by name.
        """
        with tapec.GradientTape() as tape:
            loss, parts = self._measured(data, training=True)
            if self.optimizer is not None:
                loss = self.optimizer.scale_loss(loss)
        if self.trainable_weights:
            weights = self.trainable_weights
            gradients = tape.gradient(loss, weights)
            self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        else:
            warnings.warn("The model does not have any trainable weights.", stacklevel=2)
        x, y, y_pred, sample_weight = parts
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data: Any) -> Any:
        """The metrics so far, with those of a batch; models may have their own."""
        _, (x, y, y_pred, sample_weight) = self._measured(data, training=False)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def predict_step(self, data: Any) -> Any:
        """What the model gives for a batch; models may have their own."""
        x, _, _ = data_adapter_utils.unpack_x_y_sample_weight(data)
        return self._forward(x, training=False)

    def make_train_function(self, force: bool = False) -> None:
        """Make ``train_function``, of a list of batches, if there is none or ``force``."""
        if self.train_function is None or force:
            self.train_function = self._steps(self.train_step)

    def make_test_function(self, force: bool = False) -> None:
        """Make ``test_function``; see `make_train_function`."""
        if self.test_function is None or force:
            self.test_function = self._steps(self.test_step)

    def make_predict_function(self, force: bool = False) -> None:
        """Make ``predict_function``; see `make_train_function`."""
        if self.predict_function is None or force:
            self.predict_function = self._steps(self.predict_step, _joined)

    def _steps(self, step: Callable[[Any], Any], join: Any = None) -> Steps:
        return plainly(step, join) if self.run_eagerly else CompiledSteps(step, join)

    # -- loops

    @traceback_utils.filter_traceback
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
    ) -> Any:
        """Train for a number of epochs; see Keras."""
        self._assert_compile_called("fit")
        epochs = _capped(epochs)
        self._eval_epoch_iterator = None
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = array_slicing.train_validation_split(
                (x, y, sample_weight), validation_split=validation_split
            )
        validation = None
        if validation_data is not None:
            parts = data_adapter_utils.unpack_x_y_sample_weight(validation_data)
            validation = _Validation(
                parts, validation_batch_size or batch_size, validation_steps, validation_freq
            )
        batches = Batches(
            x=x,
            y=y,
            sample_weight=sample_weight,
            batch_size=batch_size,
            steps_per_epoch=steps_per_epoch,
            shuffle=shuffle,
            class_weight=class_weight,
            steps_per_execution=self.steps_per_execution,
        )
        self._build_by(batches)
        heard = self._callbacks(callbacks, batches, verbose, epochs, add_history=True)
        self.stop_training = False
        self.make_train_function()
        heard.on_train_begin()
        try:
            logs = self._train(heard, batches, validation, initial_epoch, epochs)
        finally:
            self._eval_epoch_iterator = None
        if isinstance(self.optimizer, optimizers_module.Optimizer) and epochs > 0:
            self.optimizer.finalize_variable_values(self.trainable_weights)
        heard.on_train_end(logs=logs)
        return self.history

    def _train(
        self,
        heard: Any,
        batches: Batches,
        validation: _Validation | None,
        initial_epoch: int,
        epochs: int,
    ) -> Any:
        found: Any = None
        for epoch in range(self._initial_epoch or initial_epoch, epochs):
            self.reset_metrics()
            heard.on_epoch_begin(epoch)
            logs: Any = {}
            train = self.train_function
            for begin, end, data in batches:
                heard.on_train_batch_begin(begin)
                logs = train(data)  # type: ignore[misc]
                heard.on_train_batch_end(end, logs)
                if self.stop_training:
                    break
            found = dict(self._get_metrics_result_or_logs(logs))
            if validation is not None and self._should_eval(epoch, validation.freq):
                found.update(self._validated(validation, heard))
            heard.on_epoch_end(epoch, found)
            if self.stop_training:
                break
        return found

    def _validated(self, validation: _Validation, heard: Any) -> dict[str, Any]:
        x, y, sample_weight = validation.parts
        if self._eval_epoch_iterator is None:
            self._eval_epoch_iterator = Batches(
                x=x,
                y=y,
                sample_weight=sample_weight,
                batch_size=validation.batch_size,
                steps_per_execution=self.steps_per_execution,
                steps_per_epoch=validation.steps,
                shuffle=False,
            )
        logs = self.evaluate(
            x=x,
            y=y,
            sample_weight=sample_weight,
            batch_size=validation.batch_size,
            steps=validation.steps,
            callbacks=heard,
            return_dict=True,
            _use_cached_eval_dataset=True,
        )
        return {f"val_{name}": value for name, value in logs.items()}

    @traceback_utils.filter_traceback
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        **kwargs: Any,
    ) -> Any:
        """The metrics over all data; see Keras."""
        self._assert_compile_called("evaluate")
        is_part_of_fit = kwargs.pop("_use_cached_eval_dataset", False)
        if kwargs:
            raise ValueError(f"Arguments not recognized: {kwargs}")
        batches = self._eval_epoch_iterator if is_part_of_fit else None
        if batches is None:
            batches = Batches(
                x=x,
                y=y,
                sample_weight=sample_weight,
                batch_size=batch_size,
                steps_per_epoch=steps,
                shuffle=False,
                steps_per_execution=self.steps_per_execution,
            )
        self._build_by(batches)
        heard = self._callbacks(callbacks, batches, verbose, 1)
        self.make_test_function()
        self.stop_evaluating = False
        heard.on_test_begin()
        logs: Any = {}
        self.reset_metrics()
        test = self.test_function
        for begin, end, data in batches:
            heard.on_test_batch_begin(begin)
            logs = test(data)  # type: ignore[misc]
            heard.on_test_batch_end(end, logs)
            if self.stop_evaluating:
                break
        logs = pythonify_logs(self._get_metrics_result_or_logs(logs))
        heard.on_test_end(logs)
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    @traceback_utils.filter_traceback
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """What the model gives for all data, as arrays; see Keras."""
        batches = Batches(
            x=x,
            batch_size=batch_size,
            steps_per_epoch=steps,
            shuffle=False,
            steps_per_execution=self.steps_per_execution,
        )
        heard = self._callbacks(callbacks, batches, verbose, 1)
        self.make_predict_function()
        self.stop_predicting = False
        heard.on_predict_begin()
        found: list[Any] = []
        predict = self.predict_function
        for begin, end, data in batches:
            heard.on_predict_batch_begin(begin)
            outputs = predict(data)  # type: ignore[misc]
            found.append(tree.map_structure(convert_to_numpy, outputs))
            heard.on_predict_batch_end(end, {"outputs": outputs})
            if self.stop_predicting:
                break
        heard.on_predict_end()
        return tree.map_structure(lambda *parts: np.concatenate(parts), *found)

    # -- single batches

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """One step of training, and its metrics; see Keras."""
        self._assert_compile_called("train_on_batch")
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError(
                    "Arguments `sample_weight` and `class_weight` cannot be specified at the same time. Received: "
                    f"sample_weight={sample_weight}, class_weight={class_weight}"
                )
            sample_weight = data_adapter_utils.class_weight_to_sample_weights(y, class_weight)
        data = _as_tensors((x, y, sample_weight))
        self._build_of(data)
        self.make_train_function()
        self.reset_metrics()
        return self._reported(self.train_function([data]), return_dict)  # type: ignore[misc]

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """The metrics of a batch; see Keras."""
        self._assert_compile_called("test_on_batch")
        data = _as_tensors((x, y, sample_weight))
        self._build_of(data)
        self.make_test_function()
        self.reset_metrics()
        return self._reported(self.test_function([data]), return_dict)  # type: ignore[misc]

    def _reported(self, logs: Any, return_dict: bool) -> Any:
        logs = pythonify_logs(logs)
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    def predict_on_batch(self, x: Any) -> Any:
        """What the model gives for a batch, as arrays. See Keras."""
        self.make_predict_function()
        outputs = self.predict_function([(_as_tensors(x),)])  # type: ignore[misc]
        return tree.map_structure(convert_to_numpy, outputs)

    # -- the rest

    def _build_by(self, batches: Batches) -> None:
        """Make the state of model, metrics and optimizer, by a batch, so that steps make none."""
        if not self._is_built():
            self._build_of(_as_tensors(batches.first()))
        batches.reset()

    def _build_of(self, data: Any) -> None:
        """The same, by the tensors of a batch.

        A model with a step of its own need not be one that can be called. What is missing is made in its first step,
        which also says what is wrong, if anything is.
        """
        try:
            self._symbolic_build(data_batch=data)
        except RuntimeError:
            if type(self).train_step is Trainer.train_step:
                raise

    def _is_built(self) -> bool:
        return (
            all(layer.built for layer in self._flatten_layers())
            and (self._compile_metrics is None or self._compile_metrics.built)
            and (self._compile_loss is None or self._compile_loss.built)
            and (self.optimizer is None or self.optimizer.built)
        )

    def _callbacks(
        self, given: Any, batches: Batches, verbose: Any, epochs: int, **options: Any
    ) -> Any:
        if isinstance(given, callbacks_module.CallbackList):
            return given
        return callbacks_module.CallbackList(
            given,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=epochs,
            steps=batches.num_batches,
            model=self,
            **options,
        )


NumpyTrainer = Trainer


class _Validation:
    """What is validated by, and when."""

    def __init__(self, parts: Any, batch_size: int | None, steps: int | None, freq: Any) -> None:
        self.parts, self.batch_size, self.steps, self.freq = parts, batch_size, steps, freq


def _capped(epochs: int) -> int:
    limit = config.max_epochs()
    if limit and limit < epochs:
        warnings.warn(f"Limiting epochs to {limit}", stacklevel=3)
        return int(limit)
    return epochs


def _as_tensors(data: Any) -> Any:
    return tree.map_structure(lambda x: None if x is None else convert_to_tensor(x), data)


def _joined(one: Tensor, other: Tensor) -> Tensor:
    return tapec.concat([one, other], 0)
