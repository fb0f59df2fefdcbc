# SPDX-License-Identifier: Apache-2.0
"""What a PyTorch release with a new rule touches, shown with a made-up one (tests/data/torch/new_release.patch)."""

import shutil
import subprocess
import unittest

from program import REPOSITORY

PATCH = REPOSITORY / "tests/data/torch/new_release.patch"


@unittest.skipUnless(shutil.which("git"), "needs git")
class NewRelease(unittest.TestCase):
    def git_apply(self, *options):
        return subprocess.run(["git", "apply", *options, PATCH], cwd=REPOSITORY, capture_output=True, text=True)

    def test_its_rule_touches_at_most_twelve_files(self):
        files = self.git_apply("--numstat").stdout.splitlines()
        self.assertTrue(1 < len(files) <= 12, files)

    def test_it_applies_to_what_is_here(self):
        checked = self.git_apply("--check", "-C1")
        self.assertEqual(checked.returncode, 0, checked.stderr)


if __name__ == "__main__":
    unittest.main()
