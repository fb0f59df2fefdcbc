# SPDX-License-Identifier: Apache-2.0
"""The two backends that see driver calls, and recording that stops and restarts."""

import os
import shutil
import subprocess
import unittest

from recorded import FAKE, RecordTest

PYTHON = shutil.which("python3")
SANITIZED = bool(os.environ.get("MEMREEL_SANITIZE"))

# Like torch.profiler, which is linked with CUPTI.
ASKS_FOR_CUPTI = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
context = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
cuda.cuCtxSetCurrent(context)
first, second, subscriber = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_void_p()
assert cuda.cuMemAlloc_v2(ctypes.byref(first), ctypes.c_size_t(1000)) == 0
called = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)(lambda *_: None)
print(ctypes.CDLL(None).cuptiSubscribe(ctypes.byref(subscriber), called, None))
assert cuda.cuMemAlloc_v2(ctypes.byref(second), ctypes.c_size_t(2000)) == 0
assert cuda.cuMemFree_v2(first) == 0
assert cuda.cuMemFree_v2(second) == 0
"""

# The driver's functions, looked up by a program that is not linked with libcuda.
LOOKED_UP = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")

def looked_up(name):
    return getattr(cuda, name)

def asked_for(name):
    function = ctypes.c_void_p()
    symbol = ctypes.c_char_p(name.removesuffix("_v2").encode())
    assert cuda.cuGetProcAddress_v2(symbol, ctypes.byref(function), 12000, ctypes.c_uint64(0), None) == 0
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(function.value)

cuda.cuInit(0)
context = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
cuda.cuCtxSetCurrent(context)
pointer = ctypes.c_uint64()
assert looked_up("cuMemAlloc_v2")(ctypes.byref(pointer), ctypes.c_size_t(1000)) == 0
assert asked_for("cuMemAlloc_v2")(ctypes.addressof(pointer), 2000) == 0
assert looked_up("cuMemFree_v2")(pointer) == 0
"""

# The same, whose first look-up is that of a driver that may answer with what stands before it.
ASKED_FOR_FIRST = LOOKED_UP.replace('looked_up("cuMemAlloc_v2")(ctypes.byref(pointer), ctypes.c_size_t(1000))',
                                    'asked_for("cuMemAlloc_v2")(ctypes.addressof(pointer), 1000)')

STOPPED = """
import ctypes, os
cuda = ctypes.CDLL("libcuda.so.1")
agent = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
cuda.cuInit(0)
context = ctypes.c_void_p()
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)

def allocate(size):
    pointer = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
    return pointer

first = allocate(1)
agent.memreel_agent_stop()
allocate(2)
assert agent.memreel_agent_start() == 1
allocate(3)
cuda.cuMemFree_v2(first)
agent.memreel_agent_stop()
agent.memreel_agent_stop()
allocate(4)
"""


