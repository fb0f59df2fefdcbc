# SPDX-License-Identifier: Apache-2.0
"""A program's annotations of its own pools are in the trace, whenever they are made and in whichever language."""

import shutil
import signal
import subprocess
import sys
import unittest

from program import REPOSITORY, run
from recorded import FAKE, RecordTest

# The order of the documentation's own example: pools are made, and steps begin, before anything calls CUDA.
IN_PYTHON = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import memreel

outer = memreel.pool("outer", "caching", device=0)
def build():
    inner = memreel.pool("inner", "slab", parent=outer)
    outer.segment_add(0x10000, 4096)
    inner.alloc(0x10000, 100)
    return inner
inner = build()
memreel.step()
with memreel.tag("warm-up"):
    cuda = ctypes.CDLL("libcuda.so.1")
    assert cuda.cuInit(0) == 0
    assert cuda.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0) == 0
    pointer = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == 0
inner.free(0x10000)
"""

IN_C = """
#include "memreel/memreel.h"
int cuInit(unsigned);
int cuCtxCreate_v2(void**, unsigned, int);
int cuMemAlloc_v2(unsigned long long*, size_t);

int main(void) {
  void* context = 0;
  unsigned long long pointer = 0;
  memreel_pool outer = memreel_pool_create("outer", MEMREEL_POOL_CACHING, MEMREEL_DEVICE, 0);
  memreel_pool inner = memreel_pool_create("inner", MEMREEL_POOL_SLAB, outer, 0);
  memreel_segment_add(outer, (void*)0x10000, 4096);
  memreel_alloc(inner, (void*)0x10000, 100, 0);
  memreel_step();
  memreel_tag_push("warm-up");
  if (cuInit(0) != 0 || cuCtxCreate_v2(&context, 0, 0) != 0 || cuMemAlloc_v2(&pointer, 1 << 20) != 0) return 1;
  memreel_tag_pop("warm-up");
  memreel_free(inner, (void*)0x10000);
  return 0;
}
"""

IN_CPP = """
#include "memreel/memreel.h"
extern "C" int cuInit(unsigned);
extern "C" int cuCtxCreate_v2(void**, unsigned, int);
extern "C" int cuMemAlloc_v2(unsigned long long*, size_t);

int main() {
  auto* const place = reinterpret_cast<void*>(0x10000);
  static const memreel::annotated_pool outer("outer", MEMREEL_POOL_CACHING);
  static const memreel::annotated_pool inner("inner", MEMREEL_POOL_SLAB, outer.id());
  outer.segment_add(place, 4096);
  inner.alloc(place, 100);
  memreel_step();
  {
    const memreel::scoped_tag tag("warm-up");
    void* context = nullptr;
    unsigned long long pointer = 0;
    if (cuInit(0) != 0 || cuCtxCreate_v2(&context, 0, 0) != 0 || cuMemAlloc_v2(&pointer, 1 << 20) != 0) return 1;
  }
  inner.free(place);
}
"""


# 40 steps, each of which leaks 98,321 bytes in a pool that the C++ class of the header destroys at the end.
LEAKING = """
#include "memreel/memreel.h"
#include <cstdio>
extern "C" int cuInit(unsigned);
extern "C" int cuCtxCreate_v2(void**, unsigned, int);
extern "C" int cuMemAlloc_v2(unsigned long long*, size_t);
extern "C" int cuMemFree_v2(unsigned long long);

struct Sim {
  unsigned long long base = 0;
  std::size_t used = 0;
  memreel::annotated_pool pool{"sim", MEMREEL_POOL_CACHING};
  Sim() { cuMemAlloc_v2(&base, 64 << 20); pool.segment_add(reinterpret_cast<void*>(base), 64 << 20); }
  ~Sim() { cuMemFree_v2(base); }
  void* take(std::size_t bytes) {
    void* const place = reinterpret_cast<void*>(base + used);
    used += (bytes + 511) / 512 * 512;
    pool.alloc(place, bytes);
    return place;
  }
};

