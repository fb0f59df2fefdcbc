# SPDX-License-Identifier: Apache-2.0
"""The programs of samples/cuda, on the fake GPU: each one's own account matches its trace, event by event."""

import os
import unittest
from pathlib import Path

from program import REPOSITORY
from recorded import RecordTest

PROGRAMS = Path(os.environ.get("MEMREEL_CUDA_SAMPLES", REPOSITORY / "build/release/bin"))
SOURCES = sorted((REPOSITORY / "samples/cuda").glob("*.cpp"))
assert SOURCES, "samples/cuda has no programs"


class Samples(RecordTest):
    pass


def recorded(name):
    def test(self):
        self.record(PROGRAMS / f"sample_{name}")
        self.assertTrue(self.truth())
        self.assert_equals_truth()
    return test


for source in SOURCES:
    setattr(Samples, f"test_{source.stem}", recorded(source.stem))


if __name__ == "__main__":
    unittest.main()
