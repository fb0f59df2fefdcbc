# SPDX-License-Identifier: Apache-2.0
"""The trace of PyTorch's own allocator, recorded and replayed."""

import os
import sys
import unittest
from pathlib import Path

from program import REPOSITORY
from recorded import RecordTest

C10_CUDA = os.environ.get("MEMREEL_FAKE_C10_CUDA",
                          str(REPOSITORY / "build/release/tests/unit/torch/lib/libc10_cuda.so"))
PROGRAM = str(Path(__file__).parent / "torch_program.py")
MIB = 1 << 20


class Torch(RecordTest):
    def recorded(self, *options, **environment):
        process = self.record(sys.executable, "-B", PROGRAM, C10_CUDA, options=options, environment=self.environment(**environment))
        self.addresses = [int(word) for word in process.stdout.split()]
        trace = self.trace()
        return trace, [row for row in self.events(trace) if row["heap"] == "torch.cuda"]

    def test_requests_are_as_they_were_made(self):
        trace, events = self.recorded()
        a, b, c, in_pool = self.addresses
        expected = [("segment_alloc", a, 12 * MIB), ("alloc", a, 11 * MIB + 1000), ("segment_alloc", b, 14 * MIB),
                    ("alloc", b, 13 * MIB + 1), ("free_requested", a, 11 * MIB + 1000),
                    ("free_completed", a, 11 * MIB + 1000), ("alloc", a, 11 * MIB + 7),
                    ("free_requested", b, 13 * MIB + 1), ("segment_alloc", c, 14 * MIB), ("alloc", c, 13 * MIB + 1),
                    ("free_completed", b, 13 * MIB + 1), ("segment_alloc", in_pool, 16 * MIB),
                    ("alloc", in_pool, 15 * MIB + 3), ("segment_free", b, 14 * MIB),
                    ("free_requested", c, 13 * MIB + 1), ("free_completed", c, 13 * MIB + 1)]
        self.assertEqual([(row["kind"], row["address"], row["size"]) for row in events], expected)
        for row in events:
            self.assertEqual(row["stream"], 0x77 if row["address"] in (b, c) else 0)
            self.assertEqual("pool" in row, row["address"] == in_pool)
        self.assertEqual(self.document("info", trace)["lost_events"], 0)

    def test_replays_as_an_imported_history(self):
        trace, _ = self.recorded(PYTORCH_CUDA_ALLOC_CONF="garbage_collection_threshold:0.9")
        device, = self.document("verify", trace)["devices"]
        self.assertEqual((device["allocations"], device["address_matches"]), (5, 5))
        self.assertEqual((device["segment_events"], device["segment_matches"]), (5, 5))
        self.assertEqual(device["params"]["garbage_collection_threshold"], "0.9")
        self.assertTrue(self.document("verify", trace)["exact"])
        native, = self.document("replay", trace, "--policy", "torch.native")["policies"]
        self.assertEqual(native["peak_reserved_bytes"], (12 + 14 + 14 + 16) * MIB)
        self.assertEqual(native["peak_live_bytes"], 11 * MIB + 7 + 13 * MIB + 1 + 15 * MIB + 3)
        summary, = [row["memory_summary"] for row in self.document("report", trace)["summary"]["devices"]
                    if row["heap"] == "torch.cuda"]
        self.assertTrue(summary["exact"])
        self.assertEqual(summary["allocated_bytes"]["all"]["peak"], (12 + 14 + 16) * MIB)

    def test_segments_are_counted_once(self):
        trace, _ = self.recorded()
        driver, = [row for row in self.document("report", trace)["summary"]["devices"] if row["heap"] == "cuda.driver"]
        self.assertEqual(driver["peak_live_bytes"], 3 * MIB)

    def test_left_out(self):
        _, events = self.recorded("--no-torch")
        self.assertFalse(events)


if __name__ == "__main__":
    unittest.main()
