# SPDX-License-Identifier: Apache-2.0
"""Jobs of four H100 (tests/data/job): what memreel says of them is what their ranks, PyTorch and the driver said."""

import json
import re
import unittest

from program import REPOSITORY, ProgramTest

JOBS = REPOSITORY / "tests/data/job"
TRUTH = json.loads((JOBS / "truth.json").read_text())
AXES = {"ddp": "dp=4", "mesh": "dp=2,tp=2", "pipeline": "pp=4"}


class JobsOfGpus(ProgramTest):
    def fleet(self, program, *arguments):
        return self.document("fleet", JOBS / program, "--mesh", AXES[program], *arguments)

    def assert_near(self, values, truths, share):
        self.assertEqual(len(values), len(truths))
        for value, truth in zip(values, truths):
            self.assertAlmostEqual(value, truth, delta=share * truth)

    def test_classes_are_the_replicas(self):
        for program, classes in (("ddp", [[0, 1, 2, 3]]), ("mesh", [[0, 1], [2, 3]]), ("pipeline", [[0], [1], [2], [3]])):
            with self.subTest(program):
                fleet = self.fleet(program, "--no-setting")
                self.assertEqual(sorted(c["ranks"] for c in fleet["classes"]), classes)
                self.assertEqual([row["device"] for row in fleet["ranks"]], [0, 1, 2, 3])

    def test_peaks_are_those_of_pytorch_and_the_driver(self):
        for program, truth in TRUTH.items():
            with self.subTest(program):
                fleet = self.fleet(program, "--no-setting")
                self.assertEqual([row["peak_reserved_bytes"] for row in fleet["ranks"]], truth["reserved"])
                self.assert_near([row["capacity_bytes"] - row["headroom_bytes"] for row in fleet["ranks"]], truth["driver"], 0.01)
                self.assertEqual(truth["driver"][fleet["decides"]["rank"]], max(truth["driver"]))

    def test_the_stage_and_the_leak_are_named(self):
        fleet = self.fleet("pipeline", "--no-setting")
        self.assertEqual(fleet["decides"]["rank"], 2)
        means = fleet["imbalance"]["axes"][0]["mean_peak_reserved_bytes"]
        self.assertEqual(means.index(max(means)), 2)
        self.assertEqual([leak["rank"] for leak in fleet["leaks"]], [1])
        self.assertIn(TRUTH["pipeline"]["leak_line"], [frame["line"] for frame in fleet["leaks"][0]["stack"]])

    def test_a_setting_does_what_is_said(self):
        for program, truth in TRUTH.items():
            with self.subTest(program):
                setting = self.fleet(program, "--capacity", "16GiB")["setting"]
                found = {rank: outcome["peak_reserved_bytes"] for c in setting["classes"] for outcome in c["outcomes"]
                         if outcome["setting"] == truth["setting"] for rank in c["ranks"]}
                self.assert_near([found[rank] for rank in range(4)], truth["with_setting"], 0.01)

    def test_all_that_nccl_holds_is_of_a_communicator(self):
        for program in ("mesh", "pipeline"):
            for rank in range(4):
                with self.subTest(program, rank=rank):
                    held = self.document("report", "--by", "library", JOBS / program / f"{rank}.reel")["live_at_peak"]
                    held = {group["label"]: group["bytes"] for heap in held if heap["heap"] == "cuda.driver"
                            for group in heap["groups"] if "libnccl" in group["label"]}
                    found = [bytes_of for label, bytes_of in sorted(held.items()) if re.search(r"communicator \d", label)]
                    self.assertEqual(len(found), len(held), held)
                    fell = TRUTH[program]["fell"][rank]  # of free memory, at the first use of each
                    self.assert_near(found[-len(fell):], fell, 0.05)


if __name__ == "__main__":
    unittest.main()
