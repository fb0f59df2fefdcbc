# SPDX-License-Identifier: Apache-2.0
"""Requests that fail while a program is recorded: a refusal by the driver and by the pool above it is one failure."""

import os
import sys
import unittest
from pathlib import Path

from program import REPOSITORY
from recorded import RecordTest

C10_CUDA = os.environ.get("MEMREEL_FAKE_C10_CUDA",
                          str(REPOSITORY / "build/release/tests/unit/torch/lib/libc10_cuda.so"))
PROGRAM = str(Path(__file__).parent / "torch_program.py")


class OutOfMemory(RecordTest):
    def test_a_request_that_both_levels_refuse_fails_once(self):
        self.record(sys.executable, "-B", PROGRAM, C10_CUDA, "fail", environment=self.environment())
        trace = self.trace()
        self.assertEqual(self.document("info", trace)["kinds"]["alloc_failed"], 3)
        report = self.document("report", trace, "--oom")
        self.assertEqual(report["failed_requests"], 1)
        failure, = report["ooms"]
        self.assertEqual(failure["heap"], "torch.cuda")
        self.assertEqual(failure["verdict"], "larger than the device")
        self.assertEqual(failure["survivors"], [])
        self.assertEqual([(level["level"], len(level["events"])) for level in failure["levels"]],
                         [("framework", 1), ("driver", 2)])
        self.assertLess(failure["capacity_bytes"], 1 << 40)
        text = self.answer("report", trace, "--oom").stdout
        self.assertIn("No setting and no allocator serves it.", text)
        self.assertNotIn("of at most 4.00 TiB", text)

    def test_a_streamed_replay_deduces_the_same_capacity(self):
        self.record(sys.executable, "-B", PROGRAM, C10_CUDA, "fail", environment=self.environment())
        loaded, streamed = (self.document("replay", self.trace(), "--policy", "torch.native", *options)["policies"][0]
                            for options in ((), ("--stream",)))
        for key in ("capacity_bytes", "failed_allocations", "first_failure", "peak_reserved_bytes", "driver_calls"):
            self.assertEqual(streamed[key], loaded[key], key)
        self.assertLess(loaded["capacity_bytes"], 1 << 40)

    def test_a_program_without_a_pool_is_judged_at_the_driver(self):
        self.record_program("failures")
        report = self.document("report", self.trace(), "--oom")
        self.assertEqual([(failure["heap"], failure["verdict"]) for failure in report["ooms"]],
                         [("cuda.driver", "larger than the device")] * 2)


if __name__ == "__main__":
    unittest.main()
