"""The JSON documents: exactly the published keys, so that scripts built on them keep working."""

import unittest

from program import SAMPLES, ProgramTest
from snapshot import snapshot
import pickle

SAMPLE = SAMPLES / "gpt_default.reel"
POLICIES = "bound.live,cuda.malloc,torch.native,fit.best"

METRICS = {"peak_live_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_event", "end_reserved_bytes",
           "overhead", "fragmentation_at_peak", "external_fragmentation_max", "failed_allocations", "first_failure",
           "driver_calls", "seconds", "events_per_second", "device"}


class Documents(ProgramTest):
    def test_info(self):
        info = self.document("info", SAMPLE)
        self.assertEqual(set(info), {"schema", "events", "kinds", "devices", "time_span_ns", "stacks", "lost_events", "bytes",
                                     "bytes_per_event"})
        self.assertEqual(info["schema"], "memreel.info/1")
        self.assertEqual(sum(info["kinds"].values()), info["events"])
        self.assertEqual(info["bytes"], SAMPLE.stat().st_size)
        self.assertAlmostEqual(info["bytes_per_event"], info["bytes"] / info["events"], places=3)

    def test_replay(self):
        replay = self.document("replay", SAMPLE, "--policy", POLICIES)
        self.assertEqual(set(replay), {"schema", "trace", "level", "events", "policies"})
        self.assertEqual(replay["schema"], "memreel.replay/1")
        self.assertEqual(replay["level"], "framework")
        self.assertEqual([policy["policy"] for policy in replay["policies"]], POLICIES.split(","))
        for policy in replay["policies"]:
            self.assertEqual(set(policy), METRICS | {"policy", "params", "devices"})
            self.assertEqual(set(policy["driver_calls"]), {"malloc", "free", "map", "unmap", "sync"})
            self.assertLessEqual(policy["peak_live_bytes"], policy["peak_reserved_bytes"])
            for device in policy["devices"]:
                self.assertLessEqual(METRICS, set(device))
            worst = max(policy["devices"], key=lambda device: device["peak_reserved_bytes"])
            self.assertEqual(policy["device"], worst["device"])
            self.assertEqual(policy["peak_reserved_bytes"], worst["peak_reserved_bytes"])

    def test_replay_is_the_same_every_time_but_for_its_speed(self):
        def timeless(document):
            if isinstance(document, dict):
                return {key: timeless(value) for key, value in document.items()
                        if key not in ("seconds", "events_per_second")}
            if isinstance(document, list):
                return [timeless(value) for value in document]
            return document
        first, second = (self.document("replay", SAMPLE, "--policy", POLICIES) for _ in range(2))
        self.assertEqual(timeless(first), timeless(second))

    def test_replay_names_the_first_failure_at_a_capacity(self):
        replay = self.document("replay", SAMPLE, "--policy", "bound.live,torch.native", "--capacity", "4GiB")
        for policy in replay["policies"]:
            self.assertGreater(policy["failed_allocations"], 0)
            self.assertIsNotNone(policy["first_failure"])
            self.assertLessEqual(policy["peak_reserved_bytes"], 4 << 30)

    def test_sizes_of_every_spelling_mean_the_same(self):
        peaks = set()
        for size in ("4GiB", "4294967296", "4096MiB"):
            replay = self.document("replay", SAMPLE, "--policy", "fit.best", "--capacity", size)
            peaks.add((replay["policies"][0]["peak_reserved_bytes"], replay["policies"][0]["failed_allocations"]))
        self.assertEqual(len(peaks), 1)

    def test_verify(self):
        verification = self.document("verify", SAMPLE)
        self.assertEqual(set(verification), {"schema", "exact", "devices"})
        self.assertEqual(verification["schema"], "memreel.verify/1")
        for device in verification["devices"]:
            self.assertEqual(set(device), {"device", "policy", "allocations", "address_matches", "segment_events",
                                           "segment_matches", "peak_reserved_bytes", "recorded_peak_reserved_bytes",
                                           "first_divergence"})

    def test_verify_of_an_impossible_history_is_a_no(self):
        sound = self.file("sound.pickle", pickle.dumps(snapshot()))
        self.assertIs(self.document("verify", sound)["exact"], True)
        impossible = self.file("impossible.pickle", pickle.dumps(snapshot(second_offset=4096)))
        verification = self.document("verify", impossible, code=1)
        self.assertIs(verification["exact"], False)
        self.assertIsNotNone(verification["devices"][0]["first_divergence"])

    def test_report(self):
        report = self.document("report", SAMPLE)
        self.assertEqual(set(report), {"schema", "summary", "leaks", "fragmentation", "ooms"})
        self.assertEqual(report["schema"], "memreel.report/1")


if __name__ == "__main__":
    unittest.main()
