# SPDX-License-Identifier: Apache-2.0
"""All that the mouse can do, done with keys only: the focus, the rows of lists, menus, dialogs, and all commands."""

import re
import unittest

from program import REPOSITORY, SAMPLES
from viewing import SHIFTED, ViewTest

# What differs between two frames in which nothing changed, or without anybody having asked for it.
RESTLESS = ("idle", "frames", "keys", "pictures", "mouse", "pointer", "places", "stops", "view_remembered")
TABS = ("allocations", "stacks", "flame", "segments", "leaks", "fragmentation", "oom", "policies", "compare")


def visible(shown):
    """What a user sees of a state, without the positions of things."""
    return {**{key: value for key, value in shown.items() if key not in RESTLESS}, "shown": sorted(shown["places"])}


def is_at(pattern, place):
    """Whether a command of that place means this one: '*' at its begin or end stands for the rest."""
    if pattern.endswith("*"):
        return place.startswith(pattern[:-1])
    return place.endswith(pattern[1:]) if pattern.startswith("*") else pattern == place


class KeysTest(ViewTest):
    def focus_on(self, view, name, most=60):
        """Tab until a part has the focus, then arrows."""
        seen = []
        for _ in range(most):
            shown = view.key("Tab")
            if shown["focus"] == name:
                return shown
            if shown["focus"] in seen:
                break
            seen.append(shown["focus"])
        self.fail(f"{name} was not reached, but {seen}")

    def command(self, view, words):
        """Runs a command by its name."""
        view.key("ctrl+shift+p")
        view.type(words)
        return view.key("Return")


