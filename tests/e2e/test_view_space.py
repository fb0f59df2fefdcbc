# SPDX-License-Identifier: Apache-2.0
"""How panes show the space that memory takes: labels and axes of the map, all heaps side by side."""

import unittest

import histories
from program import SAMPLES
from viewing import ViewTest


class Map(ViewTest):
    def test_it_has_axes_and_large_allocations_have_labels(self):
        view = self.open(SAMPLES / "oom_default.reel")
        places = view.settled()["places"]
        self.assertIn("map/tick", places)
        self.assertNotIn("map/time", places, "the marks have the same axis")
        alone = view.double_click_on("title/map", 0.6)["places"]
        for what in ("map/tick", "map/address", "map/time", "map/label 0"):
            self.assertIn(what, alone)
        # Labels lie on their allocations, and none overlap.
        selected = view.click_on("map/label 0")["selected"]
        self.assertGreater(selected["bytes"], 50 << 20)
        labels = [place for name, place in alone.items() if name.startswith("map/label ")]
        self.assertGreater(len(labels), 3)
        for i, (x, y, width, height) in enumerate(labels):
            for a, b, w, h in labels[:i]:
                self.assertTrue(x + width <= a + 1 or a + w <= x + 1 or y + height <= b + 1 or b + h <= y + 1)
        self.end(view)

    def test_large_blocks_of_the_heap_have_labels(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        self.assertIn("heap/label", view.settled()["places"])
        self.end(view)


class Heaps(ViewTest):
    @unittest.skipIf(histories.path("two_gpus") is None, "the recorded histories are not here")
    def test_all_of_them_are_under_each_other_on_one_axis(self):
        view = self.open(histories.path("two_gpus"))
        first = view.settled()
        shown = view.key("h")
        self.assertEqual((shown["tab"], shown["heaps_shown"]), ("heaps", 2))
        timeline, one, other = (shown["places"][name] for name in ("timeline", "heaps/1", "heaps/2"))
        self.assertEqual({(place[0], place[2]) for place in (timeline, one, other)}, {(timeline[0], timeline[2])})
        self.assertNotEqual(one[1], other[1])
        # A click shows a heap, at its instant; the wheel zooms all of them.
        chosen = 1 if first["heap"] == 2 else 2
        clicked = view.click_on(f"heaps/{chosen}", 0.9)
        self.assertEqual(clicked["heap"], chosen)
        self.assertEqual(clicked["cursor"], view.click_on("timeline", 0.9)["cursor"])
        view.point(f"heaps/{chosen}", 0.9)
        view.hands("click", 4)
        begin, end = view.settled()["view"]
        self.assertLess(end - begin, first["view"][1] - first["view"][0])
        self.end(view)

    def test_of_one_heap_there_is_no_such_list(self):
        view = self.open(SAMPLES / "leak.reel")
        shown = view.settled()
        self.assertNotIn("tab/heaps", shown["places"])
        self.assertEqual(view.key("h")["tab"], shown["tab"])
        self.end(view)


if __name__ == "__main__":
    unittest.main()
