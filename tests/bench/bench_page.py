# SPDX-License-Identifier: Apache-2.0
"""How long Chromium takes to open the viewer's page with an embedded trace (memreel report --interactive) from disk.

page.py [HISTORY...]

Prints for each history (default: gpt_default and random_2m) the size of the page and, for the fastest of three loads,
the wall seconds from navigation until events are on screen, until all are read, and until all verdicts are shown; and
the processor seconds of all browser processes until then. Rendering is in software."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEMREEL = os.environ.get("MEMREEL", str(ROOT / "build/release/bin/memreel"))
sys.path.insert(0, str(ROOT / "tests/e2e"))
import histories  # noqa: E402
from browsing import Page  # noqa: E402


def processor_seconds(session):
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def opening(address):
    """Wall seconds until events are shown, all are read, and everything is done; and processor seconds."""
    with tempfile.TemporaryDirectory() as folder:
        page = Page(folder)
        try:
            before, begin = processor_seconds(page.process.pid), time.perf_counter()
            page.open(address)
            reached = []
            for is_reached in (lambda s: "timeline" in s["places"] and s["events"] > 0, lambda s: s["stage"] == "complete",
                               lambda s: s["idle"]):
                while not ((shown := page.shown()) and is_reached(shown)):
                    time.sleep(0.05)
                reached.append(time.perf_counter() - begin)
            return *reached, processor_seconds(page.process.pid) - before
        finally:
            page.close()


def main():
    for name in sys.argv[1:] or ("gpt_default", "random_2m"):
        file = histories.path(name)
        if file is None:
            print(f"{name:14} is not among the histories in use")
            continue
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "run.html"
            subprocess.run([MEMREEL, "report", file, "-o", page, "--interactive"], check=True)
            size = page.stat().st_size
            shown, read, done, processor = min(opening(page.as_uri()) for _ in range(3))
        print(f"{name:14} page {size / 1e6:.1f} MB: shown {shown:.2f} s, read {read:.2f} s, judged {done:.2f} s; {processor:.1f} s of processors")


if __name__ == "__main__":
    main()
