# SPDX-License-Identifier: Apache-2.0
"""The GitHub action's own scripts, run as its steps run them."""

import os
import re
import subprocess
import unittest
from pathlib import Path
from xml.etree import ElementTree

import stand_in_wheel
from program import MEMREEL, REPOSITORY, SAMPLES, ProgramTest

ACTION = REPOSITORY / ".github/actions/memreel-check"


class Action(ProgramTest):
    def check(self, trace, arguments, log=""):
        environment = os.environ | {"PATH": f"{Path(MEMREEL).resolve().parent}:{os.environ['PATH']}", "MEMREEL_TRACE": str(trace),
                                    "MEMREEL_ARGUMENTS": arguments, "MEMREEL_LOG": str(log), "GITHUB_STEP_SUMMARY": str(self.directory / "summary.md")}
        return subprocess.run([ACTION / "check.sh"], cwd=self.directory, env=environment, text=True, capture_output=True)

    def test_the_wheel_is_on_the_path_of_later_steps(self):
        path = self.file("path", b"")
        environment = os.environ | {"RUNNER_TEMP": str(self.directory), "GITHUB_PATH": str(path),
                                    "MEMREEL_WHEEL": str(stand_in_wheel.make(self.directory))}
        subprocess.run([ACTION / "install.sh"], check=True, env=environment)
        said = subprocess.run(["memreel", "--version"], env={"PATH": path.read_text().strip()}, text=True, capture_output=True)
        self.assertEqual(said.stdout, self.answer("--version").stdout)

    def test_a_run_within_its_limits_passes(self):
        done = self.check(SAMPLES / "gpt_default.reel", "--max-reserved 7GiB --max-leaked 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(ElementTree.parse(self.directory / "memreel.xml").getroot().get("failures"), "0")

    def test_one_above_them_fails_the_job_and_says_so_in_its_summary(self):
        done = self.check(SAMPLES / "gpt_default.reel", "--max-reserved 1GiB")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("max-reserved", (self.directory / "summary.md").read_text())
        self.assertEqual((self.directory / "summary.md").read_text(), (self.directory / "memreel.md").read_text())

    def test_errors_in_a_log_are_explained(self):
        log = self.file("train.log", b"RuntimeError: CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity; 8.77 GiB "
                                     b"already allocated; 19.75 MiB free; 13.71 GiB reserved in total by PyTorch)\n")
        done = self.check(SAMPLES / "gpt_default.reel", "--max-reserved 7GiB --max-leaked 0", log)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("fragmentation, 2.87 GiB requested", (self.directory / "summary.md").read_text())
        self.check(SAMPLES / "gpt_default.reel", "--max-leaked 0", self.file("fine.log", b"fine\n"))
        self.assertNotIn("errors in the log", (self.directory / "memreel.md").read_text())

    def test_what_is_no_trace_is_never_taken_for_a_good_one(self):
        done = self.check(self.file("broken.pickle", b"nothing"), "--max-leaked 0")
        self.assertEqual(done.returncode, 2)

    def test_names_and_limits_are_no_shell_code(self):
        done = self.check(SAMPLES / "gpt_default.reel", "--max-reserved 7GiB; touch came $(touch through)")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(sorted(path.name for path in self.directory.iterdir()), [])
        # The action itself does not paste its inputs into a script either.
        for script in re.findall(r"run: (.*)", (ACTION / "action.yml").read_text()):
            self.assertNotIn("${{", script)

    def test_the_document_uses_inputs_that_the_action_has(self):
        action = (ACTION / "action.yml").read_text()
        example = (REPOSITORY / "docs/ci.md").read_text().split("uses: ./.github/actions/memreel-check", 1)[1].split("```", 1)[0]
        used = re.findall(r"^ {10}(\w+):", example, re.MULTILINE)
        self.assertIn("trace", used)
        for name in used:
            self.assertIn(f"\n  {name}:\n", action)


if __name__ == "__main__":
    unittest.main()
