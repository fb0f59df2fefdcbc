# SPDX-License-Identifier: Apache-2.0
"""Memory that is not where the current context is: pools by location, locality domains, green contexts, other devices' streams."""

import unittest

from recorded import FAKE, RecordTest

NEWEST = ("--libcupti", FAKE / "cupti-13.5/libcupti.so.13")  # knows all driver calls


class Places(RecordTest):
    OPTIONS = NEWEST

    def assert_recorded(self, *mode, gpus=2):
        self.record_program(*mode, options=self.OPTIONS, environment=self.environment(FAKE_CUDA_GPUS=gpus))
        events = self.assert_equals_truth()
        self.assertTrue(self.truth())
        return events

    def test_pools_by_location(self):
        events = self.assert_recorded("locations")
        heaps = {(row["heap"], row["device"]) for row in events if row["kind"] == "alloc"}
        self.assertEqual(heaps, {("cuda.driver", 0), ("cuda.driver", 1), ("cuda.host", -1)})

    def test_one_gpu(self):
        events = self.assert_recorded("locations", gpus=1)
        self.assertEqual({row["device"] for row in events if row["kind"] == "alloc"}, {0, -1})

    def test_domains_and_nodes(self):
        self.assert_recorded("nodes")

    def test_green_contexts(self):
        self.assert_recorded("green")

    def test_streams_of_another_device(self):
        events = self.assert_recorded("foreign-streams", 300)
        self.assertEqual({row["device"] for row in events if row["kind"] == "alloc"}, {0, 1})


class InterposedPlaces(Places):
    OPTIONS = ("--backend", "interpose")


if __name__ == "__main__":
    unittest.main()
