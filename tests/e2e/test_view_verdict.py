# SPDX-License-Identifier: Apache-2.0
"""The viewer's first screen: the main finding, who holds the peak, what leaks, and the setting that helps."""

import json
import pickle
import re
import time
import unittest

import histories
import test_frames
from program import SAMPLES, run
from viewing import PATIENCE, ViewTest


LEAK_HOOK = histories.SHARED / "leaks/leak_hook.pickle.xz"


def report(trace):
    return json.loads(run("report", trace, "--json").stdout)


class Verdicts(ViewTest):
    def test_from_opening_to_the_setting_that_helps_copied_is_one_click(self):
        trace = SAMPLES / "oom_default.reel"
        setting = report(trace)["verdict"]["setting"]
        view = self.open(trace)
        shown = view.settled()["verdict"]
        self.assertEqual(shown["decides"], "out of memory")
        least, most, before = (setting[key] for key in ("failed_allocations", "most_failed_allocations", "failed_allocations_as_recorded"))
        self.assertLess(least, most, "the limit is only bounded")
        self.assertIn(f"{least} to {most} fail instead of {before}", shown["setting"])
        opening = run("report", trace).stdout.split("\n\n")[0].splitlines()
        self.assertTrue(shown["setting"].startswith(opening[-1].split(maxsplit=1)[1]), "as the report says")
        self.assertNotIn("\u2192", shown["setting"], "which peak is reserved says little while requests fail")
        self.assertEqual(view.click_on("verdict/copy")["clipboard"],
                         "export PYTORCH_CUDA_ALLOC_CONF=" + setting["recommended"])
        self.end(view)

    def test_the_list_of_settings_says_what_is_known_of_failures(self):
        trace = SAMPLES / "oom_default.reel"
        setting = report(trace)["verdict"]["setting"]
        least, most, before = (setting[key] for key in ("failed_allocations", "most_failed_allocations", "failed_allocations_as_recorded"))
        view = self.open(trace)
        view.settled()
        view.key("6")
        failed = {row[3]: row[2] for row in self.copied_rows(view, "remedies")}
        self.assertEqual(failed.pop("as recorded"), str(before))
        self.assertEqual(failed.pop(setting["recommended"]), f"{least} to {most}")
        for name, words in failed.items():
            self.assertRegex(words, r"^\d+ or more$", name)
        self.end(view)

    def test_the_setting_is_copied_and_laid_over_by_keys_alone(self):
        view = self.open(SAMPLES / "oom_default.reel")
        view.settled()
        view.key("ctrl+shift+p")
        view.type("copy the setting")
        self.assertEqual(view.key("Return")["clipboard"], "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128")
        view.key("ctrl+shift+p")
        view.type("overlay")
        view.key("Return")
        self.assertEqual(view.settled()["overlays"], ["torch.native{max_split_size_mb=128}"])
        view.key("ctrl+shift+p")
        view.type("what decides")
        self.assertEqual(view.key("Return")["tab"], "oom")
        self.end(view)

    def test_copying_moves_nothing(self):
        view = self.open(SAMPLES / "oom_default.reel")
        before = view.settled()["places"]
        clicked = view.click_on("verdict/copy")["places"]
        for name in ("verdict/copy", "verdict/overlay"):
            self.assertEqual(clicked[name], before[name])
        self.assertEqual(self.label(view), "copied")
        deadline = time.monotonic() + PATIENCE
        while self.label(view) == "copied":
            self.assertLess(time.monotonic(), deadline, "it says so for a moment only")
            time.sleep(0.1)
        self.assertEqual(self.label(view), "copy PYTORCH_CUDA_ALLOC_CONF")
        self.assertEqual(view.settled()["places"]["verdict/copy"], before["verdict/copy"])
        self.end(view)

    @staticmethod
    def label(view):
        return next(button["label"] for button in view.settled()["buttons"] if button["place"] == "verdict/copy")

    def test_from_a_strangers_snapshot_to_the_line_at_the_peak_is_two_clicks(self):
        for name in ("debian", "uv", "windows"):
            with self.subTest(name):
                view = self.open(self.file(name + ".pickle", pickle.dumps(test_frames.document(test_frames.Frames.STYLES[name]))))
                shown = view.settled()
                verdict = shown["verdict"]
                self.assertNotIn("??", json.dumps(verdict))
                self.assertNotEqual(verdict["decides"], "leak", "of one step")
                self.assertEqual(view.click_on("tab/stacks")["cursor"], shown["cursor"], "it opens at the peak")
                line = view.click_on("stacks/first row")["own_line"]
                self.assertRegex(line, r"(model|train)\.py:\d+")
                self.assertNotIn("\\", line)
                self.end(view)

    def test_a_setting_is_laid_over_the_timeline(self):
        view = self.open(SAMPLES / "oom_default.reel")
        shown = view.click_on("verdict/overlay")
        self.assertEqual(shown["overlays"], ["torch.native{max_split_size_mb=128}"])
        self.assertEqual(shown["tab"], "policies")
        (at_peak,) = shown["overlay_values"]
        self.assertRegex(at_peak, r"^[\d.]+ GiB$", "its value at the cursor is beside its colour")
        x, y, width, height = shown["places"]["timeline"]
        self.assertNotEqual(view.click(x + 1, y + height / 2)["overlay_values"], [at_peak])
        self.end(view)

    def test_each_is_a_click_away_from_its_moment(self):
        trace = SAMPLES / "oom_default.reel"
        told = report(trace)
        view = self.open(trace)
        view.settled()
        first = view.click_on("verdict/decides")
        self.assertEqual((first["cursor"], first["tab"]), (told["ooms"][0]["event"] + 1, "oom"))
        self.assertIsNotNone(first["stack"])
        by_fragmentation = next(oom for oom in told["ooms"] if oom["verdict"] == "fragmentation")
        self.assertEqual(view.click_on("verdict/fragmented")["cursor"], by_fragmentation["event"] + 1)
        held = view.click_on("verdict/holder 1")
        self.assertEqual((held["live_bytes"], held["tab"]), (told["summary"]["devices"][0]["peak_live_bytes"], "stacks"))
        self.end(view)

    def test_the_first_screen_says_in_words_what_the_peak_is(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        shown = view.settled()
        verdict = shown["verdict"]
        self.assertEqual((verdict["decides"], verdict["held_bytes"]), ("peak", shown["live_bytes"]))
        self.assertRegex(verdict["setting"], r"reserved peak [\d.]+ GiB \u2192 [\d.]+ GiB")
        words = [re.match(r"([a-z ]+) ([\d.]+ [GMK]iB), ", holder).groups() for holder in verdict["holders"]]
        self.assertEqual([word for word, _ in words], ["activations", "temporaries", "optimizer state"])
        self.assertEqual(words[0][1], "3.23 GiB")
        clicked = view.click_on("verdict/holder 1")
        self.assertEqual((clicked["category"], clicked["live_bytes"]), ("activation", verdict["held_bytes"]))
        self.end(view)

    @unittest.skipUnless(LEAK_HOOK.exists(), "the recorded leaks are not here")
    def test_from_a_leak_to_its_line_is_one_click(self):
        view = self.open(LEAK_HOOK)
        verdict = view.settled()["verdict"]
        self.assertEqual(verdict["decides"], "leak")
        self.assertIn("leakbench.py:32", verdict["headline"])
        clicked = view.click_on("verdict/decides")
        self.assertEqual((clicked["tab"], clicked["cursor"]), ("leaks", clicked["events"]))
        self.assertIsNone(clicked["allocation"], "all that it keeps, not one of them")
        self.assertIn("leakbench.py:32", clicked["own_line"])
        self.end(view)

    def test_a_leak_decides_and_leads_to_its_line(self):
        view = self.open(SAMPLES / "leak.reel")
        self.assertEqual(view.settled()["verdict"]["decides"], "leak")
        clicked = view.click_on("verdict/decides")
        self.assertEqual(clicked["tab"], "leaks")
        self.assertIn("record.py:71", clicked["own_line"])
        self.end(view)

    def test_it_can_be_hidden_and_is_a_pane_of_its_own(self):
        view = self.open(SAMPLES / "leak.reel")
        self.assertIn("verdict/decides", view.settled()["places"])
        self.assertNotIn("verdict", view.key("v")["places"])
        self.assertIn("verdict/decides", view.key("v")["places"])
        self.end(view)
        view = self.open(SAMPLES / "oom_default.reel", "--pane", "verdict")
        self.assertIn("verdict/copy", view.settled()["places"])
        self.assertEqual(view.click_on("verdict/decides")["maximised"], "", "a click leads to its moment")
        self.end(view)

    def test_it_fits_into_a_small_window(self):
        view = self.open(SAMPLES / "oom_default.reel", size="1024x640")
        places = view.settled()["places"]
        for name, (x, y, width, height) in places.items():
            self.assertLessEqual(x + width, 1025, name)
        self.assertIn("export PYTORCH_CUDA_ALLOC_CONF=", view.click_on("verdict/copy")["clipboard"])
        self.end(view)

    def test_nothing_is_cut_in_a_small_window_or_with_large_text(self):
        tabs = ["allocations", "stacks", "flame", "segments", "leaks", "fragmentation", "oom", "policies", "compare"]
        for trace in ("oom_default.reel", "gpt_default.reel"):
            for scale in ("0.8", "1", "1.4", "2"):
                with self.subTest(trace=trace, scale=scale):
                    view = self.open(SAMPLES / trace, "--scale", scale, size="1024x640")
                    places = view.settled()["places"]
                    for name, (x, y, width, height) in places.items():
                        if name.split("/")[0] in ("verdict", "tab", "inspector"):
                            self.assertLessEqual(x + width, 1025, name)
                    strip = places["verdict"]
                    last = "verdict/all" if scale == "2" else "verdict/overlay"  # of a low window: the rest is a click away
                    for name in ("verdict/decides", "verdict/copy", "verdict/setting", last):
                        self.assertLessEqual(places[name][1] + places[name][3], strip[1] + strip[3] + 4, name)
                    hidden = [tab for tab in tabs if "tab/" + tab not in places]
                    self.assertEqual(bool(hidden), "tab/more" in places)
                    if hidden:
                        self.assertIn("tab/" + hidden[-1], view.click_on("tab/more")["places"])
                        self.assertEqual(view.click_on("tab/" + hidden[-1])["tab"], hidden[-1])
                        self.assertIn("tab/" + hidden[-1], view.settled()["places"], "the open one has its place")
                    self.end(view)

    def test_where_pytorch_did_not_run_no_setting_of_it_is_offered(self):
        view = self.open(SAMPLES / "jax_crowded.xplane.pb.gz")
        shown = view.settled()
        self.assertIn("verdict/decides", shown["places"])
        self.assertNotIn("verdict/copy", shown["places"])
        self.end(view)


if __name__ == "__main__":
    unittest.main()
