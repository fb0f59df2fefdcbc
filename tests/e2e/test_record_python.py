# SPDX-License-Identifier: Apache-2.0
"""Python programs under `memreel record`: their own lines in stacks, tensors, steps and pools, on every CPython here."""

import json
import os
import sys
import unittest
from pathlib import Path

from program import REPOSITORY
from recorded import RecordTest

sys.path.insert(0, str(REPOSITORY / "tests/unit/python"))
from each_python import pythons  # noqa: E402

C10_CUDA = os.environ.get("MEMREEL_FAKE_C10_CUDA",
                          str(REPOSITORY / "build/release/tests/unit/torch/lib/libc10_cuda.so"))
MODULE = str(REPOSITORY / "collector/python_module")
PROGRAM = str(Path(__file__).parent / "python_program.py")
# Its table of offsets (_Py_DebugOffsets) matches no version.
WITHOUT_TABLE = f"""
import ctypes, runpy
runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
ctypes.c_uint64.from_address(runtime + 8).value = 0
runpy.run_path({PROGRAM!r}, run_name="__main__")
"""


def python_frames(events):
    return [frame for row in events for frame in row.get("stack", ()) if frame["file"].endswith((".py", ">"))]


class Python(RecordTest):
    def recorded(self, python, *options, program=(PROGRAM,)):
        process = self.record(python, "-B", *program, C10_CUDA, MODULE, options=options)
        told = json.loads(process.stdout)
        self.assertTrue(told["recording"])
        self.assertIn("none lost", process.stderr)
        trace = self.trace()
        events = self.events(trace)
        self.assertEqual(self.document("info", trace)["lost_events"], 0)
        trace.unlink()
        return told["told"], events, process.stderr

    def assert_stacks_are_those_of_the_program(self, told, events):
        kinds = {"driver": ("cuda.driver", "alloc"), "tensor": ("torch.cuda", None), "own": ("arena of the program", "alloc")}
        for what, (heap, kind) in kinds.items():
            recorded = [row for row in events if row["heap"] == heap and row["kind"] in ("alloc", "free_requested")
                        and kind in (None, row["kind"])]
            expected = [(size, frames) for event, size, frames in told if event == what]
            self.assertEqual([row["size"] for row in recorded], [size for size, _ in expected], what)
            for row, (_, frames) in zip(recorded, expected):
                python = [[frame["file"], frame["line"], frame["function"]] for frame in row["stack"]
                          if frame["file"].endswith((".py", ">"))]
                # On top are the helpers that made the call; the program's own frames match its account.
                own = python[len(python) - len(frames):]
                self.assertEqual([frame[::2] for frame in own], [frame[::2] for frame in frames])
                self.assertEqual([frame[1] for frame in own[1:]], [frame[1] for frame in frames[1:]])
                # Python's frames are where they ran: above the code that started the thread.
                self.assertFalse(row["stack"][-1]["file"].endswith((".py", ">")), row["stack"])

    def check(self, minor):
        found = list(pythons(minor))
        if not found:
            self.skipTest(f"there is no CPython 3.{minor} here")
        for python in found:
            with self.subTest(python):
                told, events, errors = self.recorded(python)
                self.assertNotIn("no Python frames", errors)
                self.assert_stacks_are_those_of_the_program(told, events)
                marks = [(row["mark"], row["phase"]) for row in events if row["kind"] == "mark"]
                self.assertEqual(marks, [("step", "instant")] * 3 + [("evaluation", "begin"), ("evaluation", "end")])
                failed = [row for row in events if row["kind"] == "alloc_failed"]
                self.assertEqual([(row["heap"], row["size"]) for row in failed], [("torch.cuda", 1 << 40)])
                self.assertEqual([row["kind"] for row in events if row["heap"] == "arena of the program"],
                                 ["pool_created", "alloc", "free_requested", "free_completed", "pool_destroyed"])

    def test_switched_off(self):
        _, events, _ = self.recorded(sys.executable, "--no-torch", "--no-python")
        self.assertFalse([row for row in events if row["heap"] == "torch.cuda"])
        self.assertFalse(python_frames(events))
        self.assertTrue(events)

    def test_without_a_table_of_offsets(self):
        found = [python for minor in range(13, 16) for python in pythons(str(minor))]
        if not found:
            self.skipTest("there is no CPython 3.13 or newer here, which has one")
        for python in found:
            with self.subTest(python):
                _, events, errors = self.recorded(python, program=("-c", WITHOUT_TABLE))
                self.assertIn("no readable offset table", errors)
                self.assertFalse(python_frames(events))
                self.assertTrue([row for row in events if row["heap"] == "torch.cuda"])
                self.assertTrue([row for row in events if row.get("stack")])


for minor in range(9, 16):
    setattr(Python, f"test_3_{minor}", lambda self, minor=str(minor): self.check(minor))

if __name__ == "__main__":
    unittest.main()
