# SPDX-License-Identifier: Apache-2.0
"""Jobs beside the viewer's window: started, cancelled and resumed by clicks."""

import time
import unittest

from program import SAMPLES
from viewing import PATIENCE, ViewTest


class Jobs(ViewTest):
    def shown_soon(self, view, place):
        """Its position, once it is on screen."""
        deadline = time.monotonic() + PATIENCE
        while place not in (places := view.ask("state")["places"]):
            self.assertLess(time.monotonic(), deadline, f"{place} in {sorted(places)}")
        x, y, width, height = places[place]
        return int(x + width / 2), int(y + height / 2)

    def start(self, view, place):
        """Clicks until the job runs: on a busy machine the layout may move between the query and the click, and a key that
        arrives late turns the pointer off until it moves."""
        for attempt in range(5):
            x, y = self.shown_soon(view, place)
            view.hands("mousemove", x + attempt, y, "sleep", "0.05", "click", 1)
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                if "policies/cancel" in view.ask("state")["places"]:
                    return
        self.fail(f"a click on {place} starts nothing: {view.ask('state')}")

    def test_a_long_job_is_cancelled_by_a_click_and_taken_up_again_by_another(self):
        view = self.open(SAMPLES / "streams_default.reel", "--pane", "policies")
        view.click_on("policies/specs")
        view.key("ctrl+a")
        view.type("plan.best,")
        # 256 of them, so that no machine finishes them all before the check.
        for _ in range(8):
            view.key("ctrl+a", "ctrl+c", "End", "ctrl+v")
        view.key("BackSpace", "Tab")
        for click in ("policies/run", "policies/go on"):
            self.start(view, click)
            view.hands("mousemove", *self.shown_soon(view, "policies/cancel"), "sleep", "0.05", "click", 1)
            ended = view.settled()
            self.assertIn("policies/go on", ended["places"], "it says that it was given up")
            self.assertNotIn("policies/cancel", ended["places"])
            self.assertNotIn("policies/first row", ended["places"], "and there is nothing to show of it")
        self.end(view)


if __name__ == "__main__":
    unittest.main()
