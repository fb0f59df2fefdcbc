# SPDX-License-Identifier: Apache-2.0
"""Synthetic recordings in other tools' formats: what a user learns from each."""

import gzip
import json
import sqlite3
import unittest

from program import ProgramTest, run

MIB = 1 << 20


class DoorTest(ProgramTest):
    def assert_goes_on(self, path):
        """What was read has the same events as a trace, and the same device memory as a PyTorch snapshot."""
        trace, snapshot = self.directory / "imported.reel", self.directory / "exported.pickle"
        self.answer("import", path, "-o", trace)
        self.assertEqual(*(self.answer("export", each, "--format", "jsonl").stdout for each in (path, trace)))
        self.answer("export", path, "--format", "torch", "-o", snapshot)
        self.assertEqual(*({device["device"]: [device["peak_live_bytes"], device["end_live_bytes"]]
                            for device in self.document("info", each)["devices"] if device["device"] >= 0 and device["peak_live_bytes"] > 0}
                           for each in (path, snapshot)))


class TorchProfiler(DoorTest):
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
        self.assert_goes_on(path)

    def reserving(self, *reserved):
        """The same profile; what was reserved after its events, in file order."""
        profile = self.profile()
        events = [event for event in profile["traceEvents"] if event.get("name") == "[memory]"]
        for event, total in zip(events, reserved):
            event["args"]["Total Reserved"] = total
        return self.file("trace.json", json.dumps(profile).encode())

    def test_what_was_reserved_is_said_and_no_setting_is_compared_with_less(self):
        path = self.reserving(40 * MIB, 32 * MIB, 40 * MIB)
        device = self.document("info", path)["devices"][0]
        self.assertEqual((device["peak_reserved_bytes"], device["end_reserved_bytes"]), (40 * MIB, 40 * MIB))
        report = self.answer("report", path).stdout
        self.assertIn("40.00 MiB reserved, 13.00 MiB live", report)
        self.assertIn("68 % of the peak (27.00 MiB) unused", report)
        document = self.document("report", path)
        self.assertNotIn("set", [line["topic"] for line in document["verdict"]["lines"]])
        self.assertIn("no segments were recorded", self.answer("report", path, "--fragmentation").stdout)
        tune = self.answer("tune", path).stdout
        self.assertIn("Not known: the program reserved 40.00 MiB", tune)
        self.assertNotIn("in use", tune)
        self.assertNotIn("expandable_segments", tune)
        self.assertIsNone(self.document("tune", path)["recommended"])
        self.assert_goes_on(path)

    def test_settings_are_compared_where_the_replay_reserves_as_much(self):
        replayed = self.document("replay", self.reserving(), "--policy", "torch.native")["policies"][0]["peak_reserved_bytes"]
        path = self.reserving(replayed, replayed - 2 * MIB, replayed)
        self.assertIn("in use", self.answer("tune", path).stdout)
        self.assertIn("set", [line["topic"] for line in self.document("report", path)["verdict"]["lines"]])

    def test_what_the_program_adds_may_come_first(self):
        document = json.dumps({"metadata": {"notes": ["x" * 100] * 300}} | self.profile()).encode()
        self.assertEqual(self.document("info", self.file("t.json", document))["source"], "torch.profiler")

    def test_a_missing_event_is_said(self):
        path = self.file("trace.json", json.dumps(self.profile(chain=False)).encode())
        self.assertIn("dropped", self.answer("info", path).stderr)

    def test_a_profile_without_memory_is_refused(self):
        path = self.file("trace.json", json.dumps({"schemaVersion": 1, "traceEvents": []}).encode())
        self.assert_refused(run("info", path), path, "profile_memory=True")


class CuPy(DoorTest):
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
        # The pool's decisions match the policy's.
        self.assertIs(self.document("verify", path)["exact"], True)
        self.assert_goes_on(path)


class Paddle(DoorTest):
    """GLOG_v=10 of PaddlePaddle."""

    def test_memory_among_all_the_rest(self):
        def line(words, second=1, thread=3):
            return f"I1207 23:45:{second:02}.000001 {thread} auto_growth_best_fit_allocator.cc:97] {words}\n"
        log = ("I1207 23:45:00.000001 3 api.cc:22899] cast API kernel key: [GPUDNN, NCHW, float32]\n" * 200
               + line("Allocate 1000 bytes, aligned to 1024, extra size 0")
               + line("Not found and reallocate 4096(0x7f0000000000), and remaining 3072")
               + line("Alloc 1024 bytes, ptr = 0x7f0000000c00") + line("Free 1024 bytes, ptr = 0x7f0000000c00", 2)
               + line("Free chunk with size 4096", 3))
        path = self.file("train.log", log.encode())
        info = self.document("info", path)
        self.assertEqual(info["source"], "paddle.log")
        device = info["devices"][0]
        self.assertEqual((device["peak_live_bytes"], device["peak_reserved_bytes"]), (1000, 4096))
        self.assertEqual((device["end_live_bytes"], device["end_reserved_bytes"]), (0, 0))
        self.assert_goes_on(path)


