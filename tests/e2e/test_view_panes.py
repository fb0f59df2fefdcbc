# SPDX-License-Identifier: Apache-2.0
"""The contents of the viewer's panes, compared with the commands' output, and the effect of clicks in them."""

import json
import pickle
import unittest

import test_record_holders
from program import SAMPLES, run
from snapshot import BASE, Recorder, snapshot
from viewing import ViewTest, picture


def kept():
    """A recording without steps, of two places of which each keeps all that it allocates."""
    recorder = Recorder()
    recorder.add("segment_alloc", BASE, 1 << 30)
    for n in range(400):
        recorder.add("alloc", BASE + (n << 20), 1 << 20, line=7 + n % 2)
    return {**snapshot(), "segments": [], "device_traces": [recorder.entries]}


class Panes(ViewTest):
    def test_verdicts_colour_allocations_and_weigh_stacks(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        view.key("ctrl+shift+p")
        view.type("colour allocations by verdict")
        view.key("Return")
        picture_file = self.directory / "verdicts.png"
        self.assertIsNone(view.ask("screenshot", file=str(picture_file))["error"])
        _, _, rows = picture(picture_file)
        x, y, width, height = (int(v) for v in view.settled()["places"]["map"])
        vermillion = sum(bytes(row[3 * i:3 * i + 3]) == b"\xd5\x5e\x00" for row in rows[y:y + height]
                         for i in range(x, x + width))
        self.assertGreater(vermillion, 0.02 * width * height, "leaks are vermillion in the map")

        # What is weighed as leaked matches the report's leaks.
        accused = [leak for leak in json.loads(run("report", SAMPLES / "leak.reel", "--leaks", "--json").stdout)["leaks"]
                   if leak["verdict"] in ("leak", "suspected")]
        view.key("2")
        view.click_on("weigh/leaked")
        self.assertIsNotNone(view.click_on("stacks/first row")["stack"])
        view.hands("mousemove", "0", "0")
        largest = max(accused, key=lambda leak: leak["bytes"])
        self.assertEqual(int(self.copied_row(view, "stacks")[2].replace(",", "")), largest["count"])
        self.end(view)

    def test_private_pools_are_those_of_the_report(self):
        trace = SAMPLES / "graphs_default.reel"
        pools = json.loads(run("report", trace, "--json").stdout)["private_pools"][0]["pools"]
        largest = max(pools, key=lambda pool: pool["reserved_bytes"])
        view = self.open(trace, "--pane", "pools")
        self.assertEqual(view.settled()["pools_listed"], len(pools))
        self.assertEqual(self.copied_row(view, "pools")[:2], [largest["pool"], str(len(largest["uses"]))])
        self.assertEqual(view.click_on("pools/first row")["cursor"], largest["uses"][0]["event"] + 1)
        self.end(view)
        view = self.open(SAMPLES / "gpt_default.reel")
        self.assertNotIn("tab/pools", view.settled()["places"], "it has none")
        self.end(view)

    def test_the_tree_of_each_device_is_that_of_the_report(self):
        trace = SAMPLES / "jax_crowded.xplane.pb.gz"
        trees = json.loads(run("report", trace, "--json").stdout)["device_trees"]
        view = self.open(trace, "--pane", "devices")
        first = view.settled()
        self.assertEqual(first["devices_listed"], sum(1 + len(tree["heaps"]) for tree in trees))
        rows = self.copied_rows(view, "devices")
        self.assertEqual([row[-1].strip() for row in rows],
                         ["device 0 (its pools: no calls of the driver)", "GPU_0_bfc", "host memory", "xla_gpu_host_bfc"])
        x, y, width, height = view.place("devices/first row")
        shown = view.click(x + width / 2, y + 3.5 * height)
        host = next(tree for tree in trees if tree["device"] == -1)
        self.assertNotEqual(shown["heap"], first["heap"])
        self.assertEqual(shown["cursor"], host["peak_held_event"] + 1)
        self.end(view)
        view = self.open(SAMPLES / "leak.reel")
        self.assertNotIn("tab/devices", view.settled()["places"], "one heap is no tree")
        self.end(view)

    def test_tags_are_those_of_the_report(self):
        trace = SAMPLES / "gpt_default.reel"
        tags = json.loads(run("report", trace, "--by", "tag", "--json").stdout)["peaks"][0]["groups"]
        view = self.open(trace, "--pane", "tags")
        self.assertEqual(view.settled()["tags_listed"], len(tags))
        largest = max(tags, key=lambda tag: tag["peak_live_bytes"])
        self.assertEqual(self.copied_row(view, "tags")[-2:], [f"{largest['count']:,}", largest["label"]])
        shown = view.click_on("tags/first row")
        self.assertEqual((shown["cursor"], shown["split"]), (largest["events"], "tag"))
        self.end(view)
        view = self.open(SAMPLES / "oom_default.reel")
        self.assertNotIn("tab/tags", view.settled()["places"], "it has none")
        self.end(view)

    def test_allocations_open_with_the_largest(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        view.settled()
        first = view.click_on("allocations/first row")["selected"]["bytes"]
        x, y, width, height = view.place("allocations/first row")
        second = view.click(x + width / 2, y + 1.5 * height)["selected"]["bytes"]
        self.assertGreaterEqual(first, second)
        self.assertGreater(second, 100 << 20)
        self.end(view)

    def test_the_flame_graph_has_the_colours_of_categories(self):
        view = self.open(SAMPLES / "gpt_default.reel", "--pane", "flame", "--at", "peak", "--dark")
        shown = view.settled()
        number, node = next((n, node) for n, node in enumerate(shown["flame"], 1) if node["category"] == "activation")
        self.assertGreater(node["bytes"], 1 << 20)

        def colour():
            file = self.directory / "flame.png"
            self.assertIsNone(view.ask("screenshot", file=str(file))["error"])
            _, _, rows = picture(file)
            x, y, width, height = (int(v) for v in view.place(f"flame/{number}"))
            line = rows[y + 2]
            return bytes(line[3 * (x + width // 2):3 * (x + width // 2) + 3])
        self.assertEqual(colour(), b"\x56\xb4\xe9", "that of activations")
        view.key("ctrl+shift+p")
        view.type("colour allocations by stack")
        view.key("Return")
        self.assertNotEqual(colour(), b"\x56\xb4\xe9")
        self.end(view)

    def test_what_keeps_the_memory_in_python(self):
        trace = test_record_holders.Reports.snapshot(self)
        rows = json.loads(run("report", trace, "--json").stdout)["holders"]["rows"]
        view = self.open(trace, "--pane", "holders")
        view.settled()
        self.assertEqual(view.settled()["holders_listed"], len(rows))
        self.assertEqual(self.copied_row(view, "holders")[1:], [str(rows[0]["blocks"]), str(rows[0]["length"]), "", rows[0]["text"]])
        view.click_on("holders/before")
        selected = view.click_on("holders/first row")
        self.assertIsNotNone(selected["allocation"])
        self.assertIn("train.py:21", selected["own_line"])
        view.key("5")
        self.assertIn(f"kept by {test_record_holders.HISTORY} (+112); ", self.copied_row(view, "leaks")[-1])
        self.end(view)
        view = self.open(SAMPLES / "leak.reel", "--pane", "leaks")
        self.assertNotIn("tab/holders", view.settled()["places"], "nobody walked over its objects")
        self.end(view)

    def test_where_there_is_no_room_columns_are_left_out_and_not_cut(self):
        view = self.open(SAMPLES / "oom_default.reel", "--pane", "fragmentation", size="720x500")
        places = view.settled()["places"]
        widths = {name: places[name][2] for name in places if name.startswith(("pins/", "remedies/")) and
                  not name.endswith(("scrollbar", "first row"))}
        self.assertGreater(widths["pins/who"], 100)
        self.assertGreater(widths["remedies/with"], 100)
        self.assertGreater(min(widths.values()), 45, widths)
        self.end(view)

    def test_what_it_ran_with_is_the_first_of_the_settings(self):
        trace = SAMPLES / "oom_default.reel"
        info = json.loads(run("info", trace, "--json").stdout)["devices"][0]
        view = self.open(trace, "--pane", "fragmentation")
        cells = self.copied_row(view, "remedies")
        self.assertEqual(cells[2:], [str(info["failed_allocations"]), "as recorded"])
        self.end(view)

    def test_a_click_on_a_header_sorts_what_was_judged_and_replayed(self):
        trace = SAMPLES / "oom_default.reel"
        view = self.open(trace, "--pane", "policies")
        view.click_on("policies/run")
        policies = "torch.native,torch.expandable,cuda.malloc,fit.best,bound.live"
        replayed = json.loads(run("replay", trace, "--policy", policies, "--json").stdout)["policies"]
        peaks = {policy["policy"]: policy["peak_reserved_bytes"] for policy in replayed}
        view.click_on("policies/peak reserved")
        self.assertEqual(peaks[self.copied_row(view, "policies")[0]], max(peaks.values()))
        view.click_on("policies/peak reserved")
        least = self.copied_row(view, "policies")[0]
        self.assertEqual(peaks[least], min(peaks.values()))
        self.assertEqual(view.click_on("policies/first row", down=0.6)["overlays"], [least])
        view.key("Escape", "6")
        view.click_on("remedies/peak reserved")
        most = self.copied_row(view, "remedies")[1]
        view.click_on("remedies/peak reserved")
        self.assertNotEqual(self.copied_row(view, "remedies")[1], most)
        self.end(view)

    def test_words_agree_with_what_they_count(self):
        view = self.open(SAMPLES / "leak.reel")
        view.settled()
        growth = [row[3] for row in self.copied_rows(self.at_tab(view, "leaks"), "leaks")]
        self.assertIn("1.00 MiB per step", growth)
        view.click_on("leaks/first row")
        view.key("slash")
        view.type("record.py:73")
        self.at_tab(view, "stacks")
        self.assertRegex(view.click_on("weigh/allocated in view")["stacks_summary"], r"^40\.00 MiB in 1 stack$")
        self.end(view)
        # One step, or none, is not a growth for each.
        view = self.open(self.file("kept.pickle", pickle.dumps(kept())))
        view.settled()
        titles, *rows = self.copied(self.at_tab(view, "leaks"), "leaks", "copy/all")
        self.assertNotIn("per step", " ".join(titles + sum(rows, [])))
        self.end(view)

    @staticmethod
    def at_tab(view, name):
        view.click_on("tab/" + name)
        return view

    def test_leaks_and_failures_are_those_of_the_view(self):
        view = self.open(SAMPLES / "leak.reel", "--pane", "leaks")
        view.settled()
        view.click_on("leaks/count")
        counts = [int(self.copied_row(view, "leaks")[2].replace(",", ""))]
        view.key("Escape")
        x, y, width, height = view.settled()["places"]["timeline"]
        view.hands("mousemove", int(x + 2), int(y + height / 2), "click", 4, "click", 4, "click", 4)
        view.settled()
        counts.append(int(self.copied_row(view, "leaks")[2].replace(",", "")))
        self.assertLess(counts[1], counts[0], "some were made later")
        self.end(view)

        view = self.open(SAMPLES / "oom_default.reel", "--pane", "oom")
        self.assertIn("oom/requested", view.settled()["places"])
        view.key("Escape")
        x, y, width, height = view.settled()["places"]["timeline"]
        view.hands("mousemove", int(x + 2), int(y + height / 2), *["click", 4] * 25)
        self.assertNotIn("oom/requested", view.settled()["places"], "none failed at the very beginning")
        self.assertIn("oom/requested", view.key("0")["places"])
        self.end(view)

    def test_the_map_shows_what_the_stack_made_that_is_pointed_at(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        view.key("2")
        view.click_on("weigh/allocated in view")
        x, y, width, height = (int(v) for v in view.settled()["places"]["map"])
        maps = []
        for down in (-20, 0.5):  # above the table, on its first row
            left, top, wide, high = view.settled()["places"]["stacks/first row"]
            view.hands("mousemove", int(left + 0.5 * wide), int(top + down * high))
            view.settled()
            file = self.directory / "map.png"
            self.assertIsNone(view.ask("screenshot", file=str(file))["error"])
            rows = picture(file)[2]
            maps.append([bytes(row[3 * i:3 * i + 3]) for row in rows[y:y + height] for i in range(x, x + width)])
        changed = sum(a != b for a, b in zip(*maps)) / (width * height)
        self.assertGreater(changed, 0.05, "what others made is pale")
        self.assertLess(changed, 0.99)
        self.end(view)

    def test_what_pins_the_largest_hole_is_a_click_away(self):
        view = self.open(SAMPLES / "oom_default.reel")
        self.assertIn("fragmentation", view.settled()["places"], "an axis of its own")
        pinning = view.click_on("heap/pin before")
        self.assertIsNotNone(pinning["allocation"])
        self.assertEqual(view.key("alt+Left")["allocation"], None)
        self.assertEqual(view.key("alt+Right")["allocation"], pinning["allocation"])
        self.assertTrue({"lost", "unattributed", "collector"} <= view.settled()["places"].keys())
        self.end(view)

    def test_pointing_at_the_map_tells_who(self):
        view = self.open(SAMPLES / "decode_default.reel")
        x, y, width, height = view.settled()["places"]["map"]
        hits = 0
        for step in range(1, 12):
            view.hands("mousemove", int(x + width * 0.6), int(y + height * step / 12))
            hits += view.settled()["hovered_allocation"] is not None
        self.assertGreater(hits, 2)
        self.end(view)

    def test_rounding_is_what_the_report_says_that_it_takes(self):
        trace = SAMPLES / "oom_default.reel"
        heap = json.loads(run("report", trace, "--fragmentation", "--json").stdout)["fragmentation"]["heaps"][0]
        for instant in (heap["at_peak"], heap["worst"]):
            view = self.open(trace, "--at", f"event:{instant['events'] - 1}")
            shown = view.settled()
            self.assertEqual(shown["reserved_bytes"], instant["reserved_bytes"])
            self.assertEqual(shown["rounding_bytes"], instant["allocated_bytes"] - instant["requested_bytes"])
            self.assertIn("heap/rounding", shown["places"], "the colour has its name")
            self.end(view)

        # The pane shows it in a separate colour, in proportion to its share of the row's bytes.
        view = self.open(trace, "--pane", "heap", "--at", f"event:{heap['worst']['events'] - 1}", "--dark")
        x, y, width, height = (int(v) for v in view.settled()["places"]["heap"])
        file = self.directory / "heap.png"
        self.assertIsNone(view.ask("screenshot", file=str(file))["error"])
        pixels = [bytes(row[3 * i:3 * i + 3]) for row in picture(file)[2][y:y + height] for i in range(x, x + width)]
        self.assertIn(b"\xa8\xad\xb8", pixels)
        self.end(view)

        view = self.open(SAMPLES / "jax_crowded.xplane.pb.gz")
        shown = view.settled()
        self.assertIsNone(shown["rounding_bytes"], "its allocator's blocks are not known")
        self.assertIn("heap/rounding not known", shown["places"])
        self.end(view)

    def test_the_map_says_which_colour_is_whose(self):
        view = self.open(SAMPLES / "gpt_default.reel")
        view.key("c")  # by stack instead of by category
        first = view.click_on("map/legend 1")["stack"]
        self.assertNotEqual(view.click_on("map/legend 2")["stack"], first)
        view.key("2")
        self.assertEqual(view.click_on("stacks/first row")["stack"], first, "who holds most at the cursor comes first")
        self.end(view)

    def test_two_traces_are_compared_on_one_axis(self):
        traces = SAMPLES / "oom_default.reel", SAMPLES / "oom_expandable.reel"
        expected = json.loads(run("diff", *traces, "--json").stdout)["devices"][0]
        view = self.open(traces[0], "--compare", traces[1])
        shown = view.settled()
        self.assertEqual([shown["compared"][side] for side in "ab"], [expected[side]["events"] for side in "ab"])
        above, below = (shown["places"][f"compare/row {side}"] for side in "AB")
        self.assertEqual((above[0], above[2]), (below[0], below[2]), "one axis")
        self.assertLessEqual(above[1] + above[3], below[1], "under each other")
        counts = [int(cell.replace(",", "")) for cell in self.copied_row(view, "compare")[3:5]]
        self.assertEqual(counts, [expected["sites"][0][f"{side}_count"] for side in "ab"])
        # A click sets the cursor; the other side's instant is equally long after its beginning.
        clicked = view.click_on("compare/row A", 0.5)
        self.assertEqual(clicked["compared"]["a"], clicked["cursor"])
        times = [self.times(trace) for trace in traces]
        after = [times[i][clicked["compared"][side] - 1] - times[i][0] for i, side in enumerate("ab")]
        self.assertLessEqual(after[1], after[0])
        self.assertGreater(times[1][clicked["compared"]["b"]] - times[1][0], after[0])
        self.end(view)

    def test_what_decides_between_two_traces_comes_first(self):
        traces = SAMPLES / "oom_default.reel", SAMPLES / "oom_expandable.reel"
        view = self.open(traces[0], "--compare", traces[1], "--pane", "compare")
        shown = view.settled()
        for trace, facts in zip(traces, shown["compared"]["facts"]):
            info = json.loads(run("info", trace, "--json").stdout)
            kinds = info["kinds"]
            self.assertEqual(facts["reserved_bytes"], info["devices"][0]["peak_reserved_bytes"])
            self.assertEqual(facts["failures"], info["devices"][0]["failed_allocations"])
            self.assertEqual(facts["live_bytes"], info["devices"][0]["peak_live_bytes"])
            self.assertEqual(facts["driver_calls"], sum(kinds.get("segment_" + kind, 0) for kind in
                                                        ("alloc", "free", "map", "unmap")))
        for fact in ("reserved", "failures", "fragmentation", "driver calls"):
            self.assertLess(shown["places"]["compare/fact " + fact][1], shown["places"]["compare/first row"][1])
        self.end(view)

    def test_stacks_of_one_name_are_one_entry_of_one_colour(self):
        view = self.open(SAMPLES / "gpt_default.reel", "--dark")
        shown = view.key("c")  # by stack instead of by category
        labels = [entry["label"] for entry in shown["groups"]]
        self.assertGreater(len(labels), 3)
        self.assertEqual(len(labels), len(set(labels)))
        self.assertTrue(any(" > " in label for label in labels), "the way from what explains to what it calls")
        self.end(view)

    def times(self, trace):
        """The time of every event, in nanoseconds."""
        lines = run("export", trace, "--format", "csv").stdout.splitlines()
        return [int(line.split(",")[1]) for line in lines[1:]]

    def test_two_instants_are_aligned_by_time_or_by_step(self):
        trace = SAMPLES / "gpt_default.reel"
        lines = [line.split(",") for line in run("export", trace, "--format", "csv").stdout.splitlines()[1:]]
        ends = [int(line[1]) for line in lines if line[13].startswith("end Optimizer.step")]
        begins = [int(lines[0][1]), *ends]

        def step_of(event):
            time = int(lines[event - 1][1])
            step = max(i for i, begin in enumerate(begins) if begin <= time)
            return step + (time - begins[step]) / (begins[step + 1] - begins[step])

        first = lines.index(next(line for line in lines if int(line[1]) > begins[2])) + 1
        view = self.open(trace, "--at", f"event:{first - 1}")
        view.settled()
        view.key("k")
        view.click_on("timeline", 0.82)
        view.hands("click", 4)  # with the whole trace in view, the axis would extend to the end of the longer side
        self.assertEqual(view.click_on("compare/by step")["compared"]["by"], "step")
        apart = set()
        for across in (0.62, 0.7, 0.78):
            view.click_on("compare/row B", across)
            shown = view.click_on("compare/row A", across)["compared"]
            # The click's position: after this event, before the next.
            (begin, end), (begin_b, end_b) = ((step_of(shown[side]), step_of(shown[side] + 1)) for side in "ab")
            whole = round((begin_b + end_b - begin - end) / 2)
            self.assertLess(max(begin, begin_b - whole), min(end, end_b - whole) + 0.01)
            apart.add(whole)
        self.assertNotEqual(apart, {0}, "the one step is over the other")

        # A click on a header sorts, in either direction.
        view.click_on("compare/count B")
        most = int(self.copied_row(view, "compare")[4].replace(",", ""))
        view.click_on("compare/count B")
        self.assertLess(int(self.copied_row(view, "compare")[4].replace(",", "")), most)
        self.end(view)

    def test_fragmentation_is_that_of_the_view(self):
        trace = SAMPLES / "oom_default.reel"
        peak = json.loads(run("report", trace, "--fragmentation", "--json").stdout)["fragmentation"]["heaps"][0]["at_peak"]
        view = self.open(trace, "--at", "end")
        view.settled()
        view.key("6")
        shown = view.click_on("fragmentation/go there")
        self.assertEqual(shown["cursor"], peak["events"])
        self.assertEqual(shown["reserved_bytes"], peak["reserved_bytes"])
        # The first half of the trace has its own, lower peak.
        x, y, width, height = shown["places"]["timeline"]
        view.hands("mousemove", int(x + 2), int(y + height / 2), *["click", 4] * 3)
        view.settled()
        there = view.click_on("fragmentation/go there")
        self.assertLess(there["cursor"], peak["events"])
        self.assertLess(there["reserved_bytes"], peak["reserved_bytes"])
        self.assertIn("pins/who", there["places"])
        # Nothing is before the first event.
        view.hands("mousemove", int(x + 2), int(y + height / 2), *["click", 4] * 30)
        self.assertNotIn("fragmentation/go there", view.settled()["places"])
        self.end(view)


if __name__ == "__main__":
    unittest.main()
