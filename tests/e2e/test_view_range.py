# SPDX-License-Identifier: Apache-2.0
"""Dragging the cursor, marking a time range, and the lists' scope."""

import csv
import io
import unittest

from program import SAMPLES, run
from viewing import ViewTest


def events_of(trace):
    """Every event, from `memreel export`."""
    return list(csv.DictReader(io.StringIO(run("export", trace, "--format", "csv").stdout)))


class Range(ViewTest):
    def test_the_cursor_is_dragged_and_the_heap_follows(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        view.settled()
        seen = [view.press("timeline", 0.2)]
        for across in (0.4, 0.6, 0.8):
            seen.append(view.point("timeline", across))
            self.assertEqual(seen[-1]["heap_event"], seen[-1]["cursor"], "while the button is down")
            self.assertIsNone(seen[-1]["marked"])
        cursors = [s["cursor"] for s in seen[1:]]
        self.assertEqual(cursors, sorted(set(cursors)))
        self.assertGreater(len({s["live_bytes"] for s in seen[1:]}), 1)
        # The cursor stays where it is released; a drag is one step in the history.
        self.assertEqual(view.release()["cursor"], cursors[-1])
        self.assertNotIn(view.key("alt+Left")["cursor"], cursors)
        # The same on the map, where a drag does not select the allocation under the pointer.
        dragged = view.drag("map", 0.3, 0.7)
        self.assertIsNone(dragged["allocation"])
        self.assertEqual(view.click_on("timeline", 0.7)["cursor"], dragged["cursor"])
        self.end(view)

    def test_a_range_fills_all_lists_with_what_is_in_it(self):
        trace = SAMPLES / "gpt_default.reel"
        events = events_of(trace)
        view = self.open(trace)
        before = view.settled()
        shown = view.drag("timeline", 0.5, 0.75, "shift")
        begin, end = shown["marked"]
        self.assertEqual((shown["cursor"], shown["view"]), (before["cursor"], before["view"]))
        inside = [e for e in events if begin < int(e["time_ns"]) <= end]
        made = {e["allocation"]: int(e["size"]) for e in inside if e["kind"] == "alloc"}
        freed = {e["allocation"] for e in inside if e["kind"] == "free_requested"}
        held = {e["allocation"] for e in events if e["kind"] == "alloc" and int(e["time_ns"]) <= begin}
        held -= {e["allocation"] for e in events if e["kind"] == "free_completed" and int(e["time_ns"]) <= begin}
        self.assertEqual(shown["listed"], len(made) + len(held))
        view.key("2")
        self.assertEqual(view.settled()["weighed_bytes"], sum(made.values()), "allocated in the range")
        kept = view.click_on("weigh/kept of the range")["weighed_bytes"]
        self.assertEqual(kept, sum(size for allocation, size in made.items() if allocation not in freed))
        first, last = (sum(int(e["time_ns"]) <= at for e in events) for at in (begin, end))
        at = view.key("4")["segments_event"]
        self.assertTrue(first < at <= last, "when most was reserved in the range")
        # Without the range, lists cover the view, and stacks the cursor.
        view.key("2")
        cleared = view.key("Escape")
        self.assertIsNone(cleared["marked"])
        self.assertEqual(cleared["weighed_bytes"], cleared["live_bytes"])
        self.assertEqual(view.key("1")["listed"], before["listed"])
        self.end(view)

    def test_leaks_and_failures_are_those_of_the_range(self):
        trace = SAMPLES / "oom_default.reel"
        failed = [int(e["time_ns"]) for e in events_of(trace) if e["kind"] == "alloc_failed"]
        view = self.open(trace)
        view.settled()
        view.key("7")
        begin, end = view.drag("timeline", 0.9, 0.4, "shift")["marked"]
        self.assertLess(begin, end, "drawn from right to left")
        inside = sum(begin < at <= end for at in failed)
        self.assertTrue(0 < inside < len(failed))
        self.assertEqual(view.settled()["failures_listed"], inside)
        self.end(view)

    def test_instants_that_are_compared_are_on_the_axis(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        view.settled()
        view.key("t")  # equal room for each event
        view.click_on("timeline", 0.3)
        shown = view.key("k")
        self.assertEqual(shown["kept"], shown["cursor"])
        shown = view.click_on("timeline", 0.7)
        left, _, width, _ = shown["places"]["timeline"]
        for name, across in (("A", 0.3), ("B", 0.7)):
            x, _, w, _ = shown["places"]["instant/" + name]
            self.assertAlmostEqual((x + w / 2 - left) / width, across, delta=0.01)
        self.assertNotEqual(shown["kept"], shown["cursor"])
        # The instant drawn as A is the comparison's A.
        self.assertEqual([shown["compared"]["a"], shown["compared"]["b"]], [shown["kept"], shown["cursor"]])
        self.end(view)


if __name__ == "__main__":
    unittest.main()
