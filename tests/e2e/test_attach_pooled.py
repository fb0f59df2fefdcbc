# SPDX-License-Identifier: Apache-2.0
"""A program's own pools are in a recording that begins late."""

import subprocess
import time
import unittest
from pathlib import Path

from attaching import AttachTest, may_trace
from program import MEMREEL, REPOSITORY
from recorded import FAKE

# A program with a pool of its own, in which 1000 bytes are live from the start and 500 from time to time.
POOLED = b"""
#include "memreel/memreel.h"
#include <stdio.h>
#include <unistd.h>
int cuInit(unsigned);
int cuCtxCreate_v2(void**, unsigned, int);
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuMemFree_v2(unsigned long long);
static memreel_pool pool;
static char* const base = (char*)0x100000;
static void report(void* user) {
  pool = memreel_pool_create((const char*)user, MEMREEL_POOL_CACHING, MEMREEL_DEVICE, 0);
  memreel_segment_add(pool, base, 1 << 20);
  memreel_alloc(pool, base, 1000, 0);
}
int main(void) {
  void* context;
  unsigned long long p;
  int i;
  memreel_on_attach(report, (void*)"mine");
  report((void*)"mine");
  if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0)) return 1;
  for (i = 0; i < 20000; ++i) {
    if (cuMemAlloc_v2(&p, 4096) || cuMemFree_v2(p)) return 1;
    CONNECT;
    memreel_alloc(pool, base + 1024, 500, 0);
    memreel_free(pool, base + 1024);
    usleep(1000);
    if (i == 10 && (puts("ready") < 0 || fflush(stdout))) return 1;
  }
  return 0;
}
"""


class Pooled(AttachTest):
    """The program's own pools are in a recording that begins late."""

    def program(self, connect, *options):
        program, source = self.directory / "pooled", self.file("pooled.c", POOLED.replace(b"CONNECT", connect))
        if subprocess.run(["cc", "-O1", "-I", REPOSITORY / "collector/include", *options, "-o", program, source, f"-L{FAKE}",
                           "-l:libcuda.so.1"]).returncode != 0:
            self.skipTest("no compiler here")
        return program

    def check_attached(self, pid, older):
        for trace in ("first.reel", "second.reel"):
            self.memreel("attach", pid, "-o", trace)
            time.sleep(0.3)
            self.memreel("detach", pid)
            rows = [row for row in self.events(self.directory / trace) if row.get("heap", "").startswith("mine")]
            kinds = [(row["kind"], row.get("address"), row.get("size")) for row in rows]
            self.assertEqual(kinds.count(("segment_alloc", 0x100000, 1 << 20)), 1, kinds[:20])
            self.assertEqual(kinds.count(("alloc", 0x100000, 1000)), 1)
            self.assertGreater(kinds.count(("alloc", 0x100400, 500)), 10)
            self.assertGreaterEqual(kinds.count(("free_requested", 0x100400, 500)), kinds.count(("alloc", 0x100400, 500)) - 1)
            losses = self.losses(self.directory / trace)
            self.assertEqual(losses["preexisting_allocations"], older)

    def test_dormant(self):
        process = self.run_program(MEMREEL, "record", "--dormant", "--", self.program(b""))
        self.assertEqual(process.stdout.readline(), "ready\n")
        pid = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
        self.check_attached(int(pid), 1)

    @unittest.skipUnless(may_trace(), "this machine does not let a process trace another (ptrace)")
    def test_whose_names_are_visible(self):
        process = self.run_program(self.program(b"", "-rdynamic"))
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.check_attached(process.pid, 1)

    @unittest.skipUnless(may_trace(), "this machine does not let a process trace another (ptrace)")
    def test_that_connects(self):
        process = self.run_program(self.program(b"if (i % 10 == 0 && !pool) memreel_connect()"))
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.memreel("attach", process.pid, "-o", "first.reel")
        time.sleep(0.3)
        self.memreel("detach", process.pid)
        kinds = [(row["kind"], row.get("size")) for row in self.events(self.trace()) if row.get("heap") == "mine"]
        self.assertEqual(kinds[:3], [("pool_created", None), ("segment_alloc", 1 << 20), ("alloc", 1000)])
        self.assertGreater(kinds.count(("alloc", 500)), 10, kinds)


if __name__ == "__main__":
    unittest.main()
