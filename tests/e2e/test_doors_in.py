"""Recordings of other tools, made up in their own formats: what a user learns from each."""

import gzip
import json
import unittest

from program import ProgramTest, run

MIB = 1 << 20


class TorchProfiler(ProgramTest):
    """`export_chrome_trace()` of a profile with memory and stacks."""

    def profile(self, chain=True, **more):
        def memory(ts, address, size, total, **other):
            return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 7, "tid": 7, "ts": ts,
                    "args": {"Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": size, "Total Allocated": total} | other}
        events = [
            memory(30.5, 0x7000_0000, 3 * MIB, 13 * MIB if chain else 14 * MIB),
            memory(20.5, 0x6000_0000, 4 * MIB, 10 * MIB),
            memory(40.5, 0x6000_0000, -4 * MIB, 9 * MIB),
            memory(10.0, 0x100, 64, 64, **{"Device Type": 0, "Device Id": -1}),
            {"ph": "X", "cat": "python_function", "name": "train.py(12): step", "pid": 7, "tid": 7, "ts": 15, "dur": 20},
            {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 7, "tid": 7, "ts": 30, "dur": 1},
            {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 7, "tid": 7, "ts": 1, "dur": 50},
        ]
        return {"schemaVersion": 1, "deviceProperties": [], "traceEvents": events, "baseTimeNanoseconds": 10 ** 18, **more}

    def test_peak_and_who_holds_it(self):
        path = self.file("trace.json.gz", gzip.compress(json.dumps(self.profile()).encode()))
        info = self.document("info", path)
        self.assertEqual(info["source"], "torch.profiler")
        device = info["devices"][0]
        self.assertEqual(device["peak_live_bytes"], 13 * MIB)
        self.assertEqual(device["end_live_bytes"], 9 * MIB)
        self.assertEqual(info["losses"]["preexisting_allocations"], 1)
        self.assertEqual(info["losses"]["unknown_actions"], 1)
        self.assertEqual(info["losses"]["ring_full"], 0)
        report = self.answer("report", path).stdout
        self.assertIn("train.py:12", report)
        self.assertEqual(self.document("replay", path, "--policy", "torch.native")["policies"][0]["peak_live_bytes"], 13 * MIB)

    def test_what_the_program_adds_may_come_first(self):
        document = json.dumps({"metadata": {"notes": ["x" * 100] * 300}} | self.profile()).encode()
        self.assertEqual(self.document("info", self.file("t.json", document))["source"], "torch.profiler")

    def test_a_missing_event_is_said(self):
        path = self.file("trace.json", json.dumps(self.profile(chain=False)).encode())
        self.assertIn("dropped", self.answer("info", path).stderr)

    def test_a_profile_without_memory_is_refused(self):
        path = self.file("trace.json", json.dumps({"schemaVersion": 1, "traceEvents": []}).encode())
        self.assert_refused(run("info", path), path, "profile_memory=True")


if __name__ == "__main__":
    unittest.main()
