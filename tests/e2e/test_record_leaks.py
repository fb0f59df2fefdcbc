# SPDX-License-Identifier: Apache-2.0
"""Leaks of C++ and Python programs are found in their recordings, down to the line; and nothing else is accused."""

import os
import subprocess
import sys
import unittest

from program import REPOSITORY
from recorded import RecordTest

# A training loop on the driver's allocator: train.py KEEPER LATER MARKS.
TRAIN = """\
import collections, ctypes, sys
import memreel

keeper, later, marks = sys.argv[1:]
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0

class Tensor:
    def __init__(self, size):
        self.pointer = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(self.pointer), ctypes.c_size_t(size)) == 0
    def __del__(self, free=cuda.cuMemFree_v2):
        free(self.pointer)

def forward():
    return [Tensor(1 << 20) for _ in range(4)]  # temporary

history = []
def train():
    kept = {"local": [], "global": history, "bounded": collections.deque(maxlen=4)}[keeper]
    weights = Tensor(8 << 20)
    for step in range(20):
        activations = forward()
        loss = Tensor(256 << 10)  # leaks
        kept.append(loss)
        del activations, loss
        if marks == "marked":
            memreel.step()

def evaluate():
    for batch in range(2):
        outputs = forward()

train()
if later == "evaluation":
    evaluate()
"""

# A loop that keeps host memory: host.py WHAT, resident, pinned or nothing.
HOST = """\
import ctypes, sys, time
import memreel

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
pointer = ctypes.c_uint64()
assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(8 << 20)) == 0

def pin(size):
    host = ctypes.c_void_p()
    assert cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(size), 0) == 0

kept = []
for step in range(32):
    if sys.argv[1] == "resident":
        kept.append(b"x" * (4 << 20))
    if sys.argv[1] == "pinned":
        pin(4 << 20)
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == 0 and cuda.cuMemFree_v2(pointer) == 0
    time.sleep(0.02)
    memreel.step()
"""

PROGRAM = os.environ.get("MEMREEL_LEAKING_PROGRAM", str(REPOSITORY / "build/release/bin/leaking_program"))
SOURCE = REPOSITORY / "tests/fake/leaking_program.cpp"
SAMPLE = os.environ.get("MEMREEL_SAMPLE_LEAK")


def line_that_leaks(program):
    """The number of the line marked "leaks" in the function of that name."""
    in_function = False
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        in_function = line.startswith(f"void {program}()") or (in_function and line != "}")
        if in_function and line.endswith("// leaks"):
            return number
    raise AssertionError(f"no line of {program} leaks")


