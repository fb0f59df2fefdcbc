# SPDX-License-Identifier: Apache-2.0
"""memreel policies: what it lists is what replay takes, and what the documents say."""

import unittest

from program import REPOSITORY, SAMPLES, ProgramTest, run
from schema import defects


class Policies(ProgramTest):
    def test_the_document_has_the_table(self):
        table = self.answer("policies", "--markdown").stdout
        self.assertIn(table, (REPOSITORY / "docs/policies.md").read_text(), "memreel policies --markdown prints it")

    def test_every_policy_takes_its_defaults_and_refuses_others_in_the_words_of_the_list(self):
        listed = self.document("policies")
        self.assertEqual(defects(listed), [])
        trace = SAMPLES / "streams_default.reel"
        for policy in listed["policies"]:
            given = ",".join(f"{p['name']}={p['default']}" for p in policy["parameters"])
            if policy["memory"] == "device memory" and policy["name"] != "torch":  # which takes PyTorch's own syntax
                process = run("replay", trace, "--policy", f"{policy['name']}{{{given}}}" if given else policy["name"], "--json")
                self.assertEqual(process.returncode, 0, process.stderr)
            for parameter in policy["parameters"]:
                self.assertTrue(parameter["meaning"] and parameter["values"], parameter)
                if policy["name"].startswith("torch"):
                    continue
                process = run("replay", trace, "--policy", f"{policy['name']}{{{parameter['name']}=nonsense}}")
                self.assertEqual(process.returncode, 2)
                self.assertIn(f"{parameter['name']}=nonsense", process.stderr)
                self.assertIn(f"is not {parameter['values']}", process.stderr)

    def test_names(self):
        text = self.answer("policies", "cuda.async").stdout
        self.assertTrue(text.startswith("cuda.async\n"))
        self.assertNotIn("rmm.pool", text)
        self.assert_refused(run("policies", "cuda.sync"), "cuda.sync", "memreel policies")
        self.assert_refused(run("policies", "./mine.so"), "mine.so")


if __name__ == "__main__":
    unittest.main()
