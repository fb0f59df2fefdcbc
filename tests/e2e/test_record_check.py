# SPDX-License-Identifier: Apache-2.0
"""memreel check on recordings of native programs: reserved memory counts, and code has its names."""

import json
import unittest

from program import run
from recorded import RecordTest


class Check(RecordTest):
    def test_native_programs_are_judged_by_what_they_held_and_named_by_their_functions(self):
        self.record_program("nested", 3)
        trace = self.trace()
        for budget in ("--max-peak", "--max-reserved"):
            self.answer("check", trace, budget, "1MiB")
            text = self.answer("check", trace, budget, "1KiB", code=1).stdout
            self.assertRegex(text, r"at .* < innermost_frame.* < nested_frame.* < nested_frame")
        baseline = self.directory / "memory.json"
        self.answer("check", trace, "--write-baseline", baseline)
        device, = json.loads(baseline.read_text())["devices"]
        self.assertIn("allocate", device["live_at_peak"][0]["function"])
        self.answer("check", trace, "--baseline", baseline, "--tolerance", "0")

    def test_a_recording_that_was_cut_off_cannot_be_judged(self):
        self.record_program("nested", 3)
        cut = self.file("cut.reel", self.trace().read_bytes()[:-40])
        process = run("check", cut, "--max-leaked", "0")
        self.assertEqual(process.returncode, 2, process.stdout)
        self.assertIn("missing: ", process.stderr)
        self.answer("check", cut, "--max-leaked", "0", "--allow-incomplete")


if __name__ == "__main__":
    unittest.main()