int main() {
  void* context = nullptr;
  if (cuInit(0) != 0 || cuCtxCreate_v2(&context, 0, 0) != 0) return 1;
  DECLARE;
  for (int step = 0; step < 40; ++step) {
    sim.pool.free(sim.take(4096));
    sim.take(98321);  // kept
    memreel_step();
  }
  END;
}
"""


class Destroyed(RecordTest):
    """What is live in a pool when it is destroyed is judged as at the end of the program."""

    def leaking(self, declare, end="return 0"):
        compiler = shutil.which("c++")
        if compiler is None:
            self.skipTest("there is no compiler here")
        source = self.file("program.cpp", LEAKING.replace("DECLARE", declare).replace("END", end).encode())
        program = self.directory / "program"
        subprocess.run([compiler, "-g", "-O1", "-std=c++11", "-I", REPOSITORY / "collector/include", "-o", program,
                        source, f"-L{FAKE}", "-l:libcuda.so.1"], check=True)
        self.record(program)
        return self.trace()

    def check_leak(self, trace, steps):
        report = self.document("report", trace, "--leaks")
        leak = report["leaks"][0]
        self.assertEqual((leak["verdict"], leak["bytes"], leak["count"]), ("leak", 3_932_840, 40))
        self.assertRegex(leak["evidence"], rf"^{steps} of {steps} steps kept 96\.02 KiB allocated at .*program\.cpp:\d+; nothing")
        self.assertEqual(leak["evidence"].endswith("it was live when its pool was destroyed"), self.destroyed)
        self.answer("check", trace, "--max-leaked", "0", code=1)

    def test_however_the_pool_ends(self):
        for declare, destroyed in (("static Sim sim", True), ("Sim sim", True),
                                   ("Sim& sim = *new Sim", False)):
            with self.subTest(declare):
                self.destroyed = destroyed
                trace = self.leaking(declare)
                self.check_leak(trace, 40)
                kinds = self.document("info", trace)["kinds"]
                self.assertEqual((kinds["pool_created"], kinds.get("pool_destroyed", 0)), (1, int(destroyed)))
                trace.unlink()

    def test_while_the_program_goes_on(self):
        self.destroyed = True
        self.check_leak(self.leaking("Sim& sim = *new Sim", "delete &sim; for (int i = 0; i < 20; ++i) memreel_step()"), 40)


# More names than there is room for: a program that tags each request.
TAGGED = """
#include <stdio.h>
#include "memreel/memreel.h"
int cuInit(unsigned);
int cuCtxCreate_v2(void**, unsigned, int);
int cuMemAlloc_v2(unsigned long long*, size_t);

