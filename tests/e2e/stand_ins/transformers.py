# SPDX-License-Identifier: Apache-2.0
"""The part of Hugging Face's transformers that a callback uses."""

from types import SimpleNamespace


class TrainerCallback:
    pass


def train(callback, model, steps, training_step):
    """Mimics Trainer.train(): the order of the events. Callbacks are not told about errors."""
    state = SimpleNamespace(global_step=0)
    callback.on_train_begin(None, state, None, model=model)
    for step in range(steps):
        callback.on_step_begin(None, state, None, model=model)
        training_step(step)
        callback.on_pre_optimizer_step(None, state, None, model=model)
        callback.on_optimizer_step(None, state, None, model=model)
        state.global_step += 1
        callback.on_step_end(None, state, None, model=model)
    callback.on_prediction_step(None, state, None)
    callback.on_evaluate(None, state, None, metrics={})
    callback.on_train_end(None, state, None, model=model)
