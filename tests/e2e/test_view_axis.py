# SPDX-License-Identifier: Apache-2.0
"""One shared time axis for all panes that have one, and the panes' sizes."""

import json
import signal
import subprocess
import unittest

import histories
from program import SAMPLES, run
from viewing import HEIGHT, WIDTH, View, ViewTest, picture


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
        # The map has the same axis, and the wheel zooms it as well.
        self.assertAlmostEqual(view.click_on("map", 0.25)["cursor"] / shown["events"], 0.25, delta=0.01)
        x, y, width, height = shown["places"]["timeline"]
        view.hands("mousemove", int(x + 0.5 * width), int(y + height / 2), "click", 4)
        view.settled()
        self.assertAlmostEqual(view.click_on("timeline", 0.5)["cursor"] / shown["events"], 0.5, delta=0.01)
        view.key("0")
        self.assertEqual(view.key("t")["axis"], "step")
        # Each of the twelve steps gets a twelfth, not counting what follows the last one.
        first, second = (view.click_on("timeline", across)["cursor"] for across in (0.2, 0.8))
        self.assertLess(first, second)
        self.assertEqual(view.key("t")["axis"], "time")
        self.end(view)

    def test_steps_that_the_program_does_not_mark_are_counted(self):
        leak = SAMPLES / "leak.reel"
        sides = json.loads(run("diff", f"{leak}@step:19", "@step:21", "--json").stdout)["devices"][0]
        view = self.open(leak)
        view.settled()
        self.assertEqual([view.key("t")["axis"] for _ in range(2)], ["event", "step"])
        cursor = view.click_on("timeline", 0.5)["cursor"]
        self.assertTrue(sides["a"]["events"] < cursor < sides["b"]["events"], "the middle of forty steps")
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
        bands = [band for band in bands if band["depth"] == 0]
        self.assertEqual(sum(band["count"] for band in bands), 60)
        self.assertGreater(max(band["count"] for band in bands), 10)
        self.end(view)

    def test_ranges_nest_are_numbered_and_zoomed_to(self):
        lines, ranges, now = [], {}, 0

        def log(**line):
            nonlocal now
            now += 1_000_000
            lines.append(json.dumps({"time": now, **line}))

        def within(name, *inside):
            log(op="begin", name=name)
            begin = now
            for one in inside:
                one()
            log(op="end", name=name)
            ranges.setdefault(name, []).append([begin, now])

        for step in range(3):
            within("step",
                   lambda at=step: within("forward", lambda: log(op="alloc", id=at + 1, size=4096, ptr=4096 * (at + 1))),
                   lambda: within("backward", lambda: within("bucket 7")))
        view = self.open(self.file("nested.jsonl", "\n".join(lines).encode()))
        bands = view.settled()["bands"]
        self.assertEqual([(band["depth"], band["title"]) for band in bands[:4]],
                         [(0, "step 1"), (1, "forward 1"), (1, "backward 1"), (2, "bucket 7")])
        self.assertEqual([band["title"] for band in bands if band["name"] == "step"], ["step 1", "step 2", "step 3"])
        # Inner ranges lie below outer ones, and show their names.
        third = next(i for i, band in enumerate(bands) if band["title"] == "backward 3")
        places = view.settled()["places"]
        self.assertGreaterEqual(places[f"band/{third}"][1], places["band/0"][1] + places["band/0"][3])
        self.assertEqual(view.point(f"band/{third}", 0.5)["told_band"], "backward 3")
        begin, end = view.double_click_on(f"band/{third}")["view"]
        first = view.settled()["span"][0]
        self.assertEqual([begin - first, end - first], [at - 1_000_000 for at in ranges["backward"][2]])
        # Earlier ranges are there, too.
        self.assertEqual({band["title"] for band in view.settled()["bands"]}, {"step 3", "backward 3", "bucket 7"})
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

    def test_flags_leave_the_labels_of_the_axis_free(self):
        for scale, line in (("1", 14), ("2", 28)):
            file = self.directory / f"at_{scale}.png"
            view = self.open(SAMPLES / "oom_default.reel", "--scale", scale, "--dark", size="1024x640")
            x, y, width, height = (int(v) for v in view.settled()["places"]["marks"])
            self.assertIsNone(view.ask("screenshot", file=str(file))["error"])
            rows = picture(file)[2]

            def vermilion(of):
                return sum(row[3 * i] > 150 and row[3 * i + 1] < 130 and row[3 * i + 2] < 60 for row in of for i in range(x, x + width))
            self.assertGreater(vermilion(rows[y:y + height - line]), 50, "flags")
            self.assertEqual(vermilion(rows[y + height - line:y + height]), 0, "below them")
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
            shown = view.double_click_on("title/" + pane, across)
            self.assertEqual(shown["maximised"], pane)
            self.assertGreater(shown["places"][pane][2], 0.9 * WIDTH)
            self.assertEqual(view.key("Escape")["maximised"], "")
        self.end(view)

    def test_a_double_click_is_one_however_slow_frames_are(self):
        view = self.open(SAMPLES / "oom_default.reel")
        x, y, width, height = view.settled()["places"]["title/map"]
        view.hands("mousemove", int(x + 0.6 * width), int(y + 0.5 * height))
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
        self.assertEqual(view.settled()["stage"], "failed")
        self.assertNotIn("start/recent 1", view.settled()["places"], "it was not opened")
        for name in ("leak.reel", "streams_default.reel"):
            view.ask("open", file=str(SAMPLES / name))
            view.settled()
        self.assertIsNone(view.key("ctrl+w")["file"])
        self.assertEqual(view.click_on("start/recent 2")["file"], str(SAMPLES / "leak.reel"))
        self.end(view)

    def test_a_bad_file_keeps_the_open_one(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        marked = view.key("m")["marked"]
        titled = lambda: subprocess.run(["xdotool", "search", "--name", "memreel", "getwindowname"], check=True, text=True,
                                        env=self.screen.environment, stdout=subprocess.PIPE).stdout.strip()
        view.ask("open", file=str(self.file("bad.pickle", b"\x80\x04}\x8c\x08segments")))
        shown = view.settled()
        self.assertIn("bad.pickle", shown["notice"])
        self.assertEqual((shown["file"], shown["marked"], shown["stage"]), (str(SAMPLES / "leak.reel"), marked, "complete"))
        self.assertEqual(shown["recent"], [str(SAMPLES / "leak.reel")])
        self.assertEqual(titled(), "leak.reel - memreel")
        self.assertIsNone(view.key("Escape")["notice"])
        self.assertEqual(view.settled()["marked"], marked, "Esc closes the notice alone")
        view.ask("open", file=str(SAMPLES / "streams_default.reel"))
        shown = view.settled()
        self.assertEqual((shown["file"], shown["marked"]), (str(SAMPLES / "streams_default.reel"), None))
        self.assertEqual(titled(), "streams_default.reel - memreel")
        self.assertIsNone(view.key("ctrl+w")["file"])
        self.assertEqual(titled(), "memreel")
        self.end(view)

    def test_the_dialog_lists_what_can_be_opened_and_opens_jobs(self):
        job = self.directory / "Job"
        job.mkdir()
        for name in ("rank0.reel", "rank1.reel"):
            (job / name).write_bytes((SAMPLES / "streams_default.reel").read_bytes())
        (job / "notes.txt").write_text("nothing")
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        view.key("ctrl+o")
        view.type(str(job))
        view.key("Return")
        places = view.type("RANK")["places"]
        self.assertLessEqual({"open/rank0.reel", "open/rank1.reel", "open/job"}, places.keys())
        self.assertNotIn("open/notes.txt", places)
        for _ in "RANK":
            view.key("BackSpace")
        self.assertIn("open/notes.txt", view.click_on("open/all files")["places"])
        shown = view.click_on("open/job")
        self.assertEqual([rank["file"] for rank in shown["ranks"]], [str(job / "rank0.reel"), str(job / "rank1.reel")])
        self.assertEqual(shown["tab"], "ranks")
        self.end(view)


if __name__ == "__main__":
    unittest.main()
