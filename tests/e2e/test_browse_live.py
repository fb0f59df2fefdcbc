# SPDX-License-Identifier: Apache-2.0
"""In a terminal, beside programs that are being recorded: memreel top's live table, and traces that are browsed while they grow."""

import os
import re
import shlex
import signal
import unittest

from program import run
from terminal import MISSING, Terminal
from test_browse_growing import GROWS, STILL
from test_top import WatchTest


@unittest.skipIf(MISSING, "not installed: " + ", ".join(MISSING))
class Table(WatchTest):
    def start(self, count=2):
        """Programs that are being recorded."""
        return sorted(self.start_recording("-o", f"{i}.reel", RANK=i)[1] for i in range(count))

    def open(self, *words, size=(120, 24), **environment):
        command = " ".join(map(shlex.quote, map(str, words)))
        terminal = Terminal(self.directory, f"$MEMREEL {command} --interval 1", size, **environment)
        self.addCleanup(terminal.close)
        return terminal

    def processes(self, shown):
        """In the order of the rows."""
        return [int(found) for found in re.findall(r"(?m)^ .* (\d+)  rank \d fake_program", shown)]

    def live(self, shown):
        units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
        return [float(number) * units[unit] for number, unit in re.findall(r"(?m)^ *([\d.]+) (\w+) .*fake_program", shown)]

    def test_order_and_end(self):
        programs = self.start()
        terminal = self.open("top", *programs)
        shown = terminal.shows("memreel top", "2 processes", "GPU 0: ", "cuda.driver", "peak", "growth/min")
        live = self.live(shown)
        self.assertEqual(live, sorted(live, reverse=True))
        self.assertEqual(self.processes(terminal.key("p")), programs)
        self.assertEqual(self.processes(terminal.key("<", ">")), programs)
        live = self.live(terminal.key("l"))
        self.assertEqual(live, sorted(live, reverse=True))
        terminal.key("r", "g", "x", "N")
        self.assertIn("/ searches", terminal.key("n"))
        self.assertIn("browse the process's trace", terminal.key("?"))
        self.assertNotIn("browse the process's trace", terminal.key("Escape"))
        terminal.until(lambda now: re.search(r"[+-][\d.]+ \w+ +0 +\d", now))  # growth, after a second answer
        self.assertIn("code 0", terminal.key("q"))

    def test_rows_are_found_and_copied(self):
        programs = self.start()
        terminal = self.open("top", *programs)
        terminal.shows("2 processes")
        terminal.key("p", "End", "y")
        self.assertIn("rank 1 fake_program  cuda.driver", terminal.clipboard() + terminal.screen())
        terminal.key("Home", "y")
        self.assertIn(str(programs[0]), terminal.clipboard())
        terminal.key("/")
        terminal.type("rank 1x")
        terminal.key("BSpace", "Enter", "y")
        self.assertIn(str(programs[1]), terminal.clipboard())
        terminal.key("Up", "y")
        self.assertIn(str(programs[0]), terminal.clipboard())
        terminal.key("Down", "PPage", "NPage")
        terminal.mouse(20, 4)
        terminal.key("y")
        self.assertIn(str(programs[0]), terminal.clipboard())

    def test_a_process_leads_to_its_trace_and_back(self):
        [program] = self.start(1)
        terminal = self.open("browse", program, size=(80, 24))
        terminal.shows("1 process\n", "cuda.driver")
        terminal.key("Enter")
        shown = terminal.shows("following", "holders", "live", "q back")
        self.assertIn("0.reel", shown.split("\n")[0])
        self.assertIn("1 process\n", terminal.key("q"))
        os.kill(program, signal.SIGKILL)
        terminal.shows("0 processes", "No process of this machine")
        self.assertIn("code 0", terminal.key("q"))

    def test_processes_that_say_nothing(self):
        [program] = self.start(1)
        os.kill(program, signal.SIGSTOP)
        terminal = self.open("top", program)
        terminal.shows("fake_program: does not answer")
        self.assertIn("has no trace: does not answer", terminal.key("Enter"))
        os.kill(program, signal.SIGCONT)
        self.assertIn("code 0", terminal.key("Q"))

    def test_signals_end_it_and_leave_the_terminal(self):
        [program] = self.start(1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number.name):
                terminal = self.open("top", program)
                terminal.shows("cuda.driver")
                os.kill(terminal.process(), number)
                self.assertNotIn("cuda.driver", terminal.shows("code 0"))
                flags = terminal.tmux("display-message", "-p", "#{cursor_flag} #{keypad_flag} #{alternate_on}").split()
                self.assertEqual(flags, ["1", "0", "0"])
                terminal.close()

    def test_where_it_is_printed(self):
        [program] = self.start(1)
        terminal = self.open("top", program, TERM="dumb")
        terminal.shows("GROWTH/min", "cuda.driver")
        self.assertIn("code 0", terminal.key("q"))
        terminal = self.open("browse", os.getpid())
        self.assertIn("is not being recorded", terminal.shows("code 2"))
        self.assert_refused(run("browse", program), "terminal", "memreel top")