def global_id(process, thread=0):
    """Process and thread ids as packed by Nsight Systems."""
    return process << 24 | thread


class NsightSystems(DoorTest):
    """`nsys export --type sqlite`, with the columns of its schema 3.28."""

    SCHEMA = """
        CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
        CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
            globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
        CREATE TABLE CUDA_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER, module INTEGER, unresolved INTEGER,
            originalIP INTEGER, stackDepth INTEGER NOT NULL);
        CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, text TEXT,
            globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
    """
    MEMORY = """
        CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL,
            contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL, bytes INTEGER NOT NULL,
            memKind INTEGER NOT NULL, memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER, streamId INTEGER,
            localMemoryPoolAddress INTEGER, localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER,
            localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER, importedMemoryPoolProcessId INTEGER);
    """

    def recording(self, name="run.sqlite", memory=True, asked=True):
        path = self.directory / name
        file = sqlite3.connect(path)
        file.executescript(self.SCHEMA + (self.MEMORY if memory else ""))
        file.execute("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:COLLECT_GPU_MEMORY_USAGE', ?)", (str(asked).lower(),))
        if memory:
            def event(start, address, size, operation, kind=2, correlation=0, process=40, device=0):
                file.execute("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc, bytes, "
                             "memKind, memoryOperationType, correlationId) VALUES (?,?,?,1,?,0,?,?,?,?)",
                             (start, global_id(process), device, address, size, kind, operation, correlation))
            event(5000, 0x7F0000000000, 4 * MIB, 1)  # rows are not in order
            event(1000, 0x7F0000000000, 4 * MIB, 0, correlation=7)
            event(2000, 0x7F0000800000, 3 * MIB, 0, correlation=8)
            event(3000, 0x7E0000000000, 2 * MIB, 0, kind=1)
            event(3500, 0x7F0000000000, MIB, 0, process=41)
        file.executemany("INSERT INTO StringIds VALUES (?,?)", [(1, "load_weights()"), (2, "libmodel.so"), (3, "main"), (4, "step")])
        file.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 1100, 0, ?, 7, 1, 0, 5)", (global_id(40, 44),))
        file.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 1100, 0, ?, 7, 1, 0, 6)", (global_id(41, 44),))
        file.executemany("INSERT INTO CUDA_CALLCHAINS VALUES (?,?,?,0,0,?)", [(5, 3, 2, 1), (5, 1, 2, 0)])
        file.execute("INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId) VALUES (500, 4000, 59, ?, 4)",
                     (global_id(40, 44),))
        file.commit()
        file.close()
        return path

    def events(self, path):
        return [json.loads(line) for line in self.answer("export", path, "--format", "jsonl").stdout.splitlines()]

    def test_memory_stacks_and_ranges(self):
        path = self.recording()
        info = self.document("info", path)
        self.assertEqual((info["source"], info["process"]), ("nsys.sqlite", 40))
        device, host = sorted(info["devices"], key=lambda device: -device["device"])
        self.assertEqual((device["heap"], device["peak_live_bytes"], device["end_live_bytes"]), ("cuda.driver", 7 * MIB, 3 * MIB))
        self.assertEqual((host["device"], host["end_live_bytes"]), (-1, 2 * MIB))
        self.assertEqual(info["losses"]["unknown_actions"], 1, "of another process")
        events = self.events(path)
        self.assertEqual([event["kind"] for event in events], ["mark", "alloc", "alloc", "alloc", "mark", "free_requested"])
        self.assertEqual(events[0]["mark"], "step")
        self.assertEqual([frame["function"] for frame in events[1]["stack"]], ["load_weights()", "main"])
        self.assertEqual(events[1]["thread"], 44)
        self.assert_goes_on(path)

    def test_compressed_and_oddly_named(self):
        path = self.recording("50%#?.sqlite")
        expected = self.events(path)
        self.assertEqual(self.events(self.file("run.gz", gzip.compress(path.read_bytes()))), expected)
        self.assertEqual({file.name for file in self.directory.iterdir()}, {"50%#?.sqlite", "run.gz"})

    def test_a_recording_without_memory_says_what_was_missing(self):
        self.assert_refused(run("info", self.recording("a.sqlite", memory=False, asked=False)), "--cuda-memory-usage=true")
        self.assert_refused(run("info", self.recording("b.sqlite", memory=False)), "no event of GPU memory was recorded")

    def test_damage_is_one_line(self):
        content = self.recording().read_bytes()
        for name, damaged in (("cut", content[:5000]), ("zeros", content[:4096] + bytes(len(content) - 4096)),
                              ("start", content[:100])):
            with self.subTest(name):
                self.assert_refused(run("info", self.file(name, damaged), memory_limit=1 << 30), "SQLite")

    def test_a_view_without_end_is_stopped(self):
        path = self.recording("view.sqlite", memory=False)
        file = sqlite3.connect(path)
        names = [f"t{i}" for i in range(16)]
        file.execute("CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS SELECT t0.id AS start FROM "
                     + ", ".join(f"StringIds {name}" for name in names) + " WHERE " + " + ".join(f"{name}.id" for name in names) + " < 0")
        file.commit()
        file.close()
        self.assert_refused(run("info", path, memory_limit=1 << 30, processor_limit=60), "more steps than its size allows")


