"""One axis of time for all panes that have one, and the room that panes have."""

import json
import signal
import unittest

import histories
from program import SAMPLES, run
from viewing import HEIGHT, WIDTH, View, ViewTest


class Axis(ViewTest):
    def test_all_panes_with_time_on_them_share_their_edges(self):
        view = self.open(SAMPLES / "oom_default.reel")
        places = view.settled()["places"]
        edges = {(places[name][0], places[name][2]) for name in ("timeline", "fragmentation", "marks", "minimap", "map")}
        self.assertEqual(len(edges), 1, edges)
        left, right = places["timeline"], places["inspector"]
        self.assertLessEqual(left[0] + left[2], right[0])
        self.assertGreater(right[3], 0.5 * HEIGHT, "the stack has the height of all of them")
        self.end(view)

    def test_events_and_steps_can_be_counted_instead_of_time(self):
        trace = SAMPLES / "gpt_default.reel"
        view = self.open(trace)
        shown = view.settled()
        self.assertEqual(shown["axis"], "time")
        by_time = view.click_on("timeline", 0.5)["cursor"]
        by_event = view.key("t")
        self.assertEqual(by_event["axis"], "event")
        self.assertAlmostEqual(view.click_on("timeline", 0.5)["cursor"] / shown["events"], 0.5, delta=0.01)
        self.assertNotAlmostEqual(by_time / shown["events"], 0.5, delta=0.05)
        # The map is on the same axis, and so is what a wheel zooms.
        self.assertAlmostEqual(view.click_on("map", 0.25)["cursor"] / shown["events"], 0.25, delta=0.01)
        x, y, width, height = shown["places"]["timeline"]
        view.hands("mousemove", int(x + 0.5 * width), int(y + height / 2), "click", 4, "sleep", 0.2)
        view.settled()
        self.assertAlmostEqual(view.click_on("timeline", 0.5)["cursor"] / shown["events"], 0.5, delta=0.01)
        view.key("0")
        self.assertEqual(view.key("t")["axis"], "step")
        # Each of the twelve steps has a twelfth, what follows the last one apart.
        first, second = (view.click_on("timeline", across)["cursor"] for across in (0.2, 0.8))
        self.assertLess(first, second)
        self.assertEqual(view.key("t")["axis"], "time")
        self.end(view)

    def test_without_steps_the_axis_counts_time_and_events(self):
        view = self.open(SAMPLES / "oom_default.reel")
        view.settled()
        self.assertEqual([view.key("t")["axis"] for _ in range(3)], ["event", "time", "event"])
        self.end(view)

    def test_ranges_that_are_too_narrow_are_one_band_with_a_count(self):
        trace = SAMPLES / "gpt_default.reel"
        lines = [line.split(",") for line in run("export", trace, "--format", "csv").stdout.splitlines()]
        made = sum(line[13].startswith("end ") for line in lines[1:])
        view = self.open(trace)
        bands = view.settled()["bands"]
        self.assertEqual(sum(band["count"] for band in bands), made, "none is left out")
        self.assertLess(len(bands), made)
        self.end(view)

    @unittest.skipIf(histories.path("leaks/leak_hook") is None, "the recorded leaks are not here")
    def test_sixty_steps_are_not_a_dozen(self):
        view = self.open(histories.path("leaks/leak_hook"))
        bands = view.settled()["bands"]
        self.assertEqual(sum(band["count"] for band in bands), 60)
        self.assertGreater(max(band["count"] for band in bands), 10)
        self.end(view)

    def test_a_failure_is_where_its_flag_is(self):
        trace = SAMPLES / "oom_default.reel"
        failure = json.loads(run("report", trace, "--oom", "--json").stdout)["ooms"][0]["event"]
        view = self.open(trace)
        view.settled()
        self.assertEqual(view.click_on("first flag", 0.4, 0.3)["cursor"], failure + 1, "after it, which is its instant")
        self.assertEqual(view.key("o")["cursor"], failure + 1)
        second = view.key("bracketright")["cursor"]
        self.assertGreater(second, failure + 1)
        self.assertEqual(view.key("bracketleft")["cursor"], failure + 1)
        self.end(view)

    def test_the_limit_is_on_screen_where_it_is_known(self):
        view = self.open(SAMPLES / "oom_default.reel")
        self.assertIn("limit", view.settled()["places"])
        self.end(view)
        view = self.open(SAMPLES / "gpt_default.reel")
        self.assertNotIn("limit", view.settled()["places"])
        self.end(view)


