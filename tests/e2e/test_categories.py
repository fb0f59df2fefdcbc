# SPDX-License-Identifier: Apache-2.0
"""memreel's categories, compared with the programs' own labels."""

import json
import os
import pickle
import subprocess
import tempfile
import unittest

import category_score
import snapshot
from program import SAMPLES


@unittest.skipUnless(category_score.labelled(), "no labelled histories")
class Categories(unittest.TestCase):
    def test_labelled_programs(self):
        for history in category_score.labelled():
            for instant in category_score.score(history):
                with self.subTest(history=history.name, instant=instant.where):
                    self.assertGreaterEqual(instant.share_right(), 0.95)
                    self.assertLess(instant.share_unknown(), 0.05)
                    for label in instant.named:
                        if instant.bytes(label) > 256 << 20:
                            self.assertGreaterEqual(instant.right(label) / instant.bytes(label), 0.90, label)


@unittest.skipUnless(category_score.as_recorded(), "no labelled histories as people record them")
class AsRecorded(unittest.TestCase):
    def test_labelled_programs(self):
        for history in category_score.as_recorded():
            for instant in category_score.score(history, whole=False):
                with self.subTest(how=history.parent.name, history=history.name, instant=instant.where):
                    self.assertGreaterEqual(instant.share_right(), 0.95)
                    # In a late recording, or with a full ring, all of these are older than the recording.
                    self.assertGreaterEqual(instant.share_right(["parameter", "optimizer_state"]), 0.90)


class Late(unittest.TestCase):
    """Snapshots as people record them: begun when the model was built, of a few calls."""

    BASE, MIB, LAYERS = 0x7F0000000000, 1 << 20, 12
    NATIVE = [("torch::unwind::unwind()", "??"), ("at::_ops::mm::call(at::Tensor const&, at::Tensor const&)", "??"),
              ("cfunction_call", "/usr/local/src/conda/python/Objects/methodobject.c")]
    MODULE = ("_call_impl", "/env/lib/python3.11/site-packages/torch/nn/modules/module.py")

    def setUp(self):
        self.entries, self.live, self.next = [], {}, self.BASE

    def frames(self, line, style, in_model=False):
        frames = [("forward", "/home/user/model.py"), self.MODULE, ("<module>", "/home/user/main.py")] if in_model else \
                 [("<module>", "/home/user/main.py")]
        if style == "windows":
            frames = [(name, "C:" + path.replace("/", "\\")) for name, path in frames]
        if style == "all":
            frames = self.NATIVE[:2] + frames[:1] + self.NATIVE[2:] + frames[1:]
        return [{"name": name, "filename": path, "line": line if path.endswith("model.py") else 1}
                for name, path in frames]

    def add(self, action, address, size, frames):
        self.entries.append({"action": action, "addr": address, "size": size, "stream": 0, "frames": frames,
                             "time_us": 1_700_000_000_000_000 + len(self.entries)})

    def older(self, mib):
        address = self.next
        self.next += mib * self.MIB
        self.live[address] = mib * self.MIB
        return address

    def alloc(self, mib, frames):
        address = self.older(mib)
        self.add("alloc", address, mib * self.MIB, frames)
        return address

    def free(self, address, frames):
        for action in ("free_requested", "free_completed"):
            self.add(action, address, self.live[address], frames)
        del self.live[address]

    def forward(self, style, keeps_graph):
        graph = []
        for _ in range(self.LAYERS):
            for line in (11, 12, 13):
                made = self.alloc(30 + line, self.frames(line, style, in_model=True))
                if keeps_graph and line > 11:
                    graph.append(made)
                else:
                    self.free(made, self.frames(14, style, in_model=True))
        return graph

    def verdict(self, device):
        size = self.next - self.BASE
        blocks, at = [], self.BASE
        for address in sorted(self.live):
            if address > at:
                blocks.append(snapshot.block(at, address - at, 0, "inactive"))
            at = address + self.live[address]
            blocks.append(snapshot.block(address, self.live[address], self.live[address], "active_allocated"))
        if at < self.next:
            blocks.append(snapshot.block(at, self.next - at, 0, "inactive"))
        used = sum(self.live.values())
        segment = {"device": device, "address": self.BASE, "total_size": size, "allocated_size": used, "active_size": used,
                   "requested_size": used, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
                   "is_expandable": False, "frames": [], "blocks": blocks}
        document = {"segments": [segment], "device_traces": [[]] * device + [self.entries], "external_annotations": []}
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "snapshot.pickle")
            with open(file, "wb") as out:
                pickle.dump(document, out)
            report = subprocess.run([category_score.MEMREEL, "report", file, "--json"], capture_output=True, text=True,
                                    check=True)
        return [line["topic"] + ": " + line["text"] for line in json.loads(report.stdout)["verdict"]["lines"]]

    def each_style(self):
        for style, device in (("python", 0), ("all", 1), ("windows", 0), ("all", 0)):
            self.setUp()
            with self.subTest(style=style, device=device):
                for _ in range(self.LAYERS):
                    for mib in (36, 9):
                        self.older(mib)
                yield style, device

    def test_weights_are_known_by_their_sizes(self):
        for style, device in self.each_style():
            self.forward(style, keeps_graph=False)
            self.forward(style, keeps_graph=False)
            lines = self.verdict(device)
            self.assertRegex("\n".join(lines), r"held by: parameters \d+ % \(by their sizes\)")
            self.assertFalse([line for line in lines if line.startswith("graph")])

    def test_a_pass_that_keeps_its_graph_and_the_previous_one(self):
        for style, device in self.each_style():
            graph = []
            for _ in range(3):
                kept, graph = graph, self.forward(style, keeps_graph=True)
                for address in kept:
                    self.free(address, self.frames(1, style))
            lines = "\n".join(self.verdict(device))
            self.assertIn("graph: this pass keeps its graph, 1020.00 MiB: torch.no_grad() in inference", lines)
            self.assertIn("graph: the previous pass's graph, 1020.00 MiB, is alive: del the output", lines)
            self.assertRegex(lines, r"held by: activations \d+ %")

    def test_an_error_frees_temporaries_with_the_graph(self):
        for style, device in self.each_style():
            held = []
            for layer in range(self.LAYERS):
                for line in (11, 12, 13):
                    held.append(self.alloc(500 if line == 11 else 30 + line, self.frames(line, style, in_model=True)))
                if layer < self.LAYERS - 1:
                    self.free(held.pop(-3), self.frames(14, style, in_model=True))
            for address in held:
                self.free(address, self.frames(1, style))
            lines = "\n".join(self.verdict(device))
            self.assertIn("this pass keeps its graph, 1020.00 MiB", lines)
            self.assertRegex(lines, r"held by: .*temporaries \d+ %")

    def test_the_previous_passs_graph_is_older_than_the_recording(self):
        for style, device in self.each_style():
            previous = [self.older(30 + line) for _ in range(self.LAYERS) for line in (12, 13)]
            self.forward(style, keeps_graph=True)
            for address in previous:
                self.free(address, self.frames(1, style))
            self.assertIn("the previous pass's graph, 1020.00 MiB", "\n".join(self.verdict(device)))

    def test_nearly_all_is_activations_of_which_most_are_older(self):
        for style, device in self.each_style():
            self.setUp()
            for _ in range(self.LAYERS):
                for mib in (6, 2):
                    self.older(mib)
            previous = [self.older(30 + line) for _ in range(self.LAYERS) for line in (12, 13)]
            self.forward(style, keeps_graph=True)
            for address in previous:
                self.free(address, self.frames(1, style))
            lines = "\n".join(self.verdict(device))
            self.assertRegex(lines, r"held by: activations 9\d %.*, parameters \d\.\d %")
            self.assertNotIn("before recording began", lines)

    def test_copies_that_autocast_drops_at_its_end(self):
        for style, device in self.each_style():
            file = "/env/lib/python3.11/site-packages/torch/amp/autocast_mode.py"
            end = [{"name": "__exit__", "line": 390, "filename": "C:" + file.replace("/", "\\") if style == "windows" else file}]
            end += self.frames(1, style)
            for _ in range(3):
                copies = [self.alloc(18, self.frames(11, style, in_model=True)) for _ in range(self.LAYERS)]
                for _ in range(2):
                    self.free(self.alloc(20, self.frames(12, style, in_model=True)), self.frames(12, style, in_model=True))
                for address in copies:
                    self.free(address, end)
            lines = "\n".join(self.verdict(device))
            self.assertIn("autocast: 16-bit copies of weights, 216.00 MiB: load them in bfloat16", lines)
            self.assertRegex(lines, r"held by: .*parameter copies \d+ %")

    def test_results_at_the_end_are_no_temporaries(self):
        for style, device in self.each_style():
            for i in range(4):
                self.forward(style, keeps_graph=False)
                result = self.alloc(900 + i, self.frames(1, style))
                if i < 3:
                    self.free(result, self.frames(1, style))
            self.assertNotIn("temporaries", "\n".join(self.verdict(device)))


