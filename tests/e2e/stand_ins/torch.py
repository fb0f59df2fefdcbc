# SPDX-License-Identifier: Apache-2.0
"""The part of PyTorch that memreel uses when memory runs out. Its snapshot is the file $STAND_IN_SNAPSHOT."""

import os
import pickle
from types import SimpleNamespace

calls = []  # the calls made, in order
recording = False
_observers, _queued, _initialized = [], [], False


class OutOfMemoryError(RuntimeError):
    pass


def initialize():
    """What the first use of CUDA does."""
    global _initialized
    _initialized = True
    while _queued:
        _queued.pop(0)()


def run_out(requested=300 << 20):
    """A request that can't be served."""
    for observer in _observers:
        observer(0, requested, 8 << 30, 1 << 20)
    raise OutOfMemoryError("CUDA out of memory.")


def _lazy_call(function):
    if _initialized:
        function()
    else:
        _queued.append(function)


def _record_memory_history(enabled="all", **options):
    global recording
    recording = enabled is not None
    calls.append(("record", enabled, options))


def _snapshot():
    calls.append(("snapshot",))
    with open(os.environ["STAND_IN_SNAPSHOT"], "rb") as file:
        return pickle.load(file)


_C = SimpleNamespace(_cuda_isHistoryEnabled=lambda: recording, _cuda_attach_out_of_memory_observer=_observers.append)
cuda = SimpleNamespace(
    OutOfMemoryError=OutOfMemoryError, is_initialized=lambda: _initialized, _lazy_call=_lazy_call, current_device=lambda: 0,
    memory_allocated=lambda: 3 << 29, max_memory_allocated=lambda: 2 << 30, memory_reserved=lambda: 3 << 30,
    memory=SimpleNamespace(_record_memory_history=_record_memory_history, _snapshot=_snapshot))
