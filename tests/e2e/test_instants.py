# SPDX-License-Identifier: Apache-2.0
"""Files that hold one instant, or no addresses: pages, timelines, tables, dumps in logs, JAX's profiles."""

import base64
import gzip
import json
import os
import pickle
import unittest
from pathlib import Path

from program import REPOSITORY, ProgramTest, run
from snapshot import snapshot

OTHER = Path(os.environ.get("MEMREEL_WILD", REPOSITORY.parent / "shared/wild")) / "other"
MIB = 1 << 20


def varint(number):
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def pprof(samples, types=("allocations", "space")):
    """A profile as JAX writes it: `samples` of (count, bytes, kind, device, [function, ...]), leaf first."""
    texts = ["", types[0], "count", types[1], "bytes", "kind", "device"]

    def text(value):
        if value not in texts:
            texts.append(value)
        return texts.index(value)
    out = field(1, field(1, 1) + field(2, 2)) + field(1, field(1, 3) + field(2, 4))
    functions = []
    for count, size, kind, device, stack in samples:
        for name in stack:
            if name not in functions:
                functions.append(name)
        labels = field(3, field(1, 5) + field(2, text(kind)))
        if device:
            labels += field(3, field(1, 6) + field(2, text(device)))
        places = b"".join(varint(functions.index(name) + 1) for name in stack)
        out += field(2, field(1, places) + field(2, varint(count) + varint(size)) + labels)
    for i, name in enumerate(functions, 1):
        out += field(4, field(1, i) + field(4, field(1, i) + field(2, 10 + i)))
        out += field(5, field(1, i) + field(2, text(name)) + field(4, text("train.py")))
    return out + b"".join(field(6, one.encode()) for one in texts)


def varints_in(data):
    numbers, at = [], 0
    while at < len(data):
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        numbers.append(number)
    return numbers


def fields_of(data):
    """(number, value) of each field; varints as numbers."""
    at = 0

    def number():
        nonlocal at
        begin = at
        while data[at] & 128:
            at += 1
        at += 1
        return varints_in(data[begin:at])[0]
    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            yield tag >> 3, number()
        else:
            size = number()
            yield tag >> 3, data[at:at + size]
            at += size


def truth_of_pprof(data):
    """{kind: bytes} of JAX's profile."""
    texts = [value.decode() for number, value in fields_of(data) if number == 6]
    sums = {}
    for number, value in fields_of(data):
        if number != 2:
            continue
        size, kind = 0, ""
        for inner, part in fields_of(value):
            if inner == 2:
                size = varints_in(part)[1]
            if inner == 3:
                label = dict(fields_of(part))
                if texts[label[1]] == "kind":
                    kind = texts[label[2]]
        sums[kind] = sums.get(kind, 0) + size
    return sums


