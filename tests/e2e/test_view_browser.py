# SPDX-License-Identifier: Apache-2.0
"""The viewer's page in Chromium and Firefox: pages that memreel writes and serves are opened, zoomed, dragged and searched with
real events. Needs the page (./dev web) and the browsers."""

import json
import os
import re
import subprocess
import unittest
from pathlib import Path

import firefox
import histories
from browsing import BROWSER, CONTROL, SHIFT, Page
from program import MEMREEL, REPOSITORY, SAMPLES, ProgramTest, run

PAGE = Path(os.environ.get("MEMREEL_PAGE", REPOSITORY / "build/web/memreel-view.html"))


@unittest.skipUnless(PAGE.exists(), f"no page is built (./dev web): no {PAGE}")
class PageTest(ProgramTest):
    def written(self, trace):
        """The address of the page with a trace in it."""
        output = self.directory / "run.html"
        self.answer("report", trace, "-o", output, "--interactive")
        return output.as_uri()

    def look(self, page, name="shown.png"):
        """Asserts that the picture has more than one colour; saves it in $MEMREEL_PICTURES if set."""
        file = Path(os.environ.get("MEMREEL_PICTURES", self.directory)) / name
        page.picture(file)
        return file


@unittest.skipUnless(BROWSER, "no browser is installed (package chromium)")
class BrowserTest(PageTest):
    def browse(self, address, before=""):
        page = Page(self.directory, before=before)
        self.addCleanup(page.close)
        page.open(address)
        return page

    def check_silent(self, page):
        self.assertEqual([c for c in page.complaints() if "GPU stall" not in c and "GL Driver" not in c], [])


