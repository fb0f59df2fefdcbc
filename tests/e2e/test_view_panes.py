"""What the viewer's panes say, compared with what the commands say, and what a click in them does."""

import json
import unittest

from program import SAMPLES, run
from viewing import ViewTest, picture


class Panes(ViewTest):
    def test_verdicts_colour_allocations_and_weigh_stacks(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        view.key("ctrl+shift+p")
        view.type("colour allocations by verdict")
        view.key("Return")
        picture_file = self.directory / "verdicts.png"
        self.assertIsNone(view.ask("screenshot", file=str(picture_file))["error"])
        _, _, rows = picture(picture_file)
        x, y, width, height = (int(v) for v in view.settled()["places"]["map"])
        vermillion = sum(bytes(row[3 * i:3 * i + 3]) == b"\xd5\x5e\x00" for row in rows[y:y + height]
                         for i in range(x, x + width))
        self.assertGreater(vermillion, 0.02 * width * height, "leaks are vermillion in the map")

        # What is weighed as leaked is what the report accuses.
        accused = [leak for leak in json.loads(run("report", SAMPLES / "leak.reel", "--leaks", "--json").stdout)["leaks"]
                   if leak["verdict"] in ("leak", "suspected")]
        view.key("2")
        view.click_on("weigh/leaked")
        self.assertIsNotNone(view.click_on("stacks/first row")["stack"])
        view.hands("mousemove", "0", "0")
        largest = max(accused, key=lambda leak: leak["bytes"])
        self.assertEqual(int(self.copied_row(view, "stacks")[2].replace(",", "")), largest["count"])
        self.end(view)

    def test_where_there_is_no_room_columns_are_left_out_and_not_cut(self):
        view = self.open(SAMPLES / "oom_default.reel", "--pane", "fragmentation", size="720x500")
        places = view.settled()["places"]
        widths = {name: places[name][2] for name in places if name.startswith(("pins/", "remedies/")) and
                  not name.endswith(("scrollbar", "first row"))}
        self.assertGreater(widths["pins/who"], 100)
        self.assertGreater(widths["remedies/with"], 100)
        self.assertGreater(min(widths.values()), 45, widths)
        self.end(view)

    def test_a_click_on_a_header_sorts_what_was_judged_and_replayed(self):
        trace = SAMPLES / "oom_default.reel"
        view = self.open(trace, "--pane", "policies")
        view.click_on("policies/run")
        policies = "torch.native,torch.expandable,cuda.malloc,fit.best,bound.live"
        replayed = json.loads(run("replay", trace, "--policy", policies, "--json").stdout)["policies"]
        peaks = {policy["policy"]: policy["peak_reserved_bytes"] for policy in replayed}
        view.click_on("policies/peak reserved")
        self.assertEqual(peaks[self.copied_row(view, "policies")[0]], max(peaks.values()))
        view.click_on("policies/peak reserved")
        least = self.copied_row(view, "policies")[0]
        self.assertEqual(peaks[least], min(peaks.values()))
        self.assertEqual(view.click_on("policies/first row", down=0.6)["overlays"], [least])
        view.key("Escape", "6")
        view.click_on("remedies/peak reserved")
        most = self.copied_row(view, "remedies")[1]
        view.click_on("remedies/peak reserved")
        self.assertNotEqual(self.copied_row(view, "remedies")[1], most)
        self.end(view)

    def test_leaks_and_failures_are_those_of_the_view(self):
        view = self.open(SAMPLES / "leak.reel", "--pane", "leaks")
        view.settled()
        view.click_on("leaks/count")
        counts = [int(self.copied_row(view, "leaks")[2].replace(",", ""))]
        view.key("Escape")
        x, y, width, height = view.settled()["places"]["timeline"]
        view.hands("mousemove", int(x + 2), int(y + height / 2), "click", 4, "click", 4, "click", 4)
        view.settled()
        counts.append(int(self.copied_row(view, "leaks")[2].replace(",", "")))
        self.assertLess(counts[1], counts[0], "some were made later")
        self.end(view)

        view = self.open(SAMPLES / "oom_default.reel", "--pane", "oom")
        self.assertIn("oom/requested", view.settled()["places"])
        view.key("Escape")
        x, y, width, height = view.settled()["places"]["timeline"]
        view.hands("mousemove", int(x + 2), int(y + height / 2), *["click", 4] * 25)
        self.assertNotIn("oom/requested", view.settled()["places"], "none failed at the very beginning")
        self.assertIn("oom/requested", view.key("0")["places"])
        self.end(view)

    def test_the_map_shows_what_the_stack_made_that_is_pointed_at(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        view.key("2")
        view.click_on("weigh/allocated in view")
        x, y, width, height = (int(v) for v in view.settled()["places"]["map"])
        maps = []
        for down in (-20, 0.5):  # above the table, on its first row
            left, top, wide, high = view.settled()["places"]["stacks/first row"]
            view.hands("mousemove", int(left + 0.5 * wide), int(top + down * high))
            view.settled()
            file = self.directory / "map.png"
            self.assertIsNone(view.ask("screenshot", file=str(file))["error"])
            rows = picture(file)[2]
            maps.append([bytes(row[3 * i:3 * i + 3]) for row in rows[y:y + height] for i in range(x, x + width)])
        changed = sum(a != b for a, b in zip(*maps)) / (width * height)
        self.assertGreater(changed, 0.05, "what others made is pale")
        self.assertLess(changed, 0.99)
        self.end(view)

    def test_what_pins_the_largest_hole_is_a_click_away(self):
        view = self.open(SAMPLES / "oom_default.reel")
        self.assertIn("fragmentation", view.settled()["places"], "an axis of its own")
        pinning = view.click_on("heap/pin before")
        self.assertIsNotNone(pinning["allocation"])
        self.assertEqual(view.key("alt+Left")["allocation"], None)
        self.assertEqual(view.key("alt+Right")["allocation"], pinning["allocation"])
        self.assertTrue({"lost", "unattributed", "collector"} <= view.settled()["places"].keys())
        self.end(view)

    def test_pointing_at_the_map_tells_who(self):
        view = self.open(SAMPLES / "decode_default.reel")
        x, y, width, height = view.settled()["places"]["map"]
        hits = 0
        for step in range(1, 12):
            view.hands("mousemove", int(x + width * 0.6), int(y + height * step / 12))
            hits += view.settled()["hovered_allocation"] is not None
        self.assertGreater(hits, 2)
        self.end(view)

    def test_rounding_is_what_the_report_says_that_it_takes(self):
        trace = SAMPLES / "oom_default.reel"
        heap = json.loads(run("report", trace, "--fragmentation", "--json").stdout)["fragmentation"]["heaps"][0]
        for instant in (heap["at_peak"], heap["worst"]):
            view = self.open(trace, "--at", f"event:{instant['events']}")
            shown = view.settled()
            self.assertEqual(shown["reserved_bytes"], instant["reserved_bytes"])
            self.assertEqual(shown["rounding_bytes"], instant["allocated_bytes"] - instant["requested_bytes"])
            self.assertIn("heap/rounding", shown["places"], "the colour has its name")
            self.end(view)

        # In the pane in a colour of its own, in as many pixels as its bytes are of the row.
        view = self.open(trace, "--pane", "heap", "--at", f"event:{heap['worst']['events']}", "--dark")
        x, y, width, height = (int(v) for v in view.settled()["places"]["heap"])
        file = self.directory / "heap.png"
        self.assertIsNone(view.ask("screenshot", file=str(file))["error"])
        pixels = [bytes(row[3 * i:3 * i + 3]) for row in picture(file)[2][y:y + height] for i in range(x, x + width)]
        self.assertIn(b"\xa8\xad\xb8", pixels)
        self.end(view)

        view = self.open(SAMPLES / "jax_crowded.xplane.pb.gz")
        shown = view.settled()
        self.assertIsNone(shown["rounding_bytes"], "its allocator's blocks are not known")
        self.assertIn("heap/rounding not known", shown["places"])
        self.end(view)

    def test_the_map_says_which_colour_is_whose(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        first = view.click_on("map/legend 1")["stack"]
        self.assertNotEqual(view.click_on("map/legend 2")["stack"], first)
        view.key("2")
        self.assertEqual(view.click_on("stacks/first row")["stack"], first, "who holds most at the cursor comes first")
        self.end(view)


if __name__ == "__main__":
    unittest.main()
