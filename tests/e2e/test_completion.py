# SPDX-License-Identifier: Apache-2.0
"""What shells complete after `memreel`."""

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY

SCRIPTS = REPOSITORY / "analyzer/cli/completions"
SCRIPT = SCRIPTS / "memreel.bash"


@unittest.skipUnless(shutil.which("bash"), "needs bash")
class Bash(unittest.TestCase):
    def completed(self, *words):
        program = (f"source '{SCRIPT}'; COMP_WORDS=(memreel \"$@\"); COMP_CWORD=$#; _memreel; "
                   "printf '%s\\n' \"${COMPREPLY[@]}\"")
        path = f"{Path(MEMREEL).parent}:{os.environ['PATH']}"
        process = subprocess.run(["bash", "-c", program, "bash", *words], env=os.environ | {"PATH": path},
                                 stdout=subprocess.PIPE, text=True, timeout=100, check=True)
        return process.stdout.split()

    def test_commands(self):
        commands = self.completed("")
        for command in ("record", "attach", "detach", "top", "browse", "view", "report", "replay", "tune", "verify", "check", "diff",
                        "info", "import", "export", "symbols", "explain", "plan"):
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

    def test_parts_of_fleet(self):
        self.assertIn("map", self.completed("fleet", "ma"))
        self.assertNotIn("map", self.completed("fleet", "x.reel", "ma"))
        self.assertIn("--shard", self.completed("fleet", "map", "--sh"))

    @unittest.skipUnless((Path(MEMREEL).parent / "memreel-record").exists(), "needs memreel record")
    def test_the_program_behind_every_option_of_record(self):
        text = subprocess.run([MEMREEL, "record", "--help"], env=os.environ | {"COLUMNS": "400"}, stdout=subprocess.PIPE,
                              text=True, timeout=100, check=True).stdout
        options = re.findall(r"(?m)^  (?:-\w,)?(--[a-z-]+)( [A-Z]+)?", text)
        self.assertGreater(len(options), 20)
        for option, value in options:
            with self.subTest(option):
                wants = value or option in ("--backend", "--when-full", "--mode")
                words = (option, "256MiB") if wants else (option,)
                self.assertIn("python3", self.completed("record", *words, "pyth"))
                self.assertIn("--when-full", self.completed("record", *words, "--wh"))
                if value:
                    self.assertNotIn("python3", self.completed("record", option, "pyth"))


def completed_by(*command):
    path = f"{Path(MEMREEL).parent}:{os.environ['PATH']}"
    process = subprocess.run(command, env=os.environ | {"PATH": path}, stdout=subprocess.PIPE, text=True, timeout=100, check=True)
    return process.stdout.splitlines()


@unittest.skipUnless(shutil.which("fish"), "needs fish")
class Fish(unittest.TestCase):
    def completed(self, line):
        return completed_by("fish", "--no-config", "-c", f"source '{SCRIPTS}/memreel.fish'; complete -C '{line}'")

    def test_commands_and_options(self):
        self.assertEqual([line.split("\t")[0] for line in self.completed("memreel rep")], ["replay", "report"])
        self.assertIn("\tReplay the recorded allocator", "\n".join(self.completed("memreel verif")))
        self.assertEqual([line.split("\t")[0] for line in self.completed("memreel check x.reel --max-p")], ["--max-p99", "--max-peak"])


@unittest.skipUnless(shutil.which("zsh"), "needs zsh")
class Zsh(unittest.TestCase):
    def completed(self, *words):
        """What the function offers; zsh filters it by what is typed."""
        program = ('words=("$@"); CURRENT=$#; PREFIX=${words[-1]}; _describe() { print -rl -- "${(@P)2}"; }; _files() { print files; }; '
                   f"source '{SCRIPTS}/_memreel'")
        return completed_by("zsh", "-fc", program, "zsh", *words)

    def test_commands_options_and_files(self):
        self.assertIn("verify:Replay the recorded allocator and compare every address", self.completed("memreel", "verif"))
        options = [line.split(":")[0] for line in self.completed("memreel", "check", "x.reel", "--max")]
        self.assertLessEqual({"--max-p99", "--max-peak", "--json"}, set(options))
        self.assertEqual(self.completed("memreel", "report", "x"), ["files"])


if __name__ == "__main__":
    unittest.main()
