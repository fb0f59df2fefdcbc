# SPDX-License-Identifier: Apache-2.0
"""Difficult user input: menus, keys at awkward moments, files that change while open, signals."""

import json
import pickle
import random
import signal
import subprocess
import time
import unittest

from program import SAMPLES, run
from snapshot import BASE, FRAME, snapshot
from viewing import PATIENCE, VIEW, ViewTest, picture


def emptied():
    """A recording that releases what is cached between two allocations."""
    entries = []
    for n in range(40):
        base = BASE + (n << 21)
        for action in ("segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"):
            size = (2 << 20) if action.startswith("segment") else 1 << 20
            entries.append({"action": action, "addr": base, "size": size, "stream": 0,
                            "time_us": 1_700_000_000_000_000 + 1000 * len(entries), "frames": [FRAME]})
    return {**snapshot(), "segments": [], "device_traces": [entries]}


class HandsTest(ViewTest):
    def retype(self, view, policies):
        """Replaces the policies with others."""
        view.click_on("policies/specs")
        view.hold("ctrl+a")
        view.type(policies)

    def press_between_frames(self, view, name, keys):
        """Presses and releases keys while the viewer can't draw."""
        before, deadline = view.ask("state")["keys"], time.monotonic() + PATIENCE
        view.process.send_signal(signal.SIGSTOP)
        view.hands("key", name)
        view.process.send_signal(signal.SIGCONT)
        while view.settled()["keys"] < before + keys:
            self.assertLess(time.monotonic(), deadline)


