# SPDX-License-Identifier: Apache-2.0
"""Exported traces, read by the tools that they were written for."""

import importlib.util
import os
import pickle
import shutil
import subprocess
import unittest
from pathlib import Path

from program import SAMPLES, ProgramTest


def memory_viz():
    """PyTorch's torch/cuda/_memory_viz.py as a module: from the installed PyTorch, or the file named by
    MEMREEL_MEMORY_VIZ."""
    path = os.environ.get("MEMREEL_MEMORY_VIZ")
    if path is None:
        torch = importlib.util.find_spec("torch")
        path = torch and Path(torch.origin).parent / "cuda/_memory_viz.py"
    if path is None or not Path(path).exists():
        raise unittest.SkipTest("PyTorch is not installed")
    spec = importlib.util.spec_from_file_location("memory_viz", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class MemoryViz(ProgramTest):
    def test_pytorchs_own_code_reads_it(self):
        viz = memory_viz()
        trace = SAMPLES / "oom_default.reel"
        exported = self.directory / "exported.pickle"
        self.answer("export", trace, "--format", "torch", "-o", exported)
        data = pickle.loads(exported.read_bytes())
        info = self.document("info", trace)
        summary = viz.segsum(data)  # asserts that blocks and segments add up
        self.assertIn(f"total_reserved: {viz.Bytes(info['devices'][0]['end_reserved_bytes'])}", summary)
        history = viz.trace(data)
        self.assertEqual(history.count("raise OutOfMemoryError()"), info["kinds"]["alloc_failed"])
        self.assertEqual(history.count("cudaMalloc("), info["kinds"]["segment_alloc"])
        held = viz.memory(data, format_flamegraph=lambda lines: lines)
        active = sum(int(line.rpartition(" ")[2]) for line in held.splitlines() if "active_allocated" in line)
        self.assertGreaterEqual(active, info["devices"][0]["end_live_bytes"])
        self.assertIn("snapshot.pickle", viz.segment_plot(data))


@unittest.skipIf(shutil.which("heaptrack_print") is None, "heaptrack is not installed")
class Heaptrack(ProgramTest):
    def sum_of(self, recording, cost):
        stacks = self.directory / "stacks.txt"
        done = subprocess.run(["heaptrack_print", "-f", recording, "-F", stacks, "--flamegraph-cost-type", cost],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("failed to parse", done.stderr)
        return sum(int(line.rpartition(" ")[2]) for line in stacks.read_text().splitlines()), stacks.read_text()

    def test_heaptrack_finds_the_same_memory(self):
        for name in ("oom_default.reel", "leak.reel"):
            with self.subTest(name):
                recording = self.directory / "exported.gz"
                self.answer("export", SAMPLES / name, "--format", "heaptrack", "-o", recording)
                device = self.document("info", SAMPLES / name)["devices"][0]
                peak, stacks = self.sum_of(recording, "peak")
                self.assertEqual(peak, device["peak_live_bytes"])
                self.assertIn(".py", stacks)
                self.assertEqual(self.sum_of(recording, "leaked")[0], device["end_live_bytes"])
                self.assertEqual(self.sum_of(recording, "allocations")[0], device["allocations"])


if __name__ == "__main__":
    unittest.main()
