# SPDX-License-Identifier: Apache-2.0
"""A file of several recordings, one after the other: nothing is made up over all of them, and what can't be judged does not pass."""

import unittest

from program import SAMPLES, ProgramTest, run
from schema import defects

LEAK = SAMPLES / "leak.reel"
OTHERS = [SAMPLES / "gpt_default.reel", SAMPLES / "decode_default.reel", LEAK]


class Concatenated(ProgramTest):
    def concatenated(self, *recordings):
        return self.file("both.reel", b"".join(recording.read_bytes() for recording in recordings))

    def test_a_gate_judges_no_two_runs_as_one(self):
        for other in OTHERS:
            for order in ((LEAK, other), (other, LEAK)):
                both = self.concatenated(*order)
                for budget in (("--max-leaked", "0"), ("--max-peak", "100GiB"), ("--max-reserved", "100GiB")):
                    with self.subTest(order=[file.name for file in order], budget=budget):
                        self.assert_refused_with_notes(run("check", both, *budget), "2 recordings, one after the other", "check each by itself")

    def assert_refused_with_notes(self, process, *mentions):
        self.assertEqual((process.returncode, process.stdout), (2, ""), process.stderr)
        for mention in mentions:
            self.assertIn(mention, process.stderr)

    def test_leaks_and_steps_are_not_judged(self):
        for other in OTHERS:
            with self.subTest(other.name):
                both = self.concatenated(LEAK, other)
                report = self.document("report", both, "--leaks")
                self.assertEqual([finding for finding in report["leaks"] if finding["verdict"] in ("leak", "suspected")], [])
                self.assertEqual({steps["from"] for steps in report["leak_steps"]}, {"none"})
                text = self.answer("report", both, "--leaks").stdout
                self.assertIn("not judged: the file holds several recordings", " ".join(text.split()))
                self.assertNotIn("no leaks", text)
                info = self.document("info", both)["recording"]
                self.assertEqual((info["steps"], info["steps_from"]), (0, None))

    def test_peaks_and_times_are_those_of_one_recording(self):
        alone = {file: self.document("report", file)["verdict"]["decides"] for file in OTHERS}
        spans = {file: self.document("info", file)["time_span_ns"] for file in OTHERS}
        for order in ((LEAK, OTHERS[0]), (OTHERS[0], LEAK), (OTHERS[1], LEAK, LEAK)):
            with self.subTest(order=[file.name for file in order]):
                both = self.concatenated(*order)
                document = self.document("report", both)
                self.assertEqual(defects(document), [])
                decides = document["verdict"]["decides"]
                most = max((alone[file] for file in order), key=lambda each: each["peak_reserved_bytes"])
                for key in ("peak_live_bytes", "peak_reserved_bytes", "peak_after_ns"):
                    self.assertEqual(decides[key], most[key], key)
                checks = self.document("check", both, "--max-peak", "1TiB", "--allow-incomplete")
                [peak] = [check["value"] for check in checks["checks"] if check["name"] == "max-peak"]
                self.assertEqual(peak, max(self.peak(file) for file in order))
                self.assertIn(f"a single run: the file holds {len(order)} recordings, one after the other", checks["missing"])
                self.assertEqual(self.document("info", both)["time_span_ns"], sum(spans[file] for file in order))

    def peak(self, file):
        checks = self.document("check", file, "--max-peak", "1TiB", "--allow-incomplete")
        return next(check["value"] for check in checks["checks"] if check["name"] == "max-peak")

    def test_categories_are_not_added_up_over_recordings(self):
        def peaks(*recordings):
            budget = ",".join(f"{category}=1B" for category in ("activation", "parameter", "gradient", "unknown"))
            checks = self.document("check", self.concatenated(*recordings), "--max-category", budget, "--allow-incomplete", code=1)
            return {check["name"]: check["value"] for check in checks["checks"] if check["name"].startswith("max-category")}

        once = peaks(LEAK)
        self.assertGreater(max(once.values()), 0)
        self.assertEqual(peaks(LEAK, LEAK, LEAK), once)

    def test_info_tells_the_recordings_apart(self):
        text = self.answer("info", self.concatenated(LEAK, OTHERS[0])).stdout
        for words in ("2 recordings, one after the other", "torch.cuda, recording 1", "torch.cuda, recording 2"):
            self.assertIn(words, text)

    def test_a_rank_of_several_recordings_is_no_whole_rank(self):
        both = self.concatenated(LEAK, OTHERS[0])
        checks = self.document("check", "--fleet", both, "--max-reserved", "1TiB", code=1)["checks"]
        [complete] = [check for check in checks if check["name"] == "complete"]
        self.assertIn("2 recordings, one after the other", complete["reason"])

    def test_names_are_not_added_to_several_at_once(self):
        self.assert_refused(run("symbols", self.concatenated(LEAK, LEAK), "-o", self.directory / "named.reel"), "several recordings")


if __name__ == "__main__":
    unittest.main()
