# SPDX-License-Identifier: Apache-2.0
"""Conversion into a trace and back."""

import csv
import io
import json
import pickle
import subprocess
import unittest

from bug_patterns import PATTERNS
from program import MEMREEL, SAMPLES, ProgramTest, run
from snapshot import BASE, encodings, snapshot

SAMPLE = SAMPLES / "gpt_default.reel"


class Import(ProgramTest):
    def events(self, path):
        lines = self.answer("export", path, "--format", "jsonl").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def test_every_pickle_protocol_and_json_give_the_same_events(self):
        expected = None
        for name, content in encodings(snapshot()):
            with self.subTest(name):
                events = self.events(self.file(name, content))
                expected = expected or events
                self.assertEqual(events, expected)
        self.assertEqual(sum(event["kind"] == "alloc" for event in expected), 2)

    def test_compressed_files_are_read_directly(self):
        import gzip
        import lzma
        plain = pickle.dumps(snapshot())
        expected = self.events(self.file("a.pickle", plain))
        for name, compress in {"a.pickle.gz": gzip.compress, "a.pickle.xz": lzma.compress}.items():
            with self.subTest(name):
                self.assertEqual(self.events(self.file(name, compress(plain))), expected)

    def test_list_of_segments_shows_what_was_alive(self):
        path = self.file("segments.pickle", pickle.dumps(snapshot()["segments"]))
        kinds = self.document("info", path)["kinds"]
        self.assertEqual(kinds["segment_alloc"], 1)
        self.assertEqual(kinds["alloc"], 1)

    def test_import_writes_what_analyses_read_directly(self):
        path = self.file("a.pickle", pickle.dumps(snapshot()))
        trace = self.directory / "a.reel"
        self.answer("import", path, "-o", trace)
        self.assertEqual(self.events(trace), self.events(path))
        self.assertEqual(sorted(file.name for file in self.directory.iterdir()), ["a.pickle", "a.reel"])

    def test_same_input_same_bytes(self):
        path = self.file("a.pickle", pickle.dumps(snapshot()))
        for name in ("1.reel", "2.reel"):
            self.answer("import", path, "-o", self.directory / name)
        self.assertEqual((self.directory / "1.reel").read_bytes(), (self.directory / "2.reel").read_bytes())


class Export(ProgramTest):
    def test_csv_and_jsonl_hold_every_event(self):
        events = self.document("info", SAMPLE)["events"]
        rows = list(csv.DictReader(io.StringIO(self.answer("export", SAMPLE, "--format", "csv").stdout)))
        lines = self.answer("export", SAMPLE, "--format", "jsonl").stdout.splitlines()
        self.assertEqual(len(rows), events)
        self.assertEqual(len(lines), events)
        self.assertEqual([row["kind"] for row in rows], [json.loads(line)["kind"] for line in lines])

    def test_stacks_are_resolved(self):
        path = self.file("a.pickle", pickle.dumps(snapshot()))
        text = self.answer("export", path, "--format", "csv").stdout
        self.assertIn("train.py", text)
        self.assertIn(str(BASE), text)

    def test_output_file_equals_standard_output(self):
        target = self.directory / "events.csv"
        self.answer("export", SAMPLE, "--format", "csv", "-o", target)
        self.assertEqual(target.read_text(), self.answer("export", SAMPLE, "--format", "csv").stdout)

    def live_by_heap(self, *arguments):
        document = json.loads(self.answer("export", SAMPLE, "--format", "speedscope", *arguments).stdout)
        return [sum(profile["weights"]) for profile in document["profiles"]]

    def test_flame_graph_is_of_the_peak_unless_another_instant_is_asked_for(self):
        device = self.document("info", SAMPLE)["devices"][0]
        self.assertEqual(self.live_by_heap(), [device["peak_live_bytes"]])
        self.assertEqual(self.live_by_heap("--at", "peak"), [device["peak_live_bytes"]])
        self.assertEqual(self.live_by_heap("--at", "end"), [device["end_live_bytes"]])
        self.assertEqual(self.live_by_heap("--at", f"event:{device['peak_live_event']}"), [device["peak_live_bytes"]])
        self.assertEqual(self.live_by_heap("--at", "0ns"), [0])

    def test_flame_graph_names_the_functions_of_the_report(self):
        document = json.loads(self.answer("export", SAMPLE, "--format", "speedscope").stdout)
        names = {frame["name"] for frame in document["shared"]["frames"]}
        self.assertIn("gpt_train", names)

    def test_binary_formats_go_to_files_and_pipes(self):
        for name, magic in {"pprof": b"\x1f\x8b", "perfetto": b"\x0a"}.items():
            with self.subTest(name):
                target = self.directory / name
                self.answer("export", SAMPLE, "--format", name, "-o", target)
                piped = subprocess.run([MEMREEL, "export", SAMPLE, "--format", name], stdout=subprocess.PIPE, check=True)
                self.assertEqual(piped.stdout, target.read_bytes())
                self.assertTrue(piped.stdout.startswith(magic))

    def test_failures_are_on_the_timeline(self):
        target = self.directory / "oom.pftrace"
        self.answer("export", SAMPLES / "oom_default.reel", "--format", "perfetto", "-o", target)
        failures = self.document("info", SAMPLES / "oom_default.reel")["kinds"]["alloc_failed"]
        self.assertEqual(target.read_bytes().count(b"out of memory"), failures)

    def test_snapshots_keep_what_a_device_said_to_have_free(self):
        document = PATTERNS["loading"]()
        failed = document["device_traces"][0][-1]
        for free in (0, 64 << 20, None):  # None: it said nothing
            failed["device_free"] = free
            if free is None:
                del failed["device_free"]
            before = self.file("before.json", json.dumps(document).encode())
            after = self.directory / "after.pickle"
            self.answer("export", before, "--format", "torch", "-o", after)
            for snapshot_file in (before, after):
                self.assertEqual(self.document("report", snapshot_file, "--oom")["ooms"][0]["device_free_bytes"], free)
            self.assertIn("device_free", pickle.loads(after.read_bytes())["device_traces"][0][-1], "PyTorch's tools need it")

    def test_an_instant_of_what_has_none(self):
        self.assert_refused(run("export", SAMPLE, "--format", "csv", "--at", "end"), "csv", "--at")
        self.assert_refused(run("export", SAMPLE, "--format", "pprof", "--at", "noon"), "noon", "step:N")
        self.assert_refused(run("export", SAMPLE, "--format", "pprof", "--at", "event:999999999"), "events")


if __name__ == "__main__":
    unittest.main()
