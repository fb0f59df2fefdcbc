# SPDX-License-Identifier: Apache-2.0
"""Browses traces in a terminal: what is on screen, what keys and the mouse do, and how the terminal is left."""

import copy
import os
import pickle
import re
import shlex
import signal
import time
import unittest

import fleet_job
import test_late
import test_leaks
import test_record_holders
from program import MEMREEL, REPOSITORY, SAMPLES, SANITIZED, ProgramTest, run
from scaled_program import training
from snapshot import snapshot
from terminal import MISSING, PATIENCE, Terminal

GOLDEN = REPOSITORY / "tests/data/browse"
GPT, LEAK, OOM, DECODE = (SAMPLES / f"{name}.reel" for name in ("gpt_default", "leak", "oom_default", "decode_default"))


@unittest.skipIf(MISSING, "not installed: " + ", ".join(MISSING))
class BrowseTest(ProgramTest):
    def open(self, *arguments, size=(80, 24), **environment):
        """A terminal with the browser in it, once it has nothing left to do."""
        words = " ".join(shlex.quote(str(argument)) for argument in arguments)
        terminal = Terminal(self.directory, f"$MEMREEL browse {words}", size, **environment)
        self.addCleanup(terminal.close)
        terminal.settled()
        return terminal

    def end(self, terminal, code=0):
        self.assertIn(f"code {code}", terminal.key("q"))

    def tab(self, shown):
        """The lines of the tab: below the line with the tabs, above the line with the keys."""
        lines = shown.split("\n")
        first = next(i for i, line in enumerate(lines) if re.match(" ?1 alloc", line))
        return lines[first + 1:-2]

    def timeline(self, shown):
        return shown.split("\n")[4:12]

    def live(self, shown):
        """What is live at the cursor, as printed."""
        return re.search(r"(?m)^at .* event ([\d,]+)  ([\d.]+ \w+) live", shown).groups()

    def peak(self, trace):
        return self.document("info", trace)["devices"][0]["peak_live_bytes"]


class Screens(BrowseTest):
    def check(self, name, shown):
        """Compares with a file that MEMREEL_WRITE_SCREENS=1 writes."""
        path = GOLDEN / f"{name}.txt"
        text = "".join(line.rstrip() + "\n" for line in shown.split("\n"))
        if os.environ.get("MEMREEL_WRITE_SCREENS"):
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(text)
        self.assertEqual(text, path.read_text())

    def test_at_three_sizes(self):
        for width, height in ((80, 24), (120, 40), (200, 60)):
            for trace in (GPT, LEAK, OOM):
                with self.subTest(trace=trace.name, width=width):
                    terminal = self.open(trace, size=(width, height))
                    self.check(f"{trace.stem}-{width}x{height}", terminal.settled())
                    terminal.close()

    def test_every_tab(self):
        """One file for each size; what is above the tabs is the same in all of them."""
        for width, height in ((80, 24), (120, 40), (200, 60)):
            with self.subTest(width=width):
                terminal = self.open(OOM, size=(width, height))
                parts = []
                for key, name in (("1", "allocations"), ("2", "holders"), ("3", "flame"), ("4", "heap"), ("5", "leaks"), ("6", "fragmentation"),
                                  ("7", "failures"), ("i", "their stack"), ("8", "settings")):
                    parts += [f"== {name}", *(line for line in self.tab(terminal.key(key)) if line.strip()), ""]
                self.check(f"tabs-{width}x{height}", "\n".join(parts).rstrip("\n"))
                self.check(f"help-{width}x{height}", terminal.key("?").rstrip("\n"))
                terminal.close()

    def test_what_is_beside_one_trace(self):
        self.check("tab-compare", self.open(GPT, DECODE, size=(120, 40)).settled())
        for rank in range(2):
            self.file(f"rank{rank}.reel", (GPT, LEAK)[rank].read_bytes())
        self.check("tab-ranks", self.open(self.directory, size=(120, 40)).settled())

    def test_a_range(self):
        terminal = self.open(GPT, size=(120, 40))
        terminal.key("w", "w", "m", "s")
        self.check("range", terminal.settled())
        self.check("range-flame", terminal.key("3"))

    def test_without_colours_areas_are_letters(self):
        terminal = self.open(GPT, NO_COLOR="1")
        self.check("no-colour", terminal.settled())
        self.assertNotRegex(terminal.screen(colours=True), r"\033\[[0-9;]*[34]8;")

    def test_in_ascii(self):
        terminal = self.open(GPT, LC_ALL="C")
        shown = terminal.settled()
        self.assertTrue(shown.isascii(), shown)
        self.check("ascii", shown)

    def test_colours_follow_the_terminal(self):
        for settings, pattern in (({"COLORTERM": "truecolor"}, r"38;2;\d+;\d+;\d+"), ({"TERM": "tmux-256color"}, r"38;5;\d+"),
                                  ({"TERM": "screen"}, r"\[3[0-7]m")):
            with self.subTest(**settings):
                terminal = self.open(GPT, **settings)
                self.assertRegex(terminal.screen(colours=True), pattern)
                terminal.close()

    def test_it_is_drawn_anew_when_the_size_changes(self):
        terminal = self.open(GPT)
        terminal.resize(120, 40)
        self.assertEqual(terminal.settled(), (GOLDEN / "gpt_default-120x40.txt").read_text().rstrip("\n") + "\n")
        self.assertIn("needs 40x12", terminal.resize(30, 8))
        terminal.resize(80, 24)
        self.end(terminal)