class Keys(HandsTest):
    def test_esc_closes_a_menu_and_nothing_else(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        selected = view.click_on("allocations/first row")["allocation"]
        view.click_on("split")
        self.assertIn("split/by stack", view.settled()["places"])
        shown = view.key("Escape")
        self.assertNotIn("split/by stack", shown["places"], "the menu is closed")
        self.assertEqual(shown["allocation"], selected, "what was selected still is")
        self.assertEqual(view.click_on("tab/stacks")["tab"], "stacks", "the next click is one")
        self.assertIsNone(view.key("Escape")["allocation"])
        self.end(view)

    def test_f_twice_shows_all_after_a_range_was_dragged(self):
        view = self.open(SAMPLES / "leak.reel")
        shown = view.settled()
        marked = view.drag("timeline", 0.3, 0.5, "shift")["marked"]
        self.assertEqual(view.key("f")["view"], marked)
        self.assertEqual(view.key("f")["view"], shown["view"])
        self.end(view)

    def test_the_palette_goes_on_after_enter_on_nothing(self):
        view = self.open(SAMPLES / "leak.reel")
        dark = view.settled()["dark"]
        view.key("ctrl+shift+p")
        view.type("zzzz")
        self.assertTrue(view.key("Return")["palette"], "there is no such command")
        for _ in "zzzz":
            view.hold("BackSpace")
        view.type("light or dark")
        after = view.key("Return")
        self.assertFalse(after["palette"])
        self.assertNotEqual(after["dark"], dark)
        self.end(view)

    def test_enter_on_the_number_pad_is_enter_everywhere(self):
        view = self.open(SAMPLES / "gpt_default.reel", "--pane", "policies")
        self.retype(view, "bound.live")
        self.assertIn("policies/first row", view.key("KP_Enter")["places"])
        for key in ("Tab", "Escape", "9"):
            view.key(key)  # each takes effect in its own frame, however many arrive in a slow one
        view.click_on("compare/file")
        view.type(str(SAMPLES / "leak.reel"))
        self.assertEqual(view.key("KP_Enter")["other"], str(SAMPLES / "leak.reel"))
        self.end(view)

    def test_a_key_pressed_and_released_between_two_frames_counts(self):
        view = self.open(SAMPLES / "leak.reel", "--pane", "policies")
        view.click_on("policies/specs")
        self.press_between_frames(view, "Escape", keys=1)
        self.assertEqual(view.key("9")["tab"], "compare", "Esc left the field")
        self.end(view)

    def test_a_shortcut_pressed_and_released_between_two_frames_counts(self):
        view = self.open(SAMPLES / "oom_default.reel", "--pane", "policies")
        view.click_on("policies/specs")
        self.press_between_frames(view, "ctrl+a", keys=2)
        view.type("bound.live")
        self.assertNotIn("policies/problem", view.key("Return")["places"], "what was there is selected, and typed over")
        self.assertEqual(self.copied_row(view, "policies")[0], "bound.live")
        self.end(view)

    def test_light_titles_are_legible(self):
        view = self.open(SAMPLES / "leak.reel", "--light")
        view.settled()
        view.key("question")
        file = self.directory / "help.png"
        self.assertIsNone(view.ask("screenshot", file=str(file))["error"])
        x, y, width, _ = (int(v) for v in view.settled()["places"]["help"])
        title = picture(file)[2][y + 4]
        self.assertGreater(min(title[3 * (x + width // 2):3 * (x + width // 2) + 3]), 150, "black on a light ground")
        self.end(view)


class Panes(HandsTest):
    def test_a_mistyped_policy_keeps_the_table_that_was_there(self):
        view = self.open(SAMPLES / "oom_default.reel", "--pane", "policies")
        self.retype(view, "bound.live")
        self.assertIn("policies/first row", view.key("Return")["places"])
        self.retype(view, "bound.lives")
        shown = view.key("Return")["places"]
        self.assertIn("policies/problem", shown)
        self.assertIn("policies/first row", shown)
        self.assertEqual(self.copied_row(view, "policies")[0], "bound.live")
        self.end(view)

    def test_a_setting_is_replayed_as_it_is_pasted(self):
        view = self.open(SAMPLES / "oom_default.reel", "--pane", "policies")
        for pasted in ("max_split_size_mb:300", "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:300"):
            self.retype(view, pasted)
            view.key("Return")
            self.assertEqual(self.copied_row(view, "policies")[0], "torch.native{max_split_size_mb=300}")
            view.key("Tab")
        self.end(view)

    def test_a_leak_is_all_that_it_keeps_and_its_tab_says_how_many(self):
        view = self.open(SAMPLES / "leak.reel")
        report = json.loads(run("report", SAMPLES / "leak.reel", "--leaks", "--json").stdout)
        accused = [leak for leak in report["leaks"] if leak["verdict"] in ("leak", "suspected")]
        causes = view.settled()["leaks"]
        self.assertEqual(causes, len(report["leak_causes"]))
        numbered = view.place("tab/leaks")[2]
        view.key("5")
        clicked = view.click_on("leaks/first row")
        self.assertIsNone(clicked["allocation"], "all of them, not one")
        self.assertIsNotNone(clicked["stack"])
        self.assertGreater(accused[0]["count"], 1)
        view.ask("open", file=str(SAMPLES / "oom_default.reel"))
        self.assertEqual(view.settled()["leaks"], 0)
        self.assertLess(view.place("tab/leaks")[2], numbered, "their number is beside its name")
        self.end(view)

    def test_the_heap_tells_of_the_block_that_is_pointed_at(self):
        view = self.open(SAMPLES / "gpt_default.reel", "--pane", "heap")
        x, y, width, height = view.settled()["places"]["heap"]
        told = []
        for step in range(1, 30):
            view.hands("mousemove", int(x + width * step / 30), int(y + 32))
            shown = view.settled()
            told.append((shown["hovered_allocation"] is not None, "heap/told block" in shown["places"]))
        self.assertIn((True, True), told)
        self.assertTrue(all(block == pointed for pointed, block in told))
        self.end(view)

    def test_no_step_is_compared_that_there_is_not(self):
        view = self.open(SAMPLES / "gpt_default.reel", "--compare", SAMPLES / "gpt_default.reel")
        view.settled()
        places = view.click_on("compare/by step")["places"]
        steps = [int(name.split()[1]) for name in places if name.startswith("compare/step ")]
        self.assertIn(max(steps), (11, 12), "labels may leave every other one out")
        self.end(view)


    def test_the_row_that_was_clicked_is_copied(self):
        view = self.open(SAMPLES / "leak.reel")
        rows = self.copied_rows(view, "allocations")[:6]
        self.assertEqual(len({tuple(row) for row in rows}), len(rows))
        x, y, width, height = view.place("allocations/first row")
        for number in (1, 4):
            for part in (0.06, 0.5, 0.94):  # the space between two rows, too
                view.hands("mousemove", int(x + 0.5 * width), int(y + (number + part) * height), "click", 3)
                self.assertEqual(view.click_on("copy/row")["clipboard"].split("\t"), rows[number], (number, part))
                view.hands("mousemove", int(x + 0.5 * width), int(y + 0.5 * height), "click", 3)
                view.key("Escape")
        self.end(view)

    def test_empty_cache_says_its_name_and_leaves_the_labels_free(self):
        view = self.open(self.file("emptied.pickle", pickle.dumps(emptied())))
        shown = view.settled()["places"]
        marks, tick = shown["marks"], shown["emptied"]
        self.assertLess(tick[1] + tick[3], marks[1] + marks[3] - 10, "above the labels of the axis")
        view.hands("mousemove", int(tick[0]), int(tick[1] + 3))
        self.assertGreater(view.settled()["told_emptied"], 0)
        self.end(view)

    def test_details_and_stack_are_beside_each_other_if_there_is_room(self):
        view = self.open(SAMPLES / "gpt_default.reel", size="1400x900")
        view.settled()
        places = view.click_on("allocations/first row")["places"]
        self.assertNotIn("inspector/details", places, "nothing to choose from: both are shown")
        self.assertIn("inspector/frames", places)
        self.end(view)

    def test_a_search_stays_at_the_peak(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        peak = view.settled()["cursor"]
        view.key("slash")
        view.type("forward")
        found = view.key("Return")
        self.assertIsNotNone(found["allocation"])
        self.assertEqual(found["cursor"], peak, "it is live there")
        self.end(view)


class Changes(HandsTest):
    def recorded(self, seed):
        """A trace of two devices, in many blocks of events."""
        chosen, frames, traces = random.Random(seed), [FRAME], []
        for device in range(2):
            entries = []
            for n in range(40_000):
                size = 512 * chosen.randrange(1, 2000)
                for action in ("alloc", "free_requested", "free_completed"):
                    entries.append({"action": action, "addr": BASE + (2 * n + device << 20), "size": size, "stream": 0,
                                    "time_us": 1_700_000_000_000_000 + len(entries), "frames": frames})
            traces.append(entries)
        made = self.file("made.pickle", pickle.dumps({**snapshot(), "segments": [], "device_traces": traces}))
        trace = self.directory / "made.reel"
        self.answer("import", made, "-o", trace)
        return trace.read_bytes()

    def test_the_heap_that_was_chosen_stays_while_the_file_grows(self):
        whole = self.recorded(0)
        path = self.file("growing.reel", whole[:len(whole) // 2])
        view = self.open(path)
        first = view.settled()
        self.assertTrue(first["followed"])
        view.click_on("device")
        other = next(name for name in view.settled()["places"] if name.startswith("device/") and
                     name != f"device/{first['heap']}")
        clicked = view.click_on(other)
        chosen, menu = clicked["heap"], clicked["places"]["device"]
        self.assertNotEqual(chosen, first["heap"])
        with path.open("ab") as file:
            for begin in range(len(whole) // 2, len(whole), piece := len(whole) // 20):
                file.write(whole[begin:begin + piece])
                file.flush()
                shown = view.ask("state")
                self.assertNotIn("cancel", shown["places"], "nothing flickers")
                self.assertEqual(shown["places"]["device"], menu, "nor moves")
                self.assertEqual(shown["heap"], chosen)
                time.sleep(0.1)
        deadline = time.monotonic() + PATIENCE
        while (now := view.settled())["events"] == first["events"] or now["followed"]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.assertEqual(now["heap"], chosen)
        self.end(view)

    def test_a_file_that_is_written_anew_is_read_anew(self):
        whole, other = self.recorded(0), self.recorded(1)
        path = self.file("growing.reel", whole[:2 * len(whole) // 3])
        view = self.open(path)
        first = view.settled()
        self.assertTrue(first["followed"])
        view.click_on("allocations/first row")
        path.write_bytes(other[:len(other) // 3])
        events = self.document("info", path)["events"]
        self.assertLess(events, first["events"])
        deadline = time.monotonic() + PATIENCE
        while (now := view.settled())["events"] != events:
            self.assertLess(time.monotonic(), deadline, now["events"])
            time.sleep(0.1)
        self.assertEqual((now["stage"], now["allocation"]), ("complete", None))
        self.end(view)

    def test_a_damaged_file_is_not_one_without_events(self):
        data = bytearray((SAMPLES / "gpt_default.reel").read_bytes())
        for at in range(400, len(data) - 2000, 97):
            data[at] ^= 0xFF
        path = self.file("damaged.reel", bytes(data))
        view = self.open(path)
        shown = view.settled()
        self.assertEqual(shown["events"], 0)
        self.assertNotIn("without events", shown["welcome"])
        self.assertIn("damaged", shown["welcome"])
        self.end(view)

    def test_what_is_remembered_outlives_a_signal(self):
        trace = SAMPLES / "leak.reel"
        environment = {**self.screen.environment, "XDG_CONFIG_HOME": str(self.directory)}
        for ending in (signal.SIGTERM, signal.SIGHUP):
            process = subprocess.Popen([VIEW, trace], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(process.kill)
            deadline = time.monotonic() + PATIENCE
            while subprocess.run(["xdotool", "search", "--name", "leak.reel"], env=environment, stdout=subprocess.DEVNULL,
                                 check=False).returncode != 0:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.2)
            process.send_signal(ending)
            self.assertEqual(process.communicate(timeout=PATIENCE), (b"", b""))
            self.assertEqual(process.returncode, -ending)
            settings = self.directory / "memreel" / "view.json"
            self.assertEqual(json.loads(settings.read_text())["recent"], [str(trace)])
            settings.unlink()


if __name__ == "__main__":
    unittest.main()
