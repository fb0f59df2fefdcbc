# SPDX-License-Identifier: Apache-2.0
"""Records programs with `memreel record` on the fake GPU of tests/fake, as a user would on a real one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from ground_truth import differences, read_trace, read_truth
from program import MEMREEL, REPOSITORY, ProgramTest

FAKE = Path(os.environ.get("MEMREEL_FAKE", REPOSITORY / "build/release/fake"))
PROGRAM = os.environ.get("MEMREEL_FAKE_PROGRAM", str(REPOSITORY / "build/release/bin/fake_program"))

# The beginning of each program: what a pool's author has.
PRELUDE = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import memreel

MIB = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
contexts = {}

def use(device):
    if device not in contexts:
        contexts[device] = ctypes.c_void_p()
        assert cuda.cuCtxCreate_v2(ctypes.byref(contexts[device]), 0, device) == 0
    assert cuda.cuCtxSetCurrent(contexts[device]) == 0

def malloc(size):
    pointer = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
    return pointer.value

def free(pointer):
    assert cuda.cuMemFree_v2(ctypes.c_uint64(pointer)) == 0

use(0)
"""


class RecordTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.truth_file = self.directory / "truth"

    def environment(self, **variables):
        return {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(FAKE), "MEMREEL_TRUTH": str(self.truth_file),
                "HOME": str(self.directory), **{name: str(value) for name, value in variables.items()}}

    def start(self, *command, options=(), environment=None, **arguments):
        """A running `memreel record`, in this test's directory."""
        return subprocess.Popen([MEMREEL, "record", *map(str, options), "--", *map(str, command)], text=True,
                                env=environment or self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **{"cwd": self.directory, **arguments})

    def record(self, *command, options=(), environment=None, code=0, **arguments):
        """A finished `memreel record`, which must exit with `code`."""
        process = self.start(*command, options=options, environment=environment, **arguments)
        output, errors = process.communicate(timeout=300)
        self.assertEqual(process.returncode, code, errors)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def record_program(self, *mode, **arguments):
        return self.record(PROGRAM, *mode, **arguments)

    def truth(self, since=0):
        """The program's account since its file had this size in bytes."""
        if not self.truth_file.exists():
            return []
        with self.truth_file.open() as file:
            file.seek(since)
            return read_truth(file.read())

    def traces(self):
        return sorted(self.directory.glob("*.reel"))

    def trace(self):
        """The only trace."""
        traces = self.traces()
        self.assertEqual(len(traces), 1, traces)
        return traces[0]

    def events(self, trace=None):
        return read_trace(MEMREEL, trace or self.trace())

    def assert_equals_truth(self, trace=None, truth=None):
        """The events of the trace, after checking them against the program's account."""
        events = self.events(trace)
        self.assertEqual(differences(self.truth() if truth is None else truth, events), [])
        return events

    def losses(self, trace):
        return self.document("info", trace)["losses"]

    def assert_died_of(self, process, number):
        self.assertEqual(process.returncode, -number, f"{signal.Signals(number).name}: {process.returncode}")


class ScriptTest(RecordTest):
    """Records programs in Python that call the driver and annotate pools."""

    count = 0

    def run_python(self, script):
        """The trace of a program, in a file of its own."""
        self.count += 1
        trace = self.directory / f"{self.count}.reel"
        process = self.record(sys.executable, "-c", PRELUDE + script, REPOSITORY / "collector/python_module",
                              options=["-o", trace], environment=self.environment(FAKE_CUDA_GPUS=2))
        self.assertIn("none lost", process.stderr)
        return trace
