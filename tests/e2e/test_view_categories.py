# SPDX-License-Identifier: Apache-2.0
"""The viewer's categories, layers and phases, compared with the commands' output for the same trace."""

import csv
import io
import json
import re
import unittest

from program import SAMPLES, run
from viewing import ViewTest, picture

TRACE = SAMPLES / "gpt_default.reel"
# From analyzer/describe/live_groups.h, for a dark background.
COLOURS = {"activation": b"\x56\xb4\xe9", "optimizer_state": b"\xe6\x9f\x00", "parameter": b"\x00\x72\xb2"}


class Categories(ViewTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.peak = json.loads(run("report", TRACE, "--json").stdout)["live_at_peak"][0]
        cls.rows = list(csv.DictReader(io.StringIO(run("export", TRACE, "--format", "csv").stdout)))

    def expected_at_peak(self):
        return {entry["category"]: entry["bytes"] for entry in self.peak["categories"]}

    def pixels(self, view, place):
        """The colours of a screen area, by row."""
        x, y, width, height = (int(v) for v in view.settled()["places"][place])
        file = self.directory / "picture.png"
        self.assertIsNone(view.ask("screenshot", file=str(file))["error"])
        rows = picture(file)[2]
        return [[bytes(row[3 * i:3 * i + 3]) for i in range(x, x + width)] for row in rows[y:y + height]]

    def share(self, view, place, colour):
        pixels = [pixel for row in self.pixels(view, place) for pixel in row]
        return sum(pixel == colour for pixel in pixels) / len(pixels)

    def test_the_peak_is_held_by_what_the_report_says(self):
        view = self.open(TRACE, "--dark", "--scale", "0.8")
        shown = view.settled()
        self.assertEqual(shown["categories"], self.expected_at_peak())
        self.assertEqual(sum(shown["categories"].values()), shown["live_bytes"])
        self.assertEqual((shown["split"], shown["colour"]), ("category", "category"), "nobody had to ask for it")
        # One palette: the same colours in the timeline, the map and the heap.
        for place in ("timeline", "map", "heap"):
            for category, colour in COLOURS.items():
                self.assertGreater(self.share(view, place, colour), 0.002, f"{category} in the {place}")
        self.end(view)

    def test_the_stack_of_categories_is_as_high_as_what_is_live(self):
        view = self.open(TRACE, "--dark", "--pane", "timeline")
        column = [row[-3] for row in self.pixels(view, "timeline")]  # a moment of steady training
        heights = {name: column.count(colour) for name, colour in COLOURS.items()}
        # The report's figures for the end of the trace.
        at_end = json.loads(run("report", TRACE, "--at", "end", "--json").stdout)["live_at"]["heaps"][0]
        live = {entry["category"]: entry["bytes"] for entry in at_end["categories"]}
        self.assertAlmostEqual(heights["optimizer_state"] / heights["parameter"],
                               live["optimizer_state"] / live["parameter"], delta=0.1)
        self.end(view)

    def test_one_key_switches_between_category_and_stack(self):
        view = self.open(TRACE, "--dark")
        opened = view.settled()
        self.assertEqual((opened["split"], opened["colour"]), ("category", "category"), "where there are categories")
        shown = view.key("c")
        self.assertEqual((shown["split"], shown["colour"]), ("stack", "stack"))
        self.assertLess(self.share(view, "heap", COLOURS["activation"]), 0.4)
        shown = view.key("c")
        self.assertEqual((shown["split"], shown["colour"]), ("category", "category"))
        # And a menu.
        view.click_on("split")
        self.assertEqual(view.click_on("split/by phase")["split"], "phase")
        self.end(view)

    def test_a_click_in_the_legend_shows_one_category_only(self):
        view = self.open(TRACE, "--dark")
        before = self.share(view, "map", COLOURS["activation"])
        shown = view.click_on("timeline/activation")
        self.assertEqual(shown["category"], "activation")
        view.hands("mousemove", 0, 0)
        self.assertEqual(self.share(view, "heap", COLOURS["optimizer_state"]), 0, "others are pale")
        self.assertAlmostEqual(self.share(view, "map", COLOURS["activation"]), before, delta=0.002)
        made = [row for row in self.rows if row["kind"] == "alloc"]
        self.assertEqual(shown["listed"], sum(row["category"] == "activation" for row in made))
        self.assertIsNone(view.key("Escape")["category"])
        self.assertEqual(view.settled()["listed"], len(made))
        # The same in the list's own menu, and in the inspector.
        view.click_on("category")
        shown = view.click_on("category/gradient")
        self.assertEqual(shown["listed"], sum(row["category"] == "gradient" for row in made))
        self.assertEqual(self.copied_row(view, "allocations")[1], "gradients")
        self.assertIsNone(view.key("Escape")["category"])
        self.assertEqual(view.click_on("inspector/parameter")["category"], "parameter")
        self.end(view)

    def test_the_inspector_says_what_an_allocation_is_for_and_how_that_is_known(self):
        view = self.open(TRACE)
        view.settled()
        view.click_on("allocations/size")
        made = [row for row in self.rows if row["kind"] == "alloc"]
        for down in (0.5, 3.5, 8.5):
            selected = view.click_on("allocations/first row", down=down)["selected"]
            row = next(row for row in made if int(row["event"]) == selected["begin"])
            self.assertEqual((selected["category"], selected["phase"], selected["layer"]),
                             (row["category"], row["phase"], row["layer"]))
            self.assertIn("inspector/category", view.settled()["places"])
        self.end(view)

    def test_the_flame_graph_by_layer_folds_what_only_passes_a_call_on(self):
        view = self.open(TRACE, "--pane", "flame")
        self.assertFalse([node["name"] for node in view.settled()["flame"] if "_call_impl" in node["name"]])
        by_stack = view.click_on("flame/wrappers")["flame"]
        self.assertTrue([node["name"] for node in by_stack if node["name"].startswith("_call_impl  module.py:")])
        flame = view.click_on("flame/by layer")["flame"]
        self.assertFalse([node["name"] for node in flame if "_call_impl" in node["name"] or "wrapper" in node["name"]])
        # Each node holds the report's sum over the layers with its prefix.
        groups = json.loads(run("report", TRACE, "--by", "layer", "--json").stdout)["live_at_peak"][0]["groups"]
        path = ["modeling_gpt2.py:682", "modeling_gpt2.py:608", "modeling_gpt2.py:305", "modeling_gpt2.py:240"]
        nodes = {node["name"]: node["bytes"] for node in flame}
        for end in range(1, len(path) + 1):
            prefix = "/".join(path[:end])
            held = sum(group["bytes"] for group in groups if (re.sub(" #[0-9]+", "", group["label"]) + "/").startswith(prefix + "/"))
            self.assertEqual(nodes[path[end - 1] + "  forward"], held, prefix)
        # A click selects the layer, a double click shows only that layer.
        self.assertIsNotNone(view.click_on("flame/3")["stack"])
        self.assertGreater(len(view.click_on("flame/by stack")["flame"]), len(flame) / 2)
        self.end(view)

    def test_the_flame_graph_is_turned_over(self):
        view = self.open(TRACE, "--pane", "flame")
        down = view.settled()["flame"]
        up = view.click_on("flame/bottom-up")["flame"]
        outermost = {node["name"]: node["bytes"] for node in up if node["depth"] == 1}
        self.assertEqual(sum(outermost.values()), sum(node["bytes"] for node in down if node["depth"] == 1))
        self.assertEqual([node["name"] for node in down if node["depth"] == 1], ["<module>  record.py:163"])
        # Allocating frames come first; their callers lie below, and hold as much as all of their callees here.
        inner = "forward  activations.py:66"
        self.assertIn(inner, outermost)
        self.assertIsNotNone(view.click_on("flame/1")["stack"])
        self.assertEqual(view.click_on("flame/bottom-up")["flame"], down)
        self.end(view)

    def test_two_traces_differ_by_category_and_layer_as_diff_says(self):
        traces = TRACE, SAMPLES / "decode_default.reel"
        expected = json.loads(run("diff", *traces, "--json").stdout)["devices"][0]["categories"]
        view = self.open(traces[0], "--compare", traces[1])
        view.settled()
        view.click_on("compare/by category")
        view.click_on("changed categories/A")
        most = max(expected, key=lambda change: change["a_bytes"])
        cells = self.copied_row(view, "changed categories")
        self.assertEqual(cells[3], {"activation": "activations"}[most["category"]])
        self.assertTrue(cells[4].startswith(most["place"] + " -"), cells)
        self.assertEqual(view.click_on("changed categories/first row", down=0.6)["category"], most["category"])
        # The layer that changed most comes first.
        view.click_on("compare/by layer")
        cells = self.copied_row(view, "changed layers")
        largest = max(expected, key=lambda change: abs(change["place_change_bytes"]))
        self.assertEqual(cells[4], largest["place"])
        self.end(view)

    def test_two_instants_differ_by_category(self):
        view = self.open(TRACE, "--at", "peak")
        peak = view.settled()["categories"]
        view.key("k")
        later = view.click_on("timeline", 0.97)["categories"]
        changes = {c: later.get(c, 0) - peak.get(c, 0) for c in {*peak, *later}}
        view.click_on("compare/by category")
        view.click_on("changed categories/change")
        view.click_on("changed categories/change")  # what is held less of comes first
        self.assertEqual(min(changes, key=changes.get), "activation")
        self.assertEqual(self.copied_row(view, "changed categories")[3], "activations")
        self.end(view)

    def test_columns_sort_by_category(self):
        view = self.open(TRACE)
        view.settled()
        view.click_on("allocations/category")
        first = self.copied_row(view, "allocations")[1]
        view.key("Escape")
        view.click_on("allocations/category")
        self.assertNotEqual(self.copied_row(view, "allocations")[1], first)
        self.end(view)

    def test_where_no_category_is_known_nothing_speaks_of_them(self):
        view = self.open(SAMPLES / "jax_crowded.xplane.pb.gz")
        shown = view.settled()
        self.assertIsNone(shown["categories"])
        self.assertEqual((shown["split"], shown["colour"]), ("nothing", "stack"))
        self.assertNotIn("allocations/category", shown["places"])
        self.assertNotIn("category", shown["places"])
        self.end(view)

    def test_a_file_that_grows_is_classified(self):
        first, now = self.while_it_grows(TRACE)
        self.assertIsNone(first["categories"])
        self.assertEqual(now["categories"], self.expected_at_peak())


if __name__ == "__main__":
    unittest.main()
