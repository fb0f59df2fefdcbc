# SPDX-License-Identifier: Apache-2.0
"""Traces exported for other tools, checked by those tools' own rules."""

import gzip
import json
import pickle
import pickletools
import unittest

from program import REPOSITORY, SAMPLES, ProgramTest

RELEASES = REPOSITORY / "tests/data/releases"

# What the reader of https://pytorch.org/memory_viz supports.
MEMORY_VIZ_OPCODES = set(
    "PROTO FRAME MEMOIZE EMPTY_DICT EMPTY_LIST EMPTY_TUPLE MARK APPEND APPENDS SETITEM SETITEMS BINGET LONG_BINGET BINPUT "
    "LONG_BINPUT BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST DICT "
    "NEWTRUE NEWFALSE NONE STOP".split())
FIGURES = ("peak_live_bytes", "end_live_bytes", "peak_reserved_bytes", "end_reserved_bytes", "allocations",
           "failed_allocations")


class Torch(ProgramTest):
    def exported(self, trace):
        path = self.directory / "exported.pickle"
        self.answer("export", trace, "--format", "torch", "-o", path)
        return path

    def figures(self, trace):
        return [[device["device"], *(device[key] for key in FIGURES)] for device in self.document("info", trace)["devices"]]

    def test_what_comes_back_is_what_went_out(self):
        for name in ("leak.reel", "oom_default.reel", "mempools_s83_expandable.pickle.xz", "streams_s32_expandable_pow2.pickle.xz"):
            with self.subTest(name):
                trace = SAMPLES / name
                exported = self.exported(trace)
                self.assertEqual(self.figures(exported), self.figures(trace))
                self.assertIs(self.document("verify", exported)["exact"], True)
        before, after = (self.document("report", path, "--oom")["ooms"] for path in
                         (SAMPLES / "oom_default.reel", self.exported(SAMPLES / "oom_default.reel")))
        self.assertEqual([oom["requested_bytes"] for oom in after], [oom["requested_bytes"] for oom in before])
        self.assertGreater(len(after), 0)

    def verified(self, trace, code=0):
        """The output of verify, without the file name."""
        return {key: value for key, value in self.document("verify", trace, code=code).items() if key != "trace"}

    def test_the_same_allocator_by_the_same_rules(self):
        """Graph pools, expandable segments, settings... and the release, told or not, whatever else the file would tell."""
        for trace in sorted([*SAMPLES.glob("*.reel"), *SAMPLES.glob("*.pickle.xz"), *RELEASES.glob("*.pickle.xz")]):
            with self.subTest(trace.name):
                self.assertEqual(self.verified(self.exported(trace)), self.verified(trace))

    def test_a_release_that_nobody_knows_is_not_told(self):
        data = pickle.loads(self.exported(SAMPLES / "gpt_default.reel").read_bytes())
        self.assertEqual(data.pop("pytorch_release"), "")
        # Then what else is in it tells one.
        expected = self.verified(self.file("unsaid.pickle", pickle.dumps(data, protocol=4)), code=1)
        self.assertIn("PyTorch 2.12, as stated by the snapshot", expected["devices"][0]["rules"])
        for said in ("2.99", 7, ["2.12"]):
            with self.subTest(said):
                path = self.file("said.pickle", pickle.dumps(data | {"pytorch_release": said}, protocol=4))
                self.assertEqual(self.verified(path, code=1), expected)

    def test_blocks_tile_their_segments(self):
        segments = pickle.loads(self.exported(SAMPLES / "oom_default.reel").read_bytes())["segments"]
        self.assertGreater(len(segments), 0)
        for segment in segments:
            at = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], at)
                self.assertLessEqual(block["requested_size"], block["size"])
                at += block["size"]
            self.assertEqual(at, segment["address"] + segment["total_size"])

    def test_the_page_knows_every_opcode(self):
        opcodes = list(pickletools.genops(self.exported(SAMPLES / "streams_s32_expandable_pow2.pickle.xz").read_bytes()))
        self.assertLessEqual({opcode.name for opcode, _, _ in opcodes}, MEMORY_VIZ_OPCODES)
        self.assertLessEqual(max(opcode.proto for opcode, _, _ in opcodes), 4)

    def test_a_trace_without_segments(self):
        # Then each allocation is a segment.
        trace = SAMPLES / "rmm_third_run.csv"
        before, after = self.figures(trace), self.figures(self.exported(trace))
        self.assertEqual([row[1] for row in after], [row[1] for row in before])
        self.assertEqual(after[0][FIGURES.index("peak_reserved_bytes") + 1], before[0][1])


