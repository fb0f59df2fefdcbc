# SPDX-License-Identifier: Apache-2.0
"""Tell memreel about memory that only your program can see, from Python.

A single file that needs only the standard library: without memreel installed, copy it as memreel.py. If the process is
not recorded, every call does nothing: a program that uses it runs anywhere.

    import memreel

    for batch in loader:
        train(batch)
        memreel.step()                       # leaks are judged over steps

    with memreel.tag("evaluation"):
        evaluate()

    pool = memreel.pool("activations", device=0)
    pool.segment_add(base, 64 << 20)         # what the pool got from its parent
    pool.alloc(address, nbytes, stream)      # what it allocates
    pool.free(address)

    memreel.name_modules(model)              # reports say "transformer.h.3.mlp"

    memreel.usage()                          # what the program holds now, and its peak

Addresses and streams are integers. Any thread may make any call.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import time
import weakref
from typing import Any, Callable, Iterator, NamedTuple, Optional

__all__ = ["recording", "step", "mark", "tag", "snapshot", "name_modules", "usage", "device_usage", "Usage", "pool", "Pool",
           "steps_of_optimizers"]

_VERSION = 1  # MEMREEL_API_VERSION of collector/include/memreel/memreel.h

_KINDS = {"other": 0, "caching": 1, "arena": 2, "slab": 3, "ring": 4, "vmm": 5}
_ALLOC, _FREE, _FREE_REQUESTED, _FREE_COMPLETED, _SEGMENT_ADD, _SEGMENT_REMOVE, _OOM = range(1, 8)
_INSTANT, _BEGIN, _END = range(3)


class _Event(ctypes.Structure):  # memreel_event
    _fields_ = [("kind", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("pool", ctypes.c_uint64),
                ("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("stream", ctypes.c_uint64)]


class _Usage(ctypes.Structure):  # memreel_usage
    _fields_ = [("device", ctypes.c_int32), ("level", ctypes.c_uint32), ("live_bytes", ctypes.c_uint64),
                ("peak_bytes", ctypes.c_uint64)]


# PYFUNCTYPE: the calls are short, never wait for Python, and need not give the GIL away.
class _Api(ctypes.Structure):  # memreel_api
    _fields_ = [("size", ctypes.c_uint32), ("version", ctypes.c_uint32),
                ("pool_create", ctypes.PYFUNCTYPE(ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64,
                                                  ctypes.c_int32)),
                ("pool_destroy", ctypes.PYFUNCTYPE(None, ctypes.c_uint64)),
                ("events", ctypes.PYFUNCTYPE(None, ctypes.POINTER(_Event), ctypes.c_size_t)),
                ("mark", ctypes.PYFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint32)),
                ("on_attach", ctypes.c_void_p),
                # These two wait, so others may have the GIL.
                ("snapshot", ctypes.CFUNCTYPE(None)),
                ("usage", ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.POINTER(_Usage), ctypes.c_size_t, ctypes.c_uint32)),
                ("name_module", ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p))]


_api: Any = None  # _Api
_next_look = 0.0  # time.monotonic()


def _entry() -> Any:
    """memreel_get_api, or None. The library of memreel attach is not among those whose symbols all see, and looking for it
    takes longer: at most once in a second."""
    global _next_look
    try:
        return ctypes.PyDLL(None).memreel_get_api
    except (AttributeError, OSError, TypeError):
        pass
    if time.monotonic() < _next_look:
        return None
    _next_look = time.monotonic() + 1
    try:
        return ctypes.PyDLL("libmemreel-agent.so", mode=os.RTLD_NOLOAD | os.RTLD_LAZY).memreel_get_api
    except (AttributeError, OSError, TypeError):
        return None


def _recorder() -> Any:
    """The recorder's functions, or None. Looked for until found: the recorder may be loaded while the program runs."""
    global _api
    if _api is None:
        get = _entry()
        if get is None:
            return None
        get.restype, get.argtypes = ctypes.POINTER(_Api), [ctypes.c_uint32]
        found = get(_VERSION)
        if found:
            _api = found.contents
    return _api


def recording() -> bool:
    """Whether there is a recorder in this process."""
    return _recorder() is not None


def mark(name: str) -> None:
    """Something worth naming happened now."""
    api = _recorder()
    if api:
        api.mark(name.encode(), _INSTANT)


def step() -> None:
    """One iteration of the program's main loop ends here."""
    mark("step")


@contextlib.contextmanager
def tag(name: str) -> Iterator[None]:
    """Labels what this thread does inside the with-block; tags nest."""
    api, text = _recorder(), name.encode()
    if api:
        api.mark(text, _BEGIN)
    try:
        yield
    finally:
        if api:
            api.mark(text, _END)


def snapshot() -> None:
    """Writes what this thread did so far to the file, and returns when it is there."""
    api = _recorder()
    if api:
        api.snapshot()