int main(void) {
  void* context;
  unsigned long long pointer;
  if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuMemAlloc_v2(&pointer, 1 << 20)) return 1;
  for (int i = 0; i < 70000; ++i) {
    char name[32];
    snprintf(name, sizeof name, "request %d", i);
    memreel_tag_push(name);
    memreel_tag_pop(name);
  }
  return 0;
}
"""


class Tagged(RecordTest):
    def test_marks_whose_names_have_no_room_are_counted(self):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("there is no compiler here")
        program = self.directory / "tagged"
        subprocess.run([compiler, "-g", "-O1", "-I", REPOSITORY / "collector/include", "-o", program,
                        self.file("tagged.c", TAGGED.encode()), f"-L{FAKE}", "-l:libcuda.so.1"], check=True)
        errors = self.record(program, options=["--when-full", "block", "--sample-ms", 0]).stderr
        document = self.document("info", self.trace())
        lost = 140_000 - document["kinds"]["mark"]
        self.assertGreater(lost, 0)
        self.assertEqual(document["losses"]["hook_refused"], lost)
        self.assertIn(f"{lost:,} lost", errors)


# Every error in the use of pools, each from a line of its own; NOTHING is a program without any.
WRONG = """
#include "memreel/memreel.h"
int cuInit(unsigned);
int cuCtxCreate_v2(void**, unsigned, int);
int cuMemAlloc_v2(unsigned long long*, size_t);
#define AT(offset) ((void*)(base + (offset)))
static unsigned long long base;
static memreel_pool pool;
static void take(size_t offset, size_t bytes) { memreel_alloc(pool, AT(offset), bytes, 0); }
static void give(size_t offset) { memreel_free(pool, AT(offset)); }
int main(void) {
  void* context;
  if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuMemAlloc_v2(&base, 1 << 20)) return 1;
  pool = memreel_pool_create("mine", MEMREEL_POOL_CACHING, MEMREEL_DEVICE, 0);
  memreel_segment_add(pool, AT(0), 1 << 19);
  memreel_segment_add(pool, AT(1 << 19), 1 << 19);
  take(0, 1000);
  give(0);
  take((1 << 19) - 512, 1024);  /* adjacent segments are one range */
  ERROR;
  give((1 << 19) - 512);
  memreel_segment_remove(pool, AT(0));
  memreel_segment_remove(pool, AT(1 << 19));
  memreel_pool_destroy(pool);
  LATE;
  return 0;
}
"""


class Valid(RecordTest):
    def record_with(self, error="", late=""):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("there is no compiler here")
        source = self.file("wrong.c", WRONG.replace("ERROR", error).replace("LATE", late).encode())
        program = self.directory / "wrong"
        subprocess.run([compiler, "-g", "-O0", "-I", REPOSITORY / "collector/include", "-o", program, source, f"-L{FAKE}",
                        "-l:libcuda.so.1"], check=True)
        self.record(program, options=["-o", "run.reel"])
        return self.trace()

    def test_a_correct_program(self):
        trace = self.record_with()
        self.assertEqual(self.document("report", trace)["pool_errors"], [])
        check = self.document("check", trace, "--valid")
        self.assertEqual([(c["name"], c["unit"], c["value"], c["passed"]) for c in check["checks"]], [("valid", "errors", 0, True)])

    def test_each_error(self):
        # take() and give() are the pool's only lines, so that their callers are named.
        errors = {"double free": ("take(4096, 100); give(4096); give(4096)", "", True), "invalid free": ("give(8192)", "", False),
                  "overlap": ("take(4096, 100); take(4160, 10); give(4096); give(4160)", "", True),
                  "outside segments": ("take(1 << 20, 10); give(1 << 20)", "", False),
                  "segment in use": ("take(4096, 100)", "", True), "use after destroy": ("", "take(4096, 100)", True)}
        for name, (error, late, has_earlier) in errors.items():
            with self.subTest(name):
                trace = self.record_with(error, late)
                found, = self.document("report", trace)["pool_errors"]
                self.assertEqual((found["error"], found["heap"], found["device"], found["count"]), (name, "mine", 0, 1))
                self.assertEqual(found["stack"][0]["function"], "main")
                self.assertEqual([frame["function"] for frame in found["contradicts"][:1]], ["main"] * has_earlier)
                self.assertRegex(found["evidence"], r"0x[0-9a-f]+\b.*wrong\.c:\d+")
                self.assertIn(name, self.answer("report", trace).stdout)
                failed = self.answer("check", trace, "--valid", code=1).stdout
                self.assertIn(f"1 error in the use of pools; the first is a {name} in mine: ", failed)
                self.answer("check", trace, "--valid", "--junit", self.directory / "junit.xml", code=1)
                self.assertIn(name, (self.directory / "junit.xml").read_text())
                trace.unlink()

    def test_one_address_twice(self):
        found, = self.document("report", self.record_with("take(4096, 100); take(4096, 200); give(4096)"))["pool_errors"]
        self.assertEqual((found["error"], found["count"], found["contradicts"][0]["function"]), ("overlap", 1, "main"))

    def test_a_program_without_pools(self):
        self.record_program("single", 10, options=["-o", "run.reel"])
        process = run("check", self.trace(), "--valid")
        self.assert_refused(process, "holds no pools of the program's own")


class BeforeTheFirstCall(RecordTest):
    def check(self, *command, options=()):
        self.assertIn("none lost", self.record(*command, options=options).stderr)
        events = self.events()
        by_heap = {}
        for row in events:
            if "address" in row:
                by_heap.setdefault(row["heap"], []).append((row["kind"], row["address"], row["size"]))
        self.assertEqual(by_heap["outer"][0], ("segment_alloc", 0x10000, 4096))
        self.assertEqual(by_heap["inner"][:2], [("alloc", 0x10000, 100), ("free_requested", 0x10000, 100)])
        self.assertEqual(by_heap["cuda.driver"][0][0::2], ("alloc", 1 << 20))
        marks = [(row["mark"], row.get("phase", "instant")) for row in events if row["kind"] == "mark"]
        self.assertEqual(marks, [("step", "instant"), ("warm-up", "begin"), ("warm-up", "end")])
        times = [row["time_ns"] for row in events]
        self.assertEqual(times, sorted(times))
        return events

    def compiled(self, name, source, *options):
        compiler = shutil.which("c++" if name.endswith("cpp") else "cc")
        if compiler is None:
            self.skipTest("there is no compiler here")
        program = self.directory / "program"
        subprocess.run([compiler, "-g", "-O1", *options, "-I", REPOSITORY / "collector/include", "-o", program,
                        self.file(name, source.encode()), f"-L{FAKE}", "-l:libcuda.so.1"], check=True)
        return program

    def test_in_python(self):
        events = self.check(sys.executable, "-c", IN_PYTHON, REPOSITORY / "collector/python_module")
        stack = next(row["stack"] for row in events if row["kind"] == "alloc" and row["heap"] == "inner")
        self.assertEqual(stack[0]["function"], "build")  # neither memreel.py nor ctypes

    def test_in_c(self):
        events = self.check(self.compiled("program.c", IN_C, "-std=c99"))
        stack = next(row["stack"] for row in events if row["kind"] == "alloc" and row["heap"] == "inner")
        self.assertEqual(stack[0]["function"], "main")
        self.assertTrue(stack[0]["file"].endswith("program.c"), stack)

    def test_without_debug_information(self):
        events = self.check(self.compiled("program.c", IN_C, "-std=c99", "-g0", "-O0"))
        stack = next(row["stack"] for row in events if row["kind"] == "alloc" and row["heap"] == "inner")
        self.assertEqual(stack[0]["function"], "main")

    def test_in_cpp_without_debug_information(self):
        for level in ("-O0", "-O1", "-O2"):
            with self.subTest(level):
                events = self.check(self.compiled("program.cpp", IN_CPP, "-std=c++11", "-g0", level))
                for row in events:
                    if row["kind"] in ("alloc", "segment_alloc", "free_requested") and row["heap"] in ("inner", "outer"):
                        self.assertEqual(row["stack"][0]["function"], "main", row)
                for trace in self.traces():
                    trace.unlink()

    def test_the_header_compiles_without_a_warning(self):
        source = self.file("header.c", b"#include <memreel/memreel.h>\nint use(void);\nint use(void) { memreel_step(); return 0; }\n")
        warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wold-style-cast", "-Wzero-as-null-pointer-constant"]
        compiled = 0
        for compiler, language, standards, only in (("gcc", "c", ("c99", "c11", "c17", "c2x"), slice(0, 5)), ("g++", "c++", ("c++11", "c++17", "c++20", "c++23"), slice(0, 7)),
                                                    ("clang", "c", ("c99", "c17", "c2x"), slice(0, 5)), ("clang++", "c++", ("c++11", "c++20"), slice(0, 7))):
            for standard in standards if shutil.which(compiler) else ():
                done = subprocess.run([compiler, "-x", language, f"-std={standard}", "-Werror", *warnings[only], "-I", REPOSITORY / "collector/include",
                                       "-c", "-o", self.directory / "header.o", source], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                compiled += 1
        if compiled == 0:
            self.skipTest("there is no compiler here")

    def test_in_cpp(self):
        self.check(self.compiled("program.cpp", IN_CPP, "-std=c++11"))

    def test_more_than_the_ring_has_room_for(self):
        script = IN_PYTHON.replace("memreel.step()", "[memreel.mark('early') for _ in range(1000)]")
        for policy in ("drop", "block"):
            self.record(sys.executable, "-c", script, REPOSITORY / "collector/python_module",
                        options=["--ring-events", 64, "--when-full", policy, "-o", f"{policy}.reel"])
            events = self.events(self.directory / f"{policy}.reel")
            self.assertEqual(sum(row.get("mark") == "early" for row in events), 1000)
            self.assertEqual(self.losses(self.directory / f"{policy}.reel")["ring_full"], 0)

    def test_what_no_device_has_is_left_out_and_counted(self):
        script = IN_PYTHON.replace("memreel.step()", "[inner.alloc(*odd) for odd in ((0x9e3779b97f4a7c15, 512), (1, 1 << 46), (0x10000, (1 << 64) - 1))]")
        process = self.record(sys.executable, "-c", script, REPOSITORY / "collector/python_module")
        self.assertNotIn("none lost", process.stderr)
        self.assertIn(("alloc", 0x10000), {(row["kind"], row.get("address")) for row in self.events()})
        self.assertEqual(self.losses(self.trace())["hook_refused"], 3)
        self.document("report", self.trace())

    def test_a_snapshot_is_in_the_file_when_it_returns(self):
        once = "[inner.alloc(0x20000 + i, 1) for i in range(5000)]\nmemreel.snapshot()\n"
        often = ("import time\nfor i in range(5000):\n    inner.alloc(0x20000 + i, 1)\n"
                 "    if i % 250 == 249:\n        time.sleep(0.001)\n        memreel.snapshot()\n")
        for options, calls in (([], once), (["--flight", "1GiB"], once), ([], often)):
            with self.subTest(options, calls=calls):
                script = IN_PYTHON + "import os, signal\n" + calls + "os.kill(os.getpid(), signal.SIGKILL)\n"
                process = self.start(sys.executable, "-c", script, REPOSITORY / "collector/python_module", options=options)
                _, errors = process.communicate(timeout=60)
                self.assert_died_of(process, signal.SIGKILL)
                self.assertIn("SIGKILL", errors)
                self.assertEqual(sum(row["kind"] == "alloc" and row["size"] == 1 for row in self.events()), 5000)
                self.trace().unlink()

    def test_a_pool_on_no_device(self):
        script = IN_PYTHON.replace("memreel.step()", "assert not [memreel.pool('odd', 'arena', device=d).alloc(1, 1) for d in (70000, -7)][0]")
        self.record(sys.executable, "-c", script, REPOSITORY / "collector/python_module")
        self.assertNotIn("odd", {row.get("heap") for row in self.events()})
        self.assertEqual(self.losses(self.trace())["hook_refused"], 2)

    def test_a_pool_for_each_request(self):
        script = IN_PYTHON.replace("memreel.step()", "pools = [memreel.pool(f'request {i}', 'arena', device=0) for i in range(5000)]\n"
                                   "[pool.alloc(0x20000 + i, 1) for i, pool in enumerate(pools)]")
        self.record(sys.executable, "-c", script, REPOSITORY / "collector/python_module")
        events = self.events()
        self.assertEqual(sum(row["kind"] == "alloc" and row["size"] == 1 for row in events), 5000)
        self.assertIn("other pools", {row["heap"] for row in events if row["kind"] == "alloc"})

    def test_what_each_tag_holds(self):
        script = IN_PYTHON + ("import threading\ndef other():\n    with memreel.tag('other'):\n        began.set(); done.wait()\n"
                              "began, done = threading.Event(), threading.Event()\nthread = threading.Thread(target=other)\n"
                              "with memreel.tag('epoch'):\n    inner.alloc(1, 100)\n    thread.start(); began.wait()\n    with memreel.tag('forward'):\n"
                              "        inner.alloc(2, 2000)\n    inner.alloc(3, 30)\ninner.alloc(4, 5)\ndone.set(); thread.join()\n")
        self.record(sys.executable, "-c", script, REPOSITORY / "collector/python_module")
        live, = [heap for heap in self.document("report", self.trace(), "--by", "tag")["live_at_end"] if heap["heap"] == "inner"]
        self.assertEqual([(group["label"], group["bytes"]) for group in live["groups"]],
                         [("epoch > forward", 2000), ("epoch", 130), ("(no tag)", 5)])

    def test_without_cuda_there_is_still_no_trace(self):
        script = IN_PYTHON.split("with memreel.tag")[0] + "assert memreel.usage() == []\n"
        self.record(sys.executable, "-c", script, REPOSITORY / "collector/python_module")
        self.assertFalse(self.traces())


if __name__ == "__main__":
    unittest.main()