class FromTraceToLine(BrowseTest):
    """With fewer than ten keys from a stranger's snapshot to what one wants to know."""

    def test_to_the_line_that_holds_most_at_the_peak(self):
        terminal = self.open(GPT)
        shown = terminal.settled()
        self.assertIn("(live peak)", shown)
        text = run("report", GPT, "--by", "line").stdout
        self.assertIn("modeling_gpt2.py:702)", shown)
        self.assertIn("modeling_gpt2.py:702", text)
        lines = self.tab(terminal.key("Down", "Down", "i"))
        self.assertTrue(any("modeling_gpt2.py:702" in line for line in lines), lines)

    def test_to_the_heap_at_another_instant(self):
        terminal = self.open(GPT)
        at_peak = terminal.settled()
        shown = terminal.key("4", "S-Left", "S-Left", "Left")
        self.assertNotEqual(self.live(shown), self.live(at_peak))
        self.assertRegex(shown, r"reserved in \d+ segments")
        self.assertRegex(shown, r"(?m)^ +[\d.]+ MiB +[\d.]+ MiB +.*█")


    def test_to_the_difference_of_two_files(self):
        terminal = self.open(GPT, DECODE)
        lines = self.tab(terminal.settled())
        self.assertIn("B, the peak of decode_default.reel: ", lines[0])
        wanted = self.document("diff", GPT, DECODE)["devices"][0]["categories"][0]
        self.assertEqual(wanted["category"], "activation")
        self.assertRegex(lines[2], r"^ *-3.23 GiB +3.23 GiB +0 B  ■ activations")
        self.assertAlmostEqual(wanted["change_bytes"] / 2**30, -3.23, delta=0.005)
        self.assertIn(wanted["place"].split(" (")[1], lines[3])

    def test_to_what_changed_between_two_instants(self):
        terminal = self.open(GPT)
        kept = self.tab(terminal.key("S-Left", "k"))
        self.assertIn("Nothing changed", kept[-2] + kept[1])
        changed = self.tab(terminal.key("p"))
        self.assertIn("A, the kept instant", changed[0])
        self.assertRegex(changed[2], r"^ +\+[\d.]+ \w+")


