# SPDX-License-Identifier: Apache-2.0
"""PyTorch's pinned host memory: synthetic histories, replayed, verified and tuned. Real ones: test_releases.py."""

import pickle
import unittest

from program import ProgramTest, run
from snapshot import snapshot

MIB = 1 << 20
BASE = 0x7A0000000000


class Host:
    """Appends entries to `host_traces` as CachingHostAllocator.h does."""

    def __init__(self):
        self.entries = []

    def add(self, action, address, size, pool=(0, 0)):
        self.entries.append({"action": action, "addr": address, "size": size, "stream": 0, "pool_id": pool, "compile_context": "",
                             "user_metadata": "", "time_us": 1_700_000_000_000_000 + len(self.entries)})

    def take(self, address, size, pool=(0, 0)):
        self.add("segment_alloc", address, size, pool)
        self.add("alloc", address, size, pool)

    def free(self, address, size, pool=(0, 0)):
        self.add("free_requested", address, size, pool)
        self.add("free_completed", address, size, pool)

    def give_back(self, address, size, pool=(0, 0)):
        self.add("segment_free", address, size, pool)


class PinnedMemory(ProgramTest):
    def saved(self, host, conf="", device=True, **settings):
        document = snapshot()
        document["allocator_settings"].update({"PYTORCH_CUDA_ALLOC_CONF": conf, "max_round_threshold": -1, "max_cached_size": -1,
                                               **settings})
        if not device:
            document["segments"], document["device_traces"] = [], [[]]
        document["host_segments"], document["host_traces"] = [], host.entries
        path = self.directory / "snapshot.pickle"
        path.write_bytes(pickle.dumps(document))
        return path

    def host_of(self, history, code=0):
        (device,) = [row for row in self.document("verify", history, code=code)["devices"] if row["device"] == -1]
        return device

    def assert_exact(self, device):
        self.assertEqual(device["policy"], "torch.host")
        self.assertIsNone(device["first_divergence"])
        self.assertEqual(device["address_matches"], device["allocations"])
        self.assertEqual(device["segment_matches"], device["segment_events"])

    def test_blocks_are_reused_and_given_back(self):
        host = Host()
        host.take(BASE, 4096)
        host.take(BASE + MIB, MIB)
        host.free(BASE, 4096)
        host.add("alloc", BASE, 4096)
        host.free(BASE, 4096)
        host.free(BASE + MIB, MIB)
        host.give_back(BASE, 4096)
        host.give_back(BASE + MIB, MIB)
        history = self.saved(host)
        device = self.host_of(history)
        self.assert_exact(device)
        self.assertEqual(device["allocations"], 3)
        self.assertEqual(device["segment_events"], 4)
        self.assertEqual(device["recorded_peak_reserved_bytes"], MIB + 4096)
        self.assertTrue(self.document("verify", history)["exact"])

    def test_another_block_than_the_one_freed_last_differs(self):
        host = Host()
        for i in range(2):
            host.take(BASE + i * MIB, MIB)
        for i in range(2):
            host.free(BASE + i * MIB, MIB)
        host.add("alloc", BASE, MIB)
        self.assertIsNotNone(self.host_of(self.saved(host), code=1)["first_divergence"])

    def test_what_the_program_pins_itself_is_not_the_allocators(self):
        host = Host()
        host.take(BASE, 12345)
        host.take(BASE + MIB, 4096)
        host.free(BASE + MIB, 4096)
        host.take(BASE + 2 * MIB, 4096)  # while a block of that size is free
        host.free(BASE + 2 * MIB, 4096)
        host.give_back(BASE + 2 * MIB, 4096)
        host.free(BASE, 12345)
        host.give_back(BASE, 12345)
        history = self.saved(host)
        device = self.host_of(history)
        self.assert_exact(device)
        self.assertEqual(device["allocations"], 1)
        heaps = {row["heap"]: row for row in self.document("info", history)["devices"]}
        self.assertEqual(heaps["cuda.host"]["peak_live_bytes"], 12345 + 4096)
        self.assertEqual(heaps["torch.host"]["peak_live_bytes"], 4096)

    def test_the_reserve_segment_is_one_segment(self):
        host = Host()
        host.take(BASE, 4096)
        host.take(BASE + 4096, 8 * MIB)
        host.take(BASE - 16 * MIB, 16 * MIB)  # more than is left
        host.free(BASE, 4096)
        host.give_back(BASE, 4096)  # which keeps its place
        host.take(BASE + 4096 + 8 * MIB, 4096)
        device = self.host_of(self.saved(host, "pinned_reserve_segment_size_mb:10"))
        self.assert_exact(device)
        self.assertEqual(device["recorded_peak_reserved_bytes"], 26 * MIB)

    def test_a_pool_of_a_graph_is_given_back_when_it_is_over(self):
        host = Host()
        pool = (1, 0)
        host.take(BASE, MIB, pool)
        host.free(BASE, MIB, pool)
        host.take(BASE + MIB, MIB)
        host.free(BASE + MIB, MIB)
        host.give_back(BASE + MIB, MIB)
        host.take(BASE + 2 * MIB, 4096)
        host.give_back(BASE, MIB, pool)
        self.assert_exact(self.host_of(self.saved(host)))

    def test_limits_are_read(self):
        host = Host()
        host.take(BASE, 3 * MIB)
        host.free(BASE, 3 * MIB)
        host.give_back(BASE, 3 * MIB)
        device = self.host_of(self.saved(host, max_round_threshold=MIB, max_cached_size=2 * MIB))
        self.assert_exact(device)
        self.assertEqual(device["params"], {"pinned_max_round_threshold_mb": "1", "pinned_max_cached_size_mb": "2",
                                            "pinned_reserve_segment_size_mb": "0"})

    def test_policies_are_of_one_kind_of_memory(self):
        host = Host()
        host.take(BASE, 3 * MIB)
        history = self.saved(host, max_round_threshold=0)
        (policy,) = self.document("replay", history, "--policy", "torch.host")["policies"]
        self.assertEqual((policy["device"], policy["peak_reserved_bytes"]), (-1, 4 * MIB))
        (policy,) = self.document("replay", history, "--policy", "torch.native")["policies"]
        self.assertEqual([device["device"] for device in policy["devices"]], [0])
        ran = run("replay", history, "--policy", "torch.native,torch.host")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("one after the other", ran.stderr)
        alone = self.saved(host, device=False, max_round_threshold=0)
        self.assertEqual([p["policy"] for p in self.document("replay", alone)["policies"]], ["bound.live", "torch.host"])
        bare = self.directory / "bare.pickle"
        bare.write_bytes(pickle.dumps(snapshot()))
        ran = run("replay", bare, "--policy", "torch.host")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("record_pinned_host_memory", ran.stderr)

    def test_advice_where_the_sizes_are_known(self):
        host = Host()
        for i in range(8):
            host.take(BASE + i * 64 * MIB, 33 * MIB)
        rounding = self.document("tune", self.saved(host, max_round_threshold=0))["pinned_memory"]
        self.assertEqual(rounding["baseline"]["peak_reserved_bytes"], 8 * 33 * MIB)
        self.assertIsNone(rounding["least_unrounded_peak_bytes"])
        (default,) = [c for c in rounding["candidates"] if c["setting"] == ""]
        self.assertEqual(default["peak_reserved_bytes"], 8 * 64 * MIB)
        self.assertIn("torch.host", run("tune", self.saved(host, max_round_threshold=0)).stdout)

    def test_advice_where_they_were_rounded(self):
        host = Host()
        for i in range(8):
            host.take(BASE + i * 64 * MIB, 64 * MIB)
        history = self.saved(host)
        rounded = self.document("tune", history)["pinned_memory"]
        self.assertEqual(rounded["least_unrounded_peak_bytes"], 8 * (32 * MIB + 1))
        self.assertIsNone(rounded["recommended"])
        self.assertIn("pinned_max_round_threshold_mb:0", run("tune", history).stdout)
        alone = self.document("tune", self.saved(host, device=False))
        self.assertEqual(alone["baseline"]["policy"], "torch.host")


if __name__ == "__main__":
    unittest.main()
