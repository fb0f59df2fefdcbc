# SPDX-License-Identifier: Apache-2.0
"""memreel report as a document: HTML, Markdown, and names that contain markup."""

import html.parser
import lzma
import pickle
import re
import unittest

from program import SAMPLES, ProgramTest, run
from snapshot import BASE, Recorder, snapshot

HOSTILE = "</script><img src=x onerror=document.title='taken'>|`@everyone` [l](http://evil.example)"


def hostile_snapshot():
    document = snapshot()
    for entry in document["device_traces"][0]:
        entry["frames"] = [dict(frame, name=HOSTILE, filename="\x1b[31m" + HOSTILE + ".py") for frame in entry["frames"]]
    return pickle.dumps(document)


def as_of_2_0(document):
    """Its blocks list what was allocated there, and segments have fewer fields."""
    def block(now):
        live = now["state"] != "inactive"
        history = {"history": [{"addr": now["address"], "real_size": now["requested_size"], "frames": now["frames"]}]} if live else {}
        return {"size": now["size"], "state": now["state"]} | history

    kept = ("device", "address", "total_size", "stream", "segment_type")
    segments = [{key: segment[key] for key in kept} | {"blocks": [block(each) for each in segment["blocks"]]}
                for segment in document["segments"]]
    return {"segments": segments, "device_traces": document["device_traces"]}


class Outline(html.parser.HTMLParser):
    """The tags of a page, and their references."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.links = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "srcset", "action")]


class Html(ProgramTest):
    def page(self, file, *options):
        output = self.directory / "report.html"
        process = self.answer("report", file, "-o", output, *options)
        self.assertEqual(process.stdout, "")
        self.assertEqual([path.name for path in self.directory.glob("report.html*")], ["report.html"])
        return output.read_text(encoding="utf-8")

    def test_peaks_of_phases_and_what_was_live_then(self):
        report = self.document("report", SAMPLES / "gpt_default.reel", "--at", "phase:forward")
        peaks = report["peaks"][0]
        phases = {peak["phase"]: peak["peak_live_bytes"] for peak in peaks["phases"]}
        self.assertEqual(max(phases.values()), report["live_at_peak"][0]["bytes"])
        self.assertEqual(phases["forward"], report["live_at"]["heaps"][0]["bytes"])
        self.assertEqual({peak["name"]: peak["count"] for peak in peaks["ranges"]}["Optimizer.step#AdamW.step"], 12)
        self.assert_refused(run("report", SAMPLES / "gpt_default.reel", "--at", "range:nowhere"), "no range 'nowhere'")

    def test_an_instant_after_a_step_that_the_program_does_not_mark(self):
        leak = SAMPLES / "leak.reel"
        after = [self.document("report", leak, "--at", f"step:{step}")["live_at"]["heaps"][0]["bytes"] for step in (20, 30)]
        difference = self.document("diff", f"{leak}@step:20", "@step:30")["devices"][0]
        self.assertEqual(after, [difference["a"]["live_bytes"], difference["b"]["live_bytes"]])
        self.assertAlmostEqual((after[1] - after[0]) / 2**20, 20, delta=0.01, msg="it leaks 2 MiB a step")
        self.assert_refused(run("report", leak, "--at", "step:1000"), "--at", "40 steps")

    def test_two_holders_of_long_names_are_both_named(self):
        document = snapshot()
        made = "/tmp/torchinductor_me/xl/cxlfggreihdc7igjszimu4qy53wgjmtr5a74xbkv4kfftdkix7f5.py"
        for entry in document["device_traces"][0]:
            for frame in entry["frames"]:
                frame["filename"] = "/home/me/basics/transformer_language_model.py"
            entry["frames"].insert(0, {"name": "call", "filename": made, "line": 165})
        text = self.answer("report", self.file("compiled.pickle", pickle.dumps(document))).stdout
        self.assertIn("\nheld by     transformer_language_model.py:9 67 %, transformer_…e_model.py:8 33 %\n", text)

    def test_the_share_of_the_largest_place_stands_beside_it(self):
        text = self.answer("report", SAMPLES / "gpt_default.reel").stdout
        title, row = (re.search(f"(?m)^  {word} .*", text)[0].split() for word in ("category", "activations"))
        self.assertEqual(" ".join(title), "category bytes share of it largest place")
        self.assertRegex(" ".join(row), r"^activations \S+ GiB \S+ % \d+\.\d % forward \(")
        self.assertLess(float(row[5]), 100)

    def test_snapshots_are_pytorchs_part_of_the_device(self):
        words = "PyTorch's part of the device: other libraries and CUDA itself are not recorded"
        for form in ("text", "markdown", "html"):
            document = self.answer("report", SAMPLES / "gpt_default.reel", "--format", form).stdout
            self.assertEqual(document.replace("&#39;", "'").count(words), 1, form)

    def test_what_each_cuda_graph_cost_stands_in_every_document(self):
        trace = SAMPLES / "graphs_default.reel"
        pools = self.document("report", trace)["private_pools"][0]["pools"]
        self.assertEqual([pool["cuda_graphs"] for pool in pools], [True] * len(pools))
        self.assertGreater(len(pools), 1)
        for pool in pools:
            # Nothing was released until the end, so the sum of the additions is what the pool held.
            self.assertEqual(sum(use["grew_bytes"] for use in pool["uses"]), pool["peak_reserved_bytes"])
            self.assertLessEqual(pool["live_bytes"] + pool["reusable_bytes"], pool["reserved_bytes"])
        text = self.answer("report", trace).stdout
        self.assertIn("private pools of CUDA graphs", text)
        for format in ("markdown", "html"):
            self.assertIn("Private pools of CUDA graphs", self.answer("report", trace, "--format", format).stdout)
        self.assertNotIn("private pools", self.answer("report", SAMPLES / "gpt_default.reel").stdout)

    def test_page_has_every_section_and_needs_no_network(self):
        for name in ("gpt_default", "oom_default", "leak", "streams_default"):
            with self.subTest(name):
                page = self.page(SAMPLES / f"{name}.reel")
                for section in ("Leaks", "Fragmentation", "Out of memory"):
                    self.assertIn(f"<h2>{section}</h2>", page)
                outline = Outline(page)
                self.assertIn("svg", outline.tags)
                self.assertEqual(outline.links, [])
                self.assertNotRegex(page, r"url\(|@import|https?://")
                self.assertLess(len(page.encode()), 2_000_000)

    def test_categories_have_the_colours_of_the_picture_in_their_table(self):
        page = self.page(SAMPLES / "gpt_default.reel")
        shares = self.document("report", SAMPLES / "gpt_default.reel")["live_at_peak"][0]["categories"]
        table = page[page.index("What it was for"):page.index("Who held")]
        for share in shares:
            self.assertRegex(table, rf"""<path style="fill:var\(--{share['category']}\)""")
            self.assertIn(f"background:var(--{share['category']})", table)
            self.assertEqual(page.count(f"--{share['category']}:#"), 2, "for a light and a dark ground")

    def test_hostile_names_stay_text(self):
        page = self.page(self.file("hostile.pickle", hostile_snapshot()))
        self.assertNotIn("img", Outline(page).tags)
        self.assertEqual(Outline(page).tags.count("script"), 1)
        self.assertNotIn("\x1b", page)

    def test_two_formats_are_refused(self):
        self.assert_refused(run("report", SAMPLES / "leak.reel", "--json", "--format", "html"), "--json", "--format html")
        self.document("report", SAMPLES / "leak.reel", "--format", "json")

    def test_format_is_what_the_output_is_called(self):
        for name, beginning in (("a.html", "<!doctype html>"), ("a.md", "### memreel"), ("a.json", "{")):
            self.answer("report", SAMPLES / "leak.reel", "-o", self.directory / name)
            self.assertTrue((self.directory / name).read_text().startswith(beginning), name)

    def test_refusals(self):
        self.assert_refused(run("report", SAMPLES / "leak.reel", "--format", "pdf"), "pdf", "markdown, html")
        self.assert_refused(run("report", SAMPLES / "leak.reel", "-o", self.directory / "a.txt"), "--output")
        missing = self.directory / "no" / "a.html"
        self.assert_refused(run("report", SAMPLES / "leak.reel", "-o", missing), missing)


