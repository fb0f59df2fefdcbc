# SPDX-License-Identifier: Apache-2.0
"""From a RAPIDS RMM log to the question behind it: why did the third run fail, and which pool would have survived?"""

import subprocess
import sys
import unittest

from program import SAMPLES, ProgramTest, run

LOG = SAMPLES / "rmm_third_run.csv"
POLICIES = "rmm.pool,rmm.arena,rmm.binning,cuda.malloc,fit.best"


class Rmm(ProgramTest):
    def replay(self, policies, *options):
        document = self.document("replay", LOG, "--policy", policies, *options)
        return {policy["policy"]: policy for policy in document["policies"]}

    def test_the_sample_is_what_its_script_makes(self):
        made = subprocess.run([sys.executable, SAMPLES / "make_rmm_log.py"], capture_output=True, text=True, check=True)
        self.assertEqual(made.stdout, LOG.read_text())

    def test_info_counts_the_lines_of_the_log(self):
        lines = LOG.read_text().splitlines()[1:]
        info = self.document("info", LOG)
        self.assertEqual(info["source"], "rmm.log")
        self.assertEqual(info["events"], len(lines))
        self.assertEqual(info["kinds"], {
            "alloc": sum(",allocate," in line for line in lines),
            "free_requested": sum(",free," in line for line in lines),
            "alloc_failed": 1})
        self.assertEqual(info["lost_events"], 0)
        self.assertEqual([device["heap"] for device in info["devices"]], ["rmm"])

    def test_import_and_the_log_itself_give_the_same_answer(self):
        trace = self.directory / "log.reel"
        self.answer("import", LOG, "-o", trace)
        rows = [self.answer("export", path, "--format", "csv").stdout for path in (LOG, trace)]
        self.assertEqual(*rows)

    def test_the_third_run_fails_in_the_pool_that_was_recorded(self):
        pool = self.replay("rmm.pool{initial=84.6GB,maximum=84.6GB}")["rmm.pool"]
        self.assertEqual(pool["failed_allocations"], 1)
        failure = pool["first_failure"]
        lines = LOG.read_text().splitlines()[1:]
        self.assertIn("allocate failure", lines[failure["event"]])
        self.assertGreater(failure["free_bytes"], 20e9)
        self.assertLess(failure["largest_free_bytes"], failure["requested_bytes"])

    def test_every_policy_replays_it(self):
        policies = self.replay(POLICIES)
        self.assertEqual(list(policies), POLICIES.split(","))
        for name, policy in policies.items():
            with self.subTest(name):
                self.assertEqual(policy["failed_allocations"], 0)
                self.assertGreaterEqual(policy["peak_reserved_bytes"], policy["peak_live_bytes"])
        self.assertIsNone(policies["rmm.pool"]["capacity_bytes"], "a log does not tell how much memory there was")

    def test_damage_is_counted_and_other_files_are_refused(self):
        cut = self.file("cut.csv", LOG.read_bytes()[:-30])
        process = self.answer("info", cut)
        self.assertIn("1 record", process.stderr)
        table = self.file("table.csv", LOG.read_bytes()[:200] + b"a,b,c\n" * 100)
        self.assert_refused(run("info", table), table, "line 4", "Thread,Time,Action,Pointer,Size,Stream")


if __name__ == "__main__":
    unittest.main()
