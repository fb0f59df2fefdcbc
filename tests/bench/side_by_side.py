#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of memreel beside each other on one history: side_by_side.py OLD/bin/memreel NEW/bin/memreel HISTORY [TIMES].

Import, report, replay, and with memreel-view beside both programs and Xvfb the viewer from its start to its verdict. The programs take
turns, TIMES (default 7) times each. For each: the median and the range of processor time, seconds by the clock, and the most memory resident,
and how many times the old program's median processor time the new one's is. Compressed histories are decompressed first."""

import json
import lzma
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import viewing  # noqa: E402

POLICIES = ("torch.native", "torch.expandable", "fit.best", "tlsf", "tf.bfc")


def measured(command, **how):
    """Processor seconds, seconds by the clock, resident MiB, and what is printed."""
    begin = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **how)
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {process.returncode}")
    return used.ru_utime + used.ru_stime, time.monotonic() - begin, used.ru_maxrss / 1024, printed


def status(process, name):
    line = next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


def spent(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def viewed(view, trace, screen):
    """The same three of a window: once it shows a verdict, and once nothing is left to do."""
    begin = time.monotonic()
    window = viewing.View(screen, trace, program=view, size="1600x1000")
    while not window.ask("state").get("verdict"):
        time.sleep(0.05)
    found = {"viewer, to the verdict": (spent(window.process), time.monotonic() - begin, status(window.process, "VmHWM") / 1024)}
    window.ask("wait")
    found["viewer, all done"] = (spent(window.process), time.monotonic() - begin, status(window.process, "VmHWM") / 1024)
    window.close()
    return found


def once(program, history, trace, directory, screen):
    found = {
        "import": measured([program, "import", history, "-o", directory / "made.reel"])[:3],
        "import, only read": measured([program, "info", history])[:3],
        "report": measured([program, "report", history])[:3],
        "report, HTML": measured([program, "report", history, "--format", "html"])[:3],
        "report of the .reel, HTML": measured([program, "report", trace, "--format", "html"])[:3],
    }
    for policy in POLICIES:
        used = measured([program, "replay", trace, "--policy", policy, "--json"])
        found[f"replay, {policy}"] = (json.loads(used[3])["policies"][0]["seconds"], *used[1:3])
    if screen:
        found |= viewed(program.with_name("memreel-view"), trace, screen)
    (directory / "made.reel").unlink()
    return found


def main():
    programs = [Path(argument).resolve() for argument in sys.argv[1:3]]
    history, times = Path(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 7
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        if history.suffix == ".xz":
            with lzma.open(history) as packed, open(directory / history.stem, "wb") as plain:
                shutil.copyfileobj(packed, plain)
            history = directory / history.stem
        trace = directory / "trace.reel"
        measured([programs[0], "import", history, "-o", trace])
        with_view = not viewing.MISSING and all(program.with_name("memreel-view").exists() for program in programs)
        screen = viewing.Screen() if with_view else None
        for turn in range(times):
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                for name, values in once(programs[which], history, trace, directory, screen).items():
                    rows.setdefault(name, ([], []))[which].append(values)
        if screen:
            screen.close()
    print(f"{'':28}{'processor, s':>40}  {'clock, s':>16}  {'resident, MiB':>16}  times")
    for name, sides in rows.items():
        columns = [[[run[i] for run in side] for side in sides] for i in range(3)]
        processor = "  ".join(f"{statistics.median(side):.3f} ({min(side):.3f}-{max(side):.3f})" for side in columns[0])
        clock, resident = ("  ".join(f"{statistics.median(side):.{digits}f}" for side in columns[i]) for i, digits in ((1, 2), (2, 0)))
        old, new = (statistics.median(side) for side in columns[0])
        print(f"{name:28}{processor:>40}  {clock:>16}  {resident:>16}  {old / new:.2f}")


if __name__ == "__main__":
    main()
