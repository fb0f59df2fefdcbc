# SPDX-License-Identifier: Apache-2.0
"""Python programs are attached to: PyTorch tells what it held, and CPython can be asked to load the library."""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from attaching import AttachTest, may_trace
from program import MEMREEL, REPOSITORY

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit/python"))
from each_python import pythons  # noqa: E402

@unittest.skipUnless(may_trace(), "this machine does not let a process trace another (ptrace)")
class Tensors(AttachTest):
    """A Python program with a fake PyTorch allocator, attached to while it runs."""

    def test_what_was_held_and_what_comes(self):
        process = self.run_program(sys.executable, "-B", "-c", TENSORS, C10_CUDA)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for cycle in range(3):
            trace = self.directory / f"{cycle}.reel"
            self.memreel("attach", process.pid, "-o", trace.name, "--time-limit", 20)
            time.sleep(0.4)
            self.memreel("detach", process.pid)
            rows = self.events(trace)
            old = [row for row in rows if row["kind"] == "alloc" and "before recording" in str(row.get("stack", ""))]
            tensors = {(row["address"], row["size"]) for row in old if row["heap"] == "torch.cuda"}
            segments = {(row["address"], row["size"]) for row in old if row["heap"] == "cuda.driver"}
            # The block at 0x10200 is freed, but not by the device; the one at 0x10600 comes and goes.
            self.assertLessEqual({(0x10000, 512), (0x10200, 1024), (0x30000, 4096)}, tensors)
            self.assertLessEqual(len(tensors), 4)
            self.assertEqual(segments, {(0x10000, 2 << 20)})
            self.assertEqual(self.document("info", trace)["losses"]["preexisting_allocations"], len(old))
            new = [row for row in rows if row["heap"] == "torch.cuda" and row["kind"] == "alloc" and row not in old]
            self.assertGreater(len(new), 20)
            self.assertEqual({row["size"] for row in new}, {2048})
            frames = [frame["function"] for frame in new[-1]["stack"]]
            self.assertIn("step", frames)
            report = self.document("report", trace, "--leaks")
            self.assertIn("unknown before attach", {leak["verdict"] for leak in report["leaks"]})
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        self.assertIn("KeyboardInterrupt", errors)

    def check_exact(self, *options):
        """From the moment on at which the allocator told what it held, each address is where PyTorch's rules put it."""
        process = self.run_program(sys.executable, "-B", str(Path(__file__).with_name("torch_attached.py")), C10_CUDA, *options)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for cycle in range(3):
            for wait in (0.5, 2, 5):  # on a busy machine the program's main thread may not run for long
                trace = self.directory / f"{cycle}-{wait}.reel"
                self.memreel("attach", process.pid, "-o", trace.name, "--time-limit", 20)
                time.sleep(wait)
                self.memreel("detach", process.pid)
                if self.document("verify", trace, code=None)["exact"]:
                    break
            rows = [row for row in self.events(trace) if row["heap"] == "torch.cuda" and row["kind"] == "alloc"]
            old = [row for row in rows if "before recording" in str(row.get("stack", ""))]
            self.assertGreaterEqual(len(old), 4)
            self.assertTrue(all(row["size"] % 512 for row in old), "sizes are as requested")
            device, = self.document("verify", trace)["devices"]
            self.assertIs(device["exact"], True, device)
            self.assertEqual(device["allocations"], len(rows) - len(old))
            self.assertGreater(device["allocations"], 50)
            self.assertEqual(self.document("info", trace)["lost_events"], 0)
        self.end(process)

    def test_is_exact_from_the_attach_on(self):
        self.check_exact()

    def test_is_exact_when_the_allocator_is_used_while_it_tells(self):
        self.check_exact("busy")

    def test_what_frees_code_is_put_back(self):
        """Code objects of CPython 3.9 to 3.11 have no version, so frees of them are counted during a recording."""
        place = "print(id(type((lambda: 0).__code__)) + 48, flush=True)\n"  # of PyCode_Type.tp_dealloc
        for python in [python for minor in ("9", "10", "11") for python in pythons(minor)]:
            process = self.run_program(python, "-B", "-c", place + TENSORS, C10_CUDA)
            address = int(process.stdout.readline())
            self.assertEqual(process.stdout.readline(), "ready\n")

            def what_frees():
                with open(f"/proc/{process.pid}/mem", "rb") as memory:
                    memory.seek(address)
                    return memory.read(8)

            pythons_own = what_frees()
            for cycle in range(2):
                self.memreel("attach", process.pid, "-o", f"{cycle}.reel", "--time-limit", 20)
                self.wait_until(lambda: what_frees() != pythons_own)
                self.memreel("detach", process.pid)
                self.assertEqual(what_frees(), pythons_own)
            self.end(process)


