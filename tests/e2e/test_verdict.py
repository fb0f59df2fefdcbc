# SPDX-License-Identifier: Apache-2.0
"""The lines that open every report, read once and kept: tests/golden/verdicts/NAME.txt.

MEMREEL_WRITE_GOLDEN=1 writes them anew; read each before keeping it.
"""

import html
import json
import os
import pickle
import re
import unittest
from pathlib import Path

import snapshot
from bug_patterns import PATTERNS
from program import REPOSITORY, SAMPLES, ProgramTest, run

GOLDEN = REPOSITORY / "tests/golden/verdicts"
HISTORIES = REPOSITORY.parent / "shared/histories"
BUGS = REPOSITORY.parent / "shared/bugs"
WILD = REPOSITORY.parent / "shared/wild/torch"
SUFFIXES = (".reel", ".pickle.xz", ".xplane.pb.gz")
TOPICS = {"OOM", "peak", "instant", "held by", "others", "leaks", "fragmented", "set", "use"}


def verdict(path, *arguments):
    """The opening lines of the text."""
    process = run("report", path, *arguments)
    if process.returncode != 0:
        raise AssertionError(f"{path}: {process.stderr}")
    return process.stdout.split("\n\n", 1)[0]


class Verdict(ProgramTest):
    maxDiff = None

    def golden(self, folder, name):
        kept = GOLDEN / f"{name}.txt"
        shown = ""
        for path in sorted(folder.iterdir()):
            if path.name.endswith(SUFFIXES):
                shown += f"{path.name}\n{verdict(path)}\n\n"
        if os.environ.get("MEMREEL_WRITE_GOLDEN"):
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(shown)
        self.assertEqual(shown, kept.read_text())

    def test_samples(self):
        self.golden(SAMPLES, "samples")

    def test_patterns_of_bug_reports(self):
        kept = GOLDEN / "patterns.txt"
        shown = ""
        for name, pattern in PATTERNS.items():
            lines = verdict(self.file(name + ".json", json.dumps(pattern()).encode()))
            self.assertLessEqual(len(lines.splitlines()), 5, lines)
            shown += f"{name}\n{lines}\n\n"
        if os.environ.get("MEMREEL_WRITE_GOLDEN"):
            kept.write_text(shown)
        self.assertEqual(shown, kept.read_text())

    @unittest.skipUnless(BUGS.is_dir(), "the miniatures of bug reports are not here")
    def test_bugs(self):
        """What decides, who holds it, what the free memory is and what to set; leaks have tests of their own."""
        kept = GOLDEN / "bugs.txt"
        shown = ""
        for path in sorted(BUGS.glob("*/*.xz")):
            if path.stem not in ("protocol0.pickle", "protocol1.pickle"):  # refused, with the remedy
                lines = [line for line in verdict(path).splitlines() if not line.startswith("leaks") or "bursts" in line]
                shown += "\n".join([f"{path.parent.name}/{path.name}", *lines]) + "\n\n"
        if os.environ.get("MEMREEL_WRITE_GOLDEN"):
            kept.write_text(shown)
        self.assertEqual(shown, kept.read_text())

    @unittest.skipUnless(WILD.is_dir(), "the public snapshots are not here")
    def test_public_snapshots(self):
        """Every other one."""
        kept = GOLDEN / "public.txt"
        shown = "".join(f"{path.name}\n{verdict(path)}\n\n" for path in sorted(WILD.glob("*.xz"))[1::2])
        if os.environ.get("MEMREEL_WRITE_GOLDEN"):
            kept.write_text(shown)
        self.assertEqual(shown, kept.read_text())

    @unittest.skipUnless(HISTORIES.is_dir(), "the shared histories are not here")
    def test_histories(self):
        self.golden(HISTORIES, "histories")

    @unittest.skipUnless((HISTORIES / "leaks").is_dir(), "the shared histories are not here")
    def test_leaks(self):
        self.golden(HISTORIES / "leaks", "leaks")

    def test_at_most_five_lines_of_a_terminal(self):
        for path in sorted(SAMPLES.iterdir()):
            if path.name.endswith(SUFFIXES):
                with self.subTest(path.name):
                    lines = verdict(path).splitlines()
                    self.assertLessEqual(len(lines), 5, lines)
                    for line in lines:
                        self.assertLessEqual(len(line), 80, line)
                        self.assertTrue(any(line.startswith(topic + " ") for topic in TOPICS), line)

    def test_summary_is_behind_an_option(self):
        sample = SAMPLES / "gpt_default.reel"
        self.assertNotIn("total allocated", self.answer("report", sample).stdout)
        self.assertIn("total allocated", self.answer("report", sample, "--summary").stdout)

    def test_says_the_same_in_every_format(self):
        for name in ("gpt_default", "leak", "oom_default", "streams_default"):
            sample = SAMPLES / f"{name}.reel"
            with self.subTest(name):
                lines = [(line["topic"], line["text"]) for line in self.document("report", sample)["verdict"]["lines"]]
                text = run("report", sample, environment={"COLUMNS": "300"}).stdout.split("\n\n", 1)[0]
                self.assertEqual([re.split(r"  +", line, maxsplit=1) for line in text.splitlines()],
                                 [list(line) for line in lines])
                page = self.answer("report", sample, "--format", "html").stdout
                listed = re.findall(r"<li(?: class=alarm)?><b>(.*?)</b>: (.*?)</li>", page)
                self.assertEqual([(html.unescape(topic), html.unescape(said)) for topic, said in listed], lines)
                markdown = self.answer("report", sample, "--format", "markdown").stdout
                listed = re.findall(r"(?m)^- \*\*(.*?)\*\*: (.*)$", markdown)
                self.assertEqual([(topic, re.sub(r"\\(.)", r"\1", said)) for topic, said in listed], lines)

    def test_sections_have_the_lines_that_belong_to_them(self):
        verdicts = {option: self.document("report", SAMPLES / "leak.reel", *option)["verdict"]
                    for option in ((), ("--leaks",), ("--fragmentation",))}
        self.assertTrue(all(part for name, part in verdicts[()].items() if name not in ("others", "kept_by")))
        self.assertIsNone(verdicts["--leaks",]["setting"])
        self.assertEqual(verdicts["--leaks",]["leaks"], verdicts[()]["leaks"])
        self.assertIsNone(verdicts["--fragmentation",]["leaks"])
        self.assertEqual(verdicts["--fragmentation",]["setting"], verdicts[()]["setting"])

    def test_nothing_is_said_of_settings_where_the_history_is_missing(self):
        base, size, live = 1 << 40, 6 << 30, 4 << 30
        block = {"requested_size": 0, "state": "inactive", "frames": []}
        segment = {"device": 0, "address": base, "total_size": size, "allocated_size": live, "active_size": live,
                   "requested_size": live, "stream": 0, "segment_type": "large", "is_expandable": False, "blocks": [
                       block | {"size": live, "requested_size": live, "state": "active_allocated", "address": base},
                       block | {"size": size - live, "address": base + live}]}
        path = self.file("snapshot.json", json.dumps({"segments": [segment], "device_traces": [[]]}).encode())
        self.assertRegex(verdict(path), r"(?m)^instant +6.00 GiB reserved, 4.00 GiB live")
        self.assertNotRegex(verdict(path), r"(?m)^set ")
        self.assertIsNone(self.document("report", path)["verdict"]["setting"])

    def test_a_setting_that_serves_the_last_request_is_not_denied(self):
        mib, base, far = 1 << 20, snapshot.BASE, snapshot.BASE + (1 << 30)
        recorder = snapshot.Recorder()
        for address in (base, far):
            recorder.add("segment_alloc", address, 40 * mib)
            recorder.add("alloc", address, 40 * mib)
        recorder.free(base, 40 * mib)
        recorder.free(far, 40 * mib)
        recorder.add("alloc", base, 12 * mib)
        recorder.add("alloc", far, 36 * mib)
        recorder.add("oom", 40 * mib, 50 * mib)
        recorder.entries[-1]["device_free"] = recorder.entries[-1].pop("addr")

        def segment(address, used):
            return {"device": 0, "address": address, "total_size": 40 * mib, "allocated_size": used, "active_size": used,
                    "requested_size": used, "stream": 0, "segment_type": "large", "is_expandable": False, "blocks": [
                        snapshot.block(address, used, used, "active_allocated"),
                        snapshot.block(address + used, 40 * mib - used, 0, "inactive")]}

        document = snapshot.snapshot() | {"segments": [segment(base, 12 * mib), segment(far, 36 * mib)],
                                          "device_traces": [recorder.entries], "external_annotations": []}
        failed = self.file("failed.json", json.dumps(document).encode())
        self.assertTrue(self.document("report", failed, "--oom")["ooms"][0]["serve_only"])
        text = " ".join(self.answer("report", failed, "--oom").stdout.split())
        self.assertIn("serves the request that failed by fragmentation, by replay, but what the program requests next is not recorded.",
                      text)
        self.assertNotIn("None of the settings", text)

    def test_rounding_is_not_called_in_use(self):
        """Unsplit remainders of 0.7 MiB in each of 20 MiB are neither free nor live."""
        segment, requested = 20 << 20, (20 << 20) - (700 << 10)
        for unsplit in (True, False):
            recorder = snapshot.Recorder()
            for i in range(4):
                recorder.add("segment_alloc", snapshot.BASE + 2 * i * segment, segment)
                recorder.add("alloc", snapshot.BASE + 2 * i * segment, requested if unsplit else segment)
            path = self.file("rounded.pickle", pickle.dumps(snapshot.snapshot() | {
                "segments": [], "device_traces": [recorder.entries], "external_annotations": []}))
            expected = "97 % of the peak was live, 3.4 % rounding" if unsplit else "100 % of the peak was in use"
            self.assertIn(f"little: {expected}\n", verdict(path) + "\n")

    def test_cache_is_told_from_need(self):
        """Whole free segments are given back before a request fails: of 1.56 GiB reserved, 1,000 MiB are needed."""
        mib = 1 << 20
        recorder = snapshot.Recorder()
        second = snapshot.BASE + 2048 * mib
        recorder.add("segment_alloc", snapshot.BASE, 600 * mib)
        recorder.add("alloc", snapshot.BASE, 600 * mib)
        recorder.free(snapshot.BASE, 600 * mib)
        recorder.add("segment_alloc", second, 1000 * mib)
        recorder.add("alloc", second, 1000 * mib)
        path = self.file("cached.pickle", pickle.dumps(snapshot.snapshot() | {
            "segments": [], "device_traces": [recorder.entries], "external_annotations": []}))
        self.assertIn("\nfragmented  little: 38 % of the peak (600.00 MiB) is cache, freed on demand\n", verdict(path) + "\n")
        self.assertIn("\nset         nothing: 1.17 GiB serves every request, by replay\n",
                      verdict(path, "--capacity", "1200MiB") + "\n")
        self.assertNotIn("serves every request", verdict(path, "--capacity", "2GiB"))
        self.assertIn("serves more requests", verdict(path, "--capacity", "900MiB"))

    def test_cache_is_said_beside_what_is_unreleasable(self):
        """However little of what is unused can't be given back."""
        mib = 1 << 20
        for pinned, expected in ((4, "little: 37 % of the peak (600.00 MiB) is cache, freed on demand"),
                                 (36, "39 % of the peak unused: 600.00 MiB cache, 36.00 MiB unreleasable")):
            recorder = snapshot.Recorder()
            for number, (size, used, kept) in enumerate(((1000, 1000, True), (600, 600, False), (40, 40 - pinned, True))):
                at = snapshot.BASE + 2048 * number * mib
                recorder.add("segment_alloc", at, size * mib)
                recorder.add("alloc", at, used * mib)
                if not kept:
                    recorder.free(at, size * mib)
            path = self.file("cached.pickle", pickle.dumps(snapshot.snapshot() | {
                "segments": [], "device_traces": [recorder.entries], "external_annotations": []}))
            self.assertIn(f"\nfragmented  {expected}\n", verdict(path) + "\n")

    def test_that_the_device_was_full_is_said(self):
        """PyTorch releases its cache inside a request if the device refuses, and asks again."""
        mib = 1 << 20
        for full in (True, False):
            with self.subTest(full=full):
                recorder = snapshot.Recorder()
                second = snapshot.BASE + 2048 * mib
                recorder.add("segment_alloc", snapshot.BASE, 600 * mib)
                recorder.add("alloc", snapshot.BASE, 600 * mib)
                recorder.free(snapshot.BASE, 600 * mib)
                if full:
                    recorder.add("segment_free", snapshot.BASE, 600 * mib)
                recorder.add("segment_alloc", second, 1000 * mib)
                recorder.add("alloc", second, 1000 * mib)
                path = self.file("full.pickle", pickle.dumps(snapshot.snapshot() | {
                    "segments": [], "device_traces": [recorder.entries], "external_annotations": []}))
                said = "\nset         nothing: the device was full, and PyTorch emptied its cache to go on\n"
                self.assertEqual(said in verdict(path) + "\n", full)

    def test_a_trace_without_allocations(self):
        whole = (SAMPLES / "gpt_default.reel").read_bytes()
        empty = {"segments": [], "device_traces": [[]], "external_annotations": []}
        self.assertRegex(verdict(self.file("empty.json", json.dumps(empty).encode())), r"^peak +nothing was allocated")
        for size in (16, len(whole) // 10, len(whole) // 2, len(whole) - 2000):
            cut = self.file("cut.reel", whole[:size])
            self.assertRegex(verdict(cut), r"^peak +unknown: the trace holds no allocations, but parts of it are lost")

    def test_categories_say_more_than_code_of_libraries(self):
        # One line of the model allocates nearly everything, in two functions of PyTorch.
        def frames(*inner):
            return [{"filename": file, "line": line, "name": name} for file, line, name in (
                *inner, ("toy.py", 77, "forward"), ("/lib/python3/site-packages/torch/nn/modules/module.py", 1750, "_call_impl"),
                ("main.py", 5, "<module>"))]
        linear = frames(("/lib/python3/site-packages/torch/nn/modules/linear.py", 134, "forward"),
                        ("/lib/python3/site-packages/torch/nn/modules/module.py", 1750, "_call_impl"))
        functional = frames(("/lib/python3/site-packages/torch/nn/functional.py", 20, "softmax"))
        entries, base, mib = [], 0x700000000000, 1 << 20
        entries.append({"action": "segment_alloc", "addr": base, "size": 1024 * mib, "stream": 0, "frames": linear})
        for call in range(6):
            for at, size, stack in ((0, 600, linear), (600, 300, functional)):
                entries.append({"action": "alloc", "addr": base + at * mib, "size": size * mib, "stream": 0, "frames": stack})
            for at, size in ((0, 600), (600, 300)):
                for action in ("free_requested", "free_completed"):
                    entries.append({"action": action, "addr": base + at * mib, "size": size * mib, "stream": 0, "frames": frames()})
        document = {"segments": [], "device_traces": [entries], "external_annotations": []}
        self.assertRegex(verdict(self.file("calls.json", json.dumps(document).encode())), r"(?m)^held by +temporaries 100 % \(most at toy.py:77\)")

    def test_a_workspace_of_cublas_is_known_without_modules(self):
        """Compiled code shows none. Of the sizes that cuBLAS requests, only the odd one is no usual tensor's."""
        mib = 1 << 20
        for device, size, is_known in ((0, 8320 << 10, True), (3, 8320 << 10, True), (0, 32 * mib, False)):
            recorder, far = snapshot.Recorder(), snapshot.BASE + (1 << 30)
            recorder.add("segment_alloc", far, 20 * mib)
            for _ in range(9):
                recorder.add("alloc", far, 2 * mib)
                recorder.free(far, 2 * mib)
            segments = [snapshot.snapshot()["segments"][0] | {
                "device": device, "address": at, "total_size": 40 * mib, "allocated_size": used, "active_size": used,
                "requested_size": used, "segment_type": "large", "blocks": [
                    *([snapshot.block(at, used, used, "active_allocated")] if used else []),
                    snapshot.block(at + used, total - used, 0, "inactive")]} | {"total_size": total}
                for at, total, used in ((snapshot.BASE, 40 * mib, size), (far, 20 * mib, 0))]
            path = self.file("workspace.pickle", pickle.dumps(snapshot.snapshot() | {
                "segments": segments, "device_traces": [[]] * device + [recorder.entries], "external_annotations": []}))
            self.assertEqual("workspaces 80 %" in verdict(path), is_known, verdict(path))

    def test_a_library_s_line_does_not_stand_for_the_program_s(self):
        """One line of the program holds nearly everything, and so does one of PyTorch: the former can be changed."""
        packages, mib = "/lib/python3/site-packages/torch/nn/", 1 << 20
        for device, drive, separator in ((0, "", "/"), (1, "C:", "\\")):
            blocks, at = [], snapshot.BASE
            for size, inner in ((97, "modules/linear.py"), (2, "functional.py"), (1, "modules/module.py")):
                frames = [{"filename": drive + path.replace("/", separator), "line": line, "name": name} for path, line, name in (
                    (packages + inner, 134, "forward"), ("/home/user/toy.py", 77, "forward"), ("/home/user/main.py", 5, "<module>"))]
                blocks.append(snapshot.block(at, size * mib, size * mib, "active_allocated") | {"frames": frames})
                at += size * mib
            segment = snapshot.snapshot()["segments"][0] | {
                "device": device, "total_size": 100 * mib, "allocated_size": 100 * mib, "active_size": 100 * mib,
                "requested_size": 100 * mib, "segment_type": "large", "blocks": blocks}
            document = {"segments": [segment], "device_traces": [[]] * (device + 1), "external_annotations": []}
            self.assertRegex(verdict(self.file("linear.pickle", pickle.dumps(document))), r"(?m)^held by +forward \(toy.py:77\) 100 %$")

    def test_names_that_are_lost_are_said_to_be(self):
        damaged = bytearray((SAMPLES / "leak.reel").read_bytes())
        damaged[72] ^= 1  # in the names
        report = self.answer("report", self.file("damaged.reel", bytes(damaged))).stdout
        self.assertRegex(report, r"(?m)^held by +\(lost\)")
        self.assertRegex(report, r"(?m)^\(lost\), device 0: peak live")


if __name__ == "__main__":
    unittest.main()
