# SPDX-License-Identifier: Apache-2.0
"""Snapshots that lack some or all of their history: every statement is true, and what can't be known is named."""

import lzma
import pickle
import unittest

from program import REPOSITORY, ProgramTest, run
from snapshot import snapshot

HISTORY = REPOSITORY / "tests/data/releases/2.11.0-oom-90401.pickle.xz"


class Skipped(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with lzma.open(HISTORY) as file:
            cls.snapshot = pickle.load(file)

    def skipping(self, *actions):
        """The history as PyTorch records it with skip_actions."""
        traces = [[entry for entry in trace if entry["action"] not in actions] for trace in self.snapshot["device_traces"]]
        return self.saved({**self.snapshot, "device_traces": traces})

    def saved(self, snapshot):
        path = self.directory / "snapshot.pickle"
        path.write_bytes(pickle.dumps(snapshot, protocol=4))
        return path

    def peak_live(self, history):
        (device,) = [row for row in self.document("info", history)["devices"] if row["heap"] == "torch.cuda"]
        return device["peak_live_bytes"], device["end_live_bytes"]

    def test_requests_to_free(self):
        history = self.skipping("free_requested")
        self.assertEqual(self.peak_live(history), self.peak_live(HISTORY))
        document = self.document("verify", history)
        self.assertTrue(document["exact"])
        self.assertEqual(self.document("info", history)["losses"]["skipped"], ["free_requested"])
        self.assertIn("skip_actions", run("report", history).stderr)

    def test_completions(self):
        history = self.skipping("free_completed")
        self.assertEqual(self.peak_live(history), self.peak_live(HISTORY))
        self.assertEqual(self.document("info", history)["losses"]["skipped"], ["free_completed"])
        self.assertIn("skip_actions", run("report", history).stderr)

    def test_frees(self):
        history = self.skipping("free_requested", "free_completed")
        ran = run("report", history)
        self.assertIn("frees were not recorded (skip_actions)", ran.stderr)
        self.assertRegex(ran.stdout, "leaks +not judged")
        verified = run("verify", history)
        self.assertEqual(verified.returncode, 1)
        self.assertIn("told to skip", verified.stdout)

    def test_whole_histories_lack_nothing(self):
        self.assertEqual(self.document("info", HISTORY)["losses"]["skipped"], [])

    def test_an_instant(self):
        segments = snapshot()["segments"]
        live = sum(block["requested_size"] for segment in segments for block in segment["blocks"]
                   if block["state"] == "active_allocated")
        self.assertGreater(live, 0)
        for history in ({**self.snapshot, "segments": segments, "device_traces": [[]]}, segments):
            path = self.saved(history)
            self.assertEqual(self.peak_live(path), (live, live))
            losses = self.document("info", path)["losses"]
            self.assertIn("alloc", losses["skipped"])
            self.assertFalse(losses["history_overflowed"])
            ran = run("report", path)
            self.assertIn("one instant, not a history", ran.stderr)
            self.assertNotIn("overflow", ran.stderr)
            self.assertRegex(ran.stdout, "leaks +not judged")


if __name__ == "__main__":
    unittest.main()