@unittest.skipUnless(may_trace(), "this machine does not let a process trace another (ptrace)")
class Python(AttachTest):
    def pythons_that_can_be_asked(self):
        found = [python for minor in ("14", "15") for python in pythons(minor)]
        if not found:
            self.skipTest("there is no CPython 3.14 or newer here, which lets itself be asked to load a library")
        return found

    def test_python_is_asked(self):
        for python in self.pythons_that_can_be_asked():
            path = f"{Path(python).parent}:{os.environ['PATH']}"
            process = self.run_program(python, "-B", "-c", TENSORS, C10_CUDA)
            self.assertEqual(process.stdout.readline(), "ready\n")
            for cycle in range(2):
                told = subprocess.run([MEMREEL, "attach", str(process.pid), "--time-limit", "20"], text=True, timeout=60,
                                      cwd=self.directory, env=self.environment(PATH=path), stderr=subprocess.PIPE)
                self.assertEqual(told.returncode, 0, told.stderr)
                self.assertIn("loaded by Python", told.stderr)
                time.sleep(0.1)
                self.memreel("detach", process.pid)
            self.assertEqual(len(self.traces()), 2)
            self.assertTrue(all("alloc" in self.document("info", trace)["kinds"] for trace in self.traces()))
            for trace in self.traces():
                trace.unlink()
            self.end(process)

    def test_python_does_not_come_to_it(self):
        """A sleeping interpreter is entered from outside, and does not find a stale request later."""
        self.check_other_door()

    def test_python_is_not_to_be_asked(self):
        self.check_other_door(PYTHON_DISABLE_REMOTE_DEBUG=1)

    def check_other_door(self, **variables):
        morning = self.directory / "morning"
        os.mkfifo(morning)
        for python in self.pythons_that_can_be_asked():
            process = self.run_program(python, "-B", "-c", SLEEPER, **variables)
            self.assertEqual(process.stdout.readline(), "ready\n")
            told = self.memreel("attach", process.pid, "--time-limit", 4, "-o", "sleeper.reel").stderr
            self.assertIn("paused one thread for", told)
            self.memreel("detach", process.pid)
            morning.write_text("!")
            self.assertEqual(process.communicate(timeout=30), ("woke up\n", ""))
            self.assertEqual(process.returncode, 0)
            self.document("info", self.trace())
            self.trace().unlink()


C10_CUDA = os.environ.get("MEMREEL_FAKE_C10_CUDA",
                          str(REPOSITORY / "build/release/tests/unit/torch/lib/libc10_cuda.so"))
TENSORS = """
import ctypes, sys, time, types
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
allocator = ctypes.CDLL(sys.argv[1])
total, live = 512 + 4096, False

def report(address, change):
    global total
    total += change
    allocator.fake_report(ctypes.c_void_p(address), ctypes.c_int64(change), ctypes.c_size_t(total), 1, 0)

def snapshot():
    def block(size, state):
        return {"size": size, "requested_size": size - 10, "state": state, "frames": []}
    return [
        {"device": 0, "address": 0x10000, "total_size": 2 << 20, "stream": 0, "segment_type": "small",
         "blocks": [block(512, "active_allocated"), block(1024, "active_pending_free"),
                    block(2048, "active_allocated" if live else "inactive"), block((2 << 20) - 3584, "inactive")]},
        {"device": 0, "address": 0x30000, "total_size": 4096, "stream": 0, "segment_type": "small", "is_expandable": True,
         "blocks": [block(4096, "active_allocated")]}]

torch = types.ModuleType("torch.cuda")
torch.is_initialized = lambda: True
torch.memory_snapshot = snapshot
sys.modules["torch.cuda"] = torch

def step():
    global live
    report(0x10600, 2048)
    live = True
    time.sleep(0.001)
    live = False
    report(0x10600, -2048)

print("ready", flush=True)
while True: step()
"""

SLEEPER = """
import ctypes, os
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
print("ready", flush=True)
os.read(os.open("morning", os.O_RDWR), 1)
print("woke up")
"""


if __name__ == "__main__":
    unittest.main()
