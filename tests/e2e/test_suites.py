# SPDX-License-Identifier: Apache-2.0
"""Every test of this folder is run: CMakeLists.txt adds each file, or each class of it."""

import ast
import json
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL

HERE = Path(__file__).resolve().parent
BUILD = Path(MEMREEL).resolve().parents[1]


def classes_with_tests(file):
    """Those that are no base of another."""
    classes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
    bases = {base.id for node in classes for base in node.bases if isinstance(base, ast.Name)}
    return [node.name for node in classes if node.name not in bases
            and any(isinstance(part, ast.FunctionDef) and part.name.startswith("test") for part in node.body)]


@unittest.skipUnless(shutil.which("ctest") and (BUILD / "CTestTestfile.cmake").exists(), "this is no build with tests")
class Suites(unittest.TestCase):
    def test_every_class_is_run(self):
        known = json.loads(subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], check=True, text=True,
                                          stdout=subprocess.PIPE).stdout)
        run = {word for test in known["tests"] if "unittest" in test.get("command", ()) for word in test["command"]}
        lists = (HERE / "CMakeLists.txt").read_text()
        forgotten = []
        for file in sorted(HERE.glob("test_*.py")):
            for name in classes_with_tests(file):
                suite = f"{file.stem}.{name}"
                # Those of other machines, and of other presets, are in the lists.
                is_listed = f"{file.stem}." in lists and re.search(rf"\b{name}\b", lists)
                if not is_listed and file.stem not in run and not any(word.startswith(suite) for word in run):
                    forgotten.append(suite)
        self.assertGreater(len(run), 100)
        self.assertEqual(forgotten, [])


if __name__ == "__main__":
    unittest.main()
