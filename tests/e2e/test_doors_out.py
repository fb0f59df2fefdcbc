"""Traces written for other tools: what those tools, or their own rules, say of them."""

import pickle
import pickletools
import unittest

from program import SAMPLES, ProgramTest

# What the reader of https://pytorch.org/memory_viz knows.
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
        # Each allocation is a segment then.
        trace = SAMPLES / "rmm_third_run.csv"
        before, after = self.figures(trace), self.figures(self.exported(trace))
        self.assertEqual([row[1] for row in after], [row[1] for row in before])
        self.assertEqual(after[0][FIGURES.index("peak_reserved_bytes") + 1], before[0][1])


if __name__ == "__main__":
    unittest.main()
