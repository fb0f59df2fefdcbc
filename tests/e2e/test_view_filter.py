"""What is searched for, its size and its category: in every pane."""

import unittest

from program import SAMPLES
from test_view_range import events_of
from viewing import ViewTest, ink, picture

MIB = 1 << 20


class Filter(ViewTest):
    def search(self, view, text):
        view.key("slash")
        return view.type(text)

    def test_a_search_is_about_every_pane(self):
        trace = SAMPLES / "gpt_default.reel"
        made = [e for e in events_of(trace) if e["kind"] == "alloc"]
        found = [int(e["size"]) for e in made if "modeling_gpt2.py" in e["stack"]]
        self.assertTrue(0 < len(found) < len(made))
        view = self.open(trace)
        whole = view.settled()
        shown = self.search(view, "modeling_gpt2.py")
        self.assertEqual(shown["matches"], len(found))
        view.click_on("title/heap", 0.9)
        view.key("2")
        weighed = view.click_on("weigh/allocated in view")["weighed_bytes"]
        self.assertEqual(weighed, sum(found))
        view.key("3")
        flame = view.click_on("weigh/allocated in view")["flame"]
        self.assertEqual(sum(node["bytes"] for node in flame if node["depth"] == 1), sum(found))
        # The timeline is that of what matches, and so are the categories at the cursor.
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
        """How much colour there is."""
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


if __name__ == "__main__":
    unittest.main()