class Viewers(ProgramTest):
    """Formats of heap profilers, read by their own rules."""

    def exported(self, form, name="oom_default.reel"):
        path = self.directory / f"exported.{form}"
        self.answer("export", SAMPLES / name, "--format", form, "-o", path)
        return path.read_bytes()

    def device(self, name="oom_default.reel"):
        return self.document("info", SAMPLES / name)["devices"][0]

    def test_dhat(self):
        device, dhat = self.device(), json.loads(self.exported("dhat"))
        self.assertEqual((dhat["dhatFileVersion"], dhat["bklt"], dhat["bkacc"]), (2, True, False))
        points = dhat["pps"]
        self.assertEqual(sum(point["gb"] for point in points), device["peak_live_bytes"])
        self.assertEqual(sum(point["eb"] for point in points), device["end_live_bytes"])
        self.assertEqual(sum(point["tbk"] for point in points), device["allocations"])
        for point in points:
            self.assertTrue(point["gb"] <= point["mb"] <= point["tb"])
            self.assertLess(max(point["fs"]), len(dhat["ftbl"]))
            self.assertEqual(dhat["ftbl"][point["fs"][-1]], "device 0 torch.cuda")
        # Where the Firefox Profiler gets a frame's line from.
        self.assertTrue(any(frame.startswith("0x0: ") and ".py:" in frame for frame in dhat["ftbl"]))

    def test_firefox(self):
        device, profile = self.device(), json.loads(self.exported("firefox"))
        shared = profile["shared"]
        tables = [shared[name] for name in ("stackTable", "frameTable", "funcTable", "sources")]
        tables += [table for thread in profile["threads"] for table in (thread["nativeAllocations"], thread["markers"])]
        tables += [counter["samples"] for counter in profile["counters"]]
        for table in tables:
            for name, column in table.items():
                if isinstance(column, list):
                    self.assertEqual(len(column), table["length"], name)
        allocations = profile["threads"][0]["nativeAllocations"]
        live, peak = 0, 0
        for weight in allocations["weight"]:
            live += weight
            peak = max(peak, live)
        self.assertEqual((peak, live), (device["peak_live_bytes"], device["end_live_bytes"]))
        frees = [address for address, weight in zip(allocations["memoryAddress"], allocations["weight"]) if weight < 0]
        self.assertEqual(len(frees), len(set(frees)))
        for i, offset in enumerate(shared["stackTable"]["prefixOffset"]):
            self.assertTrue(0 <= offset <= i)
        self.assertTrue(all(stack is None or stack < shared["stackTable"]["length"] for stack in allocations["stack"]))
        names = {shared["stringArray"][name] for name in profile["threads"][0]["markers"]["name"]}
        self.assertTrue(any(name.startswith("out of memory: ") for name in names))
        self.assertIn("device 0 torch.cuda: reserved", {counter["name"] for counter in profile["counters"]})

    def test_heaptrack(self):
        device = self.device()
        lines = gzip.decompress(self.exported("heaptrack")).decode().splitlines()
        self.assertEqual(lines[0], "v 10400 3")
        strings, places, traces, infos, live, peak = 0, 0, 0, [], 0, 0
        for line in lines:
            mode, *numbers = line.split(" ")
            if mode == "s":
                strings += 1
                self.assertEqual(len(line.split(" ", 2)[2].encode()), int(numbers[0], 16))
            elif mode == "i":
                places += 1
                self.assertLessEqual(max(int(number, 16) for number in numbers[1:4]), strings)
            elif mode == "t":
                self.assertTrue(int(numbers[0], 16) <= places and int(numbers[1], 16) <= traces)
                traces += 1
            elif mode == "a":
                infos.append(int(numbers[0], 16))
                self.assertLessEqual(int(numbers[1], 16), traces)
            elif mode in "+-":
                live += infos[int(numbers[0], 16)] * (1 if mode == "+" else -1)
                peak = max(peak, live)
        self.assertEqual((peak, live), (device["peak_live_bytes"], device["end_live_bytes"]))


if __name__ == "__main__":
    unittest.main()