@unittest.skipIf(MISSING, "not installed: " + ", ".join(MISSING))
class Recording(WatchTest):
    def open(self, size=(80, 24)):
        """A program that is being recorded, and its trace in a terminal."""
        _, program = self.start_recording("-o", "run.reel")
        path = self.directory / "run.reel"
        self.wait_until(path.exists, 60)
        terminal = Terminal(self.directory, f"$MEMREEL browse {shlex.quote(str(path))}", size)
        self.addCleanup(terminal.close)
        return program, terminal

    def timeline(self, shown):
        return shown.split("\n")[4:12]

    def test_a_recording_is_followed_to_its_end(self):
        program, terminal = self.open()
        first = terminal.shows("following", "event", "live", "cuda.driver")
        terminal.until(lambda now: self.timeline(now) != self.timeline(first))
        self.assertIn("at ", terminal.key("S-Left", "p"))
        self.memreel("detach", program)
        terminal.until(lambda now: "following" not in now.split("\n")[0])
        ended = terminal.settled()
        self.assertNotIn("Judged once", ended)
        events = self.document("info", self.directory / "run.reel")["events"]
        terminal.key("1")
        self.assertIn("allocations in view", terminal.screen())
        terminal.key("5", "Enter")
        self.assertIn(f"event {events - 1:,}", terminal.screen(), "leaks lead to the end")
        self.assertIn("code 0", terminal.key("q"))

    def test_a_pause_and_keys_while_it_grows(self):
        _, terminal = self.open()
        terminal.shows("following", "event", "live")
        paused = terminal.key("Space")
        self.assertIn("paused", paused)
        shown = terminal.key("w", "m", "2")
        self.assertIn("allocated in the range", shown)
        self.assertIn("paused", shown)
        before = self.timeline(terminal.key("Escape", "0"))
        self.assertEqual(self.timeline(terminal.key("4", "2")), before)
        terminal.key("Space")
        terminal.until(lambda now: self.timeline(now) != before)
        self.assertIn("code 0", terminal.key("q"))

    def test_a_killed_program_leaves_a_trace_that_is_completed(self):
        program, terminal = self.open()
        terminal.shows("following", "event", "live")
        os.kill(program, signal.SIGKILL)
        terminal.until(lambda now: GROWS not in now.split("\n")[0] and STILL in now.split("\n")[0])
        ended = terminal.settled()
        headline = re.search(r"^ Peak +([^\n]*?) *$", ended, re.MULTILINE)[1]
        self.assertIn(headline, " ".join(run("report", self.directory / "run.reel").stdout.split()))
        self.assertIn("live at the peak: ", ended)
        self.assertIn("code 0", terminal.key("q"))


if __name__ == "__main__":
    unittest.main()
