# SPDX-License-Identifier: Apache-2.0
"""JAX and TensorFlow under memreel record: their pools are named, and joined with the profile that the program made of itself.

Stand-ins: a library with the name of jaxlib's that calls the driver, and a profile as jax.profiler.trace() writes it. And what
TensorFlow 2.21.0 did on the fake driver (tests/lab/tensorflow_bfc.py --pool)."""

import json
import shutil
import subprocess
import sys
import unittest

from program import REPOSITORY, ProgramTest, run
from recorded import FAKE, RecordTest

MIB = 1 << 20
DATA = REPOSITORY / "tests/data/tensorflow"

PLUGIN = b"""
int cuMemAlloc_v2(unsigned long long*, unsigned long);
unsigned long long region(unsigned long bytes) {
  unsigned long long address = 0;
  return cuMemAlloc_v2(&address, bytes) == 0 ? address : 0;
}
"""

# A pool of 64 MiB, of which a profile is made that sees 10 MiB, and then 6 of them; 8 MiB are the program's own.
PROGRAM = """
import ctypes, pathlib, sys, time
sys.path.insert(0, sys.argv[2])
import xspace
MIB = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(8 * MIB)) == 0
plugin = ctypes.CDLL(sys.argv[1])
plugin.region.restype, plugin.region.argtypes = ctypes.c_uint64, [ctypes.c_size_t]
base = plugin.region(64 * MIB)
assert base
began = time.time_ns()
plane = xspace.Plane("/host:CPU")
def event(kind, at, offset, size, in_use):
    return xspace.memory(plane, kind, at, base + offset, size, size, in_use, 0.0)
plane.line(7, "python3", [plane.event("train", 5, 200, step_num=0), event("MemoryAllocation", 10, 0, 4 * MIB, 4 * MIB),
                          event("MemoryAllocation", 20, 4 * MIB, 6 * MIB, 10 * MIB), event("MemoryDeallocation", 30, 0, 4 * MIB, 6 * MIB)])
start = xspace.Plane("Task Environment")
profile = pathlib.Path("profile/plugins/profile/now")
profile.mkdir(parents=True)
stat = xspace.chunk(6, start.stat("profile_start_time", began + AGE))
(profile / "vm.xplane.pb").write_bytes(xspace.chunk(1, plane.encode()) + xspace.chunk(1, start.encode() + stat))
time.sleep(0.01)
assert cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(MIB)) == 0
"""


