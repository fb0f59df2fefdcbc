# SPDX-License-Identifier: Apache-2.0
"""memreel attach --holders: which Python variables keep the memory of programs that memreel is not in."""

import os
import sys
import unittest

from attaching import AttachTest, may_trace

HOLDING = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
class Buffer:
    def __init__(self, number):
        self.__cuda_array_interface__ = {"data": (0x7f0000000000 + (number << 20), False), "shape": (1 << 20,), "typestr": "|u1"}
history = [Buffer(number) for number in range(30)]
print("ready", flush=True)
while True: sum(range(1000))
"""


@unittest.skipUnless(may_trace(), "this machine does not let a process trace another (ptrace)")
class Holders(AttachTest):
    def test_no_recording_is_made(self):
        process = self.run_program(sys.executable, "-B", "-c", HOLDING)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assertIn("is not being recorded", self.memreel("holders", process.pid, code=2).stderr)
        for _ in range(2):
            told = self.memreel("attach", process.pid, "--holders")
            self.assertRegex(told.stdout, r"30\.00 MiB +30  `__main__\.history`, list of 30")
        self.assertIn("memreel was already loaded", told.stderr)
        document = self.document("attach", process.pid, "--holders")
        self.assertEqual((document["schema"], document["site"]), ("memreel.holders/1", None))
        self.assertIn("no live memory is known", self.memreel("attach", process.pid, "--holders", "--site", "x.py:1", code=2).stderr)
        self.assertEqual(self.traces(), [])
        self.memreel("attach", process.pid, "-o", "run.reel")  # it still can be recorded
        self.memreel("detach", process.pid)
        self.assertEqual(len(self.traces()), 1)
        self.assertIsNone(process.poll())

    def test_options_that_record_are_refused(self):
        for options, name in (("-o x.reel", "--output"), ("--duration 3", "--duration"), ("--flight 1MiB", "--flight")):
            told = self.memreel("attach", os.getpid(), "--holders", *options.split(), code=2)
            self.assertIn(f"{name}: has no effect with --holders", told.stderr)
        self.assertIn("--holders", self.memreel("attach", os.getpid(), "--site", "x.py:1", code=2).stderr)
        self.assertIn("--site has an empty value", self.memreel("attach", os.getpid(), "--holders", "--site", "", code=2).stderr)
        for site in ("a\nb", "x" * 70_000):
            self.assertIn("is not a place", self.memreel("attach", os.getpid(), "--holders", "--site", site, code=2).stderr)


if __name__ == "__main__":
    unittest.main()