class Leaks(RecordTest):
    def judged(self, *command):
        """Records a program; returns (leaked addresses, accused addresses, the whole report)."""
        process = self.record(*command)
        self.assertIn("none lost", process.stderr)
        report = self.document("report", self.trace(), "--leaks", "--allocations")
        accused = {allocation["address"]: allocation["bytes"] for finding in self.accused(report)
                   for allocation in finding["allocations"]}
        return {line.address: line.size for line in self.truth() if line.event == "leak"}, accused, report

    @staticmethod
    def accused(report):
        return [finding for finding in report["leaks"] if finding["verdict"] in ("leak", "suspected")]

    def assert_found(self, leaked, accused):
        both = sum(bytes for address, bytes in leaked.items() if address in accused)
        self.assertGreaterEqual(both / sum(leaked.values()), 0.95)
        self.assertGreaterEqual(both / max(1, sum(accused.values())), 0.85)

    def assert_program_is_judged_right(self, program):
        leaked, accused, report = self.judged(PROGRAM, program)
        self.assertGreater(len(leaked), 10)
        self.assert_found(leaked, accused)
        first = self.accused(report)[0]
        self.assertIn(first["allocations"][0]["address"], leaked)
        # The program's allocation function is on every stack; the culprit is its caller.
        self.assertIn((SOURCE.name, line_that_leaks(program)),
                      [(os.path.basename(frame["file"]), frame["line"]) for frame in first["stack"]])
        return report["leak_steps"][0]

    def test_a_leak_in_each_step(self):
        steps = self.assert_program_is_judged_right("each_step")
        self.assertEqual((steps["from"], steps["steps"]), ("marks", 60))

    def test_a_leak_that_a_vector_frees_when_its_function_returns(self):
        self.assert_program_is_judged_right("returned")
        report = self.document("report", self.trace(), "--leaks")
        self.assertTrue(self.accused(report)[0]["freed_at_end"])
        self.answer("check", self.trace(), "--max-leaked", "1MiB", code=1)

    def test_a_slow_leak_under_heavy_traffic(self):
        steps = self.assert_program_is_judged_right("slow")
        self.assertEqual((steps["from"], steps["steps"]), ("marks", 300))

    def test_a_leak_in_a_program_that_marks_no_steps(self):
        steps = self.assert_program_is_judged_right("unmarked")
        self.assertEqual((steps["from"], steps["steps"]), ("repetition", 60))

    def test_the_line_of_steps_that_are_not_marked_is_named_by_info_too(self):
        self.record(PROGRAM, "unmarked")
        [judged] = self.document("report", self.trace(), "--leaks")["leak_steps"]
        recording = self.document("info", self.trace())["recording"]
        self.assertEqual((recording["steps"], recording["steps_from"]),
                         (judged["steps"], f"{judged['steps']} steps, found by what recurs at {judged['mark']}"))
        self.assertRegex(judged["mark"], rf"^{SOURCE.name}:\d+$")
        self.assertIn(judged["mark"], self.answer("info", self.trace()).stdout)

    def test_a_bounded_cache_is_not_accused(self):
        leaked, accused, report = self.judged(PROGRAM, "bounded_cache")
        self.assertEqual((leaked, accused), ({}, {}))
        self.assertIn("cache", {finding["verdict"] for finding in report["leaks"]})

    def python_program(self, *arguments):
        """Records a program of 20 steps to its end; returns the comments of the lines that it accuses."""
        for trace in self.traces():
            trace.unlink()
        program = self.directory / "train.py"
        program.write_text(TRAIN)
        self.record(sys.executable, "-B", program, *arguments,
                    environment=self.environment(PYTHONPATH=REPOSITORY / "collector/python_module"))
        report = self.document("report", self.trace(), "--leaks")
        lines = TRAIN.splitlines()
        return [lines[frame["line"] - 1].split("#")[-1].strip() for finding in self.accused(report)
                for frame in finding["stack"][:3] if frame["file"].endswith("train.py") and "#" in lines[frame["line"] - 1]]

    def test_a_python_list_is_a_leak_although_the_interpreter_frees_it(self):
        for keeper in ("local", "global"):
            for later in ("nothing", "evaluation"):
                for marks in ("marked", "unmarked"):
                    if (keeper, later, marks) == ("local", "evaluation", "unmarked"):
                        continue  # the end of the last step is not known, and the program goes on
                    with self.subTest(keeper=keeper, later=later, marks=marks):
                        self.assertEqual(set(self.python_program(keeper, later, marks)), {"leaks"})
                        self.answer("check", self.trace(), "--max-leaked", "1MiB", code=1)

    def test_what_a_python_program_frees_in_time_is_no_leak_when_it_ends(self):
        for marks in ("marked", "unmarked"):
            with self.subTest(marks=marks):
                self.assertEqual(self.python_program("bounded", "nothing", marks), [])
                self.answer("check", self.trace(), "--max-leaked", "0")

    def host_program(self, what):
        """Records it; returns the verdict on its leaks, their line, and the host's memory."""
        for trace in self.traces():
            trace.unlink()
        program = self.directory / "host.py"
        program.write_text(HOST)
        self.record(sys.executable, "-B", program, what, options=["--sample-ms", "1"],
                    environment=self.environment(PYTHONPATH=REPOSITORY / "collector/python_module"))
        report = self.document("report", self.trace())
        lines = {line["topic"]: line["text"] for line in report["verdict"]["lines"]}
        return report["verdict"]["leaks"], lines.get("leaks", ""), report["host_memory"]

    def test_a_leak_of_host_memory_is_called_one(self):
        leaks, line, memory = self.host_program("resident")
        self.assertAlmostEqual(leaks["host_growth_bytes_per_step"] / (4 << 20), 1, delta=0.3)
        self.assertRegex(line, r"^host memory grows \d\.\d\d MiB per step, the device's does not$")
        self.assertGreater(memory["resident"]["peak_bytes"] - memory["resident"]["first_bytes"], 100 << 20)
        text = " ".join(self.answer("report", self.trace()).stdout.split())
        self.assertRegex(text, r"host memory: \S+ MiB resident at its peak, .* MiB more with each step")

    def test_a_leak_of_pinned_memory_is_called_one(self):
        leaks, line, memory = self.host_program("pinned")
        self.assertTrue(leaks["on_host"])
        self.assertRegex(line, r"^host memory grows 4\.00 MiB per step at .*host\.py:12\)?, 128\.00 MiB in all$")
        self.assertEqual(memory["pinned_end_bytes"], 128 << 20)

    def test_a_program_that_keeps_nothing_of_the_host_does_not_leak_it(self):
        leaks, line, memory = self.host_program("nothing")
        self.assertEqual((leaks["host_growth_bytes_per_step"], leaks["on_host"]), (0, False))
        self.assertNotIn("host", line)
        self.assertEqual(memory["pinned_peak_bytes"], 0)
        self.assertGreater(memory["resident"]["peak_bytes"], 1 << 20)

    def assert_all_of_the_sample_is_found(self, program):
        """It frees at its end what was meant to stay: the rest has leaked."""
        _, accused, report = self.judged(program)
        leaked = {}
        for line in self.truth():
            if line.event == "alloc":
                leaked[line.address] = line.size
            else:
                del leaked[line.address]
        self.assertEqual(accused, leaked)
        return [{frame["function"].split("(")[0].split("::")[-1] for frame in finding["stack"]}
                for finding in self.accused(report)]

    if SAMPLE:  # built only if the CUDA toolkit is found
        def test_all_that_the_sample_leaks(self):
            functions = self.assert_all_of_the_sample_is_found(SAMPLE)
            for culprit in ("resize", "of", "early_return"):
                self.assertTrue(any(culprit in found for found in functions), (culprit, functions))

        def test_all_that_the_sample_leaks_without_names(self):
            stripped = self.directory / "stripped"
            subprocess.run(["strip", "-o", stripped, SAMPLE], check=True)
            self.assert_all_of_the_sample_is_found(stripped)


if __name__ == "__main__":
    unittest.main()
