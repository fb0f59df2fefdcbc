# SPDX-License-Identifier: Apache-2.0
"""Long work shows its progress on a terminal, and nowhere else."""

import os
import re
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from program import MEMREEL, SAMPLES, SANITIZED, run


def on_terminal(*arguments):
    """What a command wrote to standard error when that is a terminal."""
    terminal, end = os.openpty()
    process = subprocess.Popen([MEMREEL, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=end)
    os.close(end)
    # A hanging command is ended, which closes its terminal.
    watchdog = threading.Timer(300, process.kill)
    watchdog.start()
    shown = b""
    while True:
        try:
            more = os.read(terminal, 1 << 16)
        except OSError:  # how a terminal ends on Linux
            break
        if not more:
            break
        shown += more
    process.wait()
    watchdog.cancel()
    os.close(terminal)
    return shown.decode()


@unittest.skipIf(SANITIZED, "everything takes long here")
class Progress(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="memreel-e2e-")
        cls.addClassCleanup(directory.cleanup)
        cls.long, cls.longer = Path(directory.name) / "long.reel", Path(directory.name) / "longer.reel"
        for file, times in ((cls.long, 30), (cls.longer, 120)):  # for a single replay, and for many
            file.write_bytes((SAMPLES / "gpt_default.reel").read_bytes() * times)  # traces can be concatenated

    def assert_shows(self, label, command, trace, *options):
        shown = on_terminal(command, trace, *options)
        self.assertIn("\r" + label, shown)
        self.assertTrue(shown.endswith("\r\x1b[K"), "the line is cleared at the end")
        shown = re.sub(r"memreel: note: [^\n]* recordings, one after the other[^\n]*\n", "", shown)
        self.assertNotIn("\n", shown, "it stays one line")
        return shown

    def test_reports(self):
        self.assertRegex(self.assert_shows("replaying settings", "report", self.long), r"replaying settings █*░* \d+ %")

    def test_planners(self):
        self.assertRegex(self.assert_shows("replaying settings", "tune", self.long), r"replaying settings █+░* \d+ %")
        policies = "torch.native,torch.expandable,fit.best,fit.first,tlsf,buddy,rmm.pool,tf.bfc"
        self.assertRegex(self.assert_shows("replaying", "replay", self.longer, "--policy", policies), r"replaying █*░* \d+ %")

    def test_work_of_unknown_length_shows_its_seconds(self):
        self.assertRegex(self.assert_shows("replaying the recorded allocator", "verify", self.longer), r"allocator \d+ s")

    def test_nothing_is_shown_where_there_is_no_terminal(self):
        self.assertEqual(run("report", SAMPLES / "gpt_default.reel").stderr, "")
        for command in (("report", self.long), ("replay", self.longer, "--policy", "torch.native,tlsf,rmm.pool,tf.bfc"), ("verify", self.longer)):
            self.assertNotIn("replaying", run(*command).stderr)

    def test_what_is_over_at_once_shows_nothing(self):
        self.assertEqual(on_terminal("info", SAMPLES / "leak.reel"), "")


if __name__ == "__main__":
    unittest.main()
