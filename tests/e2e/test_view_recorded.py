# SPDX-License-Identifier: Apache-2.0
"""Data that only memreel's own recordings have, in the window: samples of the device beside those of its pools, and a flight
recorder's sums over older events."""

import shutil
import unittest

from recorded import PROGRAM, RecordTest
from test_record_flight import FLIGHT_PROGRAM, Flight
from viewing import ViewTest

GIB = 1 << 30


class Samples(RecordTest, ViewTest):
    def test_what_pools_say_of_themselves_is_not_taken_for_the_device(self):
        self.record(PROGRAM, "pools", options=["--sample-ms", 1],
                    environment=self.environment(FAKE_CUDA_DELAY_US=2000, FAKE_CUDA_MEMORY=GIB))
        events = self.events()
        samples = [event["event"] for event in events if event["kind"] == "memory_info"]
        of_device = [number for number in samples if "pool" not in events[number]]
        of_pools = [number for number in samples if number > of_device[0] and "pool" in events[number]]
        self.assertGreater(len(of_pools), 10)
        for cursor in (of_pools[0] + 1, of_pools[len(of_pools) // 2] + 1, of_pools[-1] + 1):
            last = max(number for number in of_device if number < cursor)
            held = {}
            for event in events[:last]:
                if event["kind"] == "alloc":
                    held[event["allocation"]] = event["size"]
                elif event["kind"] == "free_requested":
                    held.pop(event["allocation"], None)
            view = self.open(self.trace(), "--at", f"event:{cursor - 1}")
            shown = view.settled()
            self.assertEqual(shown["cursor"], cursor)
            self.assertEqual(shown["device_free"], events[last]["value"])
            self.assertEqual(shown["unattributed"], events[last]["size"] - sum(held.values()))
            self.assertTrue({"device free", "limit", "unattributed"} <= shown["places"].keys())
            self.end(view)


class Names(RecordTest, ViewTest):
    def test_native_frames_without_names_are_places_in_modules(self):
        program = self.directory / "program"
        shutil.copy(PROGRAM, program)
        self.record(program, "pools")
        program.unlink()  # as on another machine: nothing is left that names its frames
        view = self.open(self.trace())
        view.click_on("allocations/first row")
        shown = view.click_on("inspector/copy stack")
        lines = shown["clipboard"].splitlines()
        self.assertTrue(lines)
        self.assertTrue(all(lines), "no line is blank")
        self.assertTrue(any(line.startswith("program+0x") for line in lines), lines)
        self.assertIn("inspector/unnamed", shown["places"], "and what names them is said")
        self.end(view)


class FlightRecorder(RecordTest, ViewTest):
    def test_what_is_summed_up_is_on_the_timeline_and_weighed(self):
        churn = "churn", 300_000, 20_000, 1
        self.record(FLIGHT_PROGRAM, *churn, options=["--when-full", "block", "-o", "plain.reel"])
        flight = Flight(self, *churn)
        flight.said()
        flight.go_on()
        flight.finish()
        allocated = sum(event["size"] for event in self.events(self.directory / "plain.reel") if event["kind"] == "alloc")
        trace = self.directory / "run.reel"
        losses, events = self.losses(trace), self.events(trace)
        until = losses["folded_until_ns"]
        kept = {event["allocation"]: event["size"] for event in events if event["kind"] == "alloc" and event["time_ns"] <= until}
        later = sum(event["size"] for event in events if event["kind"] == "alloc" and event["time_ns"] > until)

        view = self.open(trace)
        shown = view.settled()
        folded = shown["folded"]
        self.assertEqual((folded["events"], folded["until"]), (losses["folded_events"], until))
        self.assertEqual(folded["course"][-1], [until, sum(kept.values())], "what is live when single events begin")
        self.assertEqual(folded["course"][0][1], 0, "nothing was, when the recording began")
        self.assertFalse(folded["told"])
        self.assertTrue(view.point("timeline/folded", 0.5)["folded"]["told"])
        # Everything allocated: from the sums before the line, from events after it.
        view.key("2")
        self.assertEqual(view.click_on("weigh/summed up in view")["weighed_bytes"], allocated - later)
        self.assertIsNotNone(view.click_on("stacks/first row")["stack"])
        view.key("3")
        flame = view.click_on("weigh/summed up in view")["flame"]
        self.assertEqual(sum(node["bytes"] for node in flame if node["depth"] == 1), allocated - later)
        # A later view has no sums.
        view.key("2")
        begin, end = shown["span"]
        self.assertLess(begin, until)
        view.hands("keydown", "shift")
        view.press("timeline", (until - begin) / (end - begin) + 0.05)
        view.point("timeline", 0.999)
        view.release()
        view.hands("keyup", "shift")
        self.assertNotIn("stacks/first row", view.click_on("weigh/summed up in the range")["places"])
        self.end(view)

    def test_other_recordings_have_none(self):
        self.record(FLIGHT_PROGRAM, "churn", 3_000, 100, 1, options=["--when-full", "block"])
        view = self.open(self.trace())
        shown = view.settled()
        self.assertEqual((shown["folded"]["events"], shown["folded"]["course"]), (0, []))
        self.assertNotIn("timeline/folded", shown["places"])
        view.key("2")
        self.assertNotIn("weigh/summed up in view", view.settled()["places"])
        self.end(view)


if __name__ == "__main__":
    unittest.main()
