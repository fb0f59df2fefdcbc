# SPDX-License-Identifier: Apache-2.0
"""A trace matches what the program did with memory, event by event."""

import unittest

from recorded import PROGRAM, RecordTest


class Events(RecordTest):
    def recorded(self, *mode, **arguments):
        process = self.record_program(*mode, **arguments)
        self.assertIn("none lost", process.stderr)
        self.assertRegex(process.stderr, r"recording overhead about [\d.]+ %")
        return self.assert_equals_truth()

    def test_one_thread(self):
        events = self.recorded("single", 2000)
        self.assertGreater(len(events), 3000)
        self.assertEqual({row["device"] for row in events if row["kind"] != "memory_info"}, {0})
        # Of one thread: the sampler's may draw its number before, and look at the clock after, the program's.
        times = [row["time_ns"] for row in events if row["kind"] != "memory_info"]
        self.assertEqual(times, sorted(times))

    def test_threads_that_free_what_others_allocated(self):
        for delay in (0, 20):  # microseconds inside each call: what one thread frees, others get meanwhile
            with self.subTest(delay):
                self.recorded("threads", 8, 200, environment=self.environment(FAKE_CUDA_DELAY_US=delay))
                self.trace().unlink()
                self.truth_file.unlink()

    def test_many_threads_one_after_the_other(self):
        self.recorded("short-threads", 10_000)

    def test_every_kind_of_memory(self):
        self.recorded("kinds")

    def test_failures(self):
        events = self.recorded("failures")
        failed = [row for row in events if row["kind"] == "alloc_failed"]
        self.assertEqual([row["size"] for row in failed], [1 << 50, 1 << 49])
        for row in failed:
            self.assertTrue(row["stack"])

    def test_failures_in_the_middle(self):
        self.recorded("single", 300, environment=self.environment(FAKE_CUDA_FAIL="cuMemAlloc_v2:100"))
        self.assertEqual([row["kind"] for row in self.events()].count("alloc_failed"), 1)

    def test_out_of_memory(self):
        errors = self.record_program("leak", 2000, environment=self.environment(FAKE_CUDA_MEMORY=1 << 20)).stderr
        self.assertRegex(errors, r"\d+ failed allocations")
        self.assert_equals_truth()

    def test_pools(self):
        events = self.recorded("pools", 400)
        pools = {tuple(row["pool"]) for row in events if row["kind"] == "alloc"}
        self.assertEqual(len(pools), 2)

    def test_virtual_memory(self):
        self.recorded("vmm")

    def test_two_devices(self):
        events = self.recorded("devices", 300, environment=self.environment(FAKE_CUDA_GPUS=2))
        self.assertEqual({row["device"] for row in events if row["kind"] == "alloc"}, {0, 1})

    def test_captured_allocations_are_none(self):
        events = self.recorded("capture")
        self.assertEqual([row["size"] for row in events if row["kind"] == "alloc"], [1 << 20])

    def test_a_context_takes_its_memory_along(self):
        self.recorded("contexts")

    def test_any_number_of_contexts(self):
        for backend in ("cupti", "interpose"):
            with self.subTest(backend):
                errors = self.record_program("contexts", 2000, options=["--backend", backend, "-o", f"{backend}.reel"]).stderr
                self.assertIn(" 0 B live at exit", errors)
                kinds = self.document("info", self.directory / f"{backend}.reel")["kinds"]
                self.assertEqual((kinds["alloc"], kinds["free_requested"]), (6000, 6000))

    def test_what_is_left_at_exit_stays(self):
        errors = self.record_program("leak", 300).stderr
        live = {}
        for line in self.truth():
            if line.event == "alloc":
                live[line.address] = line.size
            else:
                del live[line.address]
        device = self.document("info", self.trace())["devices"][0]
        self.assertEqual((device["end_live_allocations"], device["end_live_bytes"]), (len(live), sum(live.values())))
        self.assertNotIn(" 0 B live at exit", errors)

    def test_stacks(self):
        events = self.recorded("nested", 20)
        stack = next(row["stack"] for row in events if row["kind"] == "alloc")
        self.assertGreater(len(stack), 20)

    def test_no_stacks(self):
        events = self.recorded("single", 10, options=["--depth", 0])
        self.assertFalse(any(row.get("stack") for row in events))

    def test_several_gpus_and_samples_of_memory(self):
        self.record_program("threads", 4, 50, options=["--sample-ms", 1],
                            environment=self.environment(FAKE_CUDA_DELAY_US=500, FAKE_CUDA_MEMORY=1 << 30))
        samples = [row for row in self.events() if row["kind"] == "memory_info"]
        of_devices = [row for row in samples if row["device"] >= 0]
        self.assertTrue(of_devices)
        for row in of_devices:
            self.assertEqual(row["size"] + row["value"], 1 << 30)
        of_process = [row for row in samples if row["device"] < 0]
        self.assertTrue(of_process)
        for row in of_process:
            self.assertEqual((row["size"] % (1 << 20), row["value"]), (0, 0))
            self.assertGreater(row["size"], 1 << 20)


class Losses(RecordTest):
    def test_a_full_ring_drops_and_counts(self):
        process = self.record(PROGRAM, "race", 4, 20_000, options=["--ring-events", 64, "--depth", 0])
        info = self.document("info", self.trace())
        self.assertEqual(info["kinds"].get("alloc", 0) + info["kinds"].get("free_requested", 0) + info["lost_events"],
                         4 * 2 * 20_000)
        self.assertGreater(info["lost_events"], 0)
        self.assertRegex(process.stderr, r"[\d,]+ lost")

    def test_a_full_ring_blocks(self):
        self.record(PROGRAM, "race", 4, 20_000, options=["--ring-events", 64, "--when-full", "block", "--depth", 0])
        info = self.document("info", self.trace())
        self.assertEqual((info["kinds"]["alloc"], info["kinds"]["free_requested"], info["lost_events"]),
                         (80_000, 80_000, 0))


if __name__ == "__main__":
    unittest.main()
