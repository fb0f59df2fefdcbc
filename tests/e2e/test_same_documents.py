# SPDX-License-Identifier: Apache-2.0
"""What memreel says of a dozen histories is what it said before, byte for byte (same_documents.py)."""

import re
import shlex
import subprocess
import sys
import unittest

import same_documents
from program import MEMREEL, REPOSITORY, SAMPLES, ProgramTest

SCRIPT = REPOSITORY / "tests/e2e/same_documents.py"


def script(*arguments):
    return subprocess.run([sys.executable, "-B", SCRIPT, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class SameDocuments(ProgramTest):
    maxDiff = None

    def test_as_kept(self):
        kept, found = same_documents.kept_digests(), same_documents.digests(MEMREEL)
        self.assertEqual(kept.keys(), found.keys(), "after new commands or histories: tests/e2e/same_documents.py --renew " + MEMREEL)
        changed = [document for document in kept if kept[document] != found[document]]
        names = " ".join(name for name in same_documents.DOZEN if any(document.startswith(name) for document in changed))
        self.assertEqual(changed, [], "\nThese documents changed. To see how, build the commit before in another worktree, and run\n"
                         f"  tests/e2e/same_documents.py OLD/bin/memreel {MEMREEL} {names}\n"
                         f"If all of it is meant:  tests/e2e/same_documents.py --renew {MEMREEL}")


class Differences(ProgramTest):
    def altered(self, change):
        """A program that prints other text."""
        path = self.file("memreel", f"#!/bin/bash\nset -o pipefail\n{shlex.quote(MEMREEL)} \"$@\" | sed {shlex.quote(change)}\n".encode())
        path.chmod(0o755)
        return path

    def test_what_differs_is_shown_from_its_first_line_on(self):
        other = self.altered('s/"peak_live_bytes": [0-9]*/"peak_live_bytes": 1/')
        process = script(MEMREEL, other, "--only", "info", SAMPLES / "leak.reel")
        self.assertEqual((process.returncode, process.stderr), (1, ""))
        self.assertRegex(process.stdout, r"leak\.reel: info HISTORY --json\n    from line \d+ on\n")
        self.assertRegex(process.stdout, r'\n    -.*"peak_live_bytes": \d{3,},\n    \+.*"peak_live_bytes": 1,\n')
        self.assertIn("1 differ\n", process.stdout)

    def test_the_same_program_says_the_same(self):
        process = script(MEMREEL, MEMREEL, "--only", "replay", SAMPLES / "leak.reel", REPOSITORY / "tests/data/job/ddp")
        self.assertEqual((process.returncode, process.stderr), (0, ""), process.stdout)
        self.assertIn("of 2 histories: all the same", process.stdout)

    def test_versions_do_not_count(self):
        signature = same_documents.Program(MEMREEL).signature.decode()
        process = script(MEMREEL, self.altered(f"s/{re.escape(signature)}/memreel 99.0.0/"), "--only", "html", SAMPLES / "leak.reel")
        self.assertEqual(process.returncode, 0, process.stdout)

    def test_what_is_not_there_is_said(self):
        process = script(MEMREEL, MEMREEL, self.directory / "none.reel")
        self.assertEqual(process.returncode, 2)
        self.assertIn("none.reel: no such file", process.stderr)


if __name__ == "__main__":
    unittest.main()
