# SPDX-License-Identifier: Apache-2.0
"""Manual pages, generated from the commands' own help (cmake/man_pages.py)."""

import gzip
import re
import shutil
import subprocess
import sys
from pathlib import Path

from program import MEMREEL, REPOSITORY, ProgramTest, run


class ManPages(ProgramTest):
    def setUp(self):
        super().setUp()
        subprocess.run([sys.executable, "-B", REPOSITORY / "cmake/man_pages.py", Path(MEMREEL).parent, self.directory, "1.2.3"],
                       check=True)
        self.pages = {file.name[:-5]: gzip.decompress(file.read_bytes()).decode() for file in self.directory.glob("*.1.gz")}

    def test_every_command_has_one_with_all_its_options(self):
        commands = re.findall(r"(?m)^  ([a-z]+)  ", self.answer("--help").stdout)
        self.assertGreater(len(commands), 12)
        for command in commands:
            help_text = run(command, "--help").stdout
            if not help_text:
                continue  # a program that is not built
            with self.subTest(command):
                text = self.pages[f"memreel-{command}"].replace("\\-", "-")
                self.assertIn('"memreel 1.2.3"', text)
                self.assertIn(f"\nmemreel-{command} - ", text)
                for option in re.findall(r"(?m)^  (?:-\w,)?(--[a-z0-9-]+)", help_text):
                    self.assertRegex(text, rf"\.B .*{option}\b")

    def test_a_program_of_its_own_has_one(self):
        program = Path(MEMREEL).with_name("memreel-fleet-mpi")
        if not program.exists():
            self.skipTest("memreel-fleet-mpi is not built")
        text = self.pages[program.name].replace("\\-", "-")
        self.assertIn("\nmemreel-fleet-mpi - memreel fleet on many nodes, by MPI\n", text)
        self.assertIn(".B --rank-pattern", text)

    def test_they_are_well_formed(self):
        if not shutil.which("groff"):
            self.skipTest("needs groff")
        for name, text in self.pages.items():
            with self.subTest(name):
                done = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-Kutf8"], input=text, text=True, capture_output=True)
                said = [line for line in done.stderr.splitlines() if "can't break line" not in line and "cannot adjust" not in line]
                self.assertEqual(said, [])
                self.assertIn("\n.SH EXAMPLES\n", text)
