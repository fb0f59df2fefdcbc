"""Into a trace and out of it again."""

import csv
import io
import json
import pickle
import unittest

from program import SAMPLES, ProgramTest
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


if __name__ == "__main__":
    unittest.main()
