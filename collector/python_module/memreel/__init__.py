"""GPU memory: annotations by the program (step, tag, pool...), analysis of recordings (load), and PyTorch's own history
when memory runs out (torch_oom_hook).

`memreel.annotate` is the first, a single file that may also be copied as memreel.py; `memreel.analysis` the second,
`memreel.torch_oom` the third. `memreel.integrations` has callbacks for training frameworks.
"""
from __future__ import annotations

import os

from .annotate import (Pool, Usage, mark, name_modules, pool, recording, snapshot, step, steps_of_optimizers, tag, usage)

TYPE_CHECKING = False  # as typing has it, which takes longer to import than everything else here
if TYPE_CHECKING:
    from .analysis import Document, Recording
    from .torch_oom import TorchOomHook

__version__ = "0.1.0"  # project(VERSION) in CMakeLists.txt

__all__ = ["Pool", "Usage", "explain", "load", "mark", "name_modules", "pool", "recording", "snapshot", "step", "steps_of_optimizers",
           "tag", "torch_oom_hook", "usage"]


def load(file: str | os.PathLike[str]) -> Recording:
    """A recording to analyse: a .reel file, a PyTorch snapshot, or any other file that `memreel import` reads."""
    from .analysis import Recording
    return Recording(file)


def explain(text: str | bytes) -> list[Document]:
    """The out-of-memory errors in a text, such as str(error) or a whole log: kind, figures, what to try first and its side
    effects. The keys are those of `failures` in `memreel explain --json`. Empty if there is none."""
    from .analysis import explain as explained
    return explained(text)


def torch_oom_hook(file: str | None = None, *, dumps: int = 8, max_entries: int = 100_000) -> TorchOomHook:
    """From now on, when PyTorch runs out of memory on a GPU, writes its allocator's history to a file and three lines to
    standard error: what holds the memory, whether it is fragmentation and which setting would have survived, and the
    file's path. The program continues, or fails, as it would without the hook.

    `file`: "oom-rank%r.pickle" is written as oom-rank0-dump-1.pickle by rank 0; %r, %h, %p are rank, host and process id.
    By default memreel-rank%r-%h-%p.pickle, or memreel-%h-%p.pickle without ranks. No file is ever overwritten.
    `dumps`: how many of the latest dumps to keep. Failures within a minute of a dumped one are only counted.
    `max_entries`: how many of the latest events PyTorch keeps. A history that the program itself started is left alone.

    Does not need `memreel record`, which does the same with --flight. The hook ends with close(), with the program, or
    at the end of a with-statement, which also writes a dump if it is left by an error.
    """
    from .torch_oom import TorchOomHook
    return TorchOomHook(file, dumps, max_entries)
