"""GPU memory: what a program says of its own (step, tag, pool...), and what recordings tell (load).

`memreel.annotate` is the former, one file that may also be copied as memreel.py; `memreel.analysis` the latter.
"""
from __future__ import annotations

import os

from .annotate import (Pool, Usage, mark, name_modules, pool, recording, snapshot, step, steps_of_optimizers, tag, usage)

TYPE_CHECKING = False  # as typing has it, which takes longer to import than everything else here
if TYPE_CHECKING:
    from .analysis import Recording

__version__ = "0.1.0"  # project(VERSION) in CMakeLists.txt

__all__ = ["Pool", "Usage", "load", "mark", "name_modules", "pool", "recording", "snapshot", "step", "steps_of_optimizers",
           "tag", "usage"]


def load(file: str | os.PathLike[str]) -> Recording:
    """What memreel knows of a recording: a .reel file, a snapshot of PyTorch, or any other that `memreel import` reads."""
    from .analysis import Recording
    return Recording(file)
