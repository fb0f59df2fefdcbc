# SPDX-License-Identifier: Apache-2.0
"""GPU memory: annotations by the program (step, tag, pool...), analysis of recordings (load), PyTorch's own history when
memory runs out (torch_oom_hook), and what keeps memory allocated (holders).

`memreel.annotate` is the first, a single file that may also be copied as memreel.py; `memreel.analysis` the second,
`memreel.torch_oom` the third, `memreel.holding` the fourth. `memreel.integrations` has callbacks for training frameworks.
"""
from __future__ import annotations

import os

from .annotate import (Pool, Usage, device_usage, mark, name_modules, pool, recording, snapshot, step, steps_of_optimizers, tag, usage)

TYPE_CHECKING = False  # as typing has it, which takes longer to import than everything else here
if TYPE_CHECKING:
    from typing import Iterable, Mapping

    from .analysis import Document, MemreelError, Recording
    from .holding import Growth, Holders
    from .results import Difference, Fleet, Predictions
    from .torch_oom import TorchOomHook

__version__ = "0.2.0"  # project(VERSION) in CMakeLists.txt

__all__ = ["MemreelError", "Pool", "Recording", "Usage", "device_usage", "diff", "explain", "fleet", "growing", "holders", "load",
           "mark", "name_modules", "pool", "predict", "recording", "snapshot", "step", "steps_of_optimizers", "tag", "torch_oom_hook",
           "usage"]


def __getattr__(name: str) -> object:  # what would make importing this package slow
    if name in ("MemreelError", "Recording"):
        from . import analysis
        return getattr(analysis, name)
    raise AttributeError(f"module 'memreel' has no attribute {name!r}")


def load(file: str | os.PathLike[str]) -> Recording:
    """A recording to analyse: a .reel file, a PyTorch snapshot, or any other file that `memreel import` reads."""
    from .analysis import Recording
    return Recording(file)


def explain(text: str | bytes) -> list[Document]:
    """The out-of-memory errors in a text, such as str(error) or a whole log: kind, figures, what to try first and its side
    effects. The keys are those of `failures` in `memreel explain --json`. Empty if there is none."""
    from .analysis import explain as explained
    return explained(text)


def fleet(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, mesh: str | None = None, world_size: int | None = None,
          capacity: int | str | None = None, rank_pattern: str | None = None, job: str | None = None,
          heap: str | None = None, setting: bool = True) -> Fleet:
    """All ranks of a job, from recordings or directories of them: which rank decides, which do the same, stand out or are
    missing. Options are those of `memreel fleet`; `setting=False` skips the search for a setting that suits all ranks.
    `heap`: judge only the heaps with this name, as if they had their devices for themselves."""
    from .results import fleet as judged
    return judged(paths, mesh=mesh, world_size=world_size, capacity=capacity, rank_pattern=rank_pattern, job=job, heap=heap,
                  setting=setting)


def predict(recordings: Mapping[int, str | os.PathLike[str]] | Iterable[tuple[Mapping[str, int], str | os.PathLike[str]]],
            to: int | Iterable[int] | Mapping[str, Iterable[int]] = (), *, parameter: str = "batch",
            capacity: int | str | None = None, policy: str | None = None, heap: str | None = None) -> Predictions:
    """What larger runs need, from recordings of small ones: predict({1: "a.pickle", 2: "b.pickle", 4: "c.pickle"}, to=[8, 16]).
    With several parameters: predict([({"batch": 1, "seq": 256}, "a.pickle"), ...], to={"batch": [8], "seq": [1024]}).
    `capacity`: bytes, "24GiB" or a card such as "H100-80GB"; then predictions say whether they fit.
    `heap`: the name of the heap to predict, instead of the busiest one, as if it had the device for itself."""
    from .results import predict as predicted
    return predicted(recordings, to, parameter=parameter, capacity=capacity, policy=policy, heap=heap)


def diff(a: str | os.PathLike[str], b: str | os.PathLike[str], *, at: tuple[str, str] | None = None,
         heap: str | None = None) -> Difference:
    """What recording `b` needs more or less than `a`, at their peaks or at two instants, as in `memreel diff A@INSTANT B@INSTANT`.
    `heap`: compare only the heaps with this name, without `device_totals`."""
    from .results import diff as difference
    return difference(a, b, at=at, heap=heap)


def torch_oom_hook(file: str | None = None, *, dumps: int = 8, max_entries: int = 100_000, holders: bool = True) -> TorchOomHook:
    """From now on, when PyTorch runs out of memory on a GPU, writes its allocator's history to a file and three lines to
    standard error: what holds the memory, whether it is fragmentation and which setting would have survived, and the
    file's path; a fourth line says which variables keep the most. The program continues, or fails, as it would without the hook.

    `file`: "oom-rank%r.pickle" is written as oom-rank0-dump-1.pickle by rank 0; %r, %h, %p are rank, host and process id.
    By default memreel-rank%r-%h-%p.pickle, or memreel-%h-%p.pickle without ranks. No file is ever overwritten.
    `dumps`: how many of the latest dumps to keep. Failures within a minute of a dumped one are only counted.
    `max_entries`: how many of the latest events PyTorch keeps. A history that the program itself started is left alone.
    `holders`: whether to look for the variables that keep memory, as holders() does: four seconds at most.

    Does not need `memreel record`, which does the same with --flight. The hook ends with close(), with the program, or
    at the end of a with-statement, which also writes a dump if it is left by an error.
    """
    from .torch_oom import TorchOomHook
    return TorchOomHook(file, dumps, max_entries, holders)


def holders(*, top: int = 20, site: str | None = None, address: int | None = None, leaked: bool = False, kind: str = "device",
            seconds: float = 2.0, objects: int = 10_000_000) -> Holders:
    """What keeps memory allocated now: blocks of PyTorch's tensors and of arrays, and the shortest ways to them from a module's
    globals or the locals of a frame that is alive, through containers, closures, hooks, tracebacks, autograd graphs...

    `top`: how many blocks to tell apart, the largest first; `site`: only those allocated there, a part of "train.py:12 train"
    (as far as PyTorch records its history: torch_oom_hook()); `address`: only the one that contains it; `leaked`: only those
    whose holder grew since the last call, and garbage.
    `kind`: "device", "pinned", "host" or "all".
    `seconds`, `objects`: bounds of the walk, which takes about 100 bytes for each object; `complete` says whether they sufficed.

    Runs none of the program's code and keeps nothing alive; other threads may run meanwhile, collections of garbage do not.
    """
    from .holding import holders as walk
    return walk(top=top, site=site, address=address, leaked=leaked, kind=kind, seconds=seconds, objects=objects)


def growing(first: Holders, second: Holders, *later: Holders) -> tuple[Growth, ...]:
    """The containers, autograd graphs and variables that grew from each walk to the next, in elements and in bytes, the one
    that grew most first. Of containers inside each other the outermost is named."""
    from .holding import growing as compared
    return compared(first, second, *later)
