# SPDX-License-Identifier: Apache-2.0
"""Profiles of JAX programs, recorded and synthetic."""

import gzip
import json
import unittest

import histories
from program import REPOSITORY, SAMPLES, ProgramTest, run
from xspace import BASE, chunk, number, profile

RECORDED = sorted({path.name: path for directory in (SAMPLES, REPOSITORY / "tests/data/profiles", histories.SHARED) if directory.is_dir()
                   for path in directory.glob("*.xplane.pb.?z")}.values())
POLICIES = "jax.growth,tf.growth,torch.native,fit.best"


class Recorded(ProgramTest):
    def test_import_info_verify_and_replay(self):
        self.assertGreater(len(RECORDED), 0)
        for path in RECORDED:
            with self.subTest(path.name):
                trace = self.directory / (path.name + ".reel")
                self.answer("import", path, "-o", trace)
                info = self.document("info", trace)
                self.assertEqual(info["source"], "xplane")
                self.assertEqual(info["kinds"]["memory_info"], info["kinds"]["alloc"] + info["kinds"]["free_requested"])

                verification = self.document("verify", trace)
                self.assertIs(verification["exact"], True)
                for device in verification["devices"]:
                    self.assertEqual(device["policy"], "tf.bfc")
                    self.assertGreater(device["allocations"], 0)
                    self.assertEqual(device["address_matches"], device["allocations"])
                    self.assertEqual(device["segment_matches"], device["segment_events"])
                    self.assertEqual(device["peak_reserved_bytes"], device["recorded_peak_reserved_bytes"])

                replay = self.document("replay", trace, "--policy", POLICIES)
                self.assertEqual([policy["policy"] for policy in replay["policies"]], POLICIES.split(","))
                for policy in replay["policies"]:
                    self.assertEqual(policy["device"], 0, "host memory is not what is compared")
                    self.assertEqual(policy["failed_allocations"], 0)
                    self.assertGreaterEqual(policy["peak_reserved_bytes"], policy["peak_live_bytes"])

    def test_growth_reserves_what_jax_did(self):
        for path in RECORDED:
            recorded = {device["device"]: device for device in self.document("verify", path)["devices"]}[0]
            if recorded["params"]["allow_growth"] == "false" or "crowded" in path.name:
                continue
            with self.subTest(path.name):
                policy = f"tf.bfc{{limit={recorded['params']['limit']}}}"
                replay = self.document("replay", path, "--policy", policy)["policies"][0]
                self.assertEqual(replay["peak_reserved_bytes"], recorded["recorded_peak_reserved_bytes"])
                self.assertEqual(replay["failed_allocations"], 0)

    def test_preallocation_needs_its_share_of_the_capacity(self):
        path = SAMPLES / "jax_oom_fraction.xplane.pb.gz"
        replay = self.document("replay", path, "--policy", "jax.default", "--capacity", "4GiB")["policies"][0]
        self.assertEqual(replay["peak_reserved_bytes"], 3 << 30)
        self.assertEqual(replay["failed_allocations"], 0)


class MadeUp(ProgramTest):
    def test_golden_events(self):
        path = self.file("small.xplane.pb", profile())
        lines = self.answer("export", path, "--format", "jsonl").stdout.splitlines()
        events = [json.loads(line) for line in lines]
        self.assertEqual([(event["kind"], event.get("address"), event.get("size")) for event in events], [
            ("settings", None, None), ("mark", None, None), ("segment_alloc", BASE, 2 << 20), ("alloc", BASE, 4),
            ("memory_info", None, 256), ("alloc", BASE + 256, 100), ("memory_info", None, 512),
            ("free_requested", BASE, 4), ("memory_info", None, 256), ("mark", None, None)])
        self.assertEqual(events[3]["stack"], [{"function": "step", "file": "train.py", "line": 12},
                                              {"function": "train", "file": "", "line": 0}])

    def test_content_tells_the_format(self):
        plain = self.answer("export", self.file("a", profile()), "--format", "csv").stdout
        packed = self.answer("export", self.file("b.txt", gzip.compress(profile())), "--format", "csv").stdout
        self.assertEqual(packed, plain)

    def test_verify_of_an_impossible_history_is_a_no(self):
        self.assertIs(self.document("verify", self.file("a.xplane.pb", profile()))["exact"], True)
        impossible = self.file("b.xplane.pb", profile(second_offset=4096))
        verification = self.document("verify", impossible, code=1)
        self.assertIs(verification["exact"], False)
        self.assertIsNotNone(verification["devices"][0]["first_divergence"])

    def test_truncated_profiles_are_refused(self):
        whole = profile()
        for length in (12, len(whole) // 2, len(whole) - 1):
            with self.subTest(length):
                path = self.file("cut.xplane.pb", whole[:length])
                self.assert_refused(run("info", path, memory_limit=2 << 30), path)

    def test_compressed_bomb_is_refused(self):
        plane = b"\x12\x09/host:CPU" + chunk(3, b"\x22\x00" * (30 << 20)) + b"\x22\x06\x08\x00\x12\x02\x12\x00"
        plane += chunk(4, number(1, 0) + chunk(2, chunk(2, "MemoryAllocation")))
        path = self.file("bomb.xplane.pb.gz", gzip.compress(chunk(1, plane), 1))
        self.assert_refused(run("info", path, memory_limit=1 << 29), path)

    def test_profile_without_memory_events_is_refused(self):
        path = self.file("empty.xplane.pb", b"\x0a\x0b\x12\x09/host:CPU")
        self.assert_refused(run("info", path), path, "host_tracer_level")


if __name__ == "__main__":
    unittest.main()
