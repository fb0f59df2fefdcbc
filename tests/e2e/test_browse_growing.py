# SPDX-License-Identifier: Apache-2.0
"""Files without a footer in a terminal: followed while they grow, completed once they no longer do."""

import re
import time
import unittest

from program import run
from terminal import MISSING
from test_browse import DECODE, BrowseTest

GROWS, STILL = "following", "cut off, or not growing"


@unittest.skipIf(MISSING, "not installed: " + ", ".join(MISSING))
class Growing(BrowseTest):
    def cut(self):
        """A file with nine tenths of a trace, and what adds the rest."""
        whole = DECODE.read_bytes()
        path = self.file("growing.reel", whole[:len(whole) * 9 // 10])

        def add():
            with path.open("ab") as file:
                file.write(whole[len(whole) * 9 // 10:])
        return path, add

    def grows(self, shown):
        return any(word in shown.split("\n")[0] for word in (GROWS, STILL))

    def test_it_is_followed(self):
        path, add = self.cut()
        terminal = self.open(path)
        first = terminal.until(lambda now: self.grows(now) and "live" in now)
        add()
        wanted = self.open(DECODE).settled().split("\n")[1:]
        self.assertNotEqual(first.split("\n")[1:], wanted)
        terminal.until(lambda now: not self.grows(now))
        terminal.until(lambda now: now.split("\n")[1:] == wanted)

    def test_it_is_judged_as_report_does_once_it_no_longer_grows(self):
        path, add = self.cut()
        terminal = self.open(path)
        terminal.until(lambda now: STILL in now.split("\n")[0])
        headline = re.search(r"(?m)^ Fragmentation +(.*)$", terminal.settled())[1].strip()
        self.assertIn(headline, " ".join(run("report", path).stdout.split()))
        add()
        terminal.until(lambda now: not self.grows(now))

    def test_without_any_event_nothing_is_judged(self):
        """Of a file that was cut off before its first events: nothing is said to be coming."""
        terminal = self.open(self.file("cut.reel", DECODE.read_bytes()[:4000]))
        shown = terminal.until(lambda now: STILL in now.split("\n")[0])
        self.assertIn("No events are in this file.", shown)
        self.assertIn("note incomplete: ", shown)
        for key in "568":
            self.assertIn("No events are in this file.", "\n".join(self.tab(terminal.key(key))))

    def test_a_pause_keeps_what_is_shown(self):
        path, add = self.cut()
        terminal = self.open(path)
        terminal.until(lambda now: self.grows(now) and "live" in now)
        paused = terminal.key("Space")
        self.assertIn("paused", paused)
        add()
        time.sleep(1)
        self.assertEqual(terminal.settled().split("\n")[4:12], paused.split("\n")[4:12])
        terminal.key("Space")
        terminal.until(lambda now: now.split("\n")[4:12] != paused.split("\n")[4:12])


if __name__ == "__main__":
    unittest.main()
