# SPDX-License-Identifier: Apache-2.0
"""Uses the viewer as a user would: opens files, navigates, takes screenshots."""

import json
import random
import shutil
import subprocess
import time
import unittest
from pathlib import Path

from program import REPOSITORY, SAMPLES, run
from scaled_program import training
from schema import defects
from viewing import HEIGHT, PATIENCE, VIEW, WIDTH, View, ViewTest, ink, picture


class Windows(ViewTest):
    def test_a_trace_is_shown_and_answers_to_mouse_and_keys(self):
        trace = SAMPLES / "gpt_default.reel"
        info = json.loads(run("info", trace, "--json").stdout)
        view = self.open(trace)
        shown = view.settled()
        self.assertEqual(shown["stage"], "complete")
        self.assertEqual(shown["events"], info["events"])
        self.assertEqual(shown["live_bytes"], info["devices"][0]["peak_live_bytes"], "opens at the peak")
        self.check_places(shown)

        # A click on the timeline sets the cursor there.
        clicked = view.click_on("timeline", 0.5)
        self.assertNotEqual(clicked["cursor"], shown["cursor"])
        at = view.key("period")
        self.assertGreater(at["cursor"], clicked["cursor"])
        self.assertIsNotNone(at["allocation"], "the event's allocation is selected")
        self.assertEqual(view.key("comma", "comma")["cursor"] < at["cursor"], True)

        # Zooming keeps what is under the pointer; 0 shows all; Alt+Left goes back.
        x, y, width, height = shown["places"]["timeline"]
        view.hands("mousemove", int(x + width / 2), int(y + height / 2), "click", 4, "click", 4)
        zoomed = view.settled()
        before, after = (s["view"][1] - s["view"][0] for s in (shown, zoomed))
        self.assertLess(after, 0.7 * before)
        middle = [(s["view"][0] + s["view"][1]) / 2 for s in (shown, zoomed)]
        self.assertLess(abs(middle[0] - middle[1]), 0.02 * before)
        self.assertEqual(view.key("0")["view"], shown["view"])

        # The largest allocation, which the table begins with; a click on the header turns its order around.
        events = [line.split(",") for line in run("export", trace, "--format", "csv").stdout.splitlines()]
        kind, size = events[0].index("kind"), events[0].index("size")
        largest = max(int(event[size]) for event in events[1:] if event[kind] == "alloc")
        view.click_on("allocations/size")
        self.assertLess(view.click_on("allocations/first row")["selected"]["bytes"], largest)
        view.click_on("allocations/size")
        selected = view.click_on("allocations/first row")
        self.assertEqual(selected["selected"]["bytes"], largest)
        marked = view.key("m")
        self.assertIsNotNone(marked["marked"])
        looked = view.key("f")
        self.assertEqual(looked["view"], marked["marked"])

        # Esc clears, one thing at a time.
        self.assertIsNone(view.key("Escape")["marked"])
        self.end(view)

    def check_places(self, shown):
        """Nothing lies outside the window, and no panes overlap."""
        for name, (x, y, width, height) in shown["places"].items():
            self.assertGreaterEqual(min(x, y), 0, name)
            self.assertLessEqual(x + width, WIDTH + 1, name)
            self.assertLessEqual(y + height, HEIGHT + 1, name)
        panes = [shown["places"][name] for name in ("timeline", "marks", "minimap", "map", "heap", "inspector", "bottom")]
        for i, a in enumerate(panes):
            for b in panes[:i]:
                apart = a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]
                self.assertTrue(apart, (a, b))

    def test_only_changes_are_drawn(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        drawn = view.settled()["pictures"]
        self.assertGreater(drawn, 0)
        for _ in range(20):
            self.assertEqual(view.settled()["pictures"], drawn, "nothing changed")
        moved = view.point("timeline", 0.3)["pictures"]
        self.assertGreater(moved, drawn, "the line under the pointer moved")
        changed = view.click_on("timeline", 0.5)["pictures"]
        self.assertGreater(changed, moved)
        # Unmapped and mapped, a window is empty until it draws itself.
        view.hands("search", "--onlyvisible", "--name", ".", "windowunmap", "--sync", "windowmap", "--sync")
        deadline = time.monotonic() + PATIENCE
        while view.settled()["pictures"] == changed:
            self.assertLess(time.monotonic(), deadline, "the picture was not restored")
        self.end(view)

    def test_search_palette_help_and_tabs(self):
        view = self.open(SAMPLES / "streams_default.reel")
        view.settled()
        view.key("slash")
        found = view.type("streams")
        self.assertEqual(found["search"], "streams")
        self.assertEqual(found["matches"], found["allocations"], "all are made by it")
        # Enter, n and N go from match to match.
        first, second, third = view.key("Return"), view.key("n"), view.key("n")
        self.assertEqual([s["search"] for s in (first, second, third)], ["streams"] * 3)
        self.assertEqual(first["cursor"], found["cursor"], "live at the cursor")
        sizes = [s["selected"]["bytes"] for s in (first, second, third)]
        self.assertEqual(sizes, sorted(sizes, reverse=True), "as in the list")
        self.assertEqual(len({s["allocation"] for s in (first, second, third)}), 3)
        self.assertGreater(third["cursor"], third["selected"]["begin"])
        self.assertEqual(view.key("N")["allocation"], second["allocation"])
        view.key("slash")
        self.assertEqual(view.hold("Return")["allocation"], third["allocation"])
        view.key("slash")
        self.assertEqual(view.type("nowhere to be found")["matches"], 0)
        view.key("Escape")
        view.click_on("heap", 0.99, 0.99)
        self.assertEqual(view.key("Escape")["search"], "")

        self.assertTrue(view.key("ctrl+shift+p")["palette"])
        dark = view.settled()["dark"]
        view.type("light or dark")
        after = view.key("Return")
        self.assertFalse(after["palette"])
        self.assertNotEqual(after["dark"], dark)

        self.assertTrue(view.key("question")["help"])
        self.assertFalse(view.key("Escape")["help"])
        for number, tab in enumerate(["allocations", "stacks", "flame", "segments", "leaks", "fragmentation", "oom",
                                      "policies", "compare"], 1):
            self.assertEqual(view.key(str(number))["tab"], tab)
        view.click_on("tab/policies")
        view.click_on("policies/run")
        replayed = view.click_on("policies/first row")
        self.assertEqual(len(replayed["overlays"]), 1)
        self.end(view)

    def test_zooms_are_undone_one_at_a_time(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        shown = view.settled()
        x, y, width, height = shown["places"]["timeline"]
        views = [shown["view"]]
        for _ in range(2):
            view.hands("mousemove", int(x + width / 3), int(y + height / 2), "click", 4)
            while not (zoomed := view.settled())["view_remembered"]:
                pass
            views.append(zoomed["view"])
        self.assertEqual(len({tuple(v) for v in views}), 3)
        self.assertEqual(view.key("ctrl+z")["view"], views[1])
        self.assertEqual(view.key("ctrl+z")["view"], views[0])
        self.assertEqual(view.key("alt+Right")["view"], views[1])
        self.end(view)

    def test_a_file_that_grows_is_followed(self):
        trace = SAMPLES / "gpt_default.reel"
        _, now = self.while_it_grows(trace)
        self.assertEqual(now["events"], json.loads(run("info", trace, "--json").stdout)["events"])

    def test_another_file_replaces_all_that_was_shown_of_the_last(self):
        view = self.open(SAMPLES / "decode_default.reel")
        before = view.settled()
        view.click_on("heap", 0.5, 0.5)
        view.click_on("allocations/size")
        view.key("End")
        view.ask("open", file=str(SAMPLES / "leak.reel"))
        after = view.settled()
        self.assertEqual(after["stage"], "complete")
        self.assertLess(after["allocations"], before["allocations"], "or nothing is shown that this file lacks")
        self.assertIsNone(after["allocation"])
        self.end(view)

    def test_200_random_interactions_end_well(self):
        view = self.open(SAMPLES / "oom_default.reel")
        random.seed(7)
        keys = ["w", "s", "a", "d", "f", "m", "p", "0", "o", "k", "t", "period", "comma", "bracketleft", "bracketright",
                "alt+Left", "alt+Right", "ctrl+z", "Escape", "1", "2", "3", "4", "6", "7", "9", "question"]
        actions = []
        for _ in range(200):
            if random.random() < 0.5:
                actions.append(["key", random.choice(keys)])
            else:
                actions.append(["mousemove", random.randrange(WIDTH), random.randrange(40, HEIGHT), "click",
                                random.choice([1, 1, 1, 3, 4, 5])])
        for i in range(0, len(actions), 10):
            view.hands(*(word for action in actions[i:i + 10] for word in action))
            shown = view.settled()
            self.assertLessEqual(shown["cursor"], shown["events"])
            self.assertLess(shown["view"][0], shown["view"][1])
        self.end(view)


class Files(ViewTest):
    def test_what_cannot_be_shown_is_explained(self):
        cases = {"empty.reel": b"", "nonsense.pickle": b"\x80\x04not a snapshot", "text.txt": b"hello"}
        for name, content in cases.items():
            file = self.file(name, content)
            view = View(self.screen, file)
            shown = view.settled()
            self.assertEqual(shown["stage"], "failed", name)
            self.assertIn(name, shown["error"])
            self.assertEqual(view.quit(), (0, ""))
            view.close()
        process = self.screen.view(self.directory / "missing.reel", "--screenshot", self.directory / "a.png")
        self.assert_refused(process, "missing.reel")
        self.assertFalse((self.directory / "a.png").exists())

    def test_a_damaged_trace_is_shown_with_what_it_lacks(self):
        data = bytearray((SAMPLES / "gpt_default.reel").read_bytes())
        data[len(data) // 2] ^= 0xFF
        file = self.file("damaged.reel", bytes(data))
        process = self.screen.view(file, "--screenshot", self.directory / "a.png", "--size", "700x500")
        self.assertEqual(process.returncode, 0, process.stderr)

    def test_a_predicted_trace_is_called_synthetic(self):
        recordings = []
        for batch in (1, 2):
            recordings.append(f"batch={batch}:" + str(self.file(f"{batch}.pickle", training(batch=batch).pickle())))
        trace = self.directory / "large.reel"
        self.answer("predict", *recordings, "--to", "batch=8", "-o", trace)
        for file, synthetic in ((trace, True), (SAMPLES / "gpt_default.reel", False)):
            view = View(self.screen, file)
            self.assertEqual("synthetic" in view.settled()["places"], synthetic)
            self.assertEqual(view.quit(), (0, ""))
            view.close()

    def test_a_prediction_is_a_chart(self):
        recordings = [f"batch={n}:" + str(self.file(f"{n}.pickle", training(batch=n).pickle())) for n in (1, 2, 4)]
        arguments = (*recordings, "--to", "batch=8,16", "--capacity", "64MiB")
        document = self.document("predict", *arguments)
        view = View(self.screen, *arguments)
        shown = view.settled()
        self.assertEqual((shown["tab"], shown["file"]), ("prediction", recordings[-1].split(":", 1)[1]))
        wanted = [{key: p[key] for key in ("value", "peak_live_bytes", "peak_reserved_bytes")} for p in document["predictions"]]
        self.assertEqual(shown["prediction"], {"problem": "", "predicted": wanted})
        places = {name.removeprefix("prediction/"): place for name, place in shown["places"].items()
                  if name.startswith("prediction/")}
        self.assertEqual(set(places), {"limit", *(f"{kind}/{n}" for kind in ("reserved", "live") for n in (8, 16)),
                                       *(f"recorded {kind}/{n}" for kind in ("reserved", "live") for n in (1, 2, 4))})
        middle = {name: (x + width / 2, y + height / 2) for name, (x, y, width, height) in places.items()}
        # Bytes are a straight line upwards, values one to the right.
        peaks = {p["value"]: p["peak_reserved_bytes"] for p in document["predictions"]}
        scale = (middle["reserved/8"][1] - middle["limit"][1]) / ((64 << 20) - peaks[8])
        self.assertAlmostEqual(middle["reserved/16"][1], middle["reserved/8"][1] - scale * (peaks[16] - peaks[8]), delta=2)
        self.assertAlmostEqual(middle["live/16"][0] - middle["live/8"][0], 2 * (middle["live/8"][0] - middle["recorded live/4"][0]),
                               delta=2)
        self.assertEqual(view.quit(), (0, ""))
        view.close()

    def test_a_prediction_that_cannot_be_made_is_explained(self):
        recordings = [f"batch={n}:" + str(self.file(f"{n}.pickle", training(batch=n).pickle())) for n in (1, 2)]
        view = View(self.screen, *recordings, "--to", "seq=4")
        self.assertIn("'seq'", view.settled()["prediction"]["problem"])
        self.assertEqual(view.quit(), (0, ""))
        view.close()
        for arguments in ((recordings[0], "other.pickle"), ("other.pickle", "--to", "batch=8"),
                          ("other.pickle", "--pane", "prediction")):
            self.assert_refused(self.screen.view(*arguments, "--screenshot", self.directory / "x.png"))

    def test_bad_usage_is_refused(self):
        trace = SAMPLES / "leak.reel"
        self.assert_refused(self.screen.view(trace, "--size", "10"), "--size")
        self.assert_refused(self.screen.view(trace, "--pane", "sky", "--screenshot", "a.png"), "sky", "timeline")
        self.assert_refused(self.screen.view(trace, "--at", "noon", "--screenshot", "a.png"), "noon")
        own = self.file("own.reel", trace.read_bytes())
        for arguments in ((own,), (trace, "--compare", own)):
            self.assert_refused(self.screen.view(*arguments, "--screenshot", own), "overwrite the trace")
        self.assertEqual(own.read_bytes(), trace.read_bytes())
        self.assert_refused(self.screen.view("--nonsense"), "--nonsense")


class Tour(ViewTest):
    def tour(self, program):
        """The state after the command, without a file."""
        view = View(self.screen, program=program)
        self.addCleanup(view.close)
        view.settled()
        view.key("ctrl+shift+p")
        view.type("tour")
        return view, view.key("Return")

    def test_it_shows_the_sample_where_no_file_is_open(self):
        view, shown = self.tour(VIEW)
        self.assertEqual((shown["stage"], shown["tour"]), ("complete", 0))
        self.assertEqual(Path(shown["file"]), SAMPLES / "gpt_default.reel")
        for stop in range(1, 6):
            self.assertEqual(view.click_on("tour/next")["tour"], stop)
            places = view.settled()["places"]
            (x, y, width, height), about = places["tour"], places[("timeline", "map", "heap", "inspector", "bottom")[stop - 1]]
            apart = (x + width <= about[0] or about[0] + about[2] <= x or y + height <= about[1] or about[1] + about[3] <= y)
            self.assertTrue(apart, "the box hides nothing of what it speaks of")
        self.assertEqual(view.click_on("tour/next")["tour"], -1)
        self.assertEqual(view.quit(), (0, ""))

    def test_the_start_page_offers_the_sample(self):
        view = View(self.screen, program=VIEW)
        self.addCleanup(view.close)
        shown = view.click_on("start/sample")
        self.assertEqual((Path(shown["file"]), shown["tour"], shown["recent"]), (SAMPLES / "gpt_default.reel", -1, []))
        self.assertEqual(view.quit(), (0, ""))

    def test_the_desktop_knows_the_window(self):
        entry = (REPOSITORY / "viewer/desktop/memreel-view.desktop").read_text().splitlines()
        name = dict(line.split("=", 1) for line in entry if "=" in line)["StartupWMClass"]
        self.assertIn("Icon=" + name, entry)
        view = View(self.screen, program=VIEW)
        self.addCleanup(view.close)
        view.settled()
        found = subprocess.run(["xdotool", "search", "--class", f"^{name}$"], env=self.screen.environment,
                               stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(len(found.stdout.split()), 1)
        self.assertEqual(view.quit(), (0, ""))

    def test_an_installed_program_has_the_sample_with_it(self):
        build = Path(VIEW).parent.parent
        for component in ("viewer", "runtime"):
            subprocess.run(["cmake", "--install", build, "--component", component, "--prefix", self.directory], check=True,
                           stdout=subprocess.DEVNULL)
        view, shown = self.tour(self.directory / "bin" / "memreel-view")
        self.assertEqual(Path(shown["file"]), self.directory / "share/memreel/samples/gpt_default.reel")
        self.assertEqual(view.quit(), (0, ""))

        # Without it there is no tour, and everything else works.
        (self.directory / "share/memreel/samples/gpt_default.reel").unlink()
        view, shown = self.tour(self.directory / "bin" / "memreel-view")
        self.assertEqual((shown["file"], shown["tour"]), (None, -1))
        self.assertEqual(view.quit(), (0, ""))

    def test_the_first_start_without_a_file_is_the_tour(self):
        settings = self.directory / "memreel" / "view.json"
        environment = {**self.screen.environment, "XDG_CONFIG_HOME": str(self.directory)}
        for patience in (1, 2, 4, 8, 16, 32):
            process = subprocess.Popen([VIEW], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(patience)  # on a busy machine the window takes a while
            while process.poll() is None:
                subprocess.run(["xdotool", "key", "ctrl+q"], env=environment, check=True)
                time.sleep(0.2)
            self.assertEqual((process.communicate(), process.returncode), ((b"", b""), 0))
            seen = json.loads(settings.read_text())
            if seen["tour_done"]:
                break
        self.assertTrue(seen["tour_done"])
        self.assertEqual(seen["recent"], [], "the sample is none of the user's files")


class Screenshots(ViewTest):
    def test_every_pane_shows_something(self):
        folder = self.directory / "panes"
        process = self.screen.view(SAMPLES / "oom_default.reel", "--screenshot", folder, "--pane", "all", "--size",
                                   "640x400", "--at", "60%", "--few-colours")
        self.assertEqual(process.returncode, 0, process.stderr)
        panes = ["verdict", "timeline", "map", "heap", "inspector", "allocations", "stacks", "flame", "segments", "leaks",
                 "fragmentation", "oom", "policies", "compare"]
        self.assertEqual(sorted(p.stem for p in folder.iterdir()), sorted(panes))
        for pane in panes:
            width, height, rows = picture(folder / f"{pane}.png")
            self.assertEqual((width, height), (640, 400))
            share, colours = ink(rows[45:], width)
            self.assertGreater(share, 0.004, pane)
            self.assertGreater(colours, 8, pane)

    def test_few_colours_look_the_same(self):
        files = self.directory / "few.png", self.directory / "all.png"
        for file, options in zip(files, (["--few-colours"], [])):
            process = self.screen.view(SAMPLES / "gpt_default.reel", "--screenshot", file, "--size", "800x500", *options)
            self.assertEqual(process.returncode, 0, process.stderr)
        self.assertLess(files[0].stat().st_size, 0.6 * files[1].stat().st_size)
        (_, _, few), (width, height, exact) = picture(files[0]), picture(files[1])
        apart = sum(abs(a - b) for rows in zip(few, exact) for a, b in zip(*rows)) / (3 * width * height)
        self.assertLess(apart, 1, "of 255, in the mean")

    def test_light_dark_and_large(self):
        grounds = {}
        for options in (["--light"], ["--dark"], ["--dark", "--scale", "2"]):
            file = self.directory / "a.png"
            process = self.screen.view(SAMPLES / "leak.reel", "--screenshot", file, "--size", "800x500", *options)
            self.assertEqual(process.returncode, 0, process.stderr)
            grounds[tuple(options)] = picture(file)[2][-1][0]
        self.assertGreater(grounds[("--light",)], 200)
        self.assertLess(grounds[("--dark",)], 60)

    def test_pictures_with_4k_are_legible(self):
        pictures = []
        for options in ([], ["--scale", "2"]):
            file = self.directory / "a.png"
            process = self.screen.view(SAMPLES / "leak.reel", "--screenshot", file, "--size", "900x2160", *options)
            self.assertEqual(process.returncode, 0, process.stderr)
            pictures.append(file.read_bytes())
        self.assertEqual(*pictures)

    def test_measurements_are_json(self):
        process = self.screen.view(SAMPLES / "leak.reel", "--bench-frames", "12", "--json", "--size", "640x400")
        self.assertEqual(process.returncode, 0, process.stderr)
        bench = json.loads(process.stdout)
        self.assertEqual(bench["schema"], "memreel.view-bench/1")
        self.assertEqual(defects(bench), [])
        self.assertGreater(bench["resident_bytes"], 0)
        for spread in ("own_ms", "ui_ms", "build_ms", "hand_over_ms", "submit_ms", "vertices", "draw_calls", "frame_ms",
                       "raster_ms", "scrub_ms", "scrub_own_ms", "table_ms", "table_own_ms"):
            self.assertGreater(bench[spread]["p50"], 0, spread)
            self.assertLessEqual(bench[spread]["p50"], bench[spread]["p99"], spread)
        self.assertLessEqual(bench["start"]["window_ms"], bench["start"]["first_frame_ms"])
        self.assertLessEqual(bench["start"]["first_frame_ms"], bench["first_paint_ms"])
        self.assertLessEqual(bench["first_paint_ms"], bench["complete_ms"])


class Ranks(ViewTest):
    """Several recordings in one window."""

    def setUp(self):
        super().setUp()
        self.job = self.directory / "job"
        self.job.mkdir()
        for rank, name in enumerate(("gpt_default", "decode_default", "leak")):
            shutil.copy(SAMPLES / f"{name}.reel", self.job / f"rank{rank}.reel")
        (self.job / "rank3.reel").write_bytes(b"nothing of the kind")

    def test_a_directory_is_a_list_of_ranks(self):
        view = self.open(self.job)
        shown = view.settled()
        self.assertEqual([rank["name"] for rank in shown["ranks"]], ["rank 0", "rank 1", "rank 2", "rank 3"])
        peaks = [max(device["peak_reserved_bytes"] for device in json.loads(run("info", file, "--json").stdout)["devices"])
                 for file in sorted(self.job.iterdir())[:3]]
        self.assertEqual([rank["peak_reserved_bytes"] for rank in shown["ranks"][:3]], peaks)
        self.assertTrue(shown["ranks"][3]["problem"])
        self.assertEqual((shown["tab"], shown["file"]), ("ranks", str(self.job / "rank0.reel")))

        # A click shows a rank, a right click compares it with the one shown.
        clicked = view.click_on("rank/2")
        self.assertEqual((clicked["tab"], clicked["file"]), ("ranks", str(self.job / "rank2.reel")))
        self.assertEqual(clicked["live_bytes"], max(
            device["peak_live_bytes"] for device in json.loads(run("info", self.job / "rank2.reel", "--json").stdout)["devices"]))
        x, y, width, height = clicked["places"]["rank/1"]
        compared = view.click(x + width / 2, y + height / 2, button=3)
        self.assertEqual((compared["tab"], compared["other"]), ("compare", str(self.job / "rank1.reel")))
        self.assertEqual(view.key("r")["tab"], "ranks")

        # The list above does the same.
        view.click_on("rank list")
        chosen = view.click_on("rank list/0")
        self.assertEqual(chosen["file"], str(self.job / "rank0.reel"))
        # A file that can't be shown says why, and the others stay available.
        clicked = view.click_on("rank/3")
        self.assertIn("rank3", clicked["notice"])
        self.assertEqual(clicked["file"], str(self.job / "rank0.reel"))
        view.click_on("rank list")
        self.assertEqual(view.click_on("rank list/1")["file"], str(self.job / "rank1.reel"))
        self.end(view)

    def test_a_picture_of_all_ranks(self):
        shot = self.directory / "ranks.png"
        done = self.screen.view(self.job, "--screenshot", shot, "--pane", "ranks", "--size", "900x500")
        self.assertEqual(done.returncode, 0, done.stderr)
        width, _, rows = picture(shot)
        self.assertGreater(ink(rows, width)[0], 0.05)

    def test_refusals(self):
        for arguments, mention in (((self.directory / "nowhere", self.job), "nowhere"),
                                   ((self.job, "--bench-frames", "3"), "--bench-frames"),
                                   ((SAMPLES / "leak.reel", "--pane", "ranks", "--screenshot", "x.png"), "--pane ranks")):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.screen.view(*arguments), mention)


if __name__ == "__main__":
    unittest.main()
