# SPDX-License-Identifier: Apache-2.0
"""memreel tune: the advice, in text and as a document."""

import pickle
import unittest

import histories
from program import SAMPLES, ProgramTest, run
from snapshot import BASE, Recorder, snapshot
from test_documents import FAILURE, LOSSES

SAMPLE = SAMPLES / "gpt_default.reel"

CALLS = {"malloc", "free", "map", "unmap", "sync", "malloc_async", "free_async", "malloc_shared", "free_shared"}
OUTCOME = {"policy", "params", "peak_live_bytes", "peak_reserved_bytes", "end_reserved_bytes", "failed_allocations",
           "first_failure", "min_capacity_bytes", "driver_calls", "driver_seconds", "device", "devices", "late_start_range_bytes"}
SAVED = {"saved_bytes", "saved_share"}
DEVICE = {"device", "peak_live_bytes", "peak_reserved_bytes", "peak_reserved_event", "end_reserved_bytes",
          "fragmentation_at_peak", "internal_waste", "failed_allocations", "first_failure", "driver_calls"}


class Document(ProgramTest):
    def check(self, outcome, keys):
        self.assertEqual(set(outcome), OUTCOME | keys)
        self.assertEqual(set(outcome["driver_calls"]), CALLS)
        for device in outcome["devices"]:
            self.assertEqual(set(device), DEVICE)
            self.assertLessEqual(device["peak_live_bytes"], device["peak_reserved_bytes"])
        worst = max(outcome["devices"], key=lambda device: device["peak_reserved_bytes"])
        self.assertEqual(outcome["peak_reserved_bytes"], worst["peak_reserved_bytes"])

    def test_keys(self):
        tune = self.document("tune", SAMPLE, "--allocators", "fit.best,cuda.malloc")
        self.assertEqual(set(tune), {"schema", "trace", "losses", "torch_rules", "capacity_bytes", "beside_bytes", "steps", "step_mark", "baseline",
                                     "candidates", "settings_tried", "settings_given_up", "left_out", "stopped_by", "allocators",
                                     "what_if", "recommended", "export", "verdict", "settings_ignored"})
        self.assertEqual((tune["left_out"], tune["stopped_by"]), (0, None))
        self.assertEqual(tune["schema"], "memreel.tune/1")
        self.assertEqual(tune["settings_ignored"], [])
        self.assertEqual(set(tune["losses"]), LOSSES)
        self.check(tune["baseline"], {"setting", "recorded_peak_reserved_bytes"})
        self.assertGreater(len(tune["candidates"]), 10)
        for candidate in tune["candidates"]:
            self.check(candidate, {"setting"} | SAVED)
            self.assertEqual(candidate["saved_bytes"],
                             tune["baseline"]["peak_reserved_bytes"] - candidate["peak_reserved_bytes"])
        self.assertEqual({allocator["policy"] for allocator in tune["allocators"]}, {"fit.best", "cuda.malloc"})
        for allocator in tune["allocators"]:
            self.check(allocator, {"setting"} | SAVED)
            self.assertIsNone(allocator["setting"])
        for answer in tune["what_if"]:
            self.check(answer, {"what_if", "empty_cache_calls"} | SAVED)

    def test_it_stops_when_the_time_is_up_and_says_so(self):
        arguments = ("tune", SAMPLE, "--allocators", "fit.best", "--seconds", "1e-9")
        tune = self.document(*arguments)
        self.assertEqual((tune["candidates"], tune["allocators"], tune["stopped_by"]), ([], [], "seconds"))
        self.assertGreater(tune["left_out"], 10)
        self.assertGreater(tune["baseline"]["peak_reserved_bytes"], 0)
        self.assertIn("(--seconds)", self.answer(*arguments).stdout)
        self.assert_refused(run("replay", SAMPLE, "--seconds", "1e-9"), "--seconds")

    def test_baseline_is_what_was_recorded(self):
        tune = self.document("tune", SAMPLE)
        recorded = histories.TRUTH["gpt_default"]["devices"]["0"]["peak_reserved_bytes"]
        self.assertEqual(tune["baseline"]["peak_reserved_bytes"], recorded)
        self.assertEqual(tune["baseline"]["recorded_peak_reserved_bytes"], recorded)
        self.assertEqual(tune["baseline"]["setting"], "")

    def test_a_setting_that_not_every_release_has_must_save_five_percent_more(self):
        tune = self.document("tune", SAMPLES / "leak.reel")
        least = min(tune["candidates"], key=lambda candidate: candidate["peak_reserved_bytes"])
        self.assertIn("large_segment_size_mb", least["setting"])  # PyTorch 2.11
        self.assertEqual(tune["recommended"], "expandable_segments:True")
        self.assertLess(least["saved_share"] - tune["candidates"][0]["saved_share"], 0.05)

    def test_a_candidate_is_what_replay_says_of_it(self):
        tune = self.document("tune", SAMPLE)
        candidate = next(c for c in tune["candidates"] if c["setting"] == "expandable_segments:True")
        replay = self.document("replay", SAMPLE, "--policy", "torch.native{expandable_segments=True}")["policies"][0]
        for key in ("peak_reserved_bytes", "end_reserved_bytes", "driver_calls", "params"):
            self.assertEqual(candidate[key], replay[key], key)

    def test_best_comes_first_and_is_recommended(self):
        tune = self.document("tune", SAMPLE)
        best = tune["candidates"][0]
        self.assertEqual(tune["recommended"], best["setting"])
        self.assertEqual(tune["recommended"], "expandable_segments:True")
        self.assertEqual(tune["export"], "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
        for candidate in tune["candidates"]:
            self.assertLessEqual(best["peak_reserved_bytes"], 1.01 * candidate["peak_reserved_bytes"])

    def test_every_run_gives_the_same_document(self):
        self.assertEqual(self.document("tune", SAMPLE), self.document("tune", SAMPLE))

    def test_capacity(self):
        tune = self.document("tune", SAMPLE, "--capacity", "5GiB")
        self.assertEqual(tune["capacity_bytes"], 5 << 30)
        self.assertIsNone(tune["recommended"])
        self.assertIn("whatever the allocator", tune["verdict"])
        self.assertEqual(set(tune["baseline"]["first_failure"]), FAILURE)
        self.assertGreater(tune["baseline"]["min_capacity_bytes"], 5 << 30)
        for candidate in tune["candidates"][:5]:
            self.assertGreater(candidate["min_capacity_bytes"], 5 << 30)

        least = self.document("tune", SAMPLE, "--capacity", "5.55GiB")
        self.assertGreater(least["baseline"]["failed_allocations"], 0)
        self.assertIsNotNone(least["recommended"])
        best = least["candidates"][0]
        self.assertEqual(best["failed_allocations"], 0)
        self.assertLessEqual(best["min_capacity_bytes"], least["capacity_bytes"])

    def test_what_if(self):
        questions = ("empty_cache@step", "empty_cache@every:4", "empty_cache@every:5000events", "empty_cache@oom",
                     "no-empty_cache", "fit.best")
        arguments = [argument for question in questions for argument in ("--what-if", question)]
        tune = self.document("tune", *arguments, SAMPLE)
        self.assertEqual(tuple(answer["what_if"] for answer in tune["what_if"]), questions)
        calls = [answer["empty_cache_calls"] for answer in tune["what_if"]]
        self.assertEqual(calls[0], tune["steps"])
        self.assertEqual(calls[1], tune["steps"] // 4)
        self.assertEqual(calls[3:], [0, 0, 0])
        step, _, _, _, without, _ = tune["what_if"]
        self.assertGreater(step["driver_calls"]["free"], 0)
        self.assertEqual(without["driver_calls"], tune["baseline"]["driver_calls"])

    def test_several_devices_get_one_setting(self):
        history = histories.path("two_gpus")
        if history is None:
            self.skipTest("two_gpus is not there")
        tune = self.document("tune", history)
        self.assertEqual(len(tune["baseline"]["devices"]), 2)
        self.assertEqual(len(tune["candidates"][0]["devices"]), 2)
        self.assertEqual(tune["recommended"], "expandable_segments:True")

    def test_steps_that_the_program_does_not_mark(self):
        leak = SAMPLES / "leak.reel"
        steps = self.document("report", leak, "--leaks")["leak_steps"][0]["steps"]
        tune = self.document("tune", leak, "--what-if", "empty_cache@step")
        self.assertEqual((tune["steps"], tune["step_mark"]), (steps, ""))
        self.assertEqual([(answer["what_if"], answer["empty_cache_calls"]) for answer in tune["what_if"]], [("empty_cache@step", steps)])
        self.assertIn(f"What if ({steps} steps, each a backward pass)", self.answer("tune", leak).stdout)

    def test_recorded_failures_are_a_capacity(self):
        tune = self.document("tune", SAMPLES / "oom_default.reel")
        self.assertGreater(tune["capacity_bytes"], 0)
        self.assertGreater(tune["baseline"]["failed_allocations"], 0)
        self.assertIsNone(self.document("tune", SAMPLES / "oom_default.reel", "--capacity", "unlimited")["capacity_bytes"])


class Text(ProgramTest):
    def test_says_what_to_set_and_what_it_saves(self):
        text = self.answer("tune", SAMPLE).stdout
        self.assertIn("\nexport PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n", text)
        self.assertRegex(text, r"It saves \S+ MiB, 3\.7 % of the peak\.\s+Driver calls:\s+106\s+\(\S+ ms\)\s+before,\s+\d+\s+\(\S+ ms\)\s+with it")
        self.assertRegex(text, r"empty_cache@step: (not )?worth calling")
        for line in text.splitlines():
            self.assertEqual(line, line.rstrip())

    def test_what_only_a_newer_release_has_is_said_before_it_is_copied(self):
        recorder, mib = Recorder(), 1 << 20
        recorder.add("segment_alloc", BASE, 20 * mib)
        for i in range(5):
            recorder.add("alloc", BASE + 3 * i * mib, 3 * mib)
        path = self.file("old.pickle", pickle.dumps(snapshot() | {"segments": [], "device_traces": [recorder.entries],
                                                                  "external_annotations": []}))
        text = self.answer("tune", path).stdout
        self.assertIn("\nwith PyTorch 2.11 or newer only:\n\nexport PYTORCH_CUDA_ALLOC_CONF=large_segment_size_mb:16\n", text)
        self.assertRegex(text, r"(?m) large_segment_size_mb:16 \(2.11\+\)$")
        self.assertRegex(self.answer("report", path, "--fragmentation").stdout, r"(?m) large_segment_size_mb:16 \(2.11\+\)$")
        # The program's own settings show that it has such a release.
        text = self.answer("tune", SAMPLES / "mempools_s93428_segment.pickle.xz").stdout
        self.assertIn("\nexport PYTORCH_CUDA_ALLOC_CONF='large_segment_size_mb:32,", text)
        for text in (text, self.answer("tune", SAMPLE).stdout):
            self.assertNotIn("or newer only", text)

    def test_calls_that_the_program_makes_are_judged_as_such(self):
        recorder, mib = Recorder(), 1 << 20
        for at, size in ((0, 600), (1024, 500), (2048, 1000)):
            recorder.add("segment_alloc", BASE + at * mib, size * mib)
            recorder.add("alloc", BASE + at * mib, size * mib)
            if at == 0:  # the next request could have been served from it
                recorder.free(BASE, size * mib)
                recorder.add("segment_free", BASE, size * mib)
        path = self.file("emptied.pickle", pickle.dumps(snapshot() | {"segments": [], "device_traces": [recorder.entries],
                                                                      "external_annotations": []}))
        text = " ".join(self.answer("tune", path, "--what-if", "no-empty_cache").stdout.split())
        self.assertIn("no-empty_cache: the program's calls are worth it: they lower the peak by", text)

    def test_top_limits_the_table(self):
        lines = {top: len(self.answer("tune", SAMPLE, "--top", str(top)).stdout.splitlines()) for top in (1, 5)}
        self.assertEqual(lines[5] - lines[1], 4)

    def test_says_when_nothing_helps_and_why(self):
        text = self.answer("tune", self.file("small.pickle", pickle.dumps(snapshot()))).stdout
        self.assertIn("No setting helps", text)
        self.assertNotIn("export", text)

    def test_nothing_else_is_on_standard_error(self):
        self.assertEqual(run("tune", SAMPLE).stderr, "")


class Refusals(ProgramTest):
    def test_bad_usage(self):
        for arguments, mention in ((("--capacity", "much"), "--capacity"), (("--what-if", "empty_cache@noon"), "--what-if"),
                                   (("--what-if", "nosuch.policy"), "nosuch.policy"),
                                   (("--allocators", "nosuch"), "nosuch"), (("--policy", "nosuch"), "nosuch"),
                                   (("--policy", "fit.best,fit.first"), "--policy"),
                                   (("--allocators", "fit.best{page=3}"), "page")):
            with self.subTest(arguments):
                self.assert_refused(run("tune", SAMPLE, *arguments), mention)

    def test_steps_that_are_not_there(self):
        process = run("tune", SAMPLES / "captures_s63_default.pickle.xz", "--what-if", "empty_cache@step")
        self.assert_refused(process, "marks no steps, and shows none", "empty_cache@every:5000events")


if __name__ == "__main__":
    unittest.main()