class Instants(ProgramTest):
    def heaps(self, file):
        """{name of the heap: (live at the end, peak of live)} by `memreel report`."""
        report = self.document("report", file)
        return {(heap["heap"], heap["device"]): heap["bytes"] for heap in report["live_at_end"]}, report

    def kinds(self, file):
        return self.document("info", file)["kinds"]

    def assert_refuses(self, process, *words):
        """After a note on what the recording is."""
        note, error = process.stderr.splitlines()
        self.assertEqual(process.returncode, 2)
        self.assertTrue(note.startswith("memreel: note: "), note)
        self.assertRegex(error, "^memreel: error: " + "".join(f"(?=.*{word})" for word in words))

    def test_a_page_of_memory_viz_is_its_snapshot(self):
        data = pickle.dumps(snapshot())
        data += b"\0" * (3 - len(data) % 3)
        files = json.dumps([{"name": "snapshot.pickle", "base64": base64.b64encode(data).decode()}])
        page = ('\n<!DOCTYPE html>\n<html>\n<head>\n</head>\n<body>\n<script type="module">\nimport {add_local_files} from '
                f'"https://cdn.jsdelivr.net/gh/pytorch/pytorch@main/torch/utils/viz/MemoryViz.js"\nconst local_files = {files}\n'
                "add_local_files(local_files, 'Active Memory Timeline')\n</script>\n</body>\n")
        html, plain = self.file("x.html", page.encode()), self.file("x.pickle", pickle.dumps(snapshot()))
        first, second = self.document("info", html), self.document("info", plain)
        for key in ("events", "kinds", "devices", "source"):
            self.assertEqual(first[key], second[key])
        self.assert_refused(run("info", self.file("cut.html", page[:len(page) // 2].encode())), "cut.html")
        picture = b'<html>\n<head><title>GPU Memory Timeline HTML</title></head>\n<body><img src=\'data:image/png;base64,AAAA\'>'
        self.assert_refused(run("info", self.file("p.html", picture)), "a picture", "export_memory_timeline")

    def test_a_timeline_of_the_profiler(self):
        rows = [[-1, 1, 3 * MIB, 0], [-1, 1, MIB, 2], [100, 2, 8 * MIB, 7], [200, 3, -8 * MIB, 7], [200, 3, 8 * MIB, 4],
                [300, 2, 8 * MIB, 5], [400, 4, -8 * MIB, 4], [500, 4, -MIB, 2]]
        for name, data in (("t.raw.json", json.dumps(rows).encode()), ("t.raw.json.gz", gzip.compress(json.dumps(rows).encode()))):
            file = self.file(name, data)
            report = self.document("report", file)
            device = report["summary"]["devices"][0]
            self.assertEqual(device["peak_live_bytes"], 20 * MIB)
            self.assertEqual(sum(heap["bytes"] for heap in report["live_at_end"]), 11 * MIB)
            self.assertEqual({part["label"]: part["bytes"] for part in report["verdict"]["held_by"]["parts"]},
                             {"unknown": 8 * MIB, "gradients": 8 * MIB, "parameters": 3 * MIB, "inputs": MIB})
        by = self.document("report", file, "--by", "metadata")["live_at_end"][0]["groups"]
        self.assertEqual({group["label"]: group["bytes"] for group in by}, {"parameter": 3 * MIB, "gradient": 8 * MIB})
        rows.insert(2, [50, 2, 4 * MIB + 4, 5])
        file = self.file("host.raw.json", json.dumps(rows).encode())
        report = self.document("report", file)
        self.assertEqual((report["verdict"]["decides"]["heap"], report["verdict"]["decides"]["device"]), ("torch.cpu", -1))
        self.assertNotIn("expandable_segments", json.dumps(report["verdict"]))
        self.assertIn("host memory torch.cpu", run("export", "--format", "dhat", file).stdout)
        self.assert_refused(run("info", self.file("t.json", b"[[1, 2, 3, 4, 5], [[0, 1], [0, 2]]]")), "x.raw.json.gz")
        for bad in (b"[[1, 2, 3]]", b"[[1, 9, 3, 0]]", b"[[1, 2, 99999999999999999, 0]]", b"[[1, 2, 3, 0", b"[[1, 2, 3.5, 0]]"):
            self.assert_refused(run("info", self.file("bad.json", bad)), "bad.json")

    def bare(self, device, *segments):
        """A snapshot without a history: each segment as the requested bytes of its blocks, 0 for a free one of 1 MiB."""
        found = []
        for number, sizes in enumerate(segments):
            at = start = 0x7F0000000000 + number * (1 << 30)
            blocks = []
            for size in sizes:
                blocks.append({"address": at, "size": size or MIB, "requested_size": size, "frames": [],
                               "state": "active_allocated" if size else "inactive"})
                at += size or MIB
            live = sum(sizes)
            found.append({"device": device, "address": start, "total_size": at - start, "allocated_size": live, "active_size": live,
                          "requested_size": live, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
                          "is_expandable": False, "frames": [], "blocks": blocks})
        return {**snapshot(), "segments": found, "device_traces": [[] for _ in range(device + 1)], "external_annotations": []}

    def test_one_instant_is_no_history(self):
        workspace = 8320 << 10
        for device in (0, 3):
            file = self.file("bare.pickle", pickle.dumps(self.bare(device, [2 * MIB] * 5 + [0] * 10, [0] * 20, [3 * MIB] + [0] * 17)))
            report = self.document("report", file)
            lines = {line["topic"]: line["text"] for line in report["verdict"]["lines"]}
            self.assertEqual(lines["instant"], "60.00 MiB reserved, 13.00 MiB live")
            self.assertEqual(lines["use"], "torch.cuda.empty_cache() gives back 20.00 MiB")
            self.assertIn("78 % (47.00 MiB) unused, 27.00 MiB unreleasable", lines["fragmented"])
            self.assertLessEqual(set(lines), {"instant", "use", "fragmented", "leaks"})  # no peak, no setting, no holder without a stack
            self.assertEqual(report["verdict"]["setting"], None)
            self.assertEqual(report["verdict"]["fragmentation"]["releasable_bytes"], 20 * MIB)
            text = run("report", file).stdout
            self.assertNotIn("before recording began", text)
            text = run("report", "--by", "stack", file).stdout
            self.assertNotIn("before recording began", text)
            self.assertIn("\n      (no stack)\n", text)
            text = run("report", "--fragmentation", file).stdout
            self.assertNotRegex(text, r"\bevent\b|\bafter\b|over time|\bold\b|by replay|before (the )?recording|peak")
            self.assertEqual(run("report", "--leaks", file).stdout, "leaks are not judged: the recording lacks allocations or frees\n")
            for command in ("replay", "tune", "plan"):
                self.assert_refuses(run(command, file), "live at an instant", "record a history")
            file = self.file("workspace.pickle", pickle.dumps(self.bare(device, [workspace, 1024, 0])))
            (line,) = [line for line in self.document("report", file)["verdict"]["lines"] if line["topic"] == "held by"]
            self.assertIn("workspaces 100 %", line["text"])
            file = self.file("tensor.pickle", pickle.dumps(self.bare(device, [32 * MIB, 1024, 0])))
            self.assertNotIn("workspaces", run("report", file).stdout)  # many tensors have that size

    def test_the_blocks_of_an_instant_are_as_large_as_it_says(self):
        """They may be larger than requested wherever they lie, by what was too small to be split off."""
        for device in (0, 2):
            document = self.bare(device, [30 * MIB, 2 * MIB, 0, 0], [20 * MIB, 0], [0] * 20)
            for segment in document["segments"]:
                for block in segment["blocks"]:
                    block["requested_size"] = max(0, block["requested_size"] - MIB // 2)
            text = " ".join(run("report", self.file("unsplit.pickle", pickle.dumps(document)), "--fragmentation").stdout.split())
            self.assertIn("52.00 MiB of 75.00 MiB reserved were allocated", text)
            self.assertIn("1.50 MiB rounding and unsplit remainders 3.00 MiB unreleasable", text)

    def test_an_instant_is_that_of_the_last_event(self):
        """The device used a freed block when the recording began, and no longer when it ended."""
        for device in (0, 2):
            document = self.bare(device, [30 * MIB, 2 * MIB, 0], [0] * 20)
            at = document["segments"][1]["address"]
            event = {"action": "free_completed", "addr": at, "size": 8 * MIB, "stream": 0, "time_us": 1_700_000_000_000_000, "frames": []}
            document["device_traces"][device].append(event)
            text = " ".join(run("report", self.file("completed.pickle", pickle.dumps(document)), "--fragmentation").stdout.split())
            self.assertIn("20.00 MiB free, in segments that could have been released", text)
            self.assertNotIn("awaiting", text)
            leaks = run("report", self.directory / "completed.pickle", "--leaks").stdout
            self.assertEqual(leaks, "leaks are not judged: the recording is of one instant\n")

    def test_below_modules_of_a_library_the_own_line_holds(self):
        packages = "/env/lib/python3.11/site-packages/"
        module = packages + "torch/nn/modules/module.py"

        def stack(*places):
            return [{"name": "_call_impl" if path == module else "run", "filename": drive + path.replace("/", separator), "line": line}
                    for path, line in places]
        for device, drive, separator in ((0, "", "/"), (2, "C:", "\\")):
            loop, main = ("/home/user/loop.py", 258), ("/home/user/main.py", 9)
            modules = [stack((packages + f"diffusers/models/{name}.py", 430), (module, 1500), loop, main) for name in ("lora", "vae", "unet")]
            for name, stacks, expected in (
                    ("modules", [*modules, stack(main)], r"^run \(loop.py:258\) 75 %, run \(main.py:9\) 25 %"),
                    ("one_line", modules, r"^run \(diffusers/models/\w+.py:430\) 33 %")):
                document = self.bare(device, [16 * MIB] * len(stacks))
                for block, frames in zip(document["segments"][0]["blocks"], stacks):
                    block["frames"] = frames
                lines = self.document("report", self.file(f"{name}.pickle", pickle.dumps(document)))["verdict"]["lines"]
                (text,) = [line["text"] for line in lines if line["topic"] == "held by"]
                self.assertRegex(text, expected)

    def test_of_two_devices_what_is_unused_is_said(self):
        first, second = (self.bare(device, [2 * MIB] + [0] * (20 - device)) for device in (0, 1))
        second["segments"][0]["address"] += 1 << 40
        for block in second["segments"][0]["blocks"]:
            block["address"] += 1 << 40
        file = self.file("two.pickle", pickle.dumps({**second, "segments": first["segments"] + second["segments"]}))
        lines = {line["topic"]: line["text"] for line in self.document("report", file)["verdict"]["lines"]}
        self.assertIn("91 % (", lines["fragmented"])
        self.assertIn("2.00 MiB on GPU 1", lines["others"])

    def test_unknown_times_are_left_out(self):
        document = snapshot()
        for entry in document["device_traces"][0]:
            del entry["time_us"]
        file = self.file("timeless.pickle", pickle.dumps({**document, "external_annotations": []}))
        text = run("report", "--fragmentation", file).stdout
        self.assertIn("event", text)
        self.assertNotRegex(text, r"\b0 us\b")

    def test_a_profile_of_jax(self):
        profile = pprof([(3, 3 * MIB + 1, "buffer", "gpu:1", ["dot", "main"]), (1, MIB, "buffer", "gpu:0", ["main"]),
                         (2, 1000, "executable", "", ["compile"]), (1, 64, "buffer", "TFRT_CPU_0", ["main"])])
        file = self.file("memory.prof", gzip.compress(profile))
        live, report = self.heaps(file)
        self.assertEqual(live[("jax.buffers", 1)], 3 * MIB + 1)
        self.assertEqual(live[("jax.buffers", 0)], MIB)
        self.assertEqual(live[("jax.executables", 0)], 1000)
        stacks = {frame["function"] for heap in report["live_at_end"] for group in heap["groups"] for frame in group["stack"]}
        self.assertIn("dot", stacks)
        self.assertNotIn("use", {line["topic"] for line in report["verdict"]["lines"]})  # what is reserved is not recorded
        self.assertRegex(run("report", file).stdout, "^instant ")
        self.assert_refused(run("info", self.file("cpu.prof", pprof([(1, 1, "x", "", [])], ("samples", "cpu")))), "pprof")
        self.assert_refused(run("info", self.file("cut.prof", profile[:60])), "cut.prof")

    def test_the_first_line_of_jax_tells_arrays_from_compiled_code(self):
        for device in (0, 3):
            for buffers, executables, first, other in ((3 * MIB, MIB, "buffers", "executables"), (MIB, 3 * MIB, "executables", "buffers")):
                # JAX notes no device with executables: device 0.
                profile = pprof([(2, buffers, "buffer", "tpu:0", ["dot", "main"]), (1, executables, "executable", "", ["compile"]),
                                 *((1, 5 * MIB // 8, "buffer", f"tpu:{other}", ["main"]) for other in range(device + 1, device + 5))])
                text = run("report", self.file("memory.prof", profile), environment={"COLUMNS": "120"}).stdout
                self.assertRegex(text, rf"^instant +3.00 MiB live on device 0 of 5 in jax.{first}, 1.00 MiB in jax.{other}\n")
                self.assertRegex(text, r"\nothers +live then: 640.00 KiB on each of the 4\n")
                self.assertNotIn("CUDA", text)
            profile = pprof([(1, MIB, "buffer", f"gpu:{device}", ["main"])])
            self.assertRegex(run("report", self.file("memory.prof", profile)).stdout, r"^instant +1.00 MiB live\n")

    def test_a_dump_of_a_bfc_allocator_in_a_log(self):
        prefix = "2024-01-01 10:00:00.000001: I tensorflow/tsl/framework/bfc_allocator.cc:1095] "
        log = ("starting\n2024-01-01 10:00:00: W x/bfc_allocator.cc:497] Allocator (GPU_1_bfc) ran out of memory trying to allocate 1.50MiB "
               "(rounded to 1572864)requested by op MatMul\n" + prefix + "Next region of size 4194304\n" + "".join(
                   prefix + line + "\n" for line in (
                       "InUse at 7f0000000000 of size 1048576 by op Fill action_count 12 step 0 next 1",
                       "Free  at 7f0000100000 of size 1048576 by op UNUSED action_count 0 step 0 next 2",
                       "InUse at 7f0000200000 of size 1048576 next 3", "Free  at 7f0000300000 of size 1048576 next 18446744073709551615"))
               + prefix + "     Summary of in-use Chunks by size: \n" + prefix + "Sum Total of in-use chunks: 2.00MiB\n")
        file = self.file("tf.log", log.encode())
        live, report = self.heaps(file)
        self.assertEqual(live, {("GPU_1_bfc", 1): 2 * MIB})
        self.assertEqual(self.kinds(file)["segment_alloc"], 1)
        self.assertEqual(report["failed_requests"], 1)
        old = "\n".join(f"I tensorflow/core/common_runtime/bfc_allocator.cc:665] {line}" for line in (
            "Chunk at 0xb03140000 of size 634880", "Chunk at 0xb031db000 of size 3211264", "Free  at 0xb034eb000 of size 2114605056"))
        self.assertEqual(self.heaps(self.file("old.log", old.encode()))[0], {("bfc", 0): 3846144})

    def test_tables_of_pytorch(self):
        bar = "|" + "=" * 75 + "|\n"
        table = bar + "|                  PyTorch CUDA memory summary, device ID 2                 |\n" + bar + (
            "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n"
            "| Allocated memory      |   1024 MiB |   3072 MiB |     10 GiB |      9 GiB |\n"
            "|       from large pool |   1000 MiB |   3000 MiB |     10 GiB |      9 GiB |\n"
            "| GPU reserved memory   |   2048 MiB |   4096 MiB |      4 GiB |      2 GiB |\n")
        stats = {"active_bytes.all.current": 5, "allocated_bytes.all.current": 1 << 30, "allocated_bytes.all.peak": 3 << 30,
                 "inactive_allocated_bytes.all.current": 7, "reserved_bytes.all.current": 2 << 30, "reserved_bytes.all.peak": 4 << 30}
        for name, text, number in (("table.txt", "epoch 3\n" + table, 2), ("stats.json", json.dumps(stats), 0),
                                   ("repr.txt", f"OrderedDict({list(stats.items())!r})".replace("', ", "': "), 0)):
            with self.subTest(name):
                report = self.document("report", self.file(name, text.encode()))
                device = report["summary"]["devices"][0]
                self.assertEqual(device["device"], number)
                self.assertEqual(device["peak_live_bytes"], 3 << 30)
                self.assertEqual(device["peak_reserved_bytes"], 4 << 30)
                self.assertEqual(sum(heap["bytes"] for heap in report["live_at_end"]), 1 << 30)
                lines = {line["topic"]: line["text"] for line in report["verdict"]["lines"]}
                self.assertTrue(lines["peak"].startswith("4.00 GiB reserved, 3.00 GiB live"), lines)
                self.assertLessEqual(set(lines), {"peak", "leaks"})  # no sum says how blocks lie

    def test_the_debug_log_of_rmm(self):
        begin = b"[ 41249][13:19:57:028131][info  ] ----- RMM LOG BEGIN [PTDS DISABLED] -----\n"
        self.assert_refused(run("info", self.file("rmm_log.txt", begin)), "logging_resource_adaptor")
        failure = b"[ 41249][13:19:58:000000][error ] [A][Stream 0x1][Upstream 7449546240B][FAILURE maximum pool size exceeded]\n"
        file = self.file("failed.txt", begin + failure + failure)
        self.assertEqual(self.kinds(file), {"alloc_failed": 2})
        self.assertEqual({failed["requested_bytes"] for failed in self.document("report", file, "--oom")["ooms"]}, {7449546240})
        for process in (run("report", file), run("report", file, "--capacity", "8GiB"), run("report", file, "--oom", "--capacity", "8GiB")):
            self.assertEqual(process.returncode, 0)
            self.assertNotRegex(process.stdout, "fragmentation|cuda.async|\\b0 B|no stack")
            self.assertIn("the pool could not grow" if "OOM" in process.stdout else "the pool could not grow: it was at its maximum, if one was set", " ".join(process.stdout.split()))
            self.assertIn("raise the pool's maximum", " ".join(process.stdout.split()))
            self.assertIn("only failed requests were recorded", process.stderr)
        self.assertRegex(run("info", file).stdout, r"failed requests only(?s:.*)unknown +unknown +unknown +unknown")
        self.assertEqual(self.document("info", file)["recording"]["kind"], "failures")
        for command in (("replay",), ("tune",), ("plan",), ("diff", file), ("check", "--max-peak", "1GiB")):
            self.assert_refuses(run(command[0], *command[1:], file), "allocations")
        # Newer releases say what the upstream resource said: the device may have refused.
        other = self.file("upstream.txt", begin + failure.replace(b"exceeded]", b"exceeded: std::bad_alloc]"))
        self.assertNotIn("maximum", run("report", other).stdout)
        traced = b"".join(b"[ 41249][13:19:58:%06d][trace ] [%s][stream 0x1][%dB][0x%x]\n" % (i, action, size, address) for i, (action, size, address)
                          in enumerate(((b"A", 1024, 0x7f0000000000), (b"A", 2048, 0x7f0000001000), (b"D", 1024, 0x7f0000000000))))
        self.assertEqual(self.heaps(self.file("traced.txt", begin + traced))[0], {("rmm", 0): 2048})

    def test_the_arena_of_onnx_runtime_in_a_log(self):
        where = "2024-05-01 10:00:00.1 [I:onnxruntime:, bfc_arena.cc:"
        log = (f"{where}227 Extend] Extending BFCArena for Cuda. bin_num:20 (requested) num_bytes: 268435456 (actual) rounded_bytes:268435456\n"
               f"{where}230 Extend] Extended allocation by 268435456 bytes.\n{where}233 Extend] Total allocated bytes: 268435456\n"
               f"{where}236 Extend] Allocated memory at 0x7f0000000000 to 0x7f0010000000\n"
               f"{where}236 Extend] Allocated memory at 0x7f0020000000 to 0x7f0040000000\n")
        file = self.file("ort.log", log.encode())
        self.assertEqual(self.kinds(file)["segment_alloc"], 2)
        self.assertEqual(self.document("report", file)["summary"]["devices"][0]["peak_reserved_bytes"], 768 * MIB)
        process = run("report", file)
        self.assertNotIn("skip_actions", process.stderr)
        self.assertRegex(process.stdout, "peak +unknown: allocations are not in the recording")
        self.assertRegex(process.stdout, r"peak reserved 768.00 MiB \(event 1\), what was live is\s+not\s+known")
        self.assertNotRegex(process.stdout, "\\b0 B|nothing was allocated")
        self.assertEqual(self.document("info", file)["recording"]["kind"], "segments")

    def test_damaged_files_are_refused_in_one_line_or_read(self):
        profile = pprof([(3, 3 * MIB + 1, "buffer", "gpu:1", ["dot", "main"])] * 20)
        for name, data in (("a.prof", profile), ("t.json", json.dumps([[1, 2, 3, 4]] * 30).encode()),
                           ("m.txt", b"[ 1][13:19:58:000000][error ] [A][Stream 0x1][Upstream 5B][FAILURE x]\n" * 30)):
            for at in range(0, len(data), 37):
                damaged = data[:at] + bytes([data[at] ^ 0xff]) + data[at + 1:]
                process = run("info", self.file(name, damaged))
                self.assertIn(process.returncode, (0, 2), process.stderr)
                self.assertLessEqual(len(process.stderr.splitlines()), 3)

    @unittest.skipUnless(OTHER.is_dir(), "needs strangers' files")
    def test_strangers_files(self):
        for file in sorted(OTHER.iterdir()):
            with self.subTest(file.name):
                data = file.read_bytes()
                data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
                if file.suffix == ".prof":
                    live = self.heaps(file)[0]
                    for kind, heap in (("buffer", "jax.buffers"), ("executable", "jax.executables")):
                        self.assertEqual(sum(size for (name, _), size in live.items() if name == heap), truth_of_pprof(data)[kind])
                elif ".json" in file.name:
                    total = peak = 0
                    for _, _, size, _ in json.loads(data):
                        total += size
                        peak = max(peak, total)
                    report = self.document("report", file)
                    self.assertEqual(report["summary"]["devices"][0]["peak_live_bytes"], peak)
                    self.assertEqual(sum(heap["bytes"] for heap in report["live_at_end"]), total)
                elif failures := data.count(b"FAILURE"):
                    self.assertEqual(self.kinds(file), {"alloc_failed": failures})
                else:
                    self.assert_refused(run("info", file), "logging_resource_adaptor")


if __name__ == "__main__":
    unittest.main()
