# SPDX-License-Identifier: Apache-2.0
"""A series of snapshots without traces in the window: each is an instant, with the memory live at it."""

import unittest

import test_series
from test_series import HOUR, instant
from viewing import ViewTest


class Series(ViewTest):
    saved = test_series.Series.saved
    imported = test_series.Series.imported

    def test_each_snapshot_is_an_instant_of_one_timeline(self):
        snapshots = [instant(*range(number + 1)) for number in range(12)]
        view = self.open(self.imported(*snapshots))
        shown = view.settled()
        live = [sum(500 + block for block in range(number + 1)) for number in range(12)]
        self.assertEqual(shown["live_bytes"], live[-1], "opens at the peak")
        begin, end = shown["span"]
        self.assertEqual(end - begin, 11 * HOUR * 10**9)
        # Marked, named, and walked to.
        self.assertEqual(view.point("first mark", 0.5)["told_band"], "snap-0.pickle")
        view.click_on("timeline", 0.3)  # between the fourth and the fifth
        self.assertEqual(view.settled()["live_bytes"], live[3])
        self.assertGreater(view.key("bracketright")["cursor"], shown["events"] / 4)
        self.assertEqual(view.key("k")["kept"], view.settled()["cursor"])
        view.click_on("timeline", 0.95)
        view.key("9")
        compared = view.settled()["compared"]
        self.assertEqual(compared["listed_bytes"][1], live[10])
        self.end(view)

    def test_every_pane_shows_what_there_is_of_it(self):
        view = self.open(self.imported(*(instant(*range(number + 1)) for number in range(12))))
        shown = view.settled()
        self.assertEqual(shown["leaks"], 0, "as the verdict says: not judged")
        self.assertIn("leaks not judged: the recording lacks allocations or frees", shown["verdict"]["others"])
        for number, tab in enumerate(["allocations", "stacks", "flame", "segments", "leaks", "fragmentation", "oom",
                                      "policies", "compare"], 1):
            self.assertEqual(view.key(str(number))["tab"], tab)
        self.assertNotIn("leaks/first row", view.key("5")["places"])
        self.end(view)

    def test_one_snapshot_is_one_instant(self):
        (path,) = self.saved(instant(0, 1, 2))
        view = self.open(path)
        shown = view.settled()
        self.assertEqual((shown["stage"], shown["live_bytes"]), ("complete", 500 + 501 + 502))
        self.assertIn("heap/pin before", shown["places"])
        self.end(view)


if __name__ == "__main__":
    unittest.main()
