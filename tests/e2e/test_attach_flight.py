# SPDX-License-Identifier: Apache-2.0
"""memreel attach --flight: running programs are recorded indefinitely from now on."""

import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from attaching import AttachTest, may_trace
from test_record_flight import FLIGHT_PROGRAM


@unittest.skipUnless(may_trace(), "this machine does not let a process trace another (ptrace)")
class Flight(AttachTest):
    fails = """if True:
        import ctypes
        cuda, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
        assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0) == 0
        assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(64 << 20)) == 0
        print("ready", flush=True)
        input()
        assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 40)) == 2
        print("failed", flush=True)
        input()
        """

    def start(self, *command):
        process = subprocess.Popen(list(map(str, command)), text=True, cwd=self.directory, env=self.environment(),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def go_on(self, process):
        """Tells the program to continue and returns its next line."""
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    def dumped(self, *targets):
        return [Path(line).name for line in self.memreel("dump", *targets).stdout.splitlines()]

    def test_bound_dumps_and_summary(self):
        process = self.start(FLIGHT_PROGRAM, "churn", 400_000, 5_000, 4)
        self.assertEqual(process.stdout.readline(), "step 0\n")
        self.memreel("attach", process.pid, "--flight", "1MiB", "--dumps", 2, "-o", "run.reel")
        for step in (1, 2, 3):
            self.assertEqual(self.go_on(process), f"step {step}")
            self.assertEqual(self.dumped(process.pid), [f"run-dump-{step}.reel"])
            self.assertLessEqual(sum(path.stat().st_size for path in self.directory.glob("run.reel*")), 1 << 20)
        told = self.memreel("detach", process.pid).stderr
        self.assertRegex(told, r"; dumps run-dump-2\.reel, run-dump-3\.reel\n")
        self.assertEqual(sorted(path.name for path in self.directory.glob("*.reel*")), ["run-dump-2.reel", "run-dump-3.reel", "run.reel"])
        info = self.document("info", self.directory / "run.reel")
        self.assertGreater(info["losses"]["folded_events"], 0)
        self.assertEqual(info["losses"]["damaged_packets"], 0)
        said = process.communicate(timeout=60)[1].splitlines()
        self.assertEqual(process.returncode, 0)
        self.assertEqual(said, [f"memreel: dump: {self.directory}/run-dump-{step}.reel (memreel dump)" for step in (1, 2, 3)])

    def test_a_failure_is_three_lines_and_a_dump(self):
        process = self.start(sys.executable, "-c", self.fails)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.memreel("attach", process.pid, "--flight", "1MiB", "-o", "run.reel")
        self.assertEqual(self.go_on(process), "failed")
        for pattern in (r"out of memory on GPU 0: 1\.00 TiB refused", r"larger than the device", r"dump: .+run-dump-1\.reel"):
            self.assertRegex(process.stderr.readline(), "^memreel: " + pattern)
        [failure] = self.document("report", self.directory / "run-dump-1.reel", "--oom")["ooms"]
        self.assertEqual(failure["requested_bytes"], 1 << 40)
        self.assertIn("dump run-dump-1.reel", self.memreel("detach", process.pid).stderr)
        process.communicate("\n", timeout=60)
        self.assertEqual(process.returncode, 0)

    def test_the_signal_dumps_and_is_free_again(self):
        process = self.start(FLIGHT_PROGRAM, "grow", 64, 2)
        self.assertEqual(process.stdout.readline(), "grown\n")
        self.memreel("attach", process.pid, "--flight", "1MiB", "-o", "run.reel")
        os.kill(process.pid, signal.SIGUSR2)
        dump = self.directory / "run-dump-1.reel"
        self.wait_until(dump.exists, 60)
        line = process.stderr.readline()
        self.assertRegex(line, r"^memreel: dump: .+run-dump-1\.reel \(signal\)$")
        self.memreel("detach", process.pid)
        self.assertEqual(self.go_on(process), "grown")
        caught = int(re.search(r"SigCgt:\s+(\w+)", Path(f"/proc/{process.pid}/status").read_text())[1], 16)
        self.assertFalse(caught >> (signal.SIGUSR2 - 1) & 1, "the handler is gone with the recording")


if __name__ == "__main__":
    unittest.main()
