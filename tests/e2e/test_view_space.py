# SPDX-License-Identifier: Apache-2.0
"""How panes show the space that memory takes: labels and axes of the map, segments and holes, all heaps side by side."""

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


class Space(ViewTest):
    def test_a_click_on_a_hole_says_what_keeps_it_and_what_it_could_serve(self):
        view = self.open(SAMPLES / "oom_default.reel", "--at", "oom")
        view.settled()
        selected = view.click_on("heap/largest free")
        space, hole = selected["space"], selected["space"]["hole"]
        self.assertIsNone(selected["allocation"])
        self.assertLessEqual(hole["largest_request"], hole["bytes"])
        self.assertGreater(hole["largest_request"], hole["bytes"] - 512)
        self.assertEqual(sum(place["blocks"] for place in space["places"]), len(space["blocks"]))
        untils = [block["until"] for block in space["blocks"]]
        self.assertEqual(space["empty_from"], None if None in untils else max(untils))
        self.assertIn("pinned by/who", selected["places"])
        self.assertGreater(len(self.copied_row(view, "segment blocks")), 2)
        self.assertIsNotNone(view.click_on("segment blocks/first row")["allocation"])
        view.key("alt+Left")
        self.assertEqual(view.settled()["space"]["hole"], hole, "back at it")
        view.key("Escape")
        self.assertIsNone(view.settled()["space"])
        self.end(view)

    def test_any_segment_is_a_click_away(self):
        view = self.open(SAMPLES / "gpt_default.reel", "--at", "reserved-peak")
        view.key("4")
        shown = view.click_on("segments/first row")
        largest = shown["space"]
        self.assertIsNone(shown["allocation"])
        view.key("Escape")
        view.key("1")
        x, y, width, height = view.place("heap/label")
        view.hands("keydown", "ctrl")
        other = view.click(x + width / 2, y + height / 2)["space"]
        view.hands("keyup", "ctrl")
        self.assertLessEqual(other["bytes"], largest["bytes"])
        # A plain click selects the block, whose segment can be shown instead of it.
        block = view.click(x + width / 2, y + height / 2)
        self.assertIsNone(block["space"])
        self.assertIn(block["allocation"], [b["allocation"] for b in other["blocks"]])
        self.assertEqual(view.click_on("inspector/segment")["space"]["address"], other["address"])
        self.end(view)

    def test_the_order_of_the_heap_is_chosen(self):
        view = self.open(SAMPLES / "gpt_default.reel", "--at", "reserved-peak")
        self.assertEqual(view.settled()["heap_order"], "address")
        view.click_on("heap/order")
        self.assertEqual(view.click_on("heap/order/size")["heap_order"], "size")

        def next_segment():
            view.key("ctrl+shift+p")
            view.type("next one")
            return view.key("Return")["space"]
        by_size = [next_segment()["bytes"] for _ in range(4)]
        self.assertEqual(by_size, sorted(by_size, reverse=True))
        view.key("ctrl+shift+p")
        view.type("heap by age")
        self.assertEqual(view.key("Return")["heap_order"], "age")
        view.key("Escape")
        since = [next_segment()["since"] for _ in range(4)]
        self.assertEqual(since, sorted(since))
        self.end(view)


class SmallWindows(ViewTest):
    def assert_within(self, place, width, height):
        x, y, w, h = place
        self.assertTrue(x >= 0 and y >= 0 and x + w <= width + 1 and y + h <= height + 1, place)

    def test_with_large_text_panes_without_room_are_tabs(self):
        view = self.open(SAMPLES / "gpt_default.reel", "--at", "reserved-peak", "--scale", "2", size="1024x640")
        shown = view.settled()
        self.assertEqual(shown["panes_as_tabs"], ["map", "heap", "inspector"])
        line = 2 * 17  # of text
        self.assertGreater(shown["places"]["timeline"][3], 1.5 * line)
        self.assertNotIn("minimap", shown["places"], "the plot needs its room")
        for name in ("verdict/decides", "verdict/setting", "verdict/copy", "verdict/all", "search", "tab/map", "tab/more"):
            self.assert_within(shown["places"][name], 1024, 640)
        for pane, least in (("map", 2), ("heap", 2), ("inspector", 2)):
            shown = view.click_on("tab/" + pane)
            self.assertEqual(shown["tab"], pane)
            self.assertGreater(shown["places"][pane][3], least * line, pane)
            self.assert_within(shown["places"][pane], 1024, 640)
        self.assertEqual(view.click_on("tab/allocations")["tab"], "allocations")
        # The rest of the verdict is a click away.
        shown = view.click_on("verdict/all")
        self.assertEqual(shown["maximised"], "verdict")
        self.assertIn("verdict/leaks", shown["places"])
        view.key("Escape", "ctrl+0", "ctrl+minus", "ctrl+minus")
        self.end(view)

    def test_the_inspector_scrolls_to_what_does_not_fit(self):
        view = self.open(SAMPLES / "gpt_default.reel", "--scale", "1", size="1024x600")
        view.settled()
        view.point("inspector", 0.5)
        view.hands("click", "--repeat", 30, 5)
        shown = view.settled()["places"]
        x, y, width, height = shown["inspector/reserved peak"]
        left, top, across, down = shown["inspector"]
        self.assertTrue(top <= y and y + height <= top + down and x + width <= left + across, "the last of its buttons")
        self.end(view)

    def test_where_all_panes_fit_none_is_a_tab(self):
        for size in ("1024x640", "1440x900"):
            view = self.open(SAMPLES / "gpt_default.reel", "--scale", "1", size=size)
            shown = view.settled()
            self.assertEqual(shown["panes_as_tabs"], [])
            for pane in ("timeline", "map", "heap"):
                self.assertGreater(shown["places"][pane][3], 28, pane)
            self.end(view)

    def test_each_finding_of_the_verdict_has_a_line(self):
        view = self.open(SAMPLES / "oom_default.reel")
        places = view.settled()["places"]
        tops = [places[f"verdict/{name}"][1] for name in ("decides", "holder 1", "leaks", "fragmented", "setting")]
        self.assertEqual(tops, sorted(set(tops)))
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
