# SPDX-License-Identifier: Apache-2.0
"""Snapshots without traces, one after the other: a timeline of instants. Also how the type of the devices is found."""

import json
import os
import pickle
import unittest

from program import ProgramTest, run
from snapshot import BASE, SMALL_SEGMENT, block, snapshot

HOUR = 3600


def instant(*blocks, segment=BASE, **keys):
    """A snapshot of one segment with blocks of 512 bytes, by number."""
    held = [block(segment + 512 * i, 512, 500 + i if i in blocks else 0, "active_allocated" if i in blocks else "inactive")
            for i in range(SMALL_SEGMENT // 512)]
    return {"segments": [{"device": 0, "address": segment, "total_size": SMALL_SEGMENT, "stream": 0, "segment_type": "small",
                          "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": held}],
            "device_traces": [[]], **keys}


class Series(ProgramTest):
    def saved(self, *snapshots, written=None):
        paths = []
        for i, document in enumerate(snapshots):
            paths.append(self.directory / f"snap-{i}.pickle")
            paths[-1].write_bytes(pickle.dumps(document))
            at = 1_700_000_000 + HOUR * (i if written is None else written[i])
            os.utime(paths[-1], (at, at))
        return paths

    def imported(self, *snapshots, **options):
        series = self.directory / "series.reel"
        ran = run("import", *self.saved(*snapshots, **options), "-o", series)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return series

    def rows(self, trace):
        ran = run("export", trace, "--format", "jsonl")
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def test_what_comes_and_goes(self):
        series = self.imported(instant(0, 1), instant(1, 2, 3), instant(3, segment=BASE + SMALL_SEGMENT))
        (device,) = [row for row in self.document("info", series)["devices"] if row["heap"] == "torch.cuda"]
        self.assertEqual(device["peak_live_bytes"], 501 + 502 + 503)
        self.assertEqual(device["end_live_bytes"], 503)
        self.assertEqual(device["peak_reserved_bytes"], SMALL_SEGMENT)
        rows = self.rows(series)
        marks = [row for row in rows if row["kind"] == "mark"]
        self.assertEqual([mark["mark"] for mark in marks], ["snap-0.pickle", "snap-1.pickle", "snap-2.pickle"])
        self.assertEqual([later["time_ns"] - marks[0]["time_ns"] for later in marks], [0, HOUR * 10**9, 2 * HOUR * 10**9])
        self.assertEqual(sum(row["kind"] == "alloc" for row in rows), 2 + 2 + 1)  # block 1 is the same in two of them

    def test_times_that_do_not_ascend_are_a_second_apart(self):
        marks = [row for row in self.rows(self.imported(instant(0), instant(1), written=[1, 0])) if row["kind"] == "mark"]
        self.assertEqual(marks[1]["time_ns"] - marks[0]["time_ns"], 10**9)

    def test_expandable_segments_grow_and_shrink(self):
        def grown(size):
            document = instant(0)
            document["segments"][0].update(total_size=size, is_expandable=True)
            return document

        kinds = [(row["kind"], row["size"]) for row in self.rows(self.imported(grown(2 * SMALL_SEGMENT), grown(3 * SMALL_SEGMENT),
                                                                               grown(SMALL_SEGMENT)))
                 if row["kind"].startswith("segment")]
        self.assertEqual(kinds, [("segment_map", 2 * SMALL_SEGMENT), ("segment_map", SMALL_SEGMENT),
                                 ("segment_unmap", 2 * SMALL_SEGMENT)])

    def test_it_is_said_what_that_is(self):
        series = self.imported(instant(0), instant(0, 1))
        report = run("report", series)
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertIn("a series of instants, not a history", report.stderr)
        self.assertRegex(report.stdout, "leaks +not judged")
        self.assertIn("nothing to verify", self.answer("verify", series, code=2).stderr)

    def test_leaks_are_not_judged_wherever_they_are_asked_for(self):
        series = self.imported(*(instant(*range(number + 1)) for number in range(64)))
        said = "not judged: the recording lacks allocations or frees"
        document = self.document("report", series)
        self.assertIn({"topic": "leaks", "text": said, "alarm": False}, document["verdict"]["lines"])
        self.assertTrue(document["verdict"]["leaks"]["unrecorded"])
        for options in ((), ("--leaks",)):
            document = self.document("report", series, *options)
            self.assertEqual([document[key] for key in ("leaks", "leak_causes", "leak_steps", "suppressed")], [[]] * 4)
        self.assertEqual(run("report", series, "--leaks").stdout, f"leaks are {said}\n")
        for format in ("markdown", "html"):
            written = run("report", series, "--format", format).stdout
            self.assertIn(said, written)
            self.assertNotIn("No leaks", written)

    def test_a_history_is_no_part_of_it(self):
        paths = self.saved(instant(0), snapshot())
        ran = run("import", *paths, "-o", self.directory / "series.reel")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("snap-1.pickle", ran.stderr)
        self.assertIn("include_traces=False", ran.stderr)
        self.assertFalse((self.directory / "series.reel").exists())


class DeviceType(ProgramTest):
    def heaps(self, document):
        path = self.directory / "snapshot.pickle"
        path.write_bytes(pickle.dumps(document))
        return {row["heap"] for row in self.document("info", path)["devices"]}

    def test_of_an_xpu(self):
        self.assertEqual(self.heaps({**snapshot(), "device_type": "xpu"}), {"torch.xpu"})
        document = snapshot()
        document["segments"][0]["device_type"] = "xpu"
        self.assertEqual(self.heaps(document), {"torch.xpu"})
        verified = self.document("verify", self.directory / "snapshot.pickle")
        self.assertTrue(verified["exact"])

    def test_without_it(self):
        self.assertEqual(self.heaps(snapshot()), {"torch.cuda"})

    def test_what_is_none(self):
        path = self.directory / "snapshot.pickle"
        path.write_bytes(pickle.dumps({**snapshot(), "device_type": "../xpu"}))
        ran = run("info", path)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("device_type", ran.stderr)


if __name__ == "__main__":
    unittest.main()
