"""memreel report --leaks on recorded programs with known leaks."""

import json
import unittest

from program import REPOSITORY, SAMPLES, ProgramTest, run

LEAKS = REPOSITORY / "tests/data/leaks"
FINDING = {"verdict", "bytes", "count", "growth_bytes_per_step", "evidence", "device", "heap", "steps", "steps_with_growth",
           "r2", "age_steps", "last_free_step", "cause", "stack"}


class Leaks(ProgramTest):
    def accused(self, *arguments):
        return [finding for finding in self.document("report", *arguments, "--leaks")["leaks"]
                if finding["verdict"] in ("leak", "suspected")]

    def test_every_leaked_allocation_is_listed_by_address(self):
        truth = json.loads((LEAKS / "closures.truth.json").read_text())
        accused = self.accused(LEAKS / "closures.reel", "--allocations")
        self.assertEqual(sorted(a["address"] for finding in accused for a in finding["allocations"]),
                         sorted(leaked["address"] for leaked in truth["leaked"]))
        for finding in accused:
            self.assertEqual(set(finding), FINDING | {"allocations"})
            self.assertEqual(finding["bytes"], sum(a["bytes"] for a in finding["allocations"]))

    def test_a_kept_graph_is_one_cause_and_names_the_function_that_keeps_it(self):
        report = self.document("report", LEAKS / "losses_with_graph.reel", "--leaks")
        self.assertEqual(len(report["leak_causes"]), 1)
        cause = report["leak_causes"][0]
        self.assertGreater(cause["stacks"], 3)
        self.assertEqual(cause["frame"]["function"], "step")
        self.assertTrue(all(f["cause"] == 0 for f in report["leaks"] if f["verdict"] == "leak"))

    def test_training_is_not_accused(self):
        self.assertEqual(self.accused(SAMPLES / "gpt_default.reel"), [])
        self.assertTrue(self.answer("report", SAMPLES / "gpt_default.reel", "--leaks").stdout.startswith("no leaks"))

    def test_steps_are_found_where_none_are_marked(self):
        steps = self.document("report", LEAKS / "losses_without_marks.reel", "--leaks")["leak_steps"][0]
        self.assertEqual((steps["from"], steps["steps"]), ("repetition", 60))
        steps = self.document("report", LEAKS / "closures.reel", "--leaks")["leak_steps"][0]
        self.assertEqual((steps["from"], steps["mark"], steps["steps"]), ("marks", "step", 60))

    def test_evidence_is_one_sentence_with_the_line(self):
        text = run("report", LEAKS / "closures.reel", "--leaks", environment={"COLUMNS": "300"}).stdout
        self.assertRegex(text, r"leak: 60 of 60 steps kept \S+ \S+ allocated at leak_programs\.py:\d+; nothing allocated "
                               r"there was ever freed")

    def test_what_is_suppressed_is_counted(self):
        for option, value in (("--suppress", "leak:leak_programs"),
                              ("--suppressions", self.file("known.txt", b"# ours\n\nleak:^step$\n"))):
            report = self.document("report", LEAKS / "closures.reel", "--leaks", option, value)
            self.assertEqual([f for f in report["leaks"] if f["verdict"] == "leak"], [])
            self.assertEqual([(s["count"], s["built_in"]) for s in report["suppressed"]], [(60, False)])
        self.assertIn("suppressed by leak:^step$", self.answer(
            "report", LEAKS / "closures.reel", "--leaks", "--suppress", "leak:^step$").stdout)

    def test_what_is_no_suppression_is_refused(self):
        self.assert_refused(run("report", LEAKS / "closures.reel", "--suppress", "closures"), "--suppress", "leak:PATTERN")
        self.assert_refused(run("report", LEAKS / "closures.reel", "--suppressions",
                                self.file("known.txt", b"leak:a\nrace:b\n")), "known.txt", "line 2")
        self.assert_refused(run("report", LEAKS / "closures.reel", "--suppressions", self.directory / "none"), "none")

    def test_how_long_memory_lasts(self):
        steps = self.document("report", LEAKS / "closures.reel", "--leaks")["leak_steps"][0]
        self.assertIsNone(steps["steps_left"])
        growth = sum(f["growth_bytes_per_step"] for f in self.accused(LEAKS / "closures.reel"))
        report = self.document("report", LEAKS / "closures.reel", "--leaks", "--capacity", "1GiB")
        free = (1 << 30) - report["summary"]["devices"][0]["end_reserved_bytes"]
        self.assertAlmostEqual(report["leak_steps"][0]["steps_left"] * growth / free, 1)


if __name__ == "__main__":
    unittest.main()
