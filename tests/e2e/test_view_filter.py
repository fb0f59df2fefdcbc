# SPDX-License-Identifier: Apache-2.0
"""Filters by text, size and category, in every pane."""

import re
import unittest

from program import SAMPLES
from test_view_range import events_of
from viewing import ViewTest, picture

MIB = 1 << 20


def live_after(events, count):
    """The allocations that are live after this many events."""
    live = {}
    for event in events[:count]:
        if event["kind"] == "alloc":
            live[event["allocation"]] = event
        elif event["kind"] == "free_requested":
            live.pop(event["allocation"], None)
    return live.values()


def held(events, count, passes):
    """Bytes of those that pass the filter."""
    return sum(int(event["size"]) for event in live_after(events, count) if passes(event))


class Filter(ViewTest):
    def search(self, view, text):
        view.key("slash")
        return view.type(text)

    def instead(self, view, text):
        """Changes the search text."""
        view.key("slash")
        view.hold("ctrl+a")
        return view.type(text)

    def test_a_search_is_about_every_pane(self):
        trace = SAMPLES / "gpt_default.reel"
        made = [e for e in events_of(trace) if e["kind"] == "alloc"]
        found = [int(e["size"]) for e in made if "modeling_gpt2.py" in e["stack"]]
        self.assertTrue(0 < len(found) < len(made))
        view = self.open(trace)
        whole = view.settled()
        view.key("2")
        view.click_on("weigh/allocated in view")
        shown = self.search(view, "modeling_gpt2.py")
        self.assertEqual((shown["tab"], shown["matches"]), ("stacks", len(found)), "what was looked at still is")
        weighed = shown["weighed_bytes"]
        view.click_on("title/heap", 0.9)
        self.assertEqual(weighed, sum(found))
        view.key("3")
        flame = view.click_on("weigh/allocated in view")["flame"]
        self.assertEqual(sum(node["bytes"] for node in flame if node["depth"] == 1), sum(found))
        # The timeline shows only what matches, and so do the categories at the cursor.
        self.assertLess(sum(view.settled()["categories"].values()), whole["live_bytes"])
        self.assertEqual(view.key("Escape")["search"], "")
        self.assertEqual(sum(view.settled()["categories"].values()), whole["live_bytes"])
        self.end(view)

    def test_the_map_pales_what_does_not_match(self):
        view = self.open(SAMPLES / "oom_default.reel", "--pane", "map")
        view.settled()
        bright = self.look(view)
        self.search(view, "no such function")
        view.settled()
        self.assertLess(self.look(view), bright / 2)
        self.end(view)

    def look(self, view):
        """The amount of colour."""
        file = self.directory / "map.png"
        view.ask("screenshot", file=str(file))
        _, _, rows = picture(file)
        strong = 0
        for row in rows[::5]:
            for x in range(0, len(row) - 2, 15):
                pixel = row[x:x + 3]
                strong += max(pixel) - min(pixel) > 60
        return strong

    def test_sizes_are_typed_or_chosen(self):
        trace = SAMPLES / "gpt_default.reel"
        sizes = [int(e["size"]) for e in events_of(trace) if e["kind"] == "alloc"]
        view = self.open(trace)
        view.settled()
        self.assertEqual(self.search(view, ">1MiB")["listed"], sum(size > MIB for size in sizes))
        view.hold("ctrl+a")
        self.assertEqual(view.type("<= 1 MiB")["listed"], sum(size <= MIB for size in sizes))
        view.hold("ctrl+a")
        both = view.type(">=64KiB <1MiB modeling_gpt2")
        self.assertTrue(0 < both["listed"] < sum(64 << 10 <= size < MIB for size in sizes))
        view.key("Return")
        view.click_on("size")
        chosen = view.click_on("size/20MiB")
        self.assertEqual(chosen["search"], "<1MiB modeling_gpt2 >=20MiB")
        view.click_on("title/heap", 0.9)
        view.key("Escape")
        view.click_on("size")
        self.assertEqual(view.click_on("size/20MiB")["listed"], sum(size >= 20 * MIB for size in sizes))
        view.click_on("size")
        self.assertEqual(view.click_on("size/")["search"], "")
        self.end(view)

    def test_a_category_limits_all_lists(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        held = view.settled()["categories"]["activation"]
        view.key("2")
        view.click_on("category")
        self.assertEqual(view.click_on("category/activation")["weighed_bytes"], held)
        self.end(view)

    def test_instants_are_compared_by_what_passes(self):
        events = events_of(SAMPLES / "gpt_default.reel")
        view = self.open(SAMPLES / "gpt_default.reel")
        view.key("k")
        view.click_on("timeline", 0.97)
        view.key("9")
        self.search(view, "modeling_gpt2.py")
        self.check_compared(view, events, events, lambda event: "modeling_gpt2.py" in event["stack"])
        changed = self.copied_rows(view, "compare")
        self.instead(view, "modeling_gpt2.py >=1MiB")
        self.check_compared(view, events, events,
                            lambda event: "modeling_gpt2.py" in event["stack"] and int(event["size"]) >= MIB)
        self.assertLess(len(self.copied_rows(view, "compare")), len(changed))
        view.click_on("category")
        view.click_on("category/activation")
        self.check_compared(view, events, events,
                            lambda event: "modeling_gpt2.py" in event["stack"] and int(event["size"]) >= MIB and
                            event["category"] == "activation")
        # All categories are listed, so that another one can be chosen; layers only for the chosen one.
        view.click_on("compare/by category")
        self.assertGreater(len(self.copied_rows(view, "changed categories")), 1)
        view.click_on("compare/by layer")
        self.assertEqual({row[3] for row in self.copied_rows(view, "changed layers")}, {"activations"})
        view.click_on("title/heap", 0.9)
        view.key("Escape", "Escape")
        whole = view.settled()
        self.assertEqual((whole["search"], whole["category"]), ("", None))
        self.check_compared(view, events, events, lambda event: True)
        self.end(view)

    def test_traces_are_compared_by_what_passes(self):
        traces = SAMPLES / "gpt_default.reel", SAMPLES / "decode_default.reel"
        a, b = map(events_of, traces)
        view = self.open(traces[0], "--compare", traces[1], "--pane", "compare")
        self.check_compared(view, a, b, lambda event: True)
        self.search(view, "modeling_gpt2.py")
        self.check_compared(view, a, b, lambda event: "modeling_gpt2.py" in event["stack"])
        self.instead(view, ">1MiB")
        self.check_compared(view, a, b, lambda event: int(event["size"]) > MIB)
        self.end(view)

    def check_compared(self, view, a, b, passes):
        compared = view.settled()["compared"]
        self.assertEqual(compared["listed_bytes"], [held(a, compared["a"], passes), held(b, compared["b"], passes)])

    def test_leaks_are_those_that_pass(self):
        trace = SAMPLES / "leak.reel"
        leaks = self.document("report", trace, "--leaks", "--allocations")["leaks"]

        def expected(text, least=0):
            """The number of allocations of each cause that pass."""
            counts = []
            for leak in leaks:
                found = not text or any(text in frame["file"] for frame in leak["stack"])
                counts.append(sum(found and allocation["bytes"] >= least for allocation in leak["allocations"]))
            return sorted(count for count in counts if count)

        def shown(view):
            return sorted(int(row[2].replace(",", "")) for row in self.copied_rows(view, "leaks"))

        view = self.open(trace, "--pane", "leaks")
        self.assertEqual(shown(view), expected(""))
        self.search(view, "linear.py")
        self.assertEqual(shown(view), expected("linear.py"))
        self.assertLess(len(expected("linear.py")), len(expected("")))
        self.instead(view, ">=1MiB")
        self.assertEqual(shown(view), expected("", MIB))
        self.assertLess(sum(expected("", MIB)), sum(expected("")), "of one cause some pass and others do not")
        self.instead(view, "no such function")
        self.assertNotIn("leaks/first row", view.settled()["places"])
        self.end(view)

    def test_what_pins_is_what_passes(self):
        trace = SAMPLES / "gpt_default.reel"
        heap = self.document("report", trace, "--fragmentation")["fragmentation"]["heaps"][0]
        live, sites = live_after(events_of(trace), heap["at_peak"]["events"]), heap["sites"]
        dropped = [site["label"] for site in sites if any("dropout.py" in frame["file"] for frame in site["stack"])]
        self.assertTrue(1 < len(dropped) < len(sites))
        view = self.open(trace, "--pane", "fragmentation")

        def shown():
            return sorted(row[4] for row in self.copied_rows(view, "pins"))

        self.assertEqual(shown(), sorted(site["label"] for site in sites))
        settings = len(self.copied_rows(view, "remedies"))
        self.search(view, "dropout.py")
        self.assertEqual(shown(), sorted(dropped))
        self.assertEqual(len(self.copied_rows(view, "remedies")), settings, "settings are of the whole trace")
        self.instead(view, ">=20MiB")
        large = shown()
        for site in sites:
            line = re.search(r"([^/(]+:\d+)\)", site["label"])
            sizes = [int(event["size"]) for event in live if line is not None and line[1] in event["stack"]]
            if sizes and max(sizes) < 20 * MIB:
                self.assertNotIn(site["label"], large)
        self.assertIn(max(sites, key=lambda site: site["bytes"] / site["blocks"])["label"], large)
        self.assertLess(len(large), len(sites))
        self.end(view)


if __name__ == "__main__":
    unittest.main()
