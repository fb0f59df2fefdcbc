# SPDX-License-Identifier: Apache-2.0
"""Dumps PyTorch's own memory history when it runs out of memory, with memreel's verdict on it; see torch_oom_hook().

Nothing here changes what the program does: no error leaves the hook, and the verdict comes from a separate process.
"""
from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import re
import socket
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Any, List, Optional, Tuple, Type

from .launch import program
from .quantity import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .holding import Holder, Holders

# Variables that have a process's rank, in the order of formats/model/launchers.h.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX")
_QUIET_S = 60  # failures this soon after one that was dumped are counted
_HOLDERS = 3  # that are told of
_PATIENCE_S = 5  # for the verdict, when the program ends


def say(line: str) -> None:
    """On the program's standard error, whatever became of sys.stderr."""
    text = "".join(c if c.isprintable() else "?" for c in f"memreel: {line}") + "\n"
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="replace"))


def _rank() -> Optional[str]:
    for name in _RANKS:
        in_no_step = name == "SLURM_PROCID" and "SLURM_JOB_ID" in os.environ and "SLURM_STEP_ID" not in os.environ
        if re.fullmatch("[0-9]+", os.environ.get(name, "")) and not in_no_step:
            return os.environ[name]
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return str(distributed.get_rank())
    return None


def _dump_name(pattern: Optional[str], number: int) -> str:
    """ "run-dump-3.pickle" for "run.pickle", in which %p, %h, %r and %% are replaced as in `memreel record -o`."""
    rank = _rank()
    if pattern is None:
        pattern = "memreel-%h-%p.pickle" if rank is None else "memreel-rank%r-%h-%p.pickle"
    known = {"%p": str(os.getpid()), "%h": socket.gethostname(), "%r": rank or "none", "%%": "%"}
    stem, extension = os.path.splitext(re.sub("%[phr%]", lambda code: known[code[0]], pattern))
    return os.path.abspath(f"{stem}-dump-{number}{extension}")


