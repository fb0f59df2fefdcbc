# SPDX-License-Identifier: Apache-2.0
"""What memreel does during training, for any framework."""
from __future__ import annotations

import contextlib
from typing import Any, Dict, Optional, Type

from .. import annotate
from ..quantity import size_text
from ..torch_oom import TorchOomHook, say


class Training:
    """One training run: marks its phases and steps if the process is recorded, and writes a dump of PyTorch's own history
    when memory runs out."""

    def __init__(self, file: Optional[str] = None, *, dumps: int = 8, max_entries: int = 100_000, holders: bool = True,
                 dump_at_end: bool = False, every_n_steps: int = 0) -> None:
        """`file`, `dumps`, `max_entries`, `holders`: see memreel.torch_oom_hook().
        `dump_at_end`: also write a dump when training succeeds.
        `every_n_steps`: how often to print the GPU's memory to standard error; 0: never."""
        self._options = (file, dumps, max_entries, holders)
        self._dump_at_end, self._every = dump_at_end, every_n_steps
        self._hook: Optional[TorchOomHook] = None
        self._phase = contextlib.ExitStack()

    def __getstate__(self) -> Dict[str, Any]:
        """Pickled as not begun: other processes begin their own."""
        return {**self.__dict__, "_hook": None, "_phase": contextlib.ExitStack()}

    def begin(self, model: Any = None) -> None:
        """`model`, a torch.nn.Module, gives layers their names."""
        if self._hook is None:
            self._hook = TorchOomHook(*self._options)
        if model is not None:
            annotate.name_modules(model)

    def phase(self, name: str) -> None:
        """This thread enters the phase `name`; "": none."""
        self._phase.close()
        if name:
            self._phase.enter_context(annotate.tag(name))

    def step(self, number: int) -> None:
        """The step `number`, counted from 1, ends here."""
        self.phase("")
        annotate.step()
        if self._every and number % self._every == 0:
            self._say_memory(number)

    def finish(self) -> None:
        """Training succeeded; end() follows."""
        if self._hook is not None and self._dump_at_end:
            self._hook.dump("end of training")

    def end(self, error: Optional[Type[BaseException]] = None) -> None:
        """Training is over; `error` ended it. A second call does nothing."""
        self.phase("")
        hook, self._hook = self._hook, None
        if hook is None:
            return
        if error is not None:
            hook.failed(error)
        hook.close()

    def _say_memory(self, number: int) -> None:
        import torch
        cuda = torch.cuda
        if cuda.is_initialized():
            say(f"step {number}: GPU {cuda.current_device()}: {size_text(cuda.memory_allocated())} allocated, peak "
                f"{size_text(cuda.max_memory_allocated())}, {size_text(cuda.memory_reserved())} reserved")