class Notes(BrowseTest):
    """What a trace lacks is said on the first screen, in the words of the report."""

    def check_notes(self, trace, *words):
        shown = self.open(trace, size=(200, 60)).settled()
        said = [line.split(f"{trace.name}: ", 1)[1] for line in run("report", trace).stderr.splitlines() if line.startswith("memreel: note: ")]
        self.assertEqual([line[:150] for line in re.findall(r"(?m)^note (.*)$", shown)], [line[:150] for line in said[:2]])
        for word in words:
            self.assertIn(word, shown)
        return shown

    def test_a_late_start(self):
        late = test_late.without_first(test_late.load(test_late.EXACT[0]), 0.5)
        self.check_notes(self.file("late.pickle", pickle.dumps(late)), "note the recording began late: ")
        self.assertNotIn("note ", self.open(GPT).settled(), "which is complete")
        small = self.open(self.directory / "late.pickle")
        self.assertIn("note the recording began late: ", small.settled())
        self.assertNotIn("note ", small.key("v"), "it is hidden with the verdict")

    def test_one_instant_is_no_history(self):
        """Of a snapshot whose history holds nothing but what is already allocated."""
        document = snapshot(1024)
        document["device_traces"] = [trace[-1:] for trace in document["device_traces"]]
        trace = self.file("instant.pickle", pickle.dumps(document))
        self.assertIn("recorded one instant", run("info", trace).stdout)
        shown = self.check_notes(trace, "note one instant, not a history: ", " Instant ")
        self.assertNotIn("peak", "\n".join(shown.split("\n")[:5]))
        self.assertNotIn("live peak", shown)
        self.assertNotIn("began late", run("report", trace).stderr)

    def test_damage(self):
        whole = bytearray(GPT.read_bytes())
        middle = len(whole) // 2
        whole[middle:middle + 400] = bytes(255 - byte for byte in whole[middle:middle + 400])
        self.check_notes(self.file("damaged.reel", bytes(whole)), "note damaged: 1 packet")

    def test_what_is_synthetic(self):
        recordings = []
        for batch in (2, 4):
            recordings.append(f"batch={batch}:" + str(self.file(f"b{batch}.pickle", training(batch=batch).pickle())))
        large = self.directory / "large.reel"
        self.answer("predict", *recordings, "--to", "batch=8", "-o", large)
        self.assertIn("note synthetic: predicted from recordings", self.open(large).settled())


class Jobs(BrowseTest):
    """Ranks of a job, and files that grow."""

    def test_ranks_are_listed_opened_and_compared(self):
        for rank, trace in enumerate((GPT, LEAK, OOM)):
            self.file(f"rank{rank}.reel", trace.read_bytes())
        terminal = self.open(*(self.directory / f"rank{rank}.reel" for rank in range(3)), size=(120, 40))
        lines = self.tab(terminal.settled())
        # As `memreel fleet` says it; the rank that decides comes first.
        said = " ".join(run("fleet", self.directory, "--no-setting").stdout.split())
        self.assertTrue(said.startswith("rank 2 ran out of memory"), said)
        first = next(i for i, line in enumerate(lines) if "k compares with it" in line)
        answer = " ".join(" ".join(lines[:first]).replace("decides:", "decides").replace("fails:", "fails").split())
        for sentence in re.split(" (?=decides|fails)", answer):
            self.assertIn(sentence, said)
        self.assertEqual(len(re.split(" (?=decides|fails)", answer)), 3)
        self.assertIn("decides", lines[first + 2])
        for row, peak in ((2, "1.93 GiB"), (3, "5.37 GiB"), (4, "193.05 MiB")):
            self.assertIn(peak, lines[first + row])
        by_peak = self.tab(terminal.key(">", ">"))
        self.assertEqual([re.findall(r"[\d.]+ [GM]iB", line)[1] for line in by_peak[first + 2:first + 5]],
                         ["5.37 GiB", "1.93 GiB", "193.05 MiB"])
        compared = terminal.key("Down", "k")
        self.assertIn("B, the peak of rank2.reel: 1.93 GiB live", "\n".join(self.tab(compared)))
        opened = terminal.key("r", "Enter")
        self.assertIn("rank2.reel", opened.split("\n")[0])
        self.assertIn("1.93 GiB live", opened)
        self.end(terminal)

    def test_a_directory_is_a_job(self):
        for rank in range(2):
            self.file(f"rank{rank}.reel", (GPT, LEAK)[rank].read_bytes())
        terminal = self.open(self.directory)
        self.assertIn("peak reserved", "\n".join(self.tab(terminal.settled())))
        self.end(terminal)

    def test_a_job_opens_on_the_rank_that_decides(self):
        """Behind its answer; the first file is only a beginning."""
        (self.directory / "job").mkdir()
        self.file("job/rank0.reel", GPT.read_bytes()[:40])
        for rank, trace in enumerate((LEAK, GPT, OOM), 1):
            self.file(f"job/rank{rank}.reel", trace.read_bytes())
        terminal = self.open(self.directory / "job", size=(120, 40))
        self.assertIn("rank3.reel", terminal.settled().split("\n")[0])
        self.end(terminal)

    def test_a_job_of_one_recording_says_which_ranks_are_missing(self):
        """As `memreel fleet` says it; not of a program that ran alone."""
        (self.directory / "job").mkdir()
        header = {"host": "node7", "process": 4711, "start_ns": 0}
        for environment, said in (({"RANK": 1, "WORLD_SIZE": 4}, True), ({}, False)):
            self.file("job/run.reel", fleet_job.with_header(GPT.read_bytes(), **header, environment=environment))
            terminal = self.open(self.directory / "job", size=(120, 40))
            shown = terminal.settled()
            self.assertIn("run.reel", shown.split("\n")[0])
            self.assertEqual("3 of 4 ranks missing: 0, 2, 3" in shown, said, shown)
            self.end(terminal)