class Markdown(ProgramTest):
    def text(self, file, *options):
        return self.answer("report", file, "--format", "markdown", *options).stdout

    def test_fits_a_comment(self):
        for name in ("gpt_default", "oom_default", "leak"):
            text = self.text(SAMPLES / f"{name}.reel")
            self.assertLess(len(text), 20_000)
            self.assertEqual(text.count("<details>"), text.count("</details>"))

    def test_fragmentation_begins_with_the_heap_of_the_verdict(self):
        """Whatever the number of its device."""
        mib = 1 << 20
        small, large = Recorder(), Recorder()
        for recorder, size in ((small, 20 * mib), (large, 400 * mib)):
            recorder.add("segment_alloc", BASE, size)
            recorder.add("alloc", BASE, size // 2)
        for traces in ((small, large), (large, small)):
            path = self.file("two.pickle", pickle.dumps(snapshot() | {
                "segments": [], "device_traces": [trace.entries for trace in traces], "external_annotations": []}))
            title = f"torch.cuda, device {traces.index(large)}"
            self.assertTrue(self.answer("report", path, "--fragmentation").stdout.startswith(f"fragmentation of {title}\n"))
            self.assertIn(f"\nOf {title}:\n\n|", self.text(path))

    def test_rows_have_as_many_cells_as_their_table(self):
        for file in (SAMPLES / "oom_default.reel", self.file("hostile.pickle", hostile_snapshot())):
            cells = None
            for line in self.text(file).splitlines():
                if not line.startswith("|"):
                    cells = None
                    continue
                count = len(re.findall(r"(?<!\\)\|", line))
                cells = cells or count
                self.assertEqual(count, cells, line)

    def test_hostile_names_stay_text(self):
        text = self.text(self.file("hostile.pickle", hostile_snapshot()))
        outside_code = re.sub(r"(`+) ?.*?[^`]\1(?!`)", "", text)
        self.assertNotIn("<img", outside_code)
        self.assertNotIn("@everyone", outside_code)
        self.assertNotIn("\x1b", text)


class Advice(ProgramTest):
    def test_advice_says_what_2_0_did_not_have(self):
        document = pickle.loads(lzma.decompress((SAMPLES / "convnet_s2_default.pickle.xz").read_bytes()))
        for name, made, says in (("now.pickle", document, False), ("then.pickle", as_of_2_0(document), True)):
            with self.subTest(name):
                file = self.file(name, pickle.dumps(made))
                first_lines = self.answer("report", file).stdout
                self.assertEqual("expandable_segments:True (2.1+) saves" in first_lines, says)
                self.assertEqual("expandable_segments:True saves" in first_lines, not says)
                self.assertEqual("Requires PyTorch 2.1 or newer" in " ".join(self.answer("tune", file).stdout.split()), says)


if __name__ == "__main__":
    unittest.main()