class Interposed(RecordTest):
    OPTIONS = ("--backend", "interpose")

    def assert_recorded(self, *mode):
        self.record_program(*mode, options=self.OPTIONS)
        self.assertEqual(self.document("info", self.trace())["source"], "interpose")
        return self.assert_equals_truth()

    def test_one_thread(self):
        self.assertEqual(len(self.truth()), 0)
        self.assert_recorded("single", 300)
        self.assertEqual(len(self.truth()), 600)

    def test_threads_that_free_what_others_allocated(self):
        self.assert_recorded("threads", 4, 200)

    def test_every_kind_of_memory(self):
        self.assert_recorded("kinds")

    def test_failures(self):
        self.assert_recorded("failures")

    def test_pools(self):
        self.assert_recorded("pools", 100)

    def test_virtual_memory(self):
        self.assert_recorded("vmm")

    def test_captured_allocations_are_none(self):
        self.assert_recorded("capture")

    def test_a_context_takes_its_memory_along(self):
        self.assert_recorded("contexts")

    def test_stacks_begin_in_the_program(self):
        depths = {}
        for backend in ("cupti", "interpose"):
            self.record_program("nested", 5, options=("--backend", backend))
            depths[backend] = {len(row["stack"]) for row in self.events() if row["kind"] == "alloc"}
            self.trace().unlink()
        # CUPTI is called from within the driver's function, which adds a frame. Neither has frames of the library.
        self.assertEqual({depth + 1 for depth in depths["interpose"]}, depths["cupti"])

    def test_it_takes_over_when_cupti_is_taken(self):
        process = self.record_program("single", 100, environment=self.environment(FAKE_CUPTI_TAKEN="Nsight Systems"))
        self.assertIn("CUPTI is in use by Nsight Systems", process.stderr)
        self.assertEqual(self.document("info", self.trace())["source"], "interpose")
        self.assert_equals_truth()

    @unittest.skipIf(SANITIZED or PYTHON is None, "Python can't load a sanitized library")
    def test_it_gives_cupti_to_who_asks(self):
        process = self.record(PYTHON, "-c", ASKS_FOR_CUPTI)
        self.assertEqual(process.stdout, "0\n", "as if nobody had it")
        self.assertIn("handing CUPTI over to another part", process.stderr)
        calls = [(row["kind"], row["size"]) for row in self.events() if row["heap"] == "cuda.driver" and
                 row["kind"] in ("alloc", "free_requested")]
        self.assertEqual(calls, [("alloc", 1000), ("alloc", 2000), ("free_requested", 1000), ("free_requested", 2000)])

    @unittest.skipIf(SANITIZED or PYTHON is None, "Python can't load a sanitized library")
    def test_it_keeps_cupti_when_told_to(self):
        process = self.record(PYTHON, "-c", ASKS_FOR_CUPTI, options=("--backend", "cupti"))
        self.assertEqual(process.stdout, "39\n", "there is room for one")
        self.assertEqual([row["size"] for row in self.events() if row["kind"] == "alloc"], [1000, 2000])

    def test_cupti_or_nothing(self):
        process = self.record_program("single", 100, options=("--backend", "cupti"),
                                      environment=self.environment(FAKE_CUPTI_TAKEN="Nsight Systems"))
        self.assertIn("in use by Nsight Systems", process.stderr)
        self.assertEqual(self.traces(), [])
        self.assertEqual(len(self.truth()), 200)

    @unittest.skipIf(SANITIZED or PYTHON is None, "Python can't load a sanitized library")
    def test_functions_that_are_looked_up(self):
        for name, program in (("looked-up", LOOKED_UP), ("asked-for-first", ASKED_FOR_FIRST)):
            with self.subTest(name):
                trace = self.directory / f"{name}.reel"
                self.record(PYTHON, "-c", program, options=(*self.OPTIONS, "-o", trace))
                calls = [(row["kind"], row["size"]) for row in self.events(trace) if row["heap"] == "cuda.driver" and
                         row["kind"] in ("alloc", "free_requested")]
                self.assertEqual(calls, [("alloc", 1000), ("alloc", 2000), ("free_requested", 2000)])

    @unittest.skipIf(SANITIZED or PYTHON is None, "Python can't load a sanitized library")
    def test_other_symbols_are_found_as_before(self):
        program = ("import ctypes; libc = ctypes.CDLL(None); print(libc.getpid() > 0, hasattr(libc, 'cuNothing'),"
                   "ctypes.CDLL('libm.so.6').abs(-3))")
        process = self.record(PYTHON, "-c", program, options=self.OPTIONS)
        self.assertEqual(process.stdout, "True False 3\n")


class StoppedAndStarted(RecordTest):
    @unittest.skipIf(SANITIZED or PYTHON is None, "Python can't load a sanitized library")
    def test_each_recording_has_what_happened_during_it(self):
        for backend, preloaded in (("cupti", False), ("interpose", True)):
            with self.subTest(backend):
                agent = str(FAKE.parent / "lib/libmemreel-agent.so")
                environment = self.environment(CUDA_INJECTION64_PATH=agent, MEMREEL_OUTPUT="run.reel",
                                               MEMREEL_BACKEND=backend)
                if preloaded:
                    environment["LD_PRELOAD"] = agent
                self.run_program(PYTHON, "-c", STOPPED, environment=environment)
                first, second = self.directory / "run.reel", self.directory / "run-1.reel"
                self.assertEqual(self.sizes(first), [1])
                self.assertEqual(self.sizes(second), [3])
                self.assertFalse(self.losses(first)["began_late"])
                self.assertTrue(self.losses(second)["began_late"])
                self.assertEqual(self.losses(second)["unmatched_frees"], 1)
                for trace in self.traces():
                    trace.unlink()

    def run_program(self, *command, environment):
        subprocess.run(command, env=environment, cwd=self.directory, check=True, timeout=60)

    def sizes(self, trace):
        return [row["size"] for row in self.events(trace) if row["kind"] == "alloc"]