class Keys(BrowseTest):
    def test_it_opens_at_the_live_peak(self):
        terminal = self.open(LEAK)
        self.assertIn("(live peak)", terminal.settled())
        self.end(terminal)

    def test_the_cursor_moves_and_jumps(self):
        terminal = self.open(GPT)
        peak = self.live(terminal.settled())
        left = self.live(terminal.key("Left"))
        self.assertNotEqual(left, peak)
        self.assertEqual(self.live(terminal.key("Right")), peak)
        far = self.live(terminal.key("S-Left"))
        self.assertLess(int(far[0].replace(",", "")), int(left[0].replace(",", "")))
        self.assertGreater(int(self.live(terminal.key("S-Right"))[0].replace(",", "")), int(far[0].replace(",", "")))
        far = self.live(terminal.key("S-Left"))
        next_event = self.live(terminal.key("."))
        self.assertNotEqual(next_event, far)
        self.assertEqual(self.live(terminal.key(",")), far)
        mark = self.live(terminal.key("]"))
        self.assertNotEqual(mark, far)
        self.assertNotEqual(self.live(terminal.key("[")), mark)
        self.assertEqual(self.live(terminal.key("p")), peak)
        self.assertNotEqual(self.live(terminal.key("P"))[0], "0")
        self.assertEqual(self.live(terminal.key("g"))[0], peak[0], "the verdict points to the peak")

    def test_the_timeline_zooms_and_pans(self):
        terminal = self.open(GPT)
        timeline = lambda shown: shown.split("\n")[4:12]
        everything = timeline(terminal.settled())
        near = timeline(terminal.key("w", "w", "w"))
        self.assertNotEqual(near, everything)
        earlier = timeline(terminal.key("a"))
        self.assertNotEqual(earlier, near)
        self.assertNotEqual(timeline(terminal.key("d")), earlier)
        self.assertEqual(timeline(terminal.key("0")), everything)
        self.assertNotEqual(timeline(terminal.key("+")), everything)
        self.assertEqual(timeline(terminal.key("Home")), everything)
        terminal.key("w", "s")
        self.assertEqual(timeline(terminal.key("-")), everything)
        by_event = terminal.key("t")
        self.assertIn("by event", by_event)
        self.assertIn("by step", terminal.key("t"))
        self.assertNotIn("by ", terminal.key("t").split("\n")[0])
        before = terminal.key(".", "f")
        self.assertNotEqual(timeline(before), everything)
        self.assertEqual(timeline(terminal.key("f")), everything)
        self.assertNotEqual(timeline(terminal.key("M-Left")), None)

    def test_the_tree_folds_and_is_searched_and_sorted(self):
        terminal = self.open(GPT)
        opened = self.tab(terminal.settled())
        closed = self.tab(terminal.key("Enter"))
        self.assertIn("▸ activations", closed[1])
        self.assertNotIn("modeling", closed[2])
        self.assertEqual(self.tab(terminal.key("Enter")), opened)
        terminal.key("Enter")
        self.assertIn("only activations", self.tab(terminal.key("e"))[0])
        self.assertEqual(self.tab(terminal.key("Escape")), closed)
        by_count = self.tab(terminal.key(">"))
        counts = [int(line.split()[4].replace(",", "")) for line in by_count[1:7]]
        self.assertEqual(counts, sorted(counts, reverse=True))
        names = [line.split("▸")[1] for line in self.tab(terminal.key(">"))[1:7]]
        self.assertEqual(names, sorted(names))
        self.assertEqual(self.tab(terminal.key(">")), closed)
        self.assertEqual(self.tab(terminal.key("<", ">")), closed)
        terminal.key("/")
        self.assertIn("/adam", terminal.type("adam"))
        found = terminal.key("Enter")
        self.assertIn("only /adam", found)
        self.assertIn("optimizer state", "\n".join(self.tab(found)))
        self.assertNotIn("activations", "\n".join(self.tab(found)))
        self.assertEqual(self.tab(terminal.key("Escape")), closed)
        self.assertGreater(len([line for line in self.tab(terminal.key("x")) if line.strip()]), 6)

    def test_the_stack_of_a_row_and_copies(self):
        terminal = self.open(GPT)
        stack = terminal.key("Down", "Down", "i")
        self.assertIn("the stack, innermost first", stack)
        self.assertIn("copied the stack", terminal.key("y"))
        copied = terminal.clipboard()
        self.assertIn("record.py", copied)
        self.assertGreater(len(copied.splitlines()), 3)
        terminal.key("PPage", "NPage", "Escape")
        terminal.key("y")
        self.assertIn("587.89 MiB", terminal.clipboard())
        terminal.key("8", "Down", "y")
        self.assertEqual(terminal.clipboard(), "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")

    def test_tabs_by_key(self):
        terminal = self.open(OOM)
        for key, words in (("4", "reserved in"), ("5", "verdict"), ("6", "reserved peak"), ("7", "requested"), ("8", "replayed"), ("2", "share")):
            self.assertIn(words, "\n".join(self.tab(terminal.key(key))))
        self.assertIn("█", "\n".join(self.tab(terminal.key("Tab"))))
        self.assertIn("share", "\n".join(self.tab(terminal.key("BTab"))))
        self.assertIn("k keeps the cursor's instant", "\n".join(self.tab(terminal.key("9"))))
        failed = terminal.key("o")
        self.assertIn("requested", "\n".join(self.tab(failed)))
        self.assertIn("!", failed)
        self.assertIn("frag", terminal.key("h") and terminal.key("6"))

    def test_rows_lead_to_their_instant(self):
        terminal = self.open(LEAK)
        shown = terminal.key("5", "Enter")
        self.assertEqual(int(self.live(shown)[0].replace(",", "")), self.document("info", LEAK)["events"] - 1, "the last one")
        self.assertIn("innermost first", terminal.key("Enter"))
        self.assertNotIn("innermost first", terminal.key("Enter"))

    def test_help_and_the_rest(self):
        terminal = self.open(GPT)
        before = terminal.settled()
        helped = terminal.key("?")
        self.assertIn("zoom in, out", helped)
        self.assertNotEqual(terminal.key("Down"), helped)
        self.assertEqual(terminal.key("Escape"), before)
        self.assertNotIn("live at the peak:", terminal.key("v"))
        self.assertEqual(terminal.key("v"), before)
        self.assertIn("paused", terminal.key("Space"))
        terminal.key("Space")
        self.assertNotEqual(terminal.key("c"), before)
        terminal.key("c")
        self.assertIn("/ searches", terminal.key("n"))
        terminal.key("z")
        self.end(terminal)

    def test_other_spellings_of_keys(self):
        terminal = self.open(GPT)
        everything = self.timeline(terminal.settled())
        near = self.timeline(terminal.key("w"))
        for key in "W+=":
            terminal.key("0")
            self.assertEqual(self.timeline(terminal.key(key)), near, key)
        for key in "sS-":
            terminal.key("0", "w", "w")
            self.assertEqual(self.timeline(terminal.key(key)), near, key)
        earlier = self.timeline(terminal.key("0", "w", "a"))
        self.assertEqual(self.timeline(terminal.key("0", "w", "A")), earlier)
        later = self.timeline(terminal.key("0", "w", "a", "d"))
        self.assertEqual(self.timeline(terminal.key("0", "w", "a", "D")), later)
        self.assertNotEqual(later, earlier)
        terminal.key("0", "/")
        terminal.type("adam")
        self.assertIn("only /adam", terminal.key("Enter"))
        self.assertNotIn("only", terminal.key("BSpace"))
        self.assertEqual(self.timeline(terminal.settled()), everything)
        self.assertNotIn("live at the peak:", terminal.key("C-s", "v"), "which is no stop of the terminal's output")
        self.assertIn("code 0", terminal.key("C-q"))

    def test_allocations_are_listed_sorted_and_led_to(self):
        units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
        terminal = self.open(GPT, size=(120, 40))
        lines = self.tab(terminal.key("1"))
        self.assertRegex(lines[0], r"^[\d,]+ allocations in view, of which these are the 10,000 largest: ")
        size = [float(number) * units[unit] for number, unit in re.findall(r"(?m)^ *([\d.]+) (\w?i?B) ", "\n".join(lines[2:]))]
        self.assertGreater(len(size), 10)
        self.assertEqual(size, sorted(size, reverse=True))
        terminal.key(">")
        self.assertIn("to the end", self.tab(terminal.shows("longest-lived"))[2])
        for order in ("latest", "first", "largest"):
            terminal.key(">")
            terminal.shows(f"the 10,000 {order}: ")
        self.assertEqual(self.tab(terminal.settled()), lines)
        terminal.key("/")
        terminal.type(">500MiB")
        found = self.tab(terminal.key("Enter"))
        self.assertLess(int(found[0].split()[0].replace(",", "")), 10_000)
        self.assertNotEqual(self.live(terminal.key("Down", "Enter")), self.live(terminal.key("p")))
        everything = self.timeline(terminal.key("Enter"))
        life = self.timeline(terminal.key("f"))
        self.assertNotEqual(life, everything)
        self.assertIn("innermost first", terminal.key("i"))
        self.assertRegex(terminal.key("i", "y"), r"copied: 0x[0-9a-f]+  587\.89 MiB  ")

    def test_the_flame_tree(self):
        terminal = self.open(GPT, size=(120, 40))
        lines = self.tab(terminal.key("3"))
        self.assertRegex(lines[1], r"^ *4\.19 GiB +78\.0 % +[\d,]+  █{8}    ▾ <module> \(record\.py:\d+\)")
        self.assertRegex(lines[2], r"%  +\d+  █*▌? +[▸▾ ] ")
        self.assertNotEqual(self.tab(terminal.key("Enter")), lines)
        self.assertEqual(self.tab(terminal.key("Enter")), lines)
        self.assertIn("only ", self.tab(terminal.key("Down", "e"))[0])
        self.assertEqual(self.tab(terminal.key("Escape"))[1:3], lines[1:3])
        self.assertNotEqual(self.tab(terminal.key("P", "S-Left")), lines)

    def test_a_marked_range_is_what_trees_and_lists_show(self):
        terminal = self.open(GPT)
        at_peak = terminal.settled()
        terminal.key("w", "w", "w")
        allocated = terminal.key("m")
        self.assertRegex(self.tab(allocated)[0], r"^allocated in the range of [\d.]+ s, live [+-][\d.]+ \wiB over it")
        out = self.timeline(terminal.key("s"))
        self.assertTrue(all("[" in line and "]" in line for line in out[:6]), out)
        terminal.key("f")
        kept = self.tab(terminal.key("m"))
        self.assertIn("kept of the range", kept[0])
        self.assertNotEqual(kept[1:], self.tab(allocated)[1:])
        self.assertIn("kept of the range", self.tab(terminal.key("3"))[0])
        self.assertIn("in the range", self.tab(terminal.key("1"))[0])
        self.assertIn("allocated in the range", self.tab(terminal.key("2", "M"))[0])
        self.assertEqual(self.tab(terminal.key("Escape", "0")), self.tab(at_peak))

    def test_python_variables(self):
        path = test_record_holders.Reports.snapshot(self)
        terminal = self.open(path, size=(120, 40))
        shown = terminal.key("u")
        Screens.check(self, "tab-variables", shown)
        self.assertIn(test_record_holders.HISTORY, "\n".join(self.tab(shown)))
        at_end = terminal.key("Down", "Enter")
        self.assertEqual(int(self.live(at_end)[0].replace(",", "")), self.document("info", path)["events"] - 1)
        self.assertIn("innermost first", terminal.key("Enter"))
        other = self.open(GPT)
        self.assertIn("not recorded", other.key("u"))
        self.assertIn("no request failed", other.key("7"))
        self.assertIn("one trace is open", other.key("r"))

    def test_the_next_heap(self):
        snapshot = pickle.loads(test_leaks.Training().snapshot())
        snapshot["device_traces"].append(copy.deepcopy(snapshot["device_traces"][0]))
        terminal = self.open(self.file("two.pickle", pickle.dumps(snapshot)))
        first = terminal.settled()
        self.assertIn("(h: 2 heaps)", first)
        other = terminal.key("h")
        self.assertEqual({name for shown in (first, other) for name in re.findall(r"device \d", shown.split("\n")[0])}, {"device 0", "device 1"})
        self.assertEqual(terminal.key("h").split("\n")[0], first.split("\n")[0])

    def test_matches_views_and_grounds(self):
        terminal = self.open(GPT)
        terminal.key("/")
        terminal.type("modeling")
        terminal.key("Enter", "Down", "n", "y")
        first = terminal.clipboard()
        self.assertIn("modeling", first)
        terminal.key("n", "y")
        self.assertNotEqual(terminal.clipboard(), first)
        terminal.key("N", "y")
        self.assertEqual(terminal.clipboard(), first)
        before = self.live(terminal.key("Escape"))
        there = self.live(terminal.key("P"))
        self.assertEqual(self.live(terminal.key("M-Left")), before)
        self.assertEqual(self.live(terminal.key("M-Right")), there)
        dark = terminal.screen(colours=True)
        terminal.key("l")
        self.assertNotEqual(terminal.screen(colours=True), dark)
        terminal.key("x", "End", "y")
        last = terminal.clipboard()
        terminal.key("PPage", "y")
        self.assertNotEqual(terminal.clipboard(), last)
        terminal.key("NPage", "y")
        self.assertEqual(terminal.clipboard(), last)
        terminal.key("Up", "y")
        self.assertNotEqual(terminal.clipboard(), last)
        self.end(terminal)

    def test_the_mouse(self):
        terminal = self.open(GPT)
        shown = terminal.settled()
        clicked = terminal.mouse(40, 6)
        self.assertNotEqual(self.live(clicked), self.live(shown))
        self.assertNotEqual(self.timeline(terminal.mouse(40, 6, 64)), self.timeline(clicked), "the wheel zooms")
        line, tabs = next((i, line) for i, line in enumerate(shown.split("\n")) if re.match(" ?1 alloc", line))
        self.assertIn("reserved in", terminal.mouse(tabs.index("4 heap") + 2, line))
        terminal.mouse(tabs.index("2 holders") + 2, line)
        row = terminal.mouse(30, line + 4)
        self.assertIn("innermost", terminal.mouse(30, line + 4) if "▸" not in row.split("\n")[line + 4] else terminal.key("i"))

    def test_a_search_by_size(self):
        terminal = self.open(GPT)
        terminal.key("/")
        terminal.type(">100MiBx")
        shown = terminal.key("BSpace", "Enter")
        self.assertIn("only />100MiB", shown)
        counts = [int(line.split()[4].replace(",", "")) for line in self.tab(shown)[1:3]]
        self.assertLess(counts[0], 20)