class RocProfiler(DoorTest):
    """`rocprofv3 --memory-allocation-trace`, in its three formats."""

    RECORDS = (  # time, free?, size, address, agent
        (30, True, 0, 0x7F0000200000, None), (10, False, 2 * MIB, 0x7F0000200000, 1), (20, False, MIB, 0x7F0000600000, 1),
        (25, False, 8 * MIB, 0, 1))

    def csv(self):
        lines = ['"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp"']
        for time, free, size, address, agent in self.RECORDS:
            operation = "MEMORY_ALLOCATION_FREE" if free else "MEMORY_ALLOCATION_ALLOCATE"
            agent_text = f'"Agent {agent}"' if agent is not None else '""'
            lines.append(f'"MEMORY_ALLOCATION","{operation}",{agent_text},{size},"0x{address:016x}",1,{time},{time}')
        return "\n".join(lines).encode() + b"\n"

    def json(self):
        records = [{"size": 64, "kind": 20, "operation": 3 if free else 1, "thread_id": 9,
                    "correlation_id": {"internal": 1, "external": 0}, "start_timestamp": time, "end_timestamp": time,
                    "agent_id": {"handle": 100 + agent if agent is not None else 0}, "address": address, "allocation_size": size}
                   for time, free, size, address, agent in self.RECORDS]
        tool = {"metadata": {"pid": 4711}, "agents": [{"id": {"handle": 101}, "type": 2, "logical_node_type_id": 1}],
                "buffer_records": {"kernel_dispatch": [], "memory_allocation": records}}
        return json.dumps({"rocprofiler-sdk-tool": [tool]}).encode()

    def rocpd(self):
        path = self.directory / "results.db"
        file = sqlite3.connect(path)
        file.execute("CREATE TABLE rocpd_memory_allocate_0b(id, pid, tid, start, end, type, agent, address, size)")
        file.executemany("INSERT INTO rocpd_memory_allocate_0b VALUES (1, 4711, 9, ?, ?, ?, ?, ?, ?)", [
            (time, time, "FREE" if free else "ALLOC", agent, address, size) for time, free, size, address, agent in self.RECORDS])
        file.execute("CREATE VIEW memory_allocations AS SELECT id, pid, tid, start, end, type, 'REAL' AS level, 'gfx942' AS agent_name, "
                     "'GPU' AS agent_type, agent AS agent_type_index, address, size, 0 AS stream_id FROM rocpd_memory_allocate_0b")
        file.commit()
        file.close()
        return path

    def test_three_formats_say_the_same(self):
        sources = {}
        for path in (self.file("run_memory_allocation_trace.csv", self.csv()), self.file("run_results.json", self.json()), self.rocpd()):
            with self.subTest(path.name):
                info = self.document("info", path)
                sources[info["source"]] = info["process"]
                device, = info["devices"]
                self.assertEqual((device["device"], device["heap"], device["peak_live_bytes"], device["end_live_bytes"],
                                  device["failed_allocations"]), (1, "hsa", 3 * MIB, MIB, 1))
                self.assert_goes_on(path)
        self.assertEqual(sources, {"rocprof.csv": None, "rocprof.json": 4711, "rocpd": 4711})

    def test_without_records_of_memory(self):
        empty = json.dumps({"rocprofiler-sdk-tool": [{"buffer_records": {"memory_allocation": []}}]}).encode()
        self.assert_refused(run("info", self.file("run_results.json", empty)), "--memory-allocation-trace")


if __name__ == "__main__":
    unittest.main()
