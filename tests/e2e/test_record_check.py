# SPDX-License-Identifier: Apache-2.0
"""memreel check on recordings of native programs: reserved memory counts, and code has its names."""

import json
import re
import shutil
import subprocess
import unittest

from program import REPOSITORY, SAMPLES, run
from recorded import RecordTest, ScriptTest

MIB = 1 << 20


class Check(RecordTest):
    def test_native_programs_are_judged_by_what_they_held_and_named_by_their_functions(self):
        self.record_program("nested", 3)
        trace = self.trace()
        for budget in ("--max-peak", "--max-reserved"):
            self.answer("check", trace, budget, "1MiB")
            text = self.answer("check", trace, budget, "1KiB", code=1).stdout
            self.assertRegex(text, r"at .* < innermost_frame.* < nested_frame.* < nested_frame")
        baseline = self.directory / "memory.json"
        self.answer("check", trace, "--write-baseline", baseline)
        device, = json.loads(baseline.read_text())["devices"]
        self.assertIn("allocate", device["live_at_peak"][0]["function"])
        self.answer("check", trace, "--baseline", baseline, "--tolerance", "0")

    def test_a_recording_that_was_cut_off_cannot_be_judged(self):
        self.record_program("nested", 3)
        cut = self.file("cut.reel", self.trace().read_bytes()[:-40])
        process = run("check", cut, "--max-leaked", "0")
        self.assertEqual(process.returncode, 2, process.stdout)
        self.assertIn("missing: ", process.stderr)
        self.answer("check", cut, "--max-leaked", "0", "--allow-incomplete")


