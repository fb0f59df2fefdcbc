# SPDX-License-Identifier: Apache-2.0
"""The programs of samples/cuda, on the fake GPU: each one's own account matches its trace, event by event."""

import os
import unittest
from pathlib import Path

from program import REPOSITORY
from recorded import RecordTest

SAMPLES = Path(os.environ.get("MEMREEL_CUDA_SAMPLES", REPOSITORY / "build/release/bin"))


class Samples(RecordTest):
    pass


def recorded(name):
    def test(self):
        self.record(SAMPLES / f"sample_{name}")
        self.assertTrue(self.truth())
        self.assert_equals_truth()
    return test


for name in ("fragmentation", "graph", "growing_vector", "leak", "pools", "threads"):
    setattr(Samples, f"test_{name}", recorded(name))


if __name__ == "__main__":
    unittest.main()
