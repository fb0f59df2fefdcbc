"""memreel's categories, compared with the programs' own labels."""

import json
import subprocess
import unittest

import category_score
from program import SAMPLES


@unittest.skipUnless(category_score.labelled(), "no labelled histories")
class Categories(unittest.TestCase):
    def test_labelled_programs(self):
        for history in category_score.labelled():
            for instant in category_score.score(history):
                with self.subTest(history=history.name, instant=instant.where):
                    self.assertGreaterEqual(instant.share_right(), 0.95)
                    self.assertLess(instant.share_unknown(), 0.05)
                    for label in instant.named:
                        if instant.bytes(label) > 256 << 20:
                            self.assertGreaterEqual(instant.right(label) / instant.bytes(label), 0.90, label)


class Sample(unittest.TestCase):
    """A recorded training run from the checkout."""

    TRACE = SAMPLES / "gpt_default.reel"

    def memreel(self, *arguments):
        return subprocess.run([category_score.MEMREEL, *arguments], capture_output=True, text=True, check=True).stdout

    def test_report_shares_out_what_was_live_at_the_peak(self):
        peak = json.loads(self.memreel("report", self.TRACE, "--json"))["live_at_peak"][0]
        shares = peak["categories"]
        self.assertEqual(sum(share["bytes"] for share in shares), peak["bytes"])
        self.assertEqual(sum(share["count"] for share in shares), peak["count"])
        self.assertEqual((shares[0]["category"], shares[0]["evidence"]), ("activation", "freed_by_backward"))
        sizes = [share["bytes"] for share in shares]
        self.assertEqual(sizes, sorted(sizes, reverse=True))

    def test_text_names_the_module_that_holds_most(self):
        text = self.memreel("report", self.TRACE)
        lines = text.splitlines()
        row = next(i for i, line in enumerate(lines) if line.split()[:1] == ["activations"])
        self.assertRegex("".join(lines[row:row + 2]), r"forward \([a-z_]+\.py:\d+\)")

    def test_exports_say_category_layer_and_phase(self):
        rows = map(json.loads, self.memreel("export", self.TRACE, "--format", "jsonl").splitlines())
        made = [row for row in rows if row["kind"] == "alloc"]
        activations = [row for row in made if row["category"] == "activation" and row["layer"]]
        self.assertTrue(activations)
        for row in activations:
            self.assertEqual(row["phase"], "forward")
            # From the model's call inwards, without the machinery of calls and decorators.
            self.assertNotIn("module.py", row["layer"])
            self.assertNotIn("generic.py", row["layer"])
        self.assertEqual({row["layer"] for row in made if row["category"] == "parameter"}, {""})


if __name__ == "__main__":
    unittest.main()