class Sample(unittest.TestCase):
    """A recorded training run from the checkout."""

    TRACE = SAMPLES / "gpt_default.reel"

    def memreel(self, *arguments):
        return subprocess.run([category_score.MEMREEL, *arguments], capture_output=True, text=True, check=True).stdout

    def test_report_shares_out_what_was_live_at_the_peak(self):
        peak = json.loads(self.memreel("report", self.TRACE, "--json"))["live_at_peak"][0]
        shares = peak["categories"]
        self.assertEqual(sum(share["bytes"] for share in shares), peak["bytes"])
        self.assertEqual(sum(share["count"] for share in shares), peak["count"])
        self.assertEqual((shares[0]["category"], shares[0]["evidence"]), ("activation", "freed_by_backward"))
        sizes = [share["bytes"] for share in shares]
        self.assertEqual(sizes, sorted(sizes, reverse=True))

    def test_text_names_the_module_that_holds_most(self):
        text = self.memreel("report", self.TRACE)
        lines = text.splitlines()
        row = next(i for i, line in enumerate(lines) if line.split()[:1] == ["activations"])
        self.assertRegex("".join(lines[row:row + 2]), r"forward \([a-z_]+\.py:\d+\)")

    def test_exports_say_category_layer_and_phase(self):
        rows = map(json.loads, self.memreel("export", self.TRACE, "--format", "jsonl").splitlines())
        made = [row for row in rows if row["kind"] == "alloc"]
        activations = [row for row in made if row["category"] == "activation" and row["layer"]]
        self.assertTrue(activations)
        for row in activations:
            self.assertEqual(row["phase"], "forward")
            # From the model's call inwards, without the machinery of calls and decorators.
            self.assertNotIn("module.py", row["layer"])
            self.assertNotIn("generic.py", row["layer"])
        self.assertEqual({row["layer"] for row in made if row["category"] == "parameter"}, {""})


if __name__ == "__main__":
    unittest.main()
