"""Pages of memreel report where not every machine can look at them: in a browser, and of a trace of millions of events.

Each is a test of its own for ctest, which takes one that is skipped for no failure of the others."""

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
            # What the script finds wrong, it writes where --dump-dom shows it.
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


if __name__ == "__main__":
    unittest.main()