class Xla(RecordTest):
    def recorded(self, library="libjax_common.so", age=0, program=PROGRAM):
        source, plugin = self.file("plugin.c", PLUGIN), self.directory / "site-packages" / library
        plugin.parent.mkdir(exist_ok=True)
        if shutil.which("cc") is None:
            self.skipTest("there is no compiler here")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", plugin, source, f"-L{FAKE}", "-l:libcuda.so.1"], check=True)
        self.record(sys.executable, "-c", program.replace("AGE", str(age)), plugin, REPOSITORY / "tests/e2e", options=["-o", "run.reel"])
        return self.directory / "run.reel"

    def test_the_pool_is_named(self):
        xla = ("xla_cuda_plugin.so", "libjax_common.so", "pjrt_c_api_gpu_plugin.so", "xla_extension.so")
        for library in (*xla, "libtensorflow_framework.so.2", "_pywrap_tensorflow_internal.so"):
            pool = "XLA's pool" if library in xla else "TensorFlow's pool"
            with self.subTest(library):
                shutil.rmtree(self.directory / "profile", ignore_errors=True)
                trace = self.recorded(library)
                verdict = self.document("report", trace)["verdict"]
                parts = [(part["label"], part["bytes"] // MIB) for part in verdict["held_by"]["parts"]]
                self.assertEqual((verdict["held_by"]["by"], parts[0]), ("library", (pool, 64)))
                self.assertEqual(sum(size for _, size in parts), 73)
                self.assertRegex(self.answer("report", trace).stdout, rf"(?m)^held by +{pool} 88 %")
                trace.unlink()

    def test_a_profile_of_the_same_run_is_joined_with_it(self):
        trace = self.recorded()
        for profile in (self.directory / "profile", next((self.directory / "profile").rglob("*.pb"))):
            joined = self.directory / "joined.reel"
            self.answer("import", trace, "--profile", profile, "-o", joined)
            report = self.document("report", joined)
            tree, = [tree for tree in report["device_trees"] if tree["device"] == 0]
            heaps = {heap["heap"]: heap for heap in tree["heaps"]}
            pool, driver = heaps["GPU_0_bfc"], heaps["cuda.driver"]
            self.assertEqual(tree["heaps"][pool["parent"]]["heap"], "cuda.driver")
            self.assertEqual([value // MIB for value in (tree["peak_held_bytes"], pool["bytes"], driver["from_device_bytes"])], [73, 64, 9])
            live, = [heap for heap in report["live_at_peak"] if heap["heap"] == "GPU_0_bfc"]
            self.assertEqual(live["bytes"], 10 * MIB)
            self.assertRegex(self.answer("report", joined).stdout, r"(?m)^held by +XLA's pool.* 64\.00 MiB, .* 9\.00 MiB")
            self.assertEqual(self.document("info", joined)["kinds"]["mark"], 2)
            self.answer("check", joined, "--max-reserved", "73MiB", "--allow-incomplete")
            self.answer("check", joined, "--max-reserved", "72MiB", "--allow-incomplete", code=1)
        self.assertEqual(json.loads(self.answer("import", trace, "--profile", self.directory / "profile", "-o", joined, "--json").stdout)["source"],
                         self.document("info", trace)["source"])

    def test_regions_older_than_the_profile_are_the_pools(self):
        older = PROGRAM.replace("base = plugin", "assert plugin.region(32 * MIB)\nbase = plugin")
        for library, pool in (("libjax_common.so", "XLA's pool"), ("libtensorflow_framework.so.2", "TensorFlow's pool")):
            with self.subTest(library):
                shutil.rmtree(self.directory / "profile", ignore_errors=True)
                trace, joined = self.recorded(library, program=older), self.directory / "joined.reel"
                self.answer("import", trace, "--profile", self.directory / "profile", "-o", joined)
                self.assertRegex(self.answer("report", joined).stdout, rf"(?m)^held by +{pool}.* 96\.00 MiB")
                trace.unlink()

    # The allocator's own region of 2 MiB, mapped as XLA does it, or by cudaMalloc; in it what BFC's rules place there.
    PLACED = """
import ctypes, pathlib, struct, sys, time
sys.path.insert(0, sys.argv[1])
import xspace
cuda, size, number = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t, ctypes.c_ulonglong
def must(status): assert status == 0, status
must(cuda.cuInit(0) or cuda.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0))
place, handle = ctypes.c_uint64(), ctypes.c_uint64()
if sys.argv[2] == "mapped":
    memory = ctypes.create_string_buffer(struct.pack("iiii", 1, 0, 1, 0), 64)
    must(cuda.cuMemCreate(ctypes.byref(handle), size(2 << 20), memory, number(0)))
    must(cuda.cuMemAddressReserve(ctypes.byref(place), size(2 << 20), size(0), ctypes.c_uint64(0), number(0)))
    must(cuda.cuMemMap(place, size(2 << 20), size(0), handle, number(0)))
else:
    must(cuda.cuMemAlloc_v2(ctypes.byref(place), size(2 << 20)))
xspace.BASE = place.value
start = xspace.Plane("Task Environment")
stat = xspace.chunk(6, start.stat("profile_start_time", time.time_ns()))
pathlib.Path("now.xplane.pb").write_bytes(xspace.profile() + xspace.chunk(1, start.encode() + stat))
time.sleep(0.01)
must(cuda.cuMemAlloc_v2(ctypes.byref(place), size(512)))
"""

    def test_the_joined_pool_is_verified(self):
        for how in ("mapped", "allocated"):
            with self.subTest(how):
                trace, joined = self.directory / f"{how}.reel", self.directory / f"{how}.joined.reel"
                self.record(sys.executable, "-c", self.PLACED, REPOSITORY / "tests/e2e", how, options=["-o", trace])
                self.answer("import", trace, "--profile", self.directory / "now.xplane.pb", "-o", joined)
                verified, = self.document("verify", joined)["devices"]
                self.assertEqual((verified["exact"], verified["address_matches"], verified["segment_matches"]), (True, 2, 1))

    def test_what_can_not_be_joined(self):
        trace = self.recorded(age=10**15)
        profile = self.directory / "profile"
        self.assert_refused(run("import", trace, "--profile", profile, "-o", self.directory / "j.reel"), "of another time")
        self.assert_refused(run("import", next(profile.rglob("*.pb")), "--profile", profile, "-o", self.directory / "j.reel"), "no calls of the driver")
        self.assert_refused(run("import", trace, "--profile", trace, "-o", self.directory / "j.reel"), "no memory of a device")
        (self.directory / "empty").mkdir()
        self.assert_refused(run("import", trace, "--profile", self.directory / "empty", "-o", self.directory / "j.reel"), "no *.xplane.pb")
        self.assertFalse((self.directory / "j.reel").exists())


class TensorFlow(ProgramTest):
    """Its own statistics of the runs: 37,110,784 and 31,759,390 bytes in use at most."""

    def test_a_growing_pool_and_its_profile(self):
        trace, joined = DATA / "growth.reel", self.directory / "joined.reel"
        self.assertRegex(self.answer("report", trace).stdout, r"(?m)^held by +TensorFlow's pool 100 %")
        self.answer("import", trace, "--profile", DATA / "growth.xplane.pb.xz", "-o", joined)
        verified, = [device for device in self.document("verify", joined)["devices"] if device["device"] == 0]
        self.assertEqual((verified["exact"], verified["address_matches"], verified["segment_matches"]), (True, 61, 5))
        tree, = [tree for tree in self.document("report", joined)["device_trees"] if tree["device"] == 0]
        self.assertEqual([(heap["heap"], heap["peak_bytes"] // MIB) for heap in tree["heaps"] if heap["bytes"]], [("GPU_0_bfc", 62)])
        text = self.answer("report", joined).stdout
        self.assertRegex(text, r"(?m)^peak +62\.00 MiB reserved, 30\.29 MiB live")
        # TensorFlow calls what it copies to the device an empty tensor of floats.
        self.assertIn("_EagerConst", text)
        self.assertNotIn("[0]", text)

    def test_cuda_malloc_async(self):
        trace = DATA / "async.reel"
        verdict = self.document("report", trace)["verdict"]["held_by"]
        self.assertEqual([(part["label"], part["bytes"]) for part in verdict["parts"]], [("TensorFlow's pool", 31759390)])
        refused = run("import", trace, "--profile", DATA / "async.xplane.pb.xz", "-o", self.directory / "j.reel")
        self.assert_refused(refused, "memreel record has each tensor")


if __name__ == "__main__":
    unittest.main()
