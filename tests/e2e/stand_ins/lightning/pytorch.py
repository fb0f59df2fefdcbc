# SPDX-License-Identifier: Apache-2.0
class Callback:
    """Every hook exists and does nothing."""

    def __getattr__(self, name):
        if name.startswith("on_"):
            return lambda *_: None
        raise AttributeError(name)


def fit(callback, model, batches, training_step):
    """Mimics Trainer.fit(): the order of the hooks, and what happens when `training_step` raises."""
    try:
        callback.setup(None, model, "fit")
        callback.on_validation_start(None, model)
        callback.on_validation_end(None, model)
        for batch in range(batches):
            callback.on_train_batch_start(None, model, batch, batch)
            training_step(batch)
            callback.on_before_backward(None, model, 0)
            callback.on_after_backward(None, model)
            callback.on_before_optimizer_step(None, model, None)
            callback.on_train_batch_end(None, model, None, batch, batch)
        callback.on_fit_end(None, model)
        callback.teardown(None, model, "fit")
    except BaseException as problem:
        callback.on_exception(None, model, problem)
        raise