class Lists(KeysTest):
    def test_rows_are_walked_clicked_and_copied(self):
        view = self.open(SAMPLES / "leak.reel")
        first = view.settled()
        self.assertIsNone(first["focus"])
        shown = view.key("Down")
        self.assertEqual((shown["focus"], shown["row"]), ("allocations", 0))
        self.assertEqual(shown["view"], first["view"])
        self.assertEqual(view.key("Down", "Down")["row"], 2)
        self.assertIn("allocations/row", view.settled()["places"], "the row is marked")
        selected = view.key("Return")["allocation"]
        self.assertIsNotNone(selected)
        self.assertGreater(view.key("Next")["row"], 5)
        self.assertEqual(view.key("Home")["row"], 0)
        last = view.key("End")["row"]
        self.assertEqual(last + 1, first["listed"])
        self.assertEqual(view.key("Prior", "Next")["row"], last)
        began = view.key("ctrl+Return")["cursor"]
        self.assertNotEqual(began, first["cursor"], "as a double click: to where it was allocated")
        self.assertEqual(view.settled()["allocation"], selected)
        copied = self.copied_row(view, "allocations")
        view.key("Escape")
        view.key("Down", "Home", "shift+F10")
        self.assertIn("copy/row", view.settled()["places"])
        self.assertEqual(view.settled()["focus"], "copy/cell")
        view.key("Down", "Return")
        shown = view.settled()
        self.assertNotIn("copy/row", shown["places"], "the menu is closed")
        self.assertEqual(shown["clipboard"].split("\t")[0] != "", True)
        self.assertEqual(len(shown["clipboard"].split("\t")), len(copied))
        self.end(view)

    def test_a_list_gives_its_keys_back(self):
        view = self.open(SAMPLES / "leak.reel")
        whole = view.settled()["view"]
        view.key("w")
        near = view.key("w")["view"]
        self.assertNotEqual(near, whole)
        view.key("Down")
        self.assertEqual(view.key("Home")["view"], near, "Home goes to the first row")
        self.assertEqual(view.hold("Right")["view"], near, "arrows choose the cell")
        self.assertIsNone(view.key("Escape")["focus"])
        self.assertEqual(view.key("Home")["view"], whole)
        self.end(view)

    def test_columns_sort_by_keys(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        view.key("2")
        view.key("Down", "Up")
        self.assertEqual(view.settled()["focus"], "stacks/bytes")
        before = self.copied_rows(view, "stacks")
        view.key("Escape", "Escape")
        self.assertEqual(view.key("Down", "Home", "Up")["focus"], "stacks/bytes")
        view.key("Return")
        self.assertEqual(self.copied_rows(view, "stacks"), before[::-1], "turned round")
        self.end(view)

    def test_each_list_has_a_row_cursor(self):
        view = self.open(SAMPLES / "oom_default.reel")
        view.settled()
        for tab in TABS:
            shown = view.key(str(TABS.index(tab) + 1))
            self.assertEqual(shown["tab"], tab)
            if tab == "policies":
                self.command(view, "replay other policies")
            shown = view.key("Down")
            if shown["focus"] is None:
                continue  # it lists nothing
            self.assertIsNotNone(view.settled()["row"], tab)
            self.assertTrue(any(name.endswith("/row") for name in shown["places"]), tab)
            self.assertIsNone(view.key("Escape")["focus"])
        self.end(view)

    def test_bars_of_the_flame_graph(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        view.settled()
        view.key("3")
        self.assertEqual(view.key("Down")["focus"], "flame")
        self.assertEqual(view.key("Down", "Down")["row"] > 0, True)
        self.assertIsNotNone(view.key("Return")["stack"])
        wide = view.settled()["places"]["flame/row"][2]
        self.assertGreater(view.key("ctrl+Return")["places"]["flame/row"][2], wide, "only this")
        self.end(view)


class Parts(KeysTest):
    def test_tab_goes_round_and_back(self):
        view = self.open(SAMPLES / "oom_default.reel")
        view.settled()
        parts = []
        while (now := view.key("Tab")["focus"]) not in parts:
            parts.append(now)
        for wanted in ("device", "verdict/decides", "split", "colour", "tab/allocations", "allocations"):
            self.assertIn(wanted, parts)
        self.assertEqual(now, parts[0], "round the end")
        self.assertEqual(view.key("shift+Tab")["focus"], parts[-1])
        self.end(view)

    def test_a_menu(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        before = view.settled()["split"]
        self.focus_on(view, "split")
        shown = view.key("Return")
        self.assertEqual(shown["focus"], "split/by category", "it opens at what is chosen")
        self.assertEqual(before, "category")
        self.assertEqual(view.key("Down", "Return")["split"], "phase")
        shown = view.settled()
        self.assertEqual(shown["focus"], "split")
        self.assertNotIn("split/by stack", shown["places"])
        view.key("Return")
        shown = view.key("Escape")
        self.assertNotIn("split/by stack", shown["places"])
        self.assertEqual((shown["split"], shown["focus"]), ("phase", "split"))
        self.end(view)

    def test_radio_buttons_and_check_boxes(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        view.settled()
        view.key("3")
        self.focus_on(view, "weigh/live at the cursor")
        view.key("Right", "space")
        names = {bar["name"] for bar in view.settled()["flame"]}
        for _ in range(12):
            if view.key("Right")["focus"] == "flame/bottom-up":
                break
        self.assertEqual(view.settled()["focus"], "flame/bottom-up")
        view.key("space")
        self.assertNotEqual({bar["name"] for bar in view.settled()["flame"]}, names)
        self.end(view)

    def test_tabs(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        self.focus_on(view, "tab/allocations")
        self.assertEqual(view.key("Right", "Return")["tab"], "stacks")
        self.assertEqual(view.key("ctrl+Return")["maximised"], "stacks")
        self.assertEqual(view.key("ctrl+Return")["maximised"], "")
        self.end(view)

    def test_a_text_field_is_entered_and_left(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        view.key("Tab")
        self.assertEqual(view.key("Right")["focus"], "search")
        self.assertFalse(view.settled()["typing"])
        self.assertTrue(view.key("Return")["typing"])
        self.assertEqual(view.type("forward")["search"], "forward")
        shown = view.key("Tab")
        self.assertEqual((shown["typing"], shown["search"]), (False, "forward"))
        self.assertNotEqual(shown["focus"], "search")
        self.end(view)

    def test_a_click_hides_the_ring_and_tab_goes_on_from_it(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        view.key("Tab")
        self.assertIsNone(view.click_on("tab/stacks")["focus"])
        self.assertIn(view.key("Tab")["focus"], ("category", "size"))
        self.end(view)


class Inspector(KeysTest):
    def test_each_value_is_copied(self):
        view = self.open(SAMPLES / "gpt_default.reel", "--light", size="1200x900")
        view.settled()
        view.key("Down", "Return", "Escape")
        shown = view.settled()
        values = [stop for stop in shown["stops"] if stop.startswith("value/")]
        for name in ("category", "phase", "layer", "address", "bytes", "allocated", "free requested", "stream", "thread"):
            self.assertIn("value/" + name, values)
        while view.key("Tab")["focus"] != values[0]:
            self.assertIsNotNone(view.settled()["focus"], "the inspector is a part of the window")
        copied = {}
        for name in values:
            shown = view.settled()
            self.assertEqual(shown["focus"], name)
            copied[name] = view.key("Return")["clipboard"]
            view.key("Right")
        selected = shown["selected"]
        self.assertEqual(copied["value/address"], f"0x{selected['address']:x}")
        self.assertEqual(copied["value/bytes"], f"{selected['bytes']:,}")
        self.assertEqual(copied["value/phase"], selected["phase"])
        self.assertEqual(copied["value/layer"], selected["layer"] or "in no module")
        self.command(view, "copy the value: bytes")
        self.assertEqual(view.settled()["clipboard"], copied["value/bytes"])
        self.end(view)

    def test_the_mouse_still_selects_a_part_of_a_value(self):
        view = self.open(SAMPLES / "leak.reel")
        view.click_on("allocations/first row")
        view.double_click_on("value/address", 0.05)
        view.key("ctrl+c")
        self.assertEqual(view.settled()["clipboard"], f"0x{view.settled()['selected']['address']:x}")
        self.end(view)


class Dialogs(KeysTest):
    def test_the_open_dialog(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        self.assertTrue(view.key("ctrl+o")["opening"])
        view.type("oom_default")
        view.key("Down", "Down", "Return")
        self.assertIn("oom_default", view.settled()["file"])
        view.key("ctrl+o")
        self.assertEqual(view.key("Tab")["focus"], "open/all files")
        self.assertFalse(view.key("Escape")["opening"])
        self.end(view)

    def test_the_tour(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        self.assertEqual(self.command(view, "tour")["tour"], 0)
        self.assertEqual(view.key("Return")["tour"], 1)
        self.assertEqual(view.settled()["focus"], "tour/next")
        self.assertEqual(view.key("Return")["tour"], 2)
        self.assertEqual(view.key("Tab")["focus"], "tour/skip")
        self.assertEqual(view.key("Return")["tour"], -1)
        self.end(view)

    def test_the_start_page(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        view.key("ctrl+w")
        self.assertEqual(view.key("Tab")["focus"], "start/open")
        self.assertTrue(view.key("Return")["opening"])
        self.end(view)


class Tasks(KeysTest):
    """What people open the viewer for, without a mouse; test_view_browser has the same for the page."""

    def test_from_a_failed_request_to_the_copied_setting(self):
        view = self.open(SAMPLES / "oom_default.reel")
        view.settled()
        self.focus_on(view, "verdict/decides")
        for _ in range(20):
            if view.key("Right")["focus"] == "verdict/copy":
                break
        copied = view.key("Return")["clipboard"]
        self.assertTrue(copied.startswith("export PYTORCH_CUDA_ALLOC_CONF="), copied)
        self.command(view, "overlay the setting")
        self.assertEqual(len(view.settled()["overlays"]), 1)
        self.end(view)

    def test_to_the_line_at_the_peak(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        view.settled()
        view.key("2")
        self.assertIsNotNone(view.key("Down", "Return")["own_line"])
        self.end(view)

    def test_what_pins_a_segment(self):
        view = self.open(SAMPLES / "oom_default.reel")
        view.settled()
        view.key("o")
        self.assertIsNotNone(self.command(view, "keeps the largest free block, before")["allocation"])
        view.key("Escape", "Escape", "4", "Down", "Down", "Return")
        self.assertIsNotNone(view.settled()["space"], "the segment of the row, with its blocks")
        self.end(view)

    def test_two_runs_are_compared(self):
        view = self.open(SAMPLES / "oom_default.reel")
        view.settled()
        self.assertTrue(self.command(view, "compare with another trace")["typing"])
        view.type(str(SAMPLES / "leak.reel"))
        view.key("Return")
        self.assertIsNotNone(view.settled()["compared"])
        self.focus_on(view, "compare")
        self.assertIsNotNone(view.settled()["row"])
        self.end(view)

    def test_the_ranks_of_a_job(self):
        job = self.directory / "job"
        job.mkdir()
        for rank in range(3):
            (job / f"rank{rank}.reel").write_bytes((SAMPLES / "leak.reel").read_bytes())
        view = self.open(SAMPLES / "gpt_default.reel")
        view.settled()
        view.key("ctrl+o")
        view.type(str(job))
        view.key("Return")
        self.focus_on(view, "open/job") if view.settled()["focus"] else view.key("Tab", "Tab")
        self.assertEqual(view.settled()["focus"], "open/job")
        view.key("Return")
        self.assertEqual(len(view.settled()["ranks"]), 3)
        self.assertEqual(view.key("r")["tab"], "ranks")
        self.focus_on(view, "rank/0")
        self.assertIn("rank1", view.key("Right", "Return")["file"])
        self.end(view)

    def test_through_time(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        seen = [view.settled()]
        for key in ("p", "w", "d", "s", "period", "bracketright", "m", "0", "k"):
            seen.append(view.key(key))
        self.assertGreater(len({tuple(shown["view"]) for shown in seen}), 2)
        self.assertGreater(len({shown["cursor"] for shown in seen}), 2)
        self.assertIsNotNone(seen[-1]["kept"])
        self.end(view)

    def test_in_a_small_window_with_large_text(self):
        view = self.open(SAMPLES / "oom_default.reel", size="1024x640")
        view.settled()
        view.key("ctrl+equal", "ctrl+equal", "ctrl+equal")
        seen = set()
        while (shown := view.key("Tab"))["focus"] not in seen:
            seen.add(shown["focus"])
            x, y, width, height = shown["places"][shown["focus"]]
            self.assertGreaterEqual(min(x, y), 0, shown["focus"])
            self.assertLess(x, 1024, shown["focus"])
            self.assertLess(y, 640, shown["focus"])
        self.assertGreater(len(seen), 4)
        self.end(view)

    def test_a_bad_file(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        bad = self.file("bad.pickle", b"\x80\x02nothing")
        view.key("ctrl+o")
        view.type(str(bad))
        self.assertIn("bad.pickle", view.key("Return")["notice"])
        shown = view.key("Escape")
        self.assertIsNone(shown["notice"])
        self.assertIn("leak.reel", shown["file"])
        self.end(view)


class AllCommands(KeysTest):
    def names(self, view, place=False):
        return [c["place"] if place else c["name"] for c in view.ask("commands")["commands"]]

    def type_fast(self, view, text):
        ascii_only = "".join(letter for letter in text if letter.isascii())
        view.pressed(sum(2 if letter in SHIFTED else 1 for letter in ascii_only), "type", "--delay", "2", ascii_only)

    def walk(self, view, last):
        """Types the name of each command; those that close the window or the file come last."""
        names = sorted(reversed(self.names(view)), key=lambda name: name in last)
        self.assertGreater(len(names), 100)
        unable, gone = [], []
        for name in names:
            if name == "Quit" or name.startswith("Open /"):
                continue
            view.key("Escape") if view.ask("state")["opening"] else None
            if view.ask("state")["help"]:
                view.key("Escape")
            before = visible(view.settled())
            if name not in self.names(view):
                gone.append(name)  # what it was for is no longer on screen
                continue
            view.key("ctrl+shift+p")
            self.assertTrue(view.settled()["palette"], name)
            self.type_fast(view, name)
            after = view.key("Return")
            if after["palette"]:
                self.assertNotEqual(after["refusal"], "", f"{name}: neither done nor refused")
                view.key("Escape")
                continue
            if visible(after) == before:
                unable.append(name)
            if any(place.startswith(("device/", "split/", "colour/", "category/", "size/", "copy/", "heap/order/"))
                   for place in after["places"]):
                view.key("Escape")  # a menu
            if after["typing"]:
                view.key("Escape")
        self.assertEqual(unable, [], "these were run and changed nothing")
        self.assertLess(len(gone), len(names) / 5, gone)

    def test_each_does_something_or_says_why_not(self):
        view = self.open(SAMPLES / "oom_default.reel", size="900x600")
        self.walk(view, ("Open the sample", "Open a file", "Close the file", "Quit", "Tour"))
        view.key("ctrl+shift+p")
        view.type("quit")
        view.hands("key", "Return")
        self.assertEqual(view.process.wait(timeout=60), 0)

    def check_buttons(self, view, shown, seen):
        """What can be clicked is a command, which says the same of whether it can be done; what can't be named is in a list."""
        commands = view.ask("commands")["commands"]

        def of(place):
            return next((c for c in commands if is_at(c["place"], place)), None)
        for button in shown["buttons"]:
            self.assertTrue(button["is_command"], button)
            self.assertNotEqual(button["label"], "", button)
            self.assertIn(button["place"], shown["stops"], "keys reach it")
            command = of(button["place"])
            self.assertIsNotNone(command, button)
            self.assertEqual(button["can_be_pressed"], command["why_not"] == "", (button, command))
            seen.add(button["place"])
        for stop in shown["stops"]:
            self.assertTrue(of(stop) or stop == "flame" or stop.startswith(("open/", "tour/")), stop)

    def test_each_button_is_a_command(self):
        seen, job = set(), self.directory / "job"
        job.mkdir()
        for rank in range(2):
            (job / f"rank{rank}.reel").write_bytes((SAMPLES / "leak.reel").read_bytes())
        for files in ((SAMPLES / "oom_default.reel", "--compare", SAMPLES / "leak.reel"), (SAMPLES / "gpt_default.reel",),
                      (job,), (SAMPLES / "jax_crowded.xplane.pb.gz",)):
            view = self.open(*files)
            self.check_buttons(view, view.settled(), seen)
            view.key("Down", "Return", "Escape")
            for tab in range(9):
                self.check_buttons(view, view.key(str(tab + 1)), seen)
            for letter in "hr":
                self.check_buttons(view, view.key(letter), seen)
            view.key("Escape")
            self.command(view, "split live bytes by stack")
            self.check_buttons(view, view.settled(), seen)
            self.check_buttons(view, view.key("m"), seen)
            self.end(view)
        view = self.open(SAMPLES / "leak.reel", "--scale", "2", size="1024x640")
        self.check_buttons(view, view.settled(), seen)
        view.key("ctrl+o")
        view.type(str(self.file("bad.pickle", b"nothing")))
        self.check_buttons(view, view.key("Return"), seen)
        view.key("Escape", "Escape")
        self.command(view, "tour")
        self.check_buttons(view, view.settled(), seen)
        view.key("Escape", "ctrl+w")
        self.check_buttons(view, view.settled(), seen)
        for place in ("verdict/copy", "verdict/overlay", "verdict/all", "policies/run", "compare/keep", "compare/instants",
                      "weigh/leaked", "flame/bottom-up", "inspector/lifetime", "inspector/copy stack", "fragmentation/go there",
                      "heap/pin before", "notice/dismiss", "tour/next", "start/open"):
            self.assertIn(place, seen)
        self.end(view)

    def test_no_pane_draws_buttons_of_its_own(self):
        own = re.compile(r"ImGui::(Button|SmallButton|ArrowButton|RadioButton|Checkbox)\(")
        drawn = [file.name for file in sorted((REPOSITORY / "viewer").rglob("*.cpp")) if own.search(file.read_text())]
        self.assertEqual(drawn, ["controls.cpp"], "which asks the list of commands")

    def test_a_button_says_what_it_does_and_why_it_does_not(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        button = next(b for b in view.settled()["buttons"] if b["place"] == "inspector/live peak")
        self.assertEqual((button["label"], button["can_be_pressed"]), ("go to the live peak", False), "it is there already")
        cursor = view.settled()["cursor"]
        view.click_on("inspector/live peak")
        self.command(view, "go to the end")
        button = next(b for b in view.settled()["buttons"] if b["place"] == "inspector/live peak")
        self.assertTrue(button["can_be_pressed"])
        self.assertEqual(view.click_on("inspector/live peak")["cursor"], cursor)
        self.end(view)


if __name__ == "__main__":
    unittest.main()
