# SPDX-License-Identifier: Apache-2.0
"""Mouse and keys at a user's pace: nothing asks the viewer for frames, and the answer is read off the screen."""

import json
import statistics
import subprocess
import time
import unittest

from program import SAMPLES
from viewing import PATIENCE, VIEW, ViewTest

SIZE = (900, 600)  # a software renderer is fast enough to measure what the viewer adds
QUIET = 0.8  # seconds without input: more than the viewer needs to become idle


class Input(ViewTest):
    def setUp(self):
        super().setUp()
        trace = SAMPLES / "leak.reel"
        settings = self.directory / "memreel" / "view.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"tour_done": True}))
        asked = self.open(trace, size="{}x{}".format(*SIZE))
        self.places = asked.settled()["places"]
        self.end(asked)
        self.process = subprocess.Popen([VIEW, trace, "--size", "{}x{}".format(*SIZE)],
                                        env={**self.screen.environment, "XDG_CONFIG_HOME": str(self.directory)},
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.process.stderr.close)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.pixels = self.screen.pixels()
        self.until_it_rests()

    def shown(self, place):
        return self.pixels(self.places[place])

    def hands(self, *words):
        subprocess.run(["xdotool", *map(str, words)], env=self.screen.environment, check=True, stdout=subprocess.DEVNULL)

    def until_it_rests(self):
        """Waits until the picture stays the same."""
        deadline, last, since = time.monotonic() + PATIENCE, None, time.monotonic()
        while time.monotonic() - since < QUIET:
            now = self.pixels((0, 0, *SIZE))
            if now != last or not any(now):
                last, since = now, time.monotonic()
            self.assertLess(time.monotonic(), deadline, "the picture does not come to rest")
            time.sleep(0.02)

    def middle(self, place):
        x, y, width, height = self.places[place]
        return int(x + width / 2), int(y + height / 2)

    def seconds_until(self, changed, patience=2.0):
        """From now until `changed` says so; None if it does not."""
        start = time.monotonic()
        while not changed():
            if time.monotonic() - start > patience:
                return None
            time.sleep(0.001)
        return time.monotonic() - start

    def test_every_double_click_works(self):
        before = self.shown("timeline")
        for pause in (20 + 180 * i // 19 for i in range(20)):
            self.hands("mousemove", *self.middle("tab/stacks"), "sleep", QUIET)
            self.hands("click", "--repeat", 2, "--delay", pause, 1)
            self.assertIsNotNone(self.seconds_until(lambda: self.shown("timeline") != before),
                                 f"two clicks {pause} ms apart did not maximise")
            self.hands("key", "Escape")
            self.assertIsNotNone(self.seconds_until(lambda: self.shown("timeline") == before))

    def test_a_click_acts_at_once(self):
        taken = []
        for number in range(12):
            tab = ("tab/stacks", "tab/allocations")[number % 2]
            time.sleep(QUIET)
            x, y, width, height = self.places[tab]
            # The line below the name of the tab that is open, beside the pointer.
            below = (x, y + height - 1, width / 4, 1)
            before = self.pixels(below)
            # As a touchpad does it: the tap is over before the frame that the movement causes.
            self.hands("mousemove", *self.middle(tab), "mousedown", 1, "mouseup", 1)
            taken.append(self.seconds_until(lambda: self.pixels(below) != before))
        self.assertNotIn(None, taken)
        # 10 to 20 ms; a wait for the next idle frame takes 170 and more, also on a machine half as fast.
        self.assertLess(statistics.median(taken), 0.1, taken)

    def test_keys_act_at_once(self):
        before, taken = self.shown("allocations"), []
        for _ in range(6):
            for key, is_there in (("Down", False), ("Escape", True)):
                time.sleep(QUIET)
                self.hands("key", key)
                taken.append(self.seconds_until(lambda: (self.shown("allocations") == before) == is_there))
        self.assertNotIn(None, taken, "the ring and the row come and go")
        self.assertLess(statistics.median(taken), 0.1, taken)


if __name__ == "__main__":
    unittest.main()
