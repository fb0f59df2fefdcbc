"""Recordings of other tools, made up in their own formats: what a user learns from each."""

import gzip
import json
import unittest

from program import ProgramTest, run

MIB = 1 << 20


class TorchProfiler(ProgramTest):
    """`export_chrome_trace()` of a profile with memory and stacks."""

    def profile(self, chain=True, **more):
        def memory(ts, address, size, total, **other):
            return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 7, "tid": 7, "ts": ts,
                    "args": {"Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": size, "Total Allocated": total} | other}
        events = [
            memory(30.5, 0x7000_0000, 3 * MIB, 13 * MIB if chain else 14 * MIB),
            memory(20.5, 0x6000_0000, 4 * MIB, 10 * MIB),
            memory(40.5, 0x6000_0000, -4 * MIB, 9 * MIB),
            memory(10.0, 0x100, 64, 64, **{"Device Type": 0, "Device Id": -1}),
            {"ph": "X", "cat": "python_function", "name": "train.py(12): step", "pid": 7, "tid": 7, "ts": 15, "dur": 20},
            {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 7, "tid": 7, "ts": 30, "dur": 1},
            {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 7, "tid": 7, "ts": 1, "dur": 50},
        ]
        return {"schemaVersion": 1, "deviceProperties": [], "traceEvents": events, "baseTimeNanoseconds": 10 ** 18, **more}

    def test_peak_and_who_holds_it(self):
        path = self.file("trace.json.gz", gzip.compress(json.dumps(self.profile()).encode()))
        info = self.document("info", path)
        self.assertEqual(info["source"], "torch.profiler")
        device = info["devices"][0]
        self.assertEqual(device["peak_live_bytes"], 13 * MIB)
        self.assertEqual(device["end_live_bytes"], 9 * MIB)
        self.assertEqual(info["losses"]["preexisting_allocations"], 1)
        self.assertEqual(info["losses"]["unknown_actions"], 1)
        self.assertEqual(info["losses"]["ring_full"], 0)
        report = self.answer("report", path).stdout
        self.assertIn("train.py:12", report)
        self.assertEqual(self.document("replay", path, "--policy", "torch.native")["policies"][0]["peak_live_bytes"], 13 * MIB)

    def test_what_the_program_adds_may_come_first(self):
        document = json.dumps({"metadata": {"notes": ["x" * 100] * 300}} | self.profile()).encode()
        self.assertEqual(self.document("info", self.file("t.json", document))["source"], "torch.profiler")

    def test_a_missing_event_is_said(self):
        path = self.file("trace.json", json.dumps(self.profile(chain=False)).encode())
        self.assertIn("dropped", self.answer("info", path).stderr)

    def test_a_profile_without_memory_is_refused(self):
        path = self.file("trace.json", json.dumps({"schemaVersion": 1, "traceEvents": []}).encode())
        self.assert_refused(run("info", path), path, "profile_memory=True")


class CuPy(ProgramTest):
    """DebugPrintHook of CuPy."""

    def log(self):
        def line(hook, address, mem_size, **more):
            return json.dumps({"hook": hook, "device_id": 0, **more, "mem_size": mem_size, "mem_ptr": address},
                              separators=(",", ":")) + "\n"
        base = 0x2300000000
        return "".join([line("alloc", base, 2048), line("malloc", base, 2048, size=2000, pmem_id="0x7f"), "epoch 1\n",
                        line("free", base, 2048, pmem_id="0x7f"), line("malloc", base, 512, size=24, pmem_id="0x7f"),
                        line("malloc", base + 512, 1024, size=1000, pmem_id="0x80")]).encode()

    def test_memory_and_its_allocator(self):
        path = self.file("cupy.log", self.log())
        info = self.document("info", path)
        self.assertEqual(info["source"], "cupy.jsonl")
        self.assertEqual(info["devices"][0]["peak_live_bytes"], 2000)
        self.assertEqual(info["devices"][0]["end_live_bytes"], 1024)
        self.assertEqual(info["devices"][0]["peak_reserved_bytes"], 2048)
        self.assertEqual(info["losses"]["unknown_actions"], 1)
        # The pool's decisions are those of the policy.
        self.assertIs(self.document("verify", path)["exact"], True)


class Paddle(ProgramTest):
    """GLOG_v=10 of PaddlePaddle."""

    def test_memory_among_all_the_rest(self):
        def line(words, second=1, thread=3):
            return f"I1207 23:45:{second:02}.000001 {thread} auto_growth_best_fit_allocator.cc:97] {words}\n"
        log = ("I1207 23:45:00.000001 3 api.cc:22899] cast API kernel key: [GPUDNN, NCHW, float32]\n" * 200
               + line("Allocate 1000 bytes, aligned to 1024, extra size 0")
               + line("Not found and reallocate 4096(0x7f0000000000), and remaining 3072")
               + line("Alloc 1024 bytes, ptr = 0x7f0000000c00") + line("Free 1024 bytes, ptr = 0x7f0000000c00", 2)
               + line("Free chunk with size 4096", 3))
        info = self.document("info", self.file("train.log", log.encode()))
        self.assertEqual(info["source"], "paddle.log")
        device = info["devices"][0]
        self.assertEqual((device["peak_live_bytes"], device["peak_reserved_bytes"]), (1000, 4096))
        self.assertEqual((device["end_live_bytes"], device["end_reserved_bytes"]), (0, 0))


if __name__ == "__main__":
    unittest.main()
