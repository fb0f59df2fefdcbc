"""GPU memory: what a program says of its own (step, tag, pool...), what recordings tell (load), and what PyTorch records
itself when memory runs out (torch_oom_hook).

`memreel.annotate` is the first, one file that may also be copied as memreel.py; `memreel.analysis` the second,
`memreel.torch_oom` the third. `memreel.integrations` has callbacks of training frameworks.
"""
from __future__ import annotations

import os

from .annotate import (Pool, Usage, mark, name_modules, pool, recording, snapshot, step, steps_of_optimizers, tag, usage)

TYPE_CHECKING = False  # as typing has it, which takes longer to import than everything else here
if TYPE_CHECKING:
    from .analysis import Recording
    from .torch_oom import TorchOomHook

__version__ = "0.1.0"  # project(VERSION) in CMakeLists.txt

__all__ = ["Pool", "Usage", "load", "mark", "name_modules", "pool", "recording", "snapshot", "step", "steps_of_optimizers",
           "tag", "torch_oom_hook", "usage"]


def load(file: str | os.PathLike[str]) -> Recording:
    """What memreel knows of a recording: a .reel file, a snapshot of PyTorch, or any other that `memreel import` reads."""
    from .analysis import Recording
    return Recording(file)


def torch_oom_hook(file: str | None = None, *, dumps: int = 8, max_entries: int = 100_000) -> TorchOomHook:
    """From now on, when PyTorch can't serve a request for memory of a GPU, its allocator's history is written to a file, and
    standard error gets three lines: who holds the memory, whether it is fragmentation and which setting would have
    survived, and the file's path. The program goes on, or fails, as without it.

    `file`: "oom-rank%r.pickle" is written as oom-rank0-dump-1.pickle by rank 0; %r, %h, %p are rank, host and process id.
    By default memreel-rank%r-%h-%p.pickle, or memreel-%h-%p.pickle without ranks. No file is ever overwritten.
    `dumps`: how many are kept, the latest. Failures within a minute of one that was dumped are counted only.
    `max_entries`: how many of the latest events PyTorch keeps. Recording that the program has begun itself is left alone.

    Needs no `memreel record`, which does the same with --flight. The hook ends by its close(), at the end of a
    with-statement, which also writes a dump when an error leaves it, or with the program.
    """
    from .torch_oom import TorchOomHook
    return TorchOomHook(file, dumps, max_entries)
