# SPDX-License-Identifier: Apache-2.0
"""The JSON documents: exactly the keys of docs/command-line.md, so that scripts built on them keep working."""

import pickle
import unittest

from program import SAMPLES, ProgramTest
from snapshot import snapshot

SAMPLE = SAMPLES / "gpt_default.reel"
POLICIES = "bound.live,cuda.malloc,torch.native,fit.best"

LOSSES = {"ring_full", "stack_table_full", "hook_refused", "unknown_actions", "unmatched_frees", "preexisting_allocations",
          "began_late", "history_overflowed", "skipped", "folded_events", "folded_until_ns", "folded_left_out", "damaged_packets", "damaged_bytes", "truncated_bytes", "unknown_packets",
          "unknown_events", "synthetic"}
HISTORY = {"device", "heap", "allocations", "frees", "failed_allocations", "peak_live_bytes", "peak_live_event",
           "folded_peak_live_bytes", "end_live_bytes", "end_live_allocations", "peak_reserved_bytes", "peak_reserved_event", "end_reserved_bytes"}
METRICS = {"policy", "params", "peak_live_bytes", "peak_live_event", "peak_allocated_bytes", "peak_allocated_event",
           "peak_reserved_bytes", "peak_reserved_event", "end_reserved_bytes", "overhead", "fragmentation_at_peak",
           "external_fragmentation_max", "internal_waste", "stranded_stream_bytes", "stranded_stream_event",
           "stranded_pool_bytes", "stranded_pool_event", "unusable", "address_stability", "failed_allocations", "first_failure", "driver_calls", "capacity_bytes",
           "seconds", "events_per_second", "device", "heap"}
FAILURE = {"event", "requested_bytes", "live_bytes", "reserved_bytes", "capacity_bytes", "free_bytes",
           "largest_free_bytes"}
OOM = {"levels", "least_capacity_bytes", "device_bytes", "event", "device", "heap", "time_ns", "verdict", "explanation", "requested_bytes", "needed_bytes", "stream", "pool",
       "size_class", "live_bytes", "allocated_bytes", "pending_bytes", "reserved_bytes", "capacity_bytes",
       "device_free_bytes", "free_bytes", "holes", "hostage_bytes", "lane_free_bytes", "lane_largest_free_bytes",
       "largest_free_bytes", "stranded_stream_bytes", "stranded_pool_bytes", "fragmentation_index", "own_limit", "hole",
       "largest_hole", "survivors", "serve_only", "ends_history", "rest_of_step", "held_outside_bytes", "stack"}
GROUPS = {"device", "heap", "by", "events", "bytes", "count", "groups"}