class Endings(BrowseTest):
    """Whatever happens, the terminal is left as it was."""

    def shell(self, trace=GPT):
        """A shell that writes the terminal's modes to files, before and after."""
        terminal = Terminal(self.directory, f"cd {shlex.quote(str(self.directory))}; stty -a > before; "
                                            f"echo earlier; $MEMREEL browse {shlex.quote(str(trace))}; echo ended $?; stty -a > after")
        self.addCleanup(terminal.close)
        terminal.shows("holders")
        return terminal

    def check(self, terminal, *words):
        shown = terminal.shows("code 0", "earlier", *words)
        self.assertNotIn("holders", shown, "the other screen is left")
        self.assertEqual((self.directory / "before").read_text(), (self.directory / "after").read_text())
        flags = terminal.tmux("display-message", "-p", "#{cursor_flag} #{mouse_any_flag} #{keypad_flag} #{alternate_on}").split()
        self.assertEqual(flags, ["1", "0", "0", "0"])

    def test_quit(self):
        terminal = self.shell()
        terminal.tmux("send-keys", "-t", "0", "q")
        self.check(terminal, "ended 0")

    def test_signals(self):
        crashes = () if SANITIZED else (signal.SIGSEGV, signal.SIGABRT)  # sanitizers end the process their own way
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, *crashes):
            with self.subTest(number.name):
                terminal = self.shell()
                os.kill(terminal.process(), number)
                self.check(terminal, f"ended {128 + number}")
                terminal.close()

    def test_ctrl_c(self):
        terminal = self.shell()
        terminal.tmux("send-keys", "-t", "0", "C-c")
        terminal.until(lambda shown: "holders" not in shown)

    def test_it_is_suspended_and_goes_on(self):
        command = f"cd {shlex.quote(str(self.directory))}; bash --norc -i"
        terminal = Terminal(self.directory, command, PS1="$ ")
        self.addCleanup(terminal.close)
        terminal.shows("$")
        terminal.tmux("send-keys", "-t", "0", "-l", f"{MEMREEL} browse {GPT}")
        terminal.tmux("send-keys", "-t", "0", "Enter")
        terminal.shows("holders")
        browsing = terminal.settled()
        terminal.tmux("send-keys", "-t", "0", "C-z")
        self.assertNotIn("holders", terminal.shows("Stopped"))
        self.assertEqual(terminal.tmux("display-message", "-p", "#{cursor_flag} #{alternate_on}").split(), ["1", "0"])
        terminal.tmux("send-keys", "-t", "0", "-l", "fg")
        terminal.tmux("send-keys", "-t", "0", "Enter")
        terminal.shows("holders")
        self.assertEqual(terminal.settled(), browsing)
        self.assertNotEqual(terminal.key("4"), browsing, "keys arrive")

    def test_a_terminal_that_goes_away_ends_it(self):
        terminal = self.shell()
        process = terminal.process()
        terminal.close()
        deadline = time.monotonic() + PATIENCE
        while os.path.exists(f"/proc/{process}"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)


