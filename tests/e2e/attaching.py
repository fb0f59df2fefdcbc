# SPDX-License-Identifier: Apache-2.0
"""Attaching to programs that run: starts them, waits for what they do, and compares traces with it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ground_truth import driver_events, expected
from program import MEMREEL
from recorded import RecordTest


def may_trace():
    """Whether this machine allows tracing other processes at all."""
    probe = ("import ctypes, os, sys\n"
             "libc = ctypes.CDLL(None, use_errno=True)\n"
             "child = os.fork()\n"
             "if child == 0:\n    import time; time.sleep(10)\n"
             "result = libc.ptrace(0x4206, child, 0, 0)\n"
             "os.kill(child, 9)\n"
             "sys.exit(result != 0)\n")
    return subprocess.run([sys.executable, "-c", probe]).returncode == 0


class AttachTest(RecordTest):
    def run_program(self, *command, **variables):
        """A program that runs without memreel and has used the GPU."""
        process = subprocess.Popen(list(map(str, command)), text=True, cwd=self.directory,
                                   env=self.environment(**variables), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)  # including its children
        except ProcessLookupError:
            pass
        process.communicate(timeout=30)

    def memreel(self, *arguments, code=0, timeout=60):
        process = subprocess.run([MEMREEL, *map(str, arguments)], text=True, cwd=self.directory, timeout=timeout,
                                 env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        if code is not None:
            self.assertEqual(process.returncode, code, process.stderr)
        return process

    def threads(self, pid):
        names = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that just ended
                names.append(Path(f"/proc/{pid}/task/{task}/comm").read_text())
        return sorted(names)

    def files(self, pid):
        return sorted(os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd"))

    def wait_until(self, condition, seconds=10):
        limit = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), limit, "this does not become true")
            time.sleep(0.005)

    def wait_for_truth(self, lines):
        self.wait_until(lambda: self.truth_file.exists() and len(self.truth_file.read_bytes().splitlines()) >= lines)

    def truth_size(self):
        """The size of the ground truth, less what calls in progress may have written."""
        return max(0, self.truth_file.stat().st_size - 10_000)

    @contextlib.contextmanager
    def stopped(self, pid):
        """Stops the program while the test checks what it did; otherwise a busy machine would never catch up."""
        os.kill(pid, signal.SIGSTOP)
        yield
        os.kill(pid, signal.SIGCONT)

    def assert_has_all_between(self, trace, begin, end, since):
        """Checks that everything the program did between two instants is in the trace, in order, thread by thread; the trace may
        also have a little before and after, but nothing the program did not do. `since`: truth_size() before the trace began."""
        truth = self.truth(since)
        rows = self.events(trace)
        for thread in {line.thread for line in truth}:
            found = [event for tid, event in driver_events(rows, truth) if tid == thread]
            lines = [line for line in truth if line.thread == thread]
            # The sizes of earlier allocations are not known when they are freed.
            kept = [(event.kind, event.address) for event in found]
            did = [(expected(line).kind, expected(line).address) for line in lines]
            # A thread may have been inside its first call when recording began, and before its last when it ended.
            due = [(expected(line).kind, expected(line).address) for line in lines if begin < line.time < end][1:-1]
            self.assertTrue(any(did[i:i + len(kept)] == kept for i in range(len(did) - len(kept) + 1)),
                            "the trace has what the program did not do")
            self.assertTrue(any(kept[i:i + len(due)] == due for i in range(len(kept) - len(due) + 1)),
                            "the trace lacks what the program did")