class TorchOomHook:
    """What torch_oom_hook() returns."""

    def __init__(self, file: Optional[str], dumps: int, max_entries: int, holders: bool = True) -> None:
        for name, value in (("dumps", dumps), ("max_entries", max_entries)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}: it takes a whole number, at least 1")
        import torch
        self._holders = holders
        self._found: Optional[Holders] = None  # by the latest walk
        self.files: List[str] = []  # the dumps that are kept, oldest first
        self._torch, self._file, self._dumps, self._entries = torch, file, dumps, max_entries
        self._lock = threading.RLock()  # never held while anything is written
        self._number = self._others = 0
        self._failed_at: Optional[float] = None  # the last failure that was not counted only
        self._failure = ""  # its dump
        self._closed = self._began = False
        self._helper: Optional[subprocess.Popen[bytes]] = None
        self._instead = ""  # to print if the helper fails
        # The program must initialize CUDA: a context on a device that it does not use would cost memory.
        torch.cuda._lazy_call(self._attach)
        atexit.register(self.close)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "waiting for CUDA" if not self._torch.cuda.is_initialized() else "on"
        return f"<hook for PyTorch's memory, {state}, {len(self.files)} dump{'s'[:len(self.files) != 1]}>"

    def dump(self, why: str = "") -> Optional[str]:
        """Writes a dump now; returns its path, or None: a line on standard error says why."""
        return self._dump("requested by the program", told=True) if not why else self._dump(why)

    def _dump(self, why: str, told: bool = False) -> Optional[str]:
        """`told`: it is also said that there is nothing to dump."""
        try:
            if not self._torch.cuda.is_initialized():
                if told:
                    say("no dump: CUDA is not in use yet")
                return None
            path = self._write()
            say(f"dump: {path} ({why})")
            return path
        except Exception as problem:
            say(f"no dump: {problem}")
            return None

    def close(self) -> None:
        """Ends the hook. Waits for the verdict on the last failure, for some seconds at most."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        atexit.unregister(self.close)
        self._tell_of_others()
        self._await_helper(_PATIENCE_S)
        if self._began:
            with contextlib.suppress(Exception):
                self._torch.cuda.memory._record_memory_history(None)

    def __enter__(self) -> TorchOomHook:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if kind is not None:
            self.failed(kind)
        self.close()

    def failed(self, kind: Type[BaseException]) -> None:
        """Writes a dump because an error of `kind` ended the program's work, unless memory ran out, for which there is a dump
        already, or it is not an error, such as KeyboardInterrupt."""
        if issubclass(kind, Exception) and not (self.files and issubclass(kind, self._torch.cuda.OutOfMemoryError)):
            self.dump(kind.__name__)

    def _attach(self) -> None:
        if self._closed:
            return
        try:
            native = self._torch._C
            if not native._cuda_isHistoryEnabled():
                # Python stacks are the cheapest, and all that the verdict needs.
                self._torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=self._entries)
                self._began = True
            native._cuda_attach_out_of_memory_observer(self._on_failure)
        except Exception as problem:
            say(f"can't write dumps when memory runs out: {problem}")

    # PyTorch's observer: called by the thread whose request failed, with the GIL, without the allocator's lock.
    def _on_failure(self, device: int, requested: int, *_: Any) -> None:
        try:
            with self._lock:
                if self._closed:
                    return
                if self._failed_at is not None and time.monotonic() - self._failed_at < _QUIET_S:
                    self._others += 1
                    return
                self._failed_at = time.monotonic()
            self._tell_of_others()
            self._await_helper(0)
            self._failure = ""
            self._failure = self._write()
            self._explain(self._failure, f"out of memory on GPU {device}: {size_text(requested)} refused")
            self._say_holders()
        except Exception as problem:
            say(f"no dump: {problem}")

    def _walk(self) -> str:
        """What keeps the memory, for the dump; empty if that can't be said."""
        self._found = None
        if not self._holders:
            return ""
        try:
            from .holding import table, walk_of_recorded
            told = walk_of_recorded()
            self._found = told.holders
            return table(told)
        except Exception as problem:  # the dump is worth more
            return f"note the walk failed: {type(problem).__name__}\n"

    def _say_holders(self) -> None:
        """Which variables keep the most, in one line."""
        found = self._found
        if found is None:
            return
        most: List[Holder] = []
        for one in found.holders:
            if not any(outer.name in one.inside for outer in most):
                most.append(one)
        if most:
            kept = "; ".join(f"{size_text(one.bytes)} kept by {one.text}" for one in most[:_HOLDERS])
            say(f"at the failure {kept} (walked {found.objects:,} objects in {found.seconds:.1f} s)")

    def _write(self) -> str:
        snapshot = self._torch.cuda.memory._snapshot()
        # Before 2.3 snapshots lack the allocator's settings.
        names = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"]
        name = next((name for name in names if name in os.environ), names[0])
        snapshot.setdefault("allocator_settings", {name: os.environ.get(name, "")})
        held = self._walk()
        if held:
            snapshot["memreel_holders"] = held
        path, descriptor = self._new_file()
        try:
            with open(descriptor, "wb") as out:
                pickle.dump(snapshot, out, protocol=4)  # PyTorch's memory_viz page reads no newer one
        except BaseException:
            os.unlink(path)
            raise
        with self._lock:
            self.files.append(path)
            while len(self.files) > self._dumps:
                with contextlib.suppress(OSError):  # already removed
                    os.unlink(self.files.pop(0))
        return path

    def _new_file(self) -> Tuple[str, int]:
        """The dump's path and descriptor, with the first unused number."""
        while True:
            with self._lock:
                self._number += 1
                path = _dump_name(self._file, self._number)
            try:
                return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                pass

    def _explain(self, path: str, what: str) -> None:
        """Starts the process that writes the verdict on the dump."""
        self._instead = f"{what}; dump: {path}"
        try:
            self._helper = subprocess.Popen([program(), "failure-lines", path, what], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, env={}, start_new_session=True)
        except Exception:  # memreel's programs are missing, or the system can't start a process
            say(self._instead)

    def _await_helper(self, seconds: float) -> None:
        if self._helper is None:
            return
        try:
            if self._helper.wait(seconds) != 0:
                say(self._instead)
            self._helper = None
        except subprocess.TimeoutExpired:
            pass

    def _tell_of_others(self) -> None:
        """How many failures one dump represents."""
        if self._others:
            requests = "1 more request" if self._others == 1 else f"{self._others:,} more requests"
            say(f"{requests} failed" + (f" after {self._failure} was written; no further dump" if self._failure else "; no dump"))
            self._others = 0