class Room(ViewTest):
    def test_a_double_click_on_a_title_is_all_of_the_window(self):
        view = self.open(SAMPLES / "oom_default.reel")
        for pane, across in (("map", 0.6), ("heap", 0.95), ("inspector", 0.9)):
            x, y, width, height = view.settled()["places"]["title/" + pane]
            view.hands("mousemove", int(x + across * width), int(y + 0.5 * height), "sleep", 0.3, "click", "--repeat", 2,
                       "--delay", 90, 1)
            shown = view.settled()
            self.assertEqual(shown["maximised"], pane)
            self.assertGreater(shown["places"][pane][2], 0.9 * WIDTH)
            self.assertEqual(view.key("Escape")["maximised"], "")
        self.end(view)

    def test_a_double_click_is_one_however_slow_frames_are(self):
        view = self.open(SAMPLES / "oom_default.reel")
        x, y, width, height = view.settled()["places"]["title/map"]
        view.hands("mousemove", int(x + 0.6 * width), int(y + 0.5 * height), "sleep", 0.3)
        view.settled()
        view.process.send_signal(signal.SIGSTOP)
        view.hands("click", "--repeat", 2, "--delay", 90, 1)
        view.process.send_signal(signal.SIGCONT)
        self.assertEqual(view.settled()["maximised"], "map")
        self.end(view)

    def test_text_has_the_size_that_its_reader_wants(self):
        view = self.open(SAMPLES / "leak.reel")
        before = view.settled()
        larger = view.key("ctrl+equal", "ctrl+equal")
        self.assertGreater(larger["text_size"], 1.15)
        self.assertGreater(larger["places"]["tab/policies"][3], before["places"]["tab/policies"][3])
        self.assertEqual(view.key("ctrl+0")["places"]["tab/policies"], before["places"]["tab/policies"])
        self.assertLess(view.key("ctrl+minus")["text_size"], 1)
        self.end(view)


class Opening(ViewTest):
    def test_a_file_is_opened_by_keys_and_by_clicks(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        self.assertTrue(view.key("ctrl+o")["opening"])
        view.type("oom_default.reel")
        self.assertEqual(view.key("Return")["file"], str(SAMPLES / "oom_default.reel"))
        view.key("ctrl+o")
        view.type("streams_default")
        shown = view.click_on("open/streams_default.reel")
        self.assertEqual((shown["file"], shown["opening"]), (str(SAMPLES / "streams_default.reel"), False))
        view.key("ctrl+o")
        self.assertFalse(view.key("Escape")["opening"])
        self.end(view)

    def test_the_start_page_leads_on(self):
        view = View(self.screen)
        self.addCleanup(view.close)
        view.settled()
        self.assertTrue(view.click_on("start/open")["opening"])
        view.key("Escape")
        self.assertEqual(view.click_on("start/tour")["tour"], 0)
        self.end(view)

    def test_what_was_opened_last_is_a_click_away(self):
        view = self.open(self.file("nonsense.pickle", b"\x80\x04not a snapshot"))
        self.assertIn("start/recent 1", view.settled()["places"])
        view.ask("open", file=str(SAMPLES / "leak.reel"))
        view.settled()
        view.ask("open", file=str(self.directory / "nonsense.pickle"))
        self.assertEqual(view.settled()["stage"], "failed")
        self.assertEqual(view.click_on("start/recent 2")["file"], str(SAMPLES / "leak.reel"))
        self.end(view)


if __name__ == "__main__":
    unittest.main()