class Devices(ScriptTest):
    """What is judged is the device: all of it, each byte once, at one instant."""

    def judged(self, *arguments, code=0):
        """By name, policy and device: the value."""
        return {(check["name"], check["policy"], check["device"]): check["value"]
                for check in self.document("check", *arguments, code=code)["checks"]}

    def test_what_is_beside_an_annotated_pool_counts(self):
        for pool_device in (0, -1):
            with self.subTest(pool_device=pool_device):
                trace = self.run_python(f"""
pool = memreel.pool("tiny", "arena", device={pool_device})
address = malloc(MIB)
pool.segment_add(address, MIB)
def step():
    pool.alloc(address, 1000)
    malloc(64 * MIB)
    free(malloc(2048 * MIB))
    memreel.step()
    pool.free(address)
for _ in range(40): step()
""")
                values = self.judged(trace, "--max-peak", "100MiB", "--max-reserved", "100MiB", "--max-leaked", "0", code=1)
                live = 4608 * MIB + (1000 if pool_device == 0 else MIB)
                self.assertEqual(values["max-peak", None, 0], live)
                self.assertEqual(values["max-reserved", "recorded", 0], 4609 * MIB)
                self.assertEqual(values["max-leaked", None, 0], 2560 * MIB)
                self.assertEqual({device for _, _, device in values}, {0})
                self.answer("check", trace, "--max-peak", live, "--max-reserved", 4609 * MIB)
                self.assertIn("2.50 GiB", self.answer("check", trace, "--max-leaked", "0", code=1).stdout)
        # Asked for by name, the pool is judged alone.
        trace = self.directory / "1.reel"
        self.assertEqual(self.judged(trace, "--heap", "tiny", "--max-peak", "1KiB", "--max-reserved", "1MiB"),
                         {("max-peak", None, 0): 1000, ("max-reserved", "recorded", 0): MIB})
        report = self.answer("report", trace).stdout
        self.assertRegex(report, r"peak +4\.50 GiB held on the device, step 40 of 40\nheld by .* 4\.50 GiB, tiny 1\.00 MiB\n")
        self.assert_refused(run("check", trace, "--heap", "tinny", "--max-peak", "1KiB"), "no heap 'tinny'", "tiny")

    def test_the_first_lines_say_whose_peak_is_unused(self):
        trace = self.run_python("""
pool = memreel.pool("main", "arena", device=0)
address = malloc(256 * MIB)
pool.segment_add(address, 256 * MIB)
malloc(64 * MIB)
for _ in range(10):
    pool.alloc(address, 64 * MIB)
    memreel.step()
    pool.free(address)
""")
        report = self.answer("report", trace).stdout
        self.assertIn("320.00 MiB held on the device", report)
        self.assertRegex(report, r"fragmented +75 % of the pool's peak \(192\.00 MiB\) unused")

    def test_reports_begin_with_the_heap_that_matters_and_give_small_ones_a_line(self):
        trace = self.run_python("""
staging = memreel.pool("a.staging", "arena", device=-1)
staging.segment_add(4096, 64 << 10)
for i in range(40):
    staging.alloc(4096 + i * 1024, 1000)
pool = memreel.pool("main", "arena", device=0)
address = malloc(256 * MIB)
pool.segment_add(address, 256 * MIB)
pool.alloc(address, 64 * MIB)
malloc(MIB)
""")
        text = self.answer("report", trace).stdout
        lines = text.splitlines()
        titles = [line.split(":")[0] for line in lines if line.startswith(("a.staging", "main", "cuda.driver"))]
        self.assertEqual(titles, ["main, device 0", "cuda.driver, device 0", "a.staging"])
        self.assertIn("cuda.driver, device 0: 1.00 MiB live at its peak, most at", text)
        self.assertIn("--heap cuda.driver shows more", " ".join(text.split()))
        self.assertEqual(text.count("live at the peak"), 1)
        self.assertNotIn("part of the device", text)
        alone = self.answer("report", trace, "--heap", "a.staging").stdout
        self.assertIn("live at the peak, and so to the end: 39.06 KiB in 40 allocations", alone)
        self.assertNotIn("main, device 0", alone)
        markdown = self.answer("report", trace, "--format", "markdown").stdout
        self.assertLess(markdown.index("| `main"), markdown.index("| `cuda.driver"))
        self.assertEqual(markdown.count("Who held"), 1)
        page = self.answer("report", trace, "--format", "html").stdout
        self.assertEqual(page.count("Who held"), 1)
        self.assertIn("cuda.driver, device 0: 1.00 MiB live at its peak", page)
        self.assertEqual(len(self.document("report", trace)["live_at_peak"]), 3)
        self.assert_refused(run("report", trace, "--heap", "mian"), "no heap 'mian'", "main")

    def test_the_tree_says_whose_memory_each_heap_is(self):
        trace = self.run_python("""
backing = memreel.pool("backing", "arena", device=0)
address = malloc(384 * MIB)
backing.segment_add(address, 384 * MIB)
backing.alloc(address, 122 * MIB)
classes = memreel.pool("classes", "slab", parent=backing, device=0)
classes.segment_add(address, 122 * MIB)
with memreel.tag("first"):
    classes.alloc(address, 61 * MIB)
    classes.free(address)
with memreel.tag("second"):
    classes.alloc(address, 10 * MIB)
arena = memreel.pool("arena", "arena", device=0)
other = malloc(128 * MIB)
arena.segment_add(other, 128 * MIB)
malloc(16 * MIB)
""")
        report = self.document("report", trace, "--by", "tag")
        tree, = [tree for tree in report["device_trees"] if tree["device"] == 0]
        self.assertTrue(tree["driver_recorded"])
        self.assertEqual(tree["peak_held_bytes"], 528 * MIB)
        rows = {heap["heap"]: heap for heap in tree["heaps"]}
        parents = {name: heap["parent"] is not None and tree["heaps"][heap["parent"]]["heap"] for name, heap in rows.items()}
        self.assertEqual(parents, {"cuda.driver": False, "backing": "cuda.driver", "classes": "backing", "arena": "cuda.driver"})
        self.assertEqual({name: (heap["peak_bytes"] // MIB, heap["bytes"] // MIB, heap["from_device_bytes"] // MIB)
                          for name, heap in rows.items()},
                         {"cuda.driver": (528, 528, 16), "backing": (384, 384, 384), "classes": (122, 122, 0),
                          "arena": (128, 128, 128)})
        peaks, = [heap["groups"] for heap in report["peaks"] if heap["heap"] == "classes"]
        self.assertEqual([(peak["label"], peak["peak_live_bytes"] // MIB) for peak in peaks], [("first", 61), ("second", 10)])
        text = self.answer("report", trace, "--tree").stdout
        self.assertIn("device 0: 528.00 MiB held at its peak, 26.00 MiB live", text)
        rows = [re.fullmatch(r"  (\S+) MiB +(\S+) MiB +(\S+ %) +(\S+) MiB +(\S+) M?i?B  ( *\S+)", line) for line in text.splitlines()]
        self.assertEqual([row.groups() for row in rows if row],
                         [("528.00", "528.00", "100.0 %", "16.00", "16.00", "cuda.driver"),
                          ("384.00", "384.00", "72.7 %", "262.00", "0", "  backing"),
                          ("122.00", "122.00", "31.8 %", "122.00", "10.00", "    classes"),
                          ("128.00", "128.00", "24.2 %", "128.00", "0", "  arena")])
        self.assertNotIn("live at the peak", text)
        self.assertRegex(self.answer("report", trace, "--by", "tag", "--heap", "classes").stdout,
                         r"(?s)peak of each tag.*\n +61\.00 MiB +1  first\n +10\.00 MiB +1  second\n")
        # What was asked of the account of a pool's author: no more than the driver gave.
        self.answer("check", trace, "--max-reserved", "528MiB")
        self.answer("check", trace, "--max-reserved", "527MiB", code=1)

    def test_the_driver_has_heaps_of_its_own_and_samples_say_the_rest(self):
        trace = self.run_python("""
import struct, time
stream, graph, launched, p = (ctypes.c_void_p() for _ in range(4))
size, reference = ctypes.c_size_t, ctypes.byref
def must(status): assert status == 0, status
must(cuda.cuStreamCreate(reference(stream), 1))
must(cuda.cuMemAllocAsync(reference(p), size(64 * MIB), stream))
must(cuda.cuMemFreeAsync(p, stream))
must(cuda.cuMemAllocAsync(reference(p), size(16 * MIB), stream))
must(cuda.cuStreamBeginCapture_v2(stream, 0))
must(cuda.cuMemAllocAsync(reference(p), size(7 * MIB), stream))
must(cuda.cuMemFreeAsync(p, stream))
must(cuda.cuStreamEndCapture(stream, reference(graph)))
must(cuda.cuGraphInstantiateWithFlags(reference(launched), graph, ctypes.c_ulonglong(0)))
must(cuda.cuGraphLaunch(launched, stream))
must(cuda.cuMemAllocManaged(reference(p), size(2 * MIB), 1))
place, handles = ctypes.c_uint64(), [ctypes.c_uint64(), ctypes.c_uint64()]
device_memory = ctypes.create_string_buffer(struct.pack("iiii", 1, 0, 1, 0), 64)
for handle in handles:
    must(cuda.cuMemCreate(reference(handle), size(4 * MIB), device_memory, ctypes.c_ulonglong(0)))
must(cuda.cuMemAddressReserve(reference(place), size(8 * MIB), size(0), ctypes.c_uint64(0), ctypes.c_ulonglong(0)))
must(cuda.cuMemMap(place, size(4 * MIB), size(0), handles[0], ctypes.c_ulonglong(0)))
pool = memreel.pool("of mappings", "arena", device=0)
must(cuda.cuMemMap(ctypes.c_uint64(place.value + 4 * MIB), size(4 * MIB), size(0), handles[1], ctypes.c_ulonglong(0)))
pool.alloc(place.value + 4 * MIB, MIB)
time.sleep(0.5)
malloc(100 * MIB)
time.sleep(0.3)
""")
        tree, = [tree for tree in self.document("report", trace)["device_trees"] if tree["device"] == 0]
        rows = {heap["heap"]: (tree["heaps"][heap["parent"]]["heap"] if heap["parent"] is not None else None, heap["bytes"] // MIB,
                               heap["from_device_bytes"] // MIB) for heap in tree["heaps"]}
        self.assertEqual(rows, {"cuda.driver": (None, 126, 100), "cuda.mapped": ("cuda.driver", 8, 4), "of mappings": ("cuda.mapped", 4, 4),
                                "cuda.async": ("cuda.driver", 16, 16), "cuda.managed": ("cuda.driver", 2, 2)})
        self.assertEqual(tree["peak_held_bytes"], 126 * MIB)
        samples = {key: value // MIB for key, value in tree["samples"].items() if key != "device_bytes"}
        self.assertEqual(samples, {"pools_unused_bytes": 48, "graphs_bytes": 7, "of_nobody_bytes": 0})
        text = self.answer("report", trace, "--tree").stdout
        self.assertRegex(text, r"48\.00 MiB +pools of")
        self.assertRegex(text, r"7\.00 MiB +graphs\n")
        self.assertIn("in use by samples around the peak: 181.00 MiB of", text)

    def test_diff_says_whose_memory_the_difference_of_the_device_is(self):
        script = """
pool = memreel.pool("main", "arena", device={device})
use({device})
address = malloc(256 * MIB)
pool.segment_add(address, 256 * MIB)
pool.alloc(address, 64 * MIB)
malloc({beside} * MIB)
"""
        before, now = (self.run_python(script.format(device=device, beside=beside)) for device, beside in ((0, 16), (1, 80)))
        total, = self.document("diff", before, now)["device_totals"]
        self.assertEqual([(total[side]["device"], total[side]["peak_held_bytes"] // MIB) for side in "ab"], [(0, 272), (1, 336)])
        self.assertEqual([part["change_bytes"] // MIB for part in total["parts"]], [64, 0])
        self.assertEqual(total["parts"][1]["name"], "main")
        self.assertRegex(self.answer("diff", before, now).stdout,
                         r"^device 1 at its peak: held \+64\.00 MiB \(272\.00 MiB before, 336\.00 MiB now\):\s[^,]+\s\+64\.00\sMiB\n")
        self.assertNotIn("at its peak", self.answer("diff", f"{now}@peak", "@end").stdout)
        text = self.answer("diff", "--map", "0=1", SAMPLES / "gpt_default.reel", now).stdout  # a snapshot, and all of a device
        self.assertIn("device 1 at its peak: not compared, as only the recording now has the driver's calls", " ".join(text.split()))

    def test_predictions_leave_room_for_what_is_beside_the_allocator(self):
        recordings = [f"batch={batch}:" + str(self.run_python(f"""
malloc(100 * MIB)
pool = memreel.pool("main", "arena", device=0)
address = malloc({batch} * 64 * MIB)
pool.segment_add(address, {batch} * 64 * MIB)
for _ in range(10):
    pool.alloc(address, {batch} * 60 * MIB)
    memreel.step()
    pool.free(address)
""")) for batch in (1, 2)]
        predict = ["predict", *recordings, "--to", "batch=4", "--policy", "cuda.malloc", "--capacity"]
        for capacity, fits in (("340MiB", True), ("338MiB", False)):
            document = self.document(*predict, capacity)
            self.assertEqual(document["other_bytes"], 100 * MIB)
            self.assertEqual(document["predictions"][0]["fits"], fits, capacity)
        self.assertIn("338.00 MiB less 100.00 MiB that others hold", self.answer(*predict, "338MiB").stdout)
        self.assert_refused(run(*predict, "100MiB"), "beside the allocator", "--capacity")

    def test_what_is_beside_the_allocator_is_taken_off_at_its_own_instants(self):
        """Others hold 300 MiB while the pool holds nothing, and 20 MiB when it holds most."""
        small, large = (str(self.run_python(f"""
passing = malloc(280 * MIB)
malloc(20 * MIB)
free(passing)
pool = memreel.pool("main", "arena", device=0)
address = malloc(512 * MIB)
pool.segment_add(address, 512 * MIB)
for _ in range(10):
    pool.alloc(address, {batch} * 60 * MIB)
    memreel.step()
    pool.free(address)
""")) for batch in (1, 2))
        predict = ("predict", f"batch=1:{small}", f"batch=2:{large}", "--to", "batch=4", "--policy", "cuda.malloc", "--capacity")
        for capacity, verdict in (("320MiB", "yes"), ("298MiB", "no"), ("258MiB", "no")):
            with self.subTest(capacity=capacity):
                document = self.document(*predict, capacity)
                prediction, = document["predictions"]
                self.assertEqual((document["device_bytes"], document["driver_recorded"], document["other_bytes"]),
                                 (int(capacity[:3]) * MIB, True, 20 * MIB))
                self.assertEqual(prediction["fits"], verdict == "yes")
                self.assertEqual(prediction["beside_bytes"] // MIB, 20 if capacity == "258MiB" else 300)
        self.assertIn("320.00 MiB less 20.00 MiB that others hold in the recordings when the device holds most; at each instant",
                      " ".join(self.answer(*predict, "320MiB").stdout.split()))
        self.assertIn("fail at 0 B reserved, with 20.00 MiB beside it",
                      re.sub(r"\s+", " ", self.answer(*predict, "258MiB").stdout))
        for capacity, failed in (("300MiB", 0), ("298MiB", 1), ("138MiB", 10)):
            with self.subTest(capacity=capacity):
                tuned = self.document("tune", large, "--policy", "cuda.malloc", "--capacity", capacity)
                self.assertEqual((tuned["beside_bytes"], tuned["baseline"]["failed_allocations"]), (300 * MIB, failed))

    def test_every_command_asks_about_one_heap_in_the_same_words(self):
        small, large = (self.run_python(f"""
malloc(100 * MIB)
pools = [memreel.pool(name, "arena", device=0) for name in ("main", "side")]
addresses = [malloc(512 * MIB), malloc(512 * MIB)]
for pool, address in zip(pools, addresses):
    pool.segment_add(address, 512 * MIB)
for _ in range(10):
    pools[0].alloc(addresses[0], {batch} * 60 * MIB)
    pools[1].alloc(addresses[1], {batch} * 10 * MIB)
    memreel.step()
    for pool, address in zip(pools, addresses):
        pool.free(address)
""") for batch in (1, 2))
        heaps = {("main", "60.00 MiB"), ("side", "10.00 MiB")}
        policy = ("--policy", "cuda.malloc")
        recordings = (f"batch=1:{small}", f"batch=2:{large}", "--to", "batch=4")
        for heap, peak in heaps:
            with self.subTest(heap=heap):
                only = ("--heap", heap)
                size = int(float(peak.split()[0])) * MIB
                replay, = self.document("replay", small, *policy, *only)["policies"]
                self.assertEqual((replay["heap"], replay["peak_live_bytes"], replay["device_totals"]), (heap, size, replay["device_totals"]))
                tuned = self.document("tune", small, *policy, *only)
                self.assertEqual(tuned["baseline"]["peak_live_bytes"], size)
                self.assertIn(f"{heap}, device 0: 10 allocations, peak live {peak}", self.answer("tune", small, *policy, *only).stdout)
                self.assertIsNone(self.document("tune", small, *policy, *only, "--capacity", "70MiB")["baseline"]["first_failure"])
                difference = self.document("diff", small, large, *only)
                self.assertEqual([(one["heap"], one["b"]["live_bytes"] - one["a"]["live_bytes"]) for one in difference["devices"]],
                                 [(heap, size)])
                self.assertEqual(difference["device_totals"], [])
                self.assertNotIn("at its peak:", self.answer("diff", small, large, *only).stdout)
                for capacity, fits in ((4 * size, True), (4 * size - 2 * MIB, False)):
                    predicted = self.document("predict", *recordings, *policy, *only, "--capacity", str(capacity))
                    self.assertEqual((predicted["predictions"][0]["peak_live_bytes"], predicted["predictions"][0]["fits"]), (4 * size, fits))
                    self.assertEqual(predicted["other_bytes"], 0)
                self.assertEqual(self.document("plan", small, *only)["peak_bytes"], size)
                checked, = self.document("check", small, *only, "--max-peak", "1GiB")["checks"]
                self.assertEqual(checked["value"], size)
        for command in (("report", small), ("check", small, "--max-peak", "1GiB"), ("replay", small), ("tune", small, *policy),
                        ("diff", small, large), ("predict", *recordings, *policy), ("plan", small)):
            with self.subTest(command=command[0]):
                self.assertIn("--heap NAME", " ".join(self.answer(command[0], "--help").stdout.split()))
                self.assert_refused(run(*command, "--heap", "mian"),
                                    "memreel: error: --heap: there is no heap 'mian' (there are: cuda.driver, cuda.host, main, side)")

    def test_leaks_are_judged_or_the_check_says_that_they_are_not(self):
        script = """
def step():
    malloc(64 * MIB)
    memreel.step()
for _ in range({steps}): step()
"""
        for steps in (2, 3, 4, 5, 7, 8):
            with self.subTest(steps=steps):
                process = run("check", self.run_python(script.replace("{steps}", str(steps))), "--max-leaked", "0")
                self.assertIn(process.returncode, (2,) if steps < 4 else (1,) if steps == 8 else (1, 2), process.stdout)

    def test_pools_at_the_same_time_share_their_device(self):
        trace = self.run_python("""
for name in "ab":
    pool = memreel.pool(name, "arena", device=0)
    address = malloc(300 * MIB)
    pool.segment_add(address, 300 * MIB)
    for i in range(29):
        pool.alloc(address + i * 10 * MIB, 10 * MIB)
""")
        policies = ["--policy", "fit.best,cuda.malloc,torch.native"]
        self.assertEqual(self.judged(trace, "--max-peak", "580MiB", "--max-reserved", "600MiB"),
                         {("max-peak", None, 0): 580 * MIB, ("max-reserved", "recorded", 0): 600 * MIB})
        failed = self.judged(trace, "--capacity", "400MiB", *policies, code=1)
        for policy in ("fit.best", "cuda.malloc", "torch.native"):
            self.assertGreater(failed["capacity", policy, 0], 0)
        self.answer("check", trace, "--capacity", "600MiB", *policies)
        replay = self.document("replay", trace, "--capacity", "400MiB", "--policy", "fit.best,bound.live")
        for policy in replay["policies"]:
            self.assertEqual([heap["heap"] for heap in policy["devices"]], ["a", "b"])
            total, = policy["device_totals"]
            self.assertEqual((total["device"], total["beside_bytes"], total["min_capacity_bytes"]), (0, 0, 580 * MIB))
            self.assertGreater(total["failed_allocations"], 0)
            self.assertEqual(policy["min_capacity_bytes"], 580 * MIB)
        text = self.answer("replay", trace, "--capacity", "400MiB", "--policy", "fit.best").stdout
        self.assertRegex(text, r"(?s)device 0 in all: a, b.*580\.00 MiB  fit\.best")
        alone = self.document("replay", trace, "--capacity", "400MiB", "--policy", "fit.best", "--heap", "a")
        self.assertEqual(alone["policies"][0]["min_capacity_bytes"], 290 * MIB)

    def test_pools_that_are_tuned_share_their_device(self):
        trace = self.run_python("""
for name in "ab":
    pool = memreel.pool(name, "arena", device=0)
    address = malloc(300 * MIB)
    pool.segment_add(address, 300 * MIB)
    for i in range(29):
        pool.alloc(address + i * 10 * MIB, 10 * MIB)
inner = memreel.pool("inside", "arena", device=0, parent=pool)
inner.segment_add(address, 10 * MIB)
inner.alloc(address, 10 * MIB)
""")
        for policy, capacity, fits in (("cuda.malloc", "580MiB", True), ("cuda.malloc", "400MiB", False), ("torch.native", "1GiB", True),
                                       ("torch.native", "400MiB", False)):
            with self.subTest(policy=policy, capacity=capacity):
                baseline = self.document("tune", trace, "--policy", policy, "--capacity", capacity)["baseline"]
                replay, = self.document("replay", trace, "--policy", policy, "--capacity", capacity)["policies"]
                total, = replay["device_totals"]
                self.assertEqual(baseline["failed_allocations"], total["failed_allocations"])
                self.assertEqual(baseline["failed_allocations"] == 0, fits)
                if policy == "torch.native":  # which has settings to search
                    self.assertEqual(baseline["min_capacity_bytes"], total["min_capacity_bytes"])
        tune = ("tune", trace, "--policy", "cuda.malloc")
        self.assertEqual(self.document(*tune, "--capacity", "400MiB", "--heap", "a")["baseline"]["failed_allocations"], 0)
        alone = self.document(*tune, "--capacity", "400MiB", "--allocators", "plan.size")["allocators"]
        self.assertGreater(alone[0]["failed_allocations"], 0)

    @unittest.skipIf(shutil.which("cc") is None, "there is no compiler here")
    def test_policies_of_ones_own_that_share_a_device_run_in_processes_of_their_own(self):
        trace = self.run_python("""
malloc(8 * MIB)
for name in "ab":
    pool = memreel.pool(name, "arena", device=0)
    address = malloc(64 * MIB)
    pool.segment_add(address, 64 * MIB)
    for i in range(20):
        pool.alloc(address + i * MIB, MIB)
""")
        library = self.directory / "liar.so"
        subprocess.run(["cc", "-std=c99", "-O2", "-shared", "-fPIC", "-w", "-I", REPOSITORY / "analyzer/include",
                        REPOSITORY / "tests/unit/analyzer/policies/own/liar.c", "-o", library], check=True)
        for lie, mention in (("crash", "it crashed: SIGABRT"), ("exit", "it ended the process, with exit code 0"),
                             ("overlap", "it put 1048576 bytes into")):
            for command in (("replay", trace), ("check", trace)):
                with self.subTest(lie=lie, command=command[0]):
                    self.assert_refused(run(*command, "--capacity", "1GiB", "--policy", f"{library}{{lie={lie}}}"), library, mention)
        replay, = self.document("replay", trace, "--capacity", "1GiB", "--policy", f"{library}{{lie=print}}")["policies"]
        total, = replay["device_totals"]
        self.assertEqual((total["beside_bytes"], total["failed_allocations"], total["peak_reserved_bytes"]), (8 * MIB, 0, 136 * MIB))
        self.assertEqual([heap["peak_live_bytes"] for heap in replay["devices"]], [20 * MIB, 20 * MIB])

    def test_pools_after_each_other_do_not_add_up(self):
        trace = self.run_python("""
for name in "abc":
    pool = memreel.pool(name, "arena", device=0)
    address = malloc(1024 * MIB)
    pool.segment_add(address, 1024 * MIB)
    pool.alloc(address, 1000 * MIB)
    pool.free(address)
    pool.segment_remove(address)
    free(address)
""")
        self.assertEqual(self.judged(trace, "--max-reserved", "1100MiB", "--max-peak", "1100MiB"),
                         {("max-peak", None, 0): 1000 * MIB, ("max-reserved", "recorded", 0): 1024 * MIB})
        self.answer("check", trace, "--capacity", "1GiB", "--policy", "cuda.malloc")

    def test_a_pool_inside_another_counts_once(self):
        trace = self.run_python("""
backing = memreel.pool("backing", "caching", device=0)
base = malloc(384 * MIB)
backing.segment_add(base, 384 * MIB)
arena = memreel.pool("arena", "arena", device=0)
own = malloc(128 * MIB)
arena.segment_add(own, 128 * MIB)
arena.alloc(own, 100 * MIB)
classes = memreel.pool("classes", "slab", parent=backing, device=0)
backing.alloc(base, 200 * MIB)
backing.alloc(base + 200 * MIB, 122 * MIB)
classes.segment_add(base + 200 * MIB, 122 * MIB)
classes.alloc(base + 200 * MIB, 50 * MIB)
backing.alloc(base + 322 * MIB, 40 * MIB)
""")
        values = self.judged(trace, "--max-reserved", "520MiB", "--max-peak", "1GiB")
        self.assertEqual(values["max-reserved", "recorded", 0], 512 * MIB)
        # Before the inner pool takes it, its memory is all in use: 100 + 200 + 122; in the end 100 + 200 + 50 + 40.
        self.assertEqual(values["max-peak", None, 0], 422 * MIB)
        self.answer("check", trace, "--max-reserved", "500MiB", code=1)
        # The inner pool's memory is among what the outer one is asked for.
        replay = self.document("replay", trace, "--policy", "fit.best")["policies"][0]
        self.assertEqual(replay["device_totals"][0]["peak_reserved_bytes"], 462 * MIB)

    def test_an_allocation_larger_than_the_pool_in_it_counts_once(self):
        trace = self.run_python("""
base = malloc(100 * MIB)
pool = memreel.pool("half", "arena", device=0)
pool.segment_add(base + 25 * MIB, 50 * MIB)
pool.alloc(base + 25 * MIB, 10 * MIB)
""")
        values = self.judged(trace, "--max-reserved", "100MiB", "--max-peak", "1GiB")
        self.assertEqual(values["max-reserved", "recorded", 0], 100 * MIB)

    def test_a_device_without_pools_is_judged_beside_one_with_pools(self):
        trace = self.run_python("""
pool = memreel.pool("tiny", "arena", device=0)
pool.segment_add(address := malloc(MIB), MIB)
pool.alloc(address, 1000)
use(1)
malloc(700 * MIB)
""")
        values = self.judged(trace, "--max-reserved", "600MiB", "--max-peak", "600MiB", "--policy", "fit.best", code=1)
        self.assertEqual(values["max-reserved", "recorded", 1], 700 * MIB)
        self.assertEqual(values["max-peak", None, 1], 700 * MIB)

    def test_a_run_must_be_that_of_its_baseline(self):
        script = """
steps, devices, names = {}, {}, {}
for device in range(devices):
    use(device)
    for name in names:
        pool = memreel.pool(name, "arena", device=device)
        pool.segment_add(address := malloc(MIB), MIB)
        pool.alloc(address, 1000)
use(0)
def step():
    free(malloc(MIB))
    memreel.step()
for _ in range(steps): step()
"""
        def recorded(steps, devices, names):
            return self.run_python(script.replace("steps, devices, names = {}, {}, {}",
                                                  f"steps, devices, names = {steps}, {devices}, {names!r}"))
        whole = recorded(8, 2, "ab")
        baseline = self.directory / "memory.json"
        self.answer("check", whole, "--write-baseline", baseline)
        written = json.loads(baseline.read_text())
        self.assertEqual(written["devices"][0]["steps"], 8)
        self.assertEqual(written["devices"][1]["heaps"], ["a", "b"])
        self.answer("check", whole, "--baseline", baseline, "--tolerance", "0")
        short = recorded(5, 2, "ab")
        for other, mention in ((short, "8 steps on device 0, as in the baseline: this run has 5"), (recorded(8, 1, "ab"), "device 1"),
                               (recorded(8, 2, "a"), "heap b on device 0"), (recorded(8, 2, "abc"), "heap c on device 0")):
            with self.subTest(mention):
                self.assert_refused(run("check", other, "--baseline", baseline), "missing: " + mention)
                self.assertIn(run("check", other, "--baseline", baseline, "--allow-incomplete").returncode, (0, 1))
        # One that an older memreel wrote is compared as far as it goes.
        for key in ("version", "settings"):
            del written[key]
        for device in written["devices"]:
            del device["steps"], device["heaps"]
        baseline.write_text(json.dumps(written))
        process = self.answer("check", short, "--baseline", baseline)
        self.assertIn("of an older memreel", process.stderr)

    def test_what_was_refused_has_no_peak(self):
        trace = self.run_python("""
pool = memreel.pool("pool", "arena", device=0)
pool.segment_add(address := malloc(MIB), MIB)
pool.alloc(address, 1000)
pool.oom(1 << 30)
""")
        self.assert_refused(run("check", trace, "--max-peak", "10MiB"), "how much memory 1 refused request would have needed", "--capacity")
        self.answer("check", trace, "--max-peak", "10MiB", "--allow-incomplete")


if __name__ == "__main__":
    unittest.main()