class Documents(ProgramTest):
    def test_info(self):
        info = self.document("info", SAMPLE)
        self.assertEqual(set(info), {"schema", "source", "source_name", "producer", "host", "process", "start_ns", "machine",
                                     "byte_order", "page_size", "environment", "versions", "events", "kinds", "recording", "devices",
                                     "time_span_ns", "stacks", "lost_events", "losses", "bytes", "bytes_per_event"})
        self.assertEqual(info["schema"], "memreel.info/1")
        self.assertEqual((info["machine"], info["byte_order"], info["page_size"]), (None, None, None), "recorded before headers said so")
        self.assertEqual(set(info["losses"]), LOSSES)
        for device in info["devices"]:
            self.assertEqual(set(device), HISTORY | {"level"})
        self.assertEqual(sum(info["kinds"].values()), info["events"])
        self.assertEqual(info["bytes"], SAMPLE.stat().st_size)
        self.assertAlmostEqual(info["bytes_per_event"], info["bytes"] / info["events"], places=3)

    def test_replay(self):
        replay = self.document("replay", SAMPLE, "--policy", POLICIES)
        self.assertEqual(set(replay), {"schema", "trace", "level", "events", "losses", "policies", "not_replayed", "stopped_by",
                                       "torch_rules"})
        self.assertEqual(replay["schema"], "memreel.replay/1")
        self.assertEqual(replay["level"], "framework")
        self.assertEqual([policy["policy"] for policy in replay["policies"]], POLICIES.split(","))
        for policy in replay["policies"]:
            self.assertEqual(set(policy), METRICS | {"devices", "device_totals"})
            self.assertEqual(set(policy["driver_calls"]), {"malloc", "free", "map", "unmap", "sync", "malloc_async",
                                                            "free_async", "malloc_shared", "free_shared"})
            self.assertLessEqual(policy["peak_live_bytes"], policy["peak_reserved_bytes"])
            for device in policy["devices"]:
                self.assertEqual(set(device), METRICS)
            worst = max(policy["devices"], key=lambda device: device["peak_reserved_bytes"])
            self.assertEqual(policy["device"], worst["device"])
            self.assertEqual(policy["peak_reserved_bytes"], worst["peak_reserved_bytes"])

    def test_options_may_stand_anywhere(self):
        expected = ["bound.live", "fit.best"]
        for arguments in ((SAMPLE, "--policy", "bound.live", "--policy", "fit.best", "--capacity", "8GiB"),
                          ("--policy", "bound.live", "--policy", "fit.best", SAMPLE, "--capacity", "8GiB"),
                          ("--capacity", "8GiB", "--policy", "bound.live,fit.best", SAMPLE)):
            with self.subTest(arguments):
                replay = self.document("replay", *arguments)
                self.assertEqual([policy["policy"] for policy in replay["policies"]], expected)

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
            self.assertEqual(set(policy["first_failure"]), FAILURE)
            self.assertGreater(policy["min_capacity_bytes"], 4 << 30)
            self.assertLessEqual(policy["peak_reserved_bytes"], 4 << 30)

    def test_sizes_of_every_spelling_mean_the_same(self):
        peaks = set()
        for size in ("4GiB", "4294967296", "4096MiB"):
            replay = self.document("replay", SAMPLE, "--policy", "fit.best", "--capacity", size)
            peaks.add((replay["policies"][0]["peak_reserved_bytes"], replay["policies"][0]["failed_allocations"]))
        self.assertEqual(len(peaks), 1)

    def test_least_capacity_is_the_least(self):
        def failures(capacity):
            replay = self.document("replay", SAMPLE, "--policy", "torch.native", "--capacity", capacity)
            return replay["policies"][0]["failed_allocations"], replay["policies"][0]["min_capacity_bytes"]
        _, least = failures("4GiB")
        self.assertEqual(failures(least)[0], 0)
        self.assertGreater(failures(least - 1)[0], 0)

    def test_verify(self):
        verification = self.document("verify", SAMPLE)
        self.assertEqual(set(verification), {"schema", "trace", "exact", "losses", "devices"})
        self.assertEqual(verification["schema"], "memreel.verify/1")
        for device in verification["devices"]:
            self.assertEqual(set(device), {"device", "policy", "params", "rules", "exact", "allocations", "address_matches",
                                           "segment_events", "segment_matches", "peak_reserved_bytes",
                                           "recorded_peak_reserved_bytes", "first_divergence"})

    def test_verify_of_an_impossible_history_is_a_no(self):
        sound = self.file("sound.pickle", pickle.dumps(snapshot()))
        self.assertIs(self.document("verify", sound)["exact"], True)
        impossible = self.file("impossible.pickle", pickle.dumps(snapshot(second_offset=4096)))
        verification = self.document("verify", impossible, code=1)
        self.assertIs(verification["exact"], False)
        self.assertIsNotNone(verification["devices"][0]["first_divergence"])

    def test_report(self):
        report = self.document("report", SAMPLE, "--allocations")
        self.assertEqual(set(report), {"schema", "verdict", "summary", "live_at_peak", "live_at_end", "peaks", "host_memory", "device_trees", "private_pools", "holders", "pool_errors", "leaks",
                                       "leak_causes", "leak_steps", "suppressed", "fragmentation", "failed_requests",
                                       "retried_requests", "oom_setting", "ooms"})
        self.assertEqual(report["schema"], "memreel.report/1")
        self.assertEqual(set(report["summary"]), {"trace", "source", "events", "losses", "devices"})
        for device in report["summary"]["devices"]:
            self.assertEqual(set(device), HISTORY | {"memory_summary"})
        for heap in report["live_at_peak"] + report["live_at_end"]:
            self.assertEqual(set(heap), GROUPS | {"categories"})
            self.assertEqual(sum(group["bytes"] for group in heap["groups"]), heap["bytes"])
            for group in heap["groups"]:
                self.assertEqual(set(group), {"label", "bytes", "count", "stack", "allocations"})
                self.assertEqual(len(group["allocations"]), group["count"])

    def test_report_names_each_failed_request(self):
        report = self.document("report", SAMPLES / "oom_default.reel")
        info = self.document("info", SAMPLES / "oom_default.reel")
        self.assertEqual(report["failed_requests"], info["kinds"]["alloc_failed"])
        self.assertEqual(len(report["ooms"]), info["kinds"]["alloc_failed"])
        for failure in report["ooms"]:
            self.assertEqual(set(failure), OOM)
            for hole in filter(None, (failure["hole"], failure["largest_hole"])):
                self.assertEqual(set(hole), {"bytes", "stream", "pool", "size_class", "segment", "blocks"})
                self.assertIn(hole["bytes"], [block["bytes"] for block in hole["blocks"] if block["use"] == "free"])

    def test_report_of_fragmentation(self):
        document = self.document("report", SAMPLE, "--fragmentation")
        self.assertEqual(set(document), {"schema", "verdict", "summary", "fragmentation"})
        for heap in document["fragmentation"]["heaps"]:
            self.assertEqual(set(heap), {"device", "heap", "at_peak", "worst", "growth", "pinned_segments", "segments",
                                         "sites", "lanes", "size_classes", "over_time"})
            peak = heap["at_peak"]
            self.assertEqual(set(peak), {"events", "time_ns", "reserved_bytes", "allocated_bytes", "requested_bytes",
                                         "pending_bytes", "free_bytes", "largest_free_bytes", "hostage_bytes",
                                         "fragmentation"})
            self.assertEqual(peak["reserved_bytes"], document["summary"]["devices"][0]["peak_reserved_bytes"])
            self.assertEqual(sum(lane["free_bytes"] for lane in heap["lanes"]), peak["free_bytes"])
            self.assertEqual(sum(segment["hostage_bytes"] for segment in heap["segments"]), peak["hostage_bytes"])
            for segment in heap["segments"]:
                self.assertLessEqual(len(segment["pins"]), segment["pin_count"])
        self.assertEqual(set(document["fragmentation"]), {"heaps", "remedies", "step_plan"})
        remedies = document["fragmentation"]["remedies"]
        self.assertEqual(set(remedies), {"peak_reserved_bytes", "not_tried", "tried"})
        best = remedies["tried"][0]
        self.assertEqual(set(best), {"kind", "setting", "policy", "peak_reserved_bytes", "gives_back_bytes",
                                     "failed_allocations", "driver_calls"})
        replayed = self.document("replay", SAMPLE, "--policy", best["policy"])["policies"][0]
        self.assertEqual(replayed["peak_reserved_bytes"], best["peak_reserved_bytes"])

    def test_settings_that_survive_are_confirmed_by_replay(self):
        file = SAMPLES / "oom_default.reel"
        first = self.document("report", file, "--oom")["ooms"][0]
        self.assertEqual(first["verdict"], "fragmentation")
        self.assertTrue(first["survivors"])
        for survivor in first["survivors"]:
            replayed = self.document("replay", file, "--policy", survivor["policy"])["policies"][0]
            failure = replayed["first_failure"]
            self.assertTrue(failure is None or failure["event"] > first["event"], survivor)


if __name__ == "__main__":
    unittest.main()
