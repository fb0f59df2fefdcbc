# SPDX-License-Identifier: Apache-2.0
"""A callback for PyTorch Lightning, the package lightning or pytorch_lightning:

    from memreel.integrations.lightning import MemreelCallback

    trainer = lightning.Trainer(callbacks=[MemreelCallback()])

When memory runs out, standard error says why, and where the dump is (memreel.torch_oom_hook()); any other error that
ends a fit also writes a dump. Under `memreel record`, batches are steps, forward and backward passes, the optimizer and
validation are ranges, and layers have the names of the model's modules.
"""
from __future__ import annotations

import sys
from typing import Any, Optional

from .training import Training

# Both packages may be installed, and a Trainer takes callbacks of its own.
if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

__all__ = ["MemreelCallback"]


class MemreelCallback(Callback):
    """Arguments are those of memreel.torch_oom_hook(), and:
    `dump_at_end`: also write a dump when training succeeds.
    `every_n_steps`: how often to print the GPU's memory to standard error; 0: never."""

    def __init__(self, file: Optional[str] = None, *, dumps: int = 8, max_entries: int = 100_000, holders: bool = True,
                 dump_at_end: bool = False, every_n_steps: int = 0) -> None:
        super().__init__()
        self._training = Training(file, dumps=dumps, max_entries=max_entries, holders=holders, dump_at_end=dump_at_end,
                                  every_n_steps=every_n_steps)
        self._batches = 0

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._batches = 0
        self._training.begin(pl_module)

    def on_fit_end(self, *_: Any) -> None:
        self._training.finish()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._training.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._training.end(type(exception))

    def on_train_batch_start(self, *_: Any) -> None:
        self._training.phase("forward")

    def on_before_backward(self, *_: Any) -> None:
        self._training.phase("backward")

    def on_after_backward(self, *_: Any) -> None:
        self._training.phase("")

    def on_before_optimizer_step(self, *_: Any) -> None:
        self._training.phase("optimizer")

    def on_train_batch_end(self, *_: Any) -> None:
        self._batches += 1
        self._training.step(self._batches)

    def on_validation_start(self, *_: Any) -> None:
        self._training.phase("validation")

    def on_validation_end(self, *_: Any) -> None:
        self._training.phase("")

    def on_test_start(self, *_: Any) -> None:
        self._training.phase("test")

    def on_test_end(self, *_: Any) -> None:
        self._training.phase("")

    def on_predict_start(self, *_: Any) -> None:
        self._training.phase("predict")

    def on_predict_end(self, *_: Any) -> None:
        self._training.phase("")
