# SPDX-License-Identifier: Apache-2.0
"""Each release of PyTorch, as recorded by its own allocator (tests/lab/run): every address reproduced by its own rules."""

import unittest
from collections import defaultdict

from program import REPOSITORY, ProgramTest, run

HISTORIES = defaultdict(list)  # by release
for history in sorted((REPOSITORY / "tests/data/releases").glob("*.pickle.xz")):
    HISTORIES[history.name.partition("-")[0]].append(history)


def rules_of(release):
    minor = int(release.split(".")[1])
    if minor in (4, 12):
        return f"PyTorch 2.{minor}"
    return "PyTorch 2.1 to 2.3" if minor < 4 else "PyTorch 2.5 to 2.11" if minor < 12 else "PyTorch 2.13 and newer"


class Releases(ProgramTest):
    def check(self, release):
        told_apart = False
        for history in HISTORIES[release]:
            with self.subTest(history.name):
                verified = self.document("verify", history)
                self.assertIs(verified["exact"], True)
                for device in verified["devices"]:
                    self.assertEqual(device["address_matches"], device["allocations"])
                    self.assertEqual(device["segment_matches"], device["segment_events"])
                    if device["policy"] != "torch.host":  # which is the same in every release
                        self.assertIn(device["rules"].partition(",")[0].partition(":")[0], self.told_of(release))
                self.assertGreater(sum(device["allocations"] for device in verified["devices"]), 0)
            for other in ("2.3", "2.4", "2.11", "2.12", "2.13"):
                if rules_of(other) != rules_of(release) and not self.is_exact(history, other):
                    told_apart = True
        self.assertTrue(told_apart, "no history here shows that the rules of this release are its own")

    def told_of(self, release):
        """2.3 and 2.4 are distinguished only by what differs between them."""
        return {rules_of(release)} | ({"PyTorch 2.4"} if release.startswith("2.3.") else set())

    def is_exact(self, history, release):
        ran = run("verify", "--torch-version", release, history)
        self.assertIn(ran.returncode, (0, 1))
        return ran.returncode == 0


for release in HISTORIES:
    setattr(Releases, f"test_{release.replace('.', '_')}", lambda self, release=release: self.check(release))

if __name__ == "__main__":
    unittest.main()