class Refusals(BrowseTest):
    def test_without_a_terminal(self):
        self.assert_refused(run("browse", GPT), "terminal", "memreel report")

    def test_a_missing_file_without_a_terminal(self):
        """A terminal would not help."""
        missing = self.directory / "missing.reel"
        for words in ([missing], [GPT, missing], [missing, GPT], [GPT, "--compare", missing]):
            self.assert_refused(run("browse", *words), missing, "No such file")

    def test_files_that_are_no_traces(self):
        for name, content in (("missing", None), ("text.reel", b"no trace"), ("empty.pickle", b"")):
            path = self.directory / name
            if content is not None:
                path.write_bytes(content)
            with self.subTest(name):
                terminal = Terminal(self.directory, f"$MEMREEL browse {shlex.quote(str(path))} 2>{shlex.quote(str(self.directory))}/said")
                terminal.shows("code 2")
                said = (self.directory / "said").read_text()
                self.assertEqual(len(said.splitlines()), 1, said)
                self.assertIn(name, said)
                terminal.close()

    def test_bad_usage(self):
        for words in (["browse"], ["browse", "--colour", GPT], ["browse", GPT, "--max-memory", "much"]):
            self.assert_refused(run(*words))

    def test_a_dumb_terminal_gets_the_report(self):
        wanted = run("report", GPT, environment={"COLUMNS": "80"}).stdout.splitlines()
        terminal = Terminal(self.directory, f"$MEMREEL browse {GPT}", (80, 400), TERM="dumb")
        shown = terminal.shows("code 0").splitlines()
        self.assertEqual(shown[0], wanted[0])
        terminal.close()

    def test_an_instant_that_is_none(self):
        terminal = Terminal(self.directory, f"$MEMREEL browse {GPT} --at yesterday")
        self.addCleanup(terminal.close)
        self.assertIn("--at", terminal.shows("code 2"))

    def test_at_an_instant(self):
        terminal = self.open(OOM, "--at", "oom")
        self.assertNotIn("(live peak)", terminal.settled().split("\n")[0])

    def test_an_event_is_the_one_of_the_report(self):
        """Which prints its number beside each peak."""
        for trace in (GPT, LEAK):
            live, event = re.search(r"peak live ([\d.]+ \wiB) \(event ([\d,]+)\)", run("report", trace).stdout).groups()
            terminal = self.open(trace, "--at", "event:" + event.replace(",", ""))
            self.assertEqual(self.live(terminal.settled()), (event, live))
            self.assertIn("(live peak)", terminal.settled())

    def test_unknown_terminals_are_taken_for_usual_ones(self):
        terminal = self.open(GPT, TERM="newest-terminal-of-all")
        self.assertIn("holders", terminal.settled())


if __name__ == "__main__":
    unittest.main()
