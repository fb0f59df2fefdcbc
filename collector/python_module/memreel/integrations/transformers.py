# SPDX-License-Identifier: Apache-2.0
"""A callback for Hugging Face's transformers.Trainer:

    from memreel.integrations.transformers import MemreelCallback

    memory = MemreelCallback()
    trainer = transformers.Trainer(..., callbacks=[memory])
    with memory:  # a Trainer does not report errors to its callbacks; out of memory is dumped without this line
        trainer.train()

When memory runs out, standard error says why, and where the dump is (memreel.torch_oom_hook()). Under `memreel record`,
steps, the optimizer and evaluation are marked, and layers have the names of the model's modules.
"""
from __future__ import annotations

from types import TracebackType
from typing import Any, Optional, Type

from transformers import TrainerCallback

from .training import Training

__all__ = ["MemreelCallback"]


class MemreelCallback(TrainerCallback):
    """Arguments are those of memreel.torch_oom_hook(), and:
    `dump_at_end`: also write a dump when training succeeds.
    `every_n_steps`: how often to print the GPU's memory to standard error; 0: never."""

    def __init__(self, file: Optional[str] = None, *, dumps: int = 8, max_entries: int = 100_000, holders: bool = True,
                 dump_at_end: bool = False, every_n_steps: int = 0) -> None:
        super().__init__()
        self._training = Training(file, dumps=dumps, max_entries=max_entries, holders=holders, dump_at_end=dump_at_end,
                                  every_n_steps=every_n_steps)
        self._training.begin()  # a Trainer moves its model in its constructor

    def __enter__(self) -> MemreelCallback:
        self._training.begin()  # for another training run
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self._training.end(kind)

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._training.begin(model)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._training.phase("forward and backward")

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        self._training.phase("optimizer")

    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        self._training.phase("")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._training.step(state.global_step)

    def on_prediction_step(self, *_: Any, **__: Any) -> None:
        self._training.phase("evaluation")

    def on_evaluate(self, *_: Any, **__: Any) -> None:
        self._training.phase("")

    def on_predict(self, *_: Any, **__: Any) -> None:
        self._training.phase("")

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._training.finish()
        self._training.end()
