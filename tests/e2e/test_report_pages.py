# SPDX-License-Identifier: Apache-2.0
"""Pages of memreel report that not every machine can test: in a browser, and for a trace with millions of events.

Each is a separate ctest test, so that skipping one does not fail the others."""

import re
import shutil
import subprocess
import unittest

import histories
from program import SAMPLES, SANITIZED, ProgramTest
from test_report import hostile_snapshot

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Pages(ProgramTest):
    def test_large_trace_makes_a_small_page(self):
        if SANITIZED:
            self.skipTest("two million events take long under a sanitizer, and smaller traces go the same ways")
        file = histories.path("random_2m")
        if file is None:
            self.skipTest("random_2m is not among the histories in use")
        output = self.directory / "report.html"
        self.answer("report", file, "-o", output)
        self.assertLess(output.stat().st_size, 2_000_000)

    @unittest.skipUnless(BROWSER, "no browser is installed (package chromium): pages were not looked at in one")
    def test_page_in_a_browser(self):
        page = self.directory / "report.html"
        for file in (SAMPLES / "oom_default.reel", self.file("hostile.pickle", hostile_snapshot())):
            self.answer("report", file, "-o", page)
            # The script writes what it finds wrong where --dump-dom shows it.
            probe = ("<script>document.documentElement.dataset.wide=document.documentElement.scrollWidth>innerWidth;"
                     "const f=document.querySelectorAll('.flame div');if(f.length>1)f[1].click();"
                     "document.documentElement.dataset.zoomed=f.length>1?f[1].style.width:'100%';"
                     "document.documentElement.dataset.plot=document.querySelector('.plot svg').getBoundingClientRect().width>100;"
                     "</script>")
            page.write_text(page.read_text().replace("</body>", probe + "</body>"))
            process = subprocess.run(
                [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=400,800", f"--user-data-dir={self.directory}/profile",
                 "--virtual-time-budget=2000", "--dump-dom", page.as_uri()],
                capture_output=True, text=True, timeout=120)
            self.assertEqual(process.returncode, 0, process.stderr)
            seen = dict(re.findall(r'data-(wide|zoomed|plot)="([^"]*)"', process.stdout[:1000]))
            self.assertEqual(seen, {"wide": "false", "zoomed": "100%", "plot": "true"}, process.stderr)
            self.assertNotIn("<title>taken", process.stdout)

    @unittest.skipUnless(BROWSER, "no browser is installed (package chromium): pages were not looked at in one")
    def test_page_of_a_fleet_in_a_browser(self):
        page, picture = self.directory / "fleet.html", self.directory / "fleet.png"
        self.answer("fleet", SAMPLES / "gpt_default.reel", SAMPLES / "leak.reel", SAMPLES / "decode_default.reel", "--html", page)
        # The charts' rectangles, and whether the page is wider than the window.
        probe = ("<script>const r=document.querySelectorAll('.plot rect');const of=e=>e.getBoundingClientRect();"
                 "document.documentElement.dataset.wide=document.documentElement.scrollWidth>innerWidth;"
                 "document.documentElement.dataset.drawn=[...r].every(e=>of(e).width>5&&of(e).height>5)&&r.length>=6;</script>")
        page.write_text(page.read_text().replace("</body>", probe + "</body>"))
        browser = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1000,1400",
                   f"--user-data-dir={self.directory}/profile"]
        dom = subprocess.run([*browser, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120)
        self.assertEqual(dom.returncode, 0, dom.stderr)
        self.assertEqual(dict(re.findall(r'data-(wide|drawn)="([^"]*)"', dom.stdout[:1000])), {"wide": "false", "drawn": "true"})
        shot = subprocess.run([*browser, f"--screenshot={picture}", page.as_uri()], capture_output=True, text=True, timeout=120)
        self.assertEqual(shot.returncode, 0, shot.stderr)
        self.assertGreater(picture.stat().st_size, 10_000)


if __name__ == "__main__":
    unittest.main()
