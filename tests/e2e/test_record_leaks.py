# SPDX-License-Identifier: Apache-2.0
"""Leaks of C++ programs are found in their recordings, down to the line; and nothing else is accused."""

import os
import subprocess
import unittest

from program import REPOSITORY
from recorded import RecordTest

PROGRAM = os.environ.get("MEMREEL_LEAKING_PROGRAM", str(REPOSITORY / "build/release/bin/leaking_program"))
SOURCE = REPOSITORY / "tests/fake/leaking_program.cpp"
SAMPLE = os.environ.get("MEMREEL_SAMPLE_LEAK")


def line_that_leaks(program):
    """The number of the line marked "leaks" in the function of that name."""
    in_function = False
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        in_function = line.startswith(f"void {program}()") or (in_function and line != "}")
        if in_function and line.endswith("// leaks"):
            return number
    raise AssertionError(f"no line of {program} leaks")


class Leaks(RecordTest):
    def judged(self, *command):
        """Records a program; returns (leaked addresses, accused addresses, the whole report)."""
        process = self.record(*command)
        self.assertIn("none lost", process.stderr)
        report = self.document("report", self.trace(), "--leaks", "--allocations")
        accused = {allocation["address"]: allocation["bytes"] for finding in self.accused(report)
                   for allocation in finding["allocations"]}
        return {line.address: line.size for line in self.truth() if line.event == "leak"}, accused, report

    @staticmethod
    def accused(report):
        return [finding for finding in report["leaks"] if finding["verdict"] in ("leak", "suspected")]

    def assert_found(self, leaked, accused):
        both = sum(bytes for address, bytes in leaked.items() if address in accused)
        self.assertGreaterEqual(both / sum(leaked.values()), 0.95)
        self.assertGreaterEqual(both / max(1, sum(accused.values())), 0.85)

    def assert_program_is_judged_right(self, program):
        leaked, accused, report = self.judged(PROGRAM, program)
        self.assertGreater(len(leaked), 10)
        self.assert_found(leaked, accused)
        first = self.accused(report)[0]
        self.assertIn(first["allocations"][0]["address"], leaked)
        # The program's allocation function is on every stack; the culprit is its caller.
        self.assertIn((SOURCE.name, line_that_leaks(program)),
                      [(os.path.basename(frame["file"]), frame["line"]) for frame in first["stack"]])
        return report["leak_steps"][0]

    def test_a_leak_in_each_step(self):
        steps = self.assert_program_is_judged_right("each_step")
        self.assertEqual((steps["from"], steps["steps"]), ("marks", 60))

    def test_a_slow_leak_under_heavy_traffic(self):
        steps = self.assert_program_is_judged_right("slow")
        self.assertEqual((steps["from"], steps["steps"]), ("marks", 300))

    def test_a_leak_in_a_program_that_marks_no_steps(self):
        steps = self.assert_program_is_judged_right("unmarked")
        self.assertEqual((steps["from"], steps["steps"]), ("repetition", 60))

    def test_a_bounded_cache_is_not_accused(self):
        leaked, accused, report = self.judged(PROGRAM, "bounded_cache")
        self.assertEqual((leaked, accused), ({}, {}))
        self.assertIn("cache", {finding["verdict"] for finding in report["leaks"]})

    def assert_all_of_the_sample_is_found(self, program):
        """It frees at its end what was meant to stay: the rest has leaked."""
        _, accused, report = self.judged(program)
        leaked = {}
        for line in self.truth():
            if line.event == "alloc":
                leaked[line.address] = line.size
            else:
                del leaked[line.address]
        self.assertEqual(accused, leaked)
        return [{frame["function"].split("(")[0].split("::")[-1] for frame in finding["stack"]}
                for finding in self.accused(report)]

    if SAMPLE:  # built only if the CUDA toolkit is found
        def test_all_that_the_sample_leaks(self):
            functions = self.assert_all_of_the_sample_is_found(SAMPLE)
            for culprit in ("resize", "of", "early_return"):
                self.assertTrue(any(culprit in found for found in functions), (culprit, functions))

        def test_all_that_the_sample_leaks_without_names(self):
            stripped = self.directory / "stripped"
            subprocess.run(["strip", "-o", stripped, SAMPLE], check=True)
            self.assert_all_of_the_sample_is_found(stripped)


if __name__ == "__main__":
    unittest.main()
