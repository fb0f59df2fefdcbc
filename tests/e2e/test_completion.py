"""What bash completes after `memreel`."""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY

SCRIPT = REPOSITORY / "analyzer/cli/completions/memreel.bash"


@unittest.skipUnless(shutil.which("bash"), "needs bash")
class Completion(unittest.TestCase):
    def completed(self, *words):
        program = (f"source '{SCRIPT}'; COMP_WORDS=(memreel \"$@\"); COMP_CWORD=$#; _memreel; "
                   "printf '%s\\n' \"${COMPREPLY[@]}\"")
        path = f"{Path(MEMREEL).parent}:{os.environ['PATH']}"
        process = subprocess.run(["bash", "-c", program, "bash", *words], env=os.environ | {"PATH": path},
                                 stdout=subprocess.PIPE, text=True, timeout=100, check=True)
        return process.stdout.split()

    def test_commands(self):
        commands = self.completed("")
        for command in ("record", "attach", "detach", "view", "report", "replay", "tune", "verify", "check", "diff",
                        "info", "import", "export", "symbols"):
            self.assertEqual(commands.count(command), 1, commands)
        self.assertEqual(self.completed("rep"), ["report", "replay"])

    def test_formats(self):
        self.assertEqual(self.completed("report", "x.reel", "--format", ""), ["text", "json", "markdown", "html"])
        self.assertIn("perfetto", self.completed("export", "x.reel", "--format", ""))

    def test_cards(self):
        self.assertIn("H100-80GB", self.completed("predict", "batch=1:x.pickle", "--capacity", "H"))
        self.assertEqual(self.completed("tune", "x.reel", "--capacity", ""), [])

    def test_options(self):
        self.assertIn("--leaks", self.completed("report", "x.reel", "--le"))


if __name__ == "__main__":
    unittest.main()
