"""Uses the viewer as a person does, on a screen that nobody sees: real keys, a real mouse, and a look at the pictures."""

import json
import os
import random
import shutil
import struct
import subprocess
import time
import unittest
import zlib

from program import REPOSITORY, SAMPLES, SANITIZED, ProgramTest, run

VIEW = os.environ.get("MEMREEL_VIEW", str(REPOSITORY / "build/release/bin/memreel-view"))
WIDTH, HEIGHT = 1400, 900
MISSING = [tool for tool in ("Xvfb", "xdotool") if shutil.which(tool) is None]
PATIENCE = 240 if SANITIZED else 60


class Screen:
    """An X server without a screen."""

    def __init__(self):
        self.server = subprocess.Popen(
            ["Xvfb", "-displayfd", "1", "-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-nolisten", "tcp", "-noreset"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.environment = {**os.environ, "DISPLAY": ":" + self.server.stdout.readline().strip(),
                            "LIBGL_ALWAYS_SOFTWARE": "1", "LP_NUM_THREADS": "1"}

    def close(self):
        """Ends the server."""
        self.server.terminate()
        self.server.wait()
        self.server.stdout.close()

    def view(self, *arguments, timeout=PATIENCE):
        return subprocess.run([VIEW, *map(str, arguments)], env=self.environment, timeout=timeout, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class View:
    """A viewer with a window, and the hands of its user."""

    def __init__(self, screen, *arguments, size=f"{WIDTH}x{HEIGHT}"):
        self.screen = screen
        self.process = subprocess.Popen([VIEW, *map(str, arguments), "--control", "--size", size],
                                        env=screen.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def ask(self, what, **more):
        self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("the viewer ended: " + self.process.stderr.read())
        return json.loads(line)

    def settled(self):
        """What is shown once nothing is left to do."""
        return self.ask("wait")

    def hands(self, *arguments):
        subprocess.run(["xdotool", *map(str, arguments)], env=self.screen.environment, check=True,
                       stdout=subprocess.DEVNULL)

    def key(self, *names):
        return self.pressed(sum(name.count("+") + 1 for name in names), "key", *names)

    def type(self, text):
        return self.pressed(len(text), "type", "--delay", "15", text)

    def pressed(self, keys, *arguments):
        """What is shown once so many keys have arrived: a busy machine passes them on late."""
        before, deadline = self.ask("state")["keys"], time.monotonic() + PATIENCE
        self.hands(*arguments)
        while (shown := self.settled())["keys"] < before + keys:
            if time.monotonic() > deadline:
                raise AssertionError("keys were not pressed")
        return shown

    def click(self, x, y, button=1):
        self.hands("mousemove", int(x), int(y), "sleep", "0.05", "click", button)
        return self.settled()

    def click_on(self, place, across=0.5, down=0.5):
        x, y, width, height = self.settled()["places"][place]
        return self.click(x + across * width, y + down * height)

    def close(self):
        """Whatever state it is in."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()

    def quit(self):
        """Its exit code, and what it said."""
        self.ask("quit")
        self.process.stdin.close()
        code = self.process.wait(timeout=PATIENCE)
        return code, self.process.stderr.read()


def picture(path):
    """Width, height and rows of RGB bytes of a PNG as the viewer writes it, with a palette or without."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, width, height, palette = 8, b"", 0, 0, None
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        elif kind == b"PLTE":
            palette = [body[i:i + 3] for i in range(0, size, 3)]
        elif kind == b"IDAT":
            packed += body
        at += 12 + size
    if palette:
        raw = zlib.decompress(packed)
        return width, height, [b"".join(palette[i] for i in raw[y * (width + 1) + 1:(y + 1) * (width + 1)])
                               for y in range(height)]
    raw, stride, rows = zlib.decompress(packed), 3 * width + 1, []
    above = bytearray(3 * width)
    for y in range(height):
        row = bytearray(raw[y * stride + 1:(y + 1) * stride])
        row = bytearray((a + b) & 255 for a, b in zip(row, above))
        rows.append(row)
        above = row
    return width, height, rows


def ink(rows, width):
    """Share of the pixels that have another colour than most, and how many colours there are."""
    counts = {}
    for row in rows[::3]:
        for x in range(0, 3 * width, 9):
            colour = bytes(row[x:x + 3])
            counts[colour] = counts.get(colour, 0) + 1
    return 1 - max(counts.values()) / sum(counts.values()), len(counts)


@unittest.skipIf(MISSING, "not installed: " + ", ".join(MISSING))
class ViewTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.screen = Screen()

    @classmethod
    def tearDownClass(cls):
        cls.screen.close()


class Windows(ViewTest):
    def open(self, file, *arguments, **how):
        view = View(self.screen, file, *arguments, **how)
        self.addCleanup(view.close)
        return view

    def end(self, view):
        self.assertEqual(view.quit(), (0, ""))

    def test_a_trace_is_shown_and_answers_to_mouse_and_keys(self):
        trace = SAMPLES / "gpt_default.reel"
        info = json.loads(run("info", trace, "--json").stdout)
        view = self.open(trace)
        shown = view.settled()
        self.assertEqual(shown["stage"], "complete")
        self.assertEqual(shown["events"], info["events"])
        self.assertEqual(shown["live_bytes"], info["devices"][0]["peak_live_bytes"], "opens at the peak")
        self.check_places(shown)

        # A click on the timeline puts the cursor where it points.
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

        # The largest allocation, by the table: sorted by a click on its header, selected by one on its row.
        events = [line.split(",") for line in run("export", trace, "--format", "csv").stdout.splitlines()]
        kind, size = events[0].index("kind"), events[0].index("size")
        largest = max(int(event[size]) for event in events[1:] if event[kind] == "alloc")
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
        """Nothing lies outside of the window, and no pane on another."""
        for name, (x, y, width, height) in shown["places"].items():
            self.assertGreaterEqual(min(x, y), 0, name)
            self.assertLessEqual(x + width, WIDTH + 1, name)
            self.assertLessEqual(y + height, HEIGHT + 1, name)
        panes = [shown["places"][name] for name in ("timeline", "marks", "minimap", "map", "heap", "inspector", "bottom")]
        for i, a in enumerate(panes):
            for b in panes[:i]:
                apart = a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]
                self.assertTrue(apart, (a, b))

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
        self.assertEqual([s["allocation"] for s in (first, second, third)], [0, 1, 2])
        self.assertGreater(third["cursor"], third["selected"]["begin"])
        self.assertEqual(view.key("N")["allocation"], 1)
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

    def copied_row(self, view, table):
        """The cells of a table's first row, as a right click copies them."""
        x, y, width, height = view.settled()["places"][table + "/first row"]
        view.hands("mousemove", int(x + 0.5 * width), int(y + 0.5 * height), "click", 3)
        return view.click_on("copy/row")["clipboard"].split("\t")

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

    def test_zooms_are_undone_one_at_a_time(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        shown = view.settled()
        x, y, width, height = shown["places"]["timeline"]
        views = [shown["view"]]
        for _ in range(2):
            view.hands("mousemove", int(x + width / 3), int(y + height / 2), "click", 4, "sleep", 0.6)
            views.append(view.settled()["view"])
        self.assertEqual(len({tuple(v) for v in views}), 3)
        self.assertEqual(view.key("ctrl+z")["view"], views[1])
        self.assertEqual(view.key("ctrl+z")["view"], views[0])
        self.assertEqual(view.key("alt+Right")["view"], views[1])
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

    def test_a_file_that_grows_is_followed(self):
        whole = (SAMPLES / "gpt_default.reel").read_bytes()
        path = self.file("growing.reel", whole[:len(whole) // 2])
        view = self.open(path)
        first = view.settled()
        self.assertTrue(first["followed"])
        with path.open("ab") as file:
            file.write(whole[len(whole) // 2:])
        deadline = time.monotonic() + PATIENCE
        while (now := view.settled())["events"] <= first["events"] or now["followed"]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.assertEqual(now["events"], json.loads(run("info", path, "--json").stdout)["events"])
        self.end(view)

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

    def test_bad_usage_is_refused(self):
        trace = SAMPLES / "leak.reel"
        self.assert_refused(self.screen.view(trace, "--size", "10"), "--size")
        self.assert_refused(self.screen.view(trace, "--pane", "sky", "--screenshot", "a.png"), "sky", "timeline")
        self.assert_refused(self.screen.view(trace, "--at", "noon", "--screenshot", "a.png"), "noon")
        self.assert_refused(self.screen.view("--nonsense"), "--nonsense")


class Screenshots(ViewTest):
    def test_every_pane_shows_something(self):
        folder = self.directory / "panes"
        process = self.screen.view(SAMPLES / "oom_default.reel", "--screenshot", folder, "--pane", "all", "--size",
                                   "640x400", "--at", "60%", "--few-colours")
        self.assertEqual(process.returncode, 0, process.stderr)
        panes = ["timeline", "map", "heap", "inspector", "allocations", "stacks", "flame", "segments", "leaks",
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

    def test_measurements_are_json(self):
        process = self.screen.view(SAMPLES / "leak.reel", "--bench-frames", "12", "--json", "--size", "640x400")
        self.assertEqual(process.returncode, 0, process.stderr)
        bench = json.loads(process.stdout)
        self.assertEqual(bench["schema"], "memreel.view-bench/1")
        self.assertGreater(bench["resident_bytes"], 0)
        for spread in ("own_ms", "ui_ms", "build_ms", "hand_over_ms", "submit_ms", "vertices", "draw_calls", "frame_ms",
                       "raster_ms", "scrub_ms", "scrub_own_ms", "table_ms", "table_own_ms"):
            self.assertGreater(bench[spread]["p50"], 0, spread)
            self.assertLessEqual(bench[spread]["p50"], bench[spread]["p99"], spread)
        self.assertLessEqual(bench["start"]["window_ms"], bench["start"]["first_frame_ms"])
        self.assertLessEqual(bench["start"]["first_frame_ms"], bench["first_paint_ms"])
        self.assertLessEqual(bench["first_paint_ms"], bench["complete_ms"])


if __name__ == "__main__":
    unittest.main()
