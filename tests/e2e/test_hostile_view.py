# SPDX-License-Identifier: Apache-2.0
"""No file does harm to the viewer: every pane, on recordings crafted, or damaged, to do harm."""

import json
import os
import resource
import subprocess
import unittest

from program import SANITIZED
from test_hostile import GIB, HOSTILE
from viewing import VIEW, ViewTest

SECONDS = 100 if SANITIZED else 10  # of CPU time, for all panes
RESIDENT = 2 * GIB if SANITIZED else GIB


class Viewer(ViewTest):
    def look_at(self, *arguments):
        """Shows every pane of a recording, one after the other; returns the exit code and the output."""
        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        with subprocess.Popen([VIEW, *map(str, arguments), "--screenshot", self.directory / "panes", "--pane", "all",
                               "--size", "400x300"], env=self.screen.environment, preexec_fn=limit, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            said = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertIn(process.returncode, (0, 2), said)
        self.assertLess(usage.ru_maxrss << 10, RESIDENT)
        return process.returncode, said

    def refused(self, *arguments):
        code, said = self.look_at(*arguments)
        self.assertEqual((code, len(said.splitlines())), (2, 1), said)
        return said

    def test_max_memory_allows_less(self):
        self.assertIn("--max-memory", self.refused(HOSTILE[0].parent / "pad1.reel", "--max-memory", "1KiB"))
        self.assertIn("--max-memory: 'much' is not a size", self.refused(HOSTILE[0], "--max-memory", "much"))

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory can't be bounded")
    def test_max_memory_bounds_what_is_made_of_a_file(self):
        """Twenty million live allocations in a file of 46 MB."""
        entries = [{"action": "alloc", "addr": (1 << 40) + i * 512, "size": 512, "stream": 0, "time_us": 1, "frames": []} for i in range(50_000)]
        part = self.directory / "part.reel"
        self.answer("import", self.file("many.json", json.dumps({"segments": [], "device_traces": [entries]}).encode()), "-o", part)
        bomb = self.file("bomb.reel", part.read_bytes() * 400)
        self.assertIn("--max-memory", self.refused(bomb, "--max-memory", "64MiB"))

    def test_names_of_files_are_names(self):
        hostile = self.file("e\x1b[31m\nvil.reel", b"no trace")
        self.assertIn("e\\x1b[31m\\nvil.reel", self.refused(hostile))


def add_test(path):
    def test(self):
        code, said = self.look_at(path)
        self.assertEqual(len(said.splitlines()), 0 if code == 0 else 1, said)
    setattr(Viewer, "test_" + path.stem.replace(".", "_") + "_" + path.suffix[1:], test)


for hostile in HOSTILE:
    add_test(hostile)


if __name__ == "__main__":
    unittest.main()