def name_modules(model: Any, name: str = "") -> None:
    """From now on calls of the modules of `model`, a torch.nn.Module, are recorded under their paths in it:
    "transformer.h.3.mlp", as in model.named_modules(); `name` is their prefix, and the name of the model itself (by
    default its class).

    Without names, modules are identified by class and number, "GPT2MLP 3". Call it again after replacing modules.
    """
    api = _recorder()
    if not api or api.size < _Api.name_module.offset + _Api.name_module.size:
        return
    for path, module in model.named_modules(prefix=name):
        text = (path or type(model).__name__).encode()
        # Another module may be made where this one was.
        weakref.finalize(module, api.name_module, id(module), None).atexit = False
        api.name_module(id(module), text)


class Usage(NamedTuple):
    """What a heap, or a device, holds, in requested bytes."""

    device: int  # as CUDA counts; -1: the host
    level: str  # "driver": what the driver gave; "framework": what a framework or a pool gave out of that
    live_bytes: int
    peak_bytes: int


def usage(reset: bool = False) -> list[Usage]:
    """A Usage for each heap that ever held something, after everything this thread has done.

    Peaks are since the last call with `reset`, or since the recording began. Empty if nothing is recorded. Waits for the
    recorder, about a tenth of a millisecond.
    """
    return _usage(1 if reset else 0)


def device_usage(reset: bool = False) -> list[Usage]:
    """A Usage for each device, over all its heaps, each byte once: what pools have allocated, and what the driver gave to
    others.

    Its level is "device". Below PyTorch, whose segments are not known while it runs, only its tensors count. Otherwise as
    usage().
    """
    return _usage((1 if reset else 0) | 2)


def _usage(flags: int) -> list[Usage]:
    api = _recorder()
    if not api or api.size < _Api.usage.offset + _Api.usage.size:
        return []
    heaps = (_Usage * 64)()
    count = api.usage(heaps, len(heaps), flags)
    return [Usage(heap.device, ("driver", "framework", "device")[heap.level], heap.live_bytes, heap.peak_bytes)
            for heap in heaps[:count]]


class Pool:
    """A custom pool; see pool(). Usable in a with-statement, which destroys it at its end."""

    def __init__(self, name: str, kind: str = "other", parent: Optional[Pool] = None, device: int = 0) -> None:
        api = _recorder()
        of = parent.number if parent is not None else 0
        self._text = f"{name!r}, {kind}, device {device}"
        self.number: int = api.pool_create(name.encode(), _KINDS[kind], of, device) if api else 0

    def __repr__(self) -> str:
        return f"<pool {self._text}{'' if self.number else ', not recorded'}>"

    def _event(self, kind: int, address: int = 0, nbytes: int = 0, stream: int = 0) -> None:
        if self.number:
            _api.events(_Event(kind, 0, self.number, address, nbytes, stream), 1)

    def segment_add(self, address: int, nbytes: int) -> None:
        """The pool got memory from its parent."""
        self._event(_SEGMENT_ADD, address, nbytes)

    def segment_remove(self, address: int) -> None:
        self._event(_SEGMENT_REMOVE, address)

    def alloc(self, address: int, nbytes: int, stream: int = 0) -> None:
        """`nbytes`, as requested, are allocated."""
        self._event(_ALLOC, address, nbytes, stream)

    def free(self, address: int) -> None:
        """The program frees it. Call this before the block can be reused."""
        self._event(_FREE, address)

    def free_requested(self, address: int) -> None:
        """The program frees it; the device may still be using it."""
        self._event(_FREE_REQUESTED, address)

    def free_completed(self, address: int) -> None:
        """... now it is free for reuse."""
        self._event(_FREE_COMPLETED, address)

    def oom(self, nbytes: int) -> None:
        """A request could not be served."""
        self._event(_OOM, 0, nbytes)

    def close(self) -> None:
        """Destroys the pool with everything live in it."""
        if self.number:
            _api.pool_destroy(self.number)
            self.number = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pool(name: str, kind: str = "other", parent: Optional[Pool] = None, device: int = 0) -> Pool:
    """A new pool of memory on a device (-1: the host) that gets its memory from another Pool, or from the driver.

    `kind`: "caching", "arena", "slab", "ring", "vmm" or "other". It only informs the reader of a report.
    """
    return Pool(name, kind, parent, device)


def steps_of_optimizers() -> Callable[[], None]:
    """From now on every step of a PyTorch optimizer counts as a step. Returns a function that ends this.

    Uses torch.optim.optimizer.register_optimizer_step_post_hook (PyTorch 2.0 and newer). With several optimizers in one
    iteration, call step() yourself.
    """
    if not recording():
        return lambda: None
    from torch.optim.optimizer import register_optimizer_step_post_hook
    remove: Callable[[], None] = register_optimizer_step_post_hook(lambda *_: step()).remove
    return remove