class FromDisk(BrowserTest):
    def test_a_page_opens_from_a_disk_and_answers_to_mouse_and_keys(self):
        trace = SAMPLES / "gpt_default.reel"
        info = json.loads(run("info", trace, "--json").stdout)
        page = self.browse(self.written(trace))
        shown = page.settled()
        self.assertEqual((shown["stage"], shown["events"]), ("complete", info["events"]))
        self.assertEqual(shown["live_bytes"], info["devices"][0]["peak_live_bytes"], "opens at the peak")
        self.assertEqual(page.value("document.title"), "gpt_default.reel - memreel")
        self.assertEqual(page.value("document.getElementById('say').textContent"), "")
        self.assertTrue(shown["verdict"]["holders"], "judged, in the page itself")
        for name, (x, y, width, height) in shown["places"].items():
            self.assertTrue(x >= 0 and y >= 0 and x + width <= 1401 and y + height <= 901, name)

        # A click sets the cursor; the wheel zooms at the pointer; 0 shows everything.
        clicked = page.click_on("timeline", 0.5)
        self.assertNotEqual(clicked["cursor"], shown["cursor"])
        x, y, width, height = shown["places"]["timeline"]
        zoomed = page.wheel(x + width / 2, y + height / 2, 3)
        before, after = (s["view"][1] - s["view"][0] for s in (shown, zoomed))
        self.assertLess(after, 0.7 * before)
        middle = [(s["view"][0] + s["view"][1]) / 2 for s in (shown, zoomed)]
        self.assertLess(abs(middle[0] - middle[1]), 0.02 * before)
        self.assertGreater(page.wheel(x + width / 2, y + height / 2, -1)["view"][1], zoomed["view"][1])
        self.assertEqual(page.key("0")["view"], shown["view"])

        # The right button moves the view, a row of the table selects, Esc clears.
        page.wheel(x + width / 2, y + height / 2, 3)
        at = page.settled()["view"]
        moved = page.drag(x + width / 2, y + height / 2, x + width / 4, y + height / 2, "right")["view"]
        self.assertGreater(moved[0], at[0])
        self.assertAlmostEqual(moved[1] - moved[0], at[1] - at[0], delta=2)
        page.key("0")
        page.click_on("allocations/size")
        selected = page.click_on("allocations/first row")
        self.assertGreater(selected["selected"]["bytes"], 0)
        self.assertIsNone(page.key("Escape")["allocation"])
        # Typed into the search.
        page.key("/")
        self.assertEqual(page.type("train")["search"], "train")
        x, y, width, height = page.settled()["places"]["map"]
        self.assertGreater(page.colours(x, y, width, min(height, 100)), 8)
        self.look(page, "browser_gpt_default.png")
        self.check_silent(page)

    def test_every_pane_is_shown(self):
        page = self.browse(self.written(SAMPLES / "oom_default.reel"))
        shown = page.settled()
        self.assertEqual(shown["verdict"]["decides"], "out of memory")
        for tab in ("stacks", "flame", "segments", "leaks", "fragmentation", "oom", "policies", "compare"):
            self.assertEqual(page.click_on(f"tab/{tab}")["tab"], tab)
        self.look(page, "browser_oom_default.png")
        self.check_silent(page)

    def test_it_is_used_by_keys_alone(self):
        page = self.browse(self.written(SAMPLES / "oom_default.reel"))
        page.settled()
        self.assertEqual([page.key("Tab")["focus"] for _ in range(2)], ["device", "verdict/decides"], "not the browser's own")
        self.assertEqual(page.key("ArrowDown")["focus"], "verdict/holder 1")
        page.key("Escape")
        page.key("p", modifiers=CONTROL | SHIFT)
        page.type("copythesetting")
        self.assertIn("export PYTORCH_CUDA_ALLOC_CONF=", page.key("Enter")["clipboard"])
        page.key("2")
        page.key("ArrowDown")
        self.assertIsNotNone(page.key("Enter")["own_line"], "who holds the peak")
        for key in ("Escape", "Escape", "4", "ArrowDown"):
            page.key(key)
        self.assertIsNotNone(page.key("Enter")["space"], "what pins a segment")
        page.key("Escape")
        page.call("Page.setInterceptFileChooserDialog", enabled=True)
        page.key("o", modifiers=CONTROL)
        asked = page.event("Page.fileChooserOpened")
        page.call("DOM.setFileInputFiles", files=[str(SAMPLES / "leak.reel")], backendNodeId=asked["backendNodeId"])
        page.wait_for("memreel.state().file.endsWith('/leak.reel')")
        self.assertEqual(page.settled()["verdict"]["decides"], "leak")
        self.check_silent(page)

    def test_a_browser_that_can_not_suspend_work_shows_the_same(self):
        trace = self.written(SAMPLES / "leak.reel")
        first = self.browse(trace).settled()
        second = self.browse(trace, "delete WebAssembly.Suspending").settled()
        for key in ("events", "live_bytes", "cursor", "verdict", "leaks", "categories"):
            self.assertEqual(first[key], second[key], key)

    def test_work_that_nobody_waits_for_any_more_ends(self):
        page = self.browse(self.written(SAMPLES / "gpt_default.reel"))
        page.wait_for("typeof memreel != 'undefined' && memreel.running && memreel.state().events > 0")
        page.value("window.kept = FS.readFile(memreel.files[0]), 1")
        for pause in (0, 50, 200, 500):  # in the middle of reading, classifying and judging
            page.value(f"new Promise(done => setTimeout(done, {pause})).then(() => memreel.open('again.reel', kept.slice()))")
        shown = page.settled()
        self.assertEqual((Path(shown["file"]).name, shown["verdict"]["decides"]), ("again.reel", "peak"))
        self.check_silent(page)

    def test_another_file_is_opened_by_the_browsers_dialog(self):
        page = self.browse(self.written(SAMPLES / "leak.reel"))
        first = page.settled()
        page.call("Page.setInterceptFileChooserDialog", enabled=True)
        page.key("o", modifiers=CONTROL)
        asked = page.event("Page.fileChooserOpened")
        page.call("HeapProfiler.collectGarbage")  # the dialog stays open for as long as the user takes
        page.call("DOM.setFileInputFiles", files=[str(SAMPLES / "oom_default.reel")], backendNodeId=asked["backendNodeId"])
        page.wait_for("memreel.state().file.endsWith('/oom_default.reel')")
        shown = page.settled()
        self.assertEqual(shown["verdict"]["decides"], "out of memory")
        self.assertNotEqual(shown["events"], first["events"])
        self.check_silent(page)

    def test_it_follows_the_size_of_its_window_and_the_screen(self):
        page = self.browse(self.written(SAMPLES / "leak.reel"))
        before = page.settled()
        self.assertFalse(page.value("matchMedia('(prefers-color-scheme: dark)').matches"), "Chromium's default")
        self.assertFalse(before["dark"])
        # An idle page, as a window that is dragged larger or to another screen.
        page.value("new Promise(done => setTimeout(done, 1500))")
        for width, height, ratio in ((1000, 700, 1), (700, 500, 2)):
            page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=ratio, mobile=False)
            page.wait_for(f"Module.canvas.width == {width * ratio} && Module.canvas.height == {height * ratio}")
            shown = page.settled()
            self.assertAlmostEqual(shown["scale"], ratio * before["scale"], places=3)
            for name, (x, y, across, down) in shown["places"].items():
                if "/" in name:
                    continue  # a part of a pane, which scrolls
                self.assertTrue(x >= 0 and y >= 0 and x + across <= width * ratio + 1 and y + down <= height * ratio + 1, name)
        self.look(page, "browser_small_and_dense.png")
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        page.wait_for("memreel.state().dark")
        self.look(page, "browser_dark.png")
        self.check_silent(page)

    def test_fingers_pan_zoom_scroll_and_tap(self):
        page = self.browse(self.written(SAMPLES / "gpt_default.reel"))
        page.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
        shown = page.settled()
        x, y, width, height = shown["places"]["timeline"]
        middle, row = x + width / 2, y + height / 2
        page.touch([(middle - 40, row), (middle + 40, row)], [(middle - 80, row), (middle + 80, row)])
        zoomed = page.settled()
        before, after = (s["view"][1] - s["view"][0] for s in (shown, zoomed))
        self.assertAlmostEqual(after / before, 0.5, delta=0.05)
        page.touch([(middle, row)], [(middle - 200, row)])
        panned = page.settled()
        self.assertGreater(panned["view"][0], zoomed["view"][0])
        self.assertAlmostEqual(panned["view"][1] - panned["view"][0], after, delta=1e-5 * after)
        page.touch([(middle, row)], [(middle, row)])
        self.assertNotEqual(page.settled()["cursor"], panned["cursor"], "a tap is a click")
        first = page.settled()["places"]["allocations/first row"]
        at = (first[0] + first[2] / 2, first[1] + first[3] / 2 + 100)
        page.touch([at], [at])
        tapped = page.settled()["selected"]["bytes"]
        page.touch([at], [(at[0], at[1] - 300)])
        page.touch([at], [at])
        self.assertLess(page.settled()["selected"]["bytes"], tapped, "a list scrolls under the finger")
        self.check_silent(page)

    def test_a_file_that_is_dropped_is_opened(self):
        page = self.browse(self.written(SAMPLES / "leak.reel"))
        page.settled()
        data = {"items": [], "files": [str(SAMPLES / "oom_default.reel")], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            page.call("Input.dispatchDragEvent", type=kind, x=300, y=300, data=data)
        page.wait_for("memreel.state().file.endsWith('/oom_default.reel')")
        self.assertEqual(page.settled()["verdict"]["decides"], "out of memory")
        page.value("memreel.open('again.reel', FS.readFile(memreel.files[1]))")
        page.settled()
        self.assertEqual(page.value("memreel.files.length"), 2, "what was shown before the last takes no memory any more")

    def test_what_can_not_be_shown_says_why(self):
        page = self.browse(self.written(SAMPLES / "leak.reel"))
        before = page.settled()
        page.value("memreel.open('broken.reel', new Uint8Array([1, 2, 3]))")
        page.wait_for("memreel.state().notice")
        after = page.settled()
        self.assertIn("broken.reel", after["notice"])
        self.assertEqual((after["file"], after["events"]), (before["file"], before["events"]), "what was open stays")
        self.assertEqual(page.value("document.title"), "leak.reel - memreel")
        without = self.browse(self.written(SAMPLES / "leak.reel"), "HTMLCanvasElement.prototype.getContext = () => null")
        with self.assertRaisesRegex(AssertionError, "no WebGL 2"):
            without.settled()


class Large(BrowserTest):
    def test_two_million_events(self):
        file = histories.path("random_2m")
        if file is None:
            self.skipTest("random_2m is not among the histories in use")
        page = self.browse(self.written(file))
        shown = page.settled()
        self.assertEqual(shown["stage"], "complete")
        self.assertGreater(shown["events"], 1_900_000)
        x, y, width, height = shown["places"]["map"]
        zoomed = shown
        for _ in range(4):
            zoomed = page.wheel(x + width / 2, y + height / 2, 4)
        self.assertLess(zoomed["view"][1] - zoomed["view"][0], 0.2 * (shown["view"][1] - shown["view"][0]))
        page.click_on("allocations/size")
        self.assertGreater(page.click_on("allocations/first row")["selected"]["bytes"], 0)
        self.look(page, "browser_random_2m.png")
        self.check_silent(page)


class Served(BrowserTest):
    def test_memreel_view_serve(self):
        trace = SAMPLES / "leak.reel"
        process = subprocess.Popen([MEMREEL, "view", "--serve", trace], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        said = "".join(iter(process.stdout.readline, "Press Ctrl+C to stop.\n"))
        page = self.browse(re.search(r"http://\S+", said)[0])
        shown = page.settled()
        self.assertEqual(shown["events"], self.document("info", trace)["events"])
        x, y, width, height = shown["places"]["timeline"]
        self.assertNotEqual(page.wheel(x + width / 2, y + height / 2, 2)["view"], shown["view"])
        self.look(page, "browser_leak_served.png")
        self.check_silent(page)


@unittest.skipUnless(firefox.FIREFOX, "no Firefox is installed (package firefox-esr)")
@unittest.skipUnless(firefox.DISPLAY, "Xvfb is not installed")
class Firefox(PageTest):
    def browse(self, address, **options):
        page = firefox.Page(self.directory, **options)
        self.addCleanup(page.close)
        page.open(address)
        return page

    def test_a_page_answers_to_mouse_and_keys(self):
        trace = SAMPLES / "gpt_default.reel"
        page = self.browse(self.written(trace))
        shown = page.settled()
        self.assertEqual((shown["stage"], shown["events"], shown["dark"]),
                         ("complete", json.loads(run("info", trace, "--json").stdout)["events"], False))
        self.assertTrue(shown["verdict"]["holders"], "judged, in the page itself")
        self.assertEqual(page.value("document.title"), "gpt_default.reel - memreel")
        clicked = page.click_on("timeline", 0.5)
        self.assertNotEqual(clicked["cursor"], shown["cursor"])
        x, y, width, height = shown["places"]["timeline"]
        zoomed = page.wheel(x + width / 2, y + height / 2, 3)
        self.assertLess(zoomed["view"][1] - zoomed["view"][0], 0.9 * (shown["view"][1] - shown["view"][0]))
        moved = page.drag(x + width / 2, y + height / 2, x + width / 4, y + height / 2, "right")["view"]
        self.assertGreater(moved[0], zoomed["view"][0])
        self.assertEqual(page.key("0")["view"], shown["view"])
        page.click_on("allocations/size")
        self.assertGreater(page.click_on("allocations/first row")["selected"]["bytes"], 0)
        page.key("Escape")
        page.key("/")
        self.assertEqual(page.type("train")["search"], "train")
        page.key("Escape")
        for tab in ("stacks", "flame", "leaks", "compare"):
            self.assertEqual(page.click_on(f"tab/{tab}")["tab"], tab)
        self.look(page, "firefox_gpt_default.png")

    def test_it_follows_its_window_and_the_system(self):
        page = self.browse(self.written(SAMPLES / "leak.reel"), dark=True)
        before = page.settled()
        self.assertTrue(before["dark"])
        width = page.value("Module.canvas.width")
        page.value("new Promise(done => setTimeout(done, 1500))")  # an idle page
        page.resize(1000, 800)
        page.wait_for(f"Module.canvas.width < {width} && Module.canvas.width == innerWidth && Module.canvas.height == innerHeight")
        wide, high = page.value("innerWidth"), page.value("innerHeight")
        for name, (x, y, across, down) in page.settled()["places"].items():
            if "/" not in name:  # parts of panes scroll
                self.assertTrue(x >= 0 and y >= 0 and x + across <= wide + 1 and y + down <= high + 1, name)
        page.value("memreel.open('broken.reel', new Uint8Array([1, 2, 3]))")
        page.wait_for("memreel.state().notice")
        self.assertEqual(page.settled()["events"], before["events"])
        self.look(page, "firefox_leak.png")


if __name__ == "__main__":
    unittest.main()
