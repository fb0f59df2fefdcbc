# SPDX-License-Identifier: Apache-2.0
"""Running programs are attached to and detached from, again and again, without noticing."""

import contextlib
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit/python"))
from each_python import pythons  # noqa: E402
from ground_truth import driver_events, expected, read_truth
from program import MEMREEL, REPOSITORY
from recorded import FAKE, PROGRAM, RecordTest

WAITING = os.environ.get("MEMREEL_WAITING_PROGRAM", str(REPOSITORY / "build/release/bin/waiting_program"))


def may_trace():
    """Whether this machine allows tracing other processes at all."""
    probe = ("import ctypes, os, sys\n"
             "libc = ctypes.CDLL(None, use_errno=True)\n"
             "child = os.fork()\n"
             "if child == 0:\n    import time; time.sleep(10)\n"
             "result = libc.ptrace(0x4206, child, 0, 0)\n"
             "os.kill(child, 9)\n"
             "sys.exit(result != 0)\n")
    return subprocess.run([sys.executable, "-c", probe]).returncode == 0


class AttachTest(RecordTest):
    def run_program(self, *command, **variables):
        """A program that runs without memreel and has used the GPU."""
        process = subprocess.Popen(list(map(str, command)), text=True, cwd=self.directory,
                                   env=self.environment(**variables), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)  # including its children
        except ProcessLookupError:
            pass
        process.communicate(timeout=30)

    def memreel(self, *arguments, code=0, timeout=60):
        process = subprocess.run([MEMREEL, *map(str, arguments)], text=True, cwd=self.directory, timeout=timeout,
                                 env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        if code is not None:
            self.assertEqual(process.returncode, code, process.stderr)
        return process

    def threads(self, pid):
        names = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that just ended
                names.append(Path(f"/proc/{pid}/task/{task}/comm").read_text())
        return sorted(names)

    def files(self, pid):
        return sorted(os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd"))

    def wait_until(self, condition, seconds=10):
        limit = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), limit, "this does not become true")
            time.sleep(0.005)

    def wait_for_truth(self, lines):
        self.wait_until(lambda: self.truth_file.exists() and len(self.truth_file.read_bytes().splitlines()) >= lines)

    def truth_size(self):
        """The size of the ground truth, less what calls in progress may have written."""
        return max(0, self.truth_file.stat().st_size - 10_000)

    @contextlib.contextmanager
    def stopped(self, pid):
        """Stops the program while the test checks what it did; otherwise a busy machine would never catch up."""
        os.kill(pid, signal.SIGSTOP)
        yield
        os.kill(pid, signal.SIGCONT)

    def assert_has_all_between(self, trace, begin, end, since):
        """Checks that everything the program did between two instants is in the trace, in order, thread by thread; the trace may
        also have a little before and after, but nothing the program did not do. `since`: truth_size() before the trace began."""
        truth = self.truth(since)
        rows = self.events(trace)
        for thread in {line.thread for line in truth}:
            found = [event for tid, event in driver_events(rows, truth) if tid == thread]
            lines = [line for line in truth if line.thread == thread]
            # The sizes of earlier allocations are not known when they are freed.
            kept = [(event.kind, event.address) for event in found]
            did = [(expected(line).kind, expected(line).address) for line in lines]
            # A thread may have been inside its first call when recording began, and before its last when it ended.
            due = [(expected(line).kind, expected(line).address) for line in lines if begin < line.time < end][1:-1]
            self.assertTrue(any(did[i:i + len(kept)] == kept for i in range(len(did) - len(kept) + 1)),
                            "the trace has what the program did not do")
            self.assertTrue(any(kept[i:i + len(due)] == due for i in range(len(kept) - len(due) + 1)),
                            "the trace lacks what the program did")


class Dormant(AttachTest):
    """A program started with the library dormant."""

    def start_dormant(self, *command, **variables):
        process = self.run_program(MEMREEL, "record", "--dormant", "--", *command, **variables)
        self.wait_for_truth(20)
        pids = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return process, int(pids[0])

    def test_cycles(self):
        process, pid = self.start_dormant(PROGRAM, "endless", 2, FAKE_CUDA_DELAY_US=100)
        asleep = self.threads(pid), self.files(pid)
        self.assertFalse(self.traces())
        for cycle in range(12):
            since = self.truth_size()
            self.memreel("attach", pid, "-o", f"{cycle}.reel")
            begin = time.time_ns()
            time.sleep(0.05)
            end = time.time_ns()
            told = self.memreel("detach", pid).stderr
            self.assertIn("none lost", told)
            self.assertEqual((self.threads(pid), self.files(pid)), asleep)
            trace = self.directory / f"{cycle}.reel"
            with self.stopped(pid):
                self.assert_has_all_between(trace, begin, end, since)
            document = self.document("info", trace)
            self.assertEqual(document["lost_events"], 0)
            self.assertTrue(document["losses"]["began_late"])
        process.send_signal(signal.SIGTERM)
        self.assertIn("12 traces", process.communicate(timeout=30)[1].replace("and 4 traces more", "12 traces"))

    def test_live(self):
        _, pid = self.start_dormant(PROGRAM, "endless", 1, FAKE_CUDA_DELAY_US=100)
        process = self.run_program(MEMREEL, "attach", pid, "--live", "--interval", "0.1")
        lines = iter(process.stdout.readline, "")
        line = next(line for line in lines if "unknown" in line)  # the category, once the analyzer has answered
        self.assertRegex(line, r"events, none lost .*cuda\.driver 0: \S+ \S+ live")
        process.send_signal(signal.SIGINT)
        self.assertIn("recording stopped", process.communicate(timeout=30)[1])
        self.assertEqual(process.returncode, 0)

    def test_nothing_is_recorded_unasked(self):
        errors = self.record_program("single", 50, options=["--dormant"]).stderr
        self.assertEqual(len(self.truth()), 100)
        self.assertFalse(self.traces())
        self.assertIn("memreel attach", errors)

    def test_joined_twice(self):
        _, pid = self.start_dormant(PROGRAM, "endless", 1, FAKE_CUDA_DELAY_US=100)
        self.memreel("attach", pid, "-o", "first.reel")
        self.assert_refused(self.memreel("attach", pid, "-o", "second.reel", code=2), pid, "first.reel")
        self.memreel("detach", pid)
        self.assert_refused(self.memreel("detach", pid, code=2), "not being recorded")

    def test_a_refused_recording(self):
        _, pid = self.start_dormant(PROGRAM, "endless", 1, FAKE_CUDA_DELAY_US=100, FAKE_CUPTI_TAKEN="Nsight Systems")
        answer = self.memreel("attach", pid, "--backend", "cupti", code=2)
        self.assert_refused(answer, pid, "Nsight Systems")
        self.assertFalse(self.traces())

    def test_children_listen_for_themselves(self):
        script = f"{PROGRAM} endless 1 & {PROGRAM} endless 1 & wait"
        process = self.run_program(MEMREEL, "record", "--dormant", "--", "sh", "-c", script, FAKE_CUDA_DELAY_US=100)
        self.wait_for_truth(50)
        shell = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        self.assertEqual(len(children), 2)
        for child in children:
            self.memreel("attach", child, "-o", f"{child}.reel")
        for child in children:
            self.memreel("detach", child)
            self.assertTrue(self.document("info", self.directory / f"{child}.reel")["events"])
            os.kill(int(child), signal.SIGKILL)

    def test_for_a_while(self):
        _, pid = self.start_dormant(PROGRAM, "endless", 1, FAKE_CUDA_DELAY_US=100)
        told = self.memreel("attach", pid, "-o", "run.reel", "--duration", 0.3).stderr
        self.assertIn("recording stopped", told)
        self.assertGreater(self.document("info", self.directory / "run.reel")["time_span_ns"], 200_000_000)

    def test_the_program_ends_meanwhile(self):
        process, pid = self.start_dormant(PROGRAM, "endless", 1, FAKE_CUDA_DELAY_US=100)
        attach = self.run_program(MEMREEL, "attach", pid, "-o", "run.reel", "--duration", 60)
        self.assertIn("recording to", attach.stderr.readline())
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(attach.wait(timeout=30), 0)
        self.document("info", self.directory / "run.reel")


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


@unittest.skipUnless(may_trace(), "this machine does not let a process trace another (ptrace)")
class Entered(AttachTest):
    """A program started without memreel."""

    def test_cycles(self):
        process = self.run_program(PROGRAM, "endless", 3, FAKE_CUDA_DELAY_US=100)
        self.wait_for_truth(20)
        before = self.threads(process.pid), self.files(process.pid)
        for cycle in range(20):
            since = self.truth_size()
            told = self.memreel("attach", process.pid, "-o", f"{cycle}.reel").stderr
            self.assertIn("paused one thread for", told)
            begin = time.time_ns()
            time.sleep(0.03)
            end = time.time_ns()
            self.assertIn("none lost", self.memreel("detach", process.pid).stderr)
            if cycle % 5 == 0:
                with self.stopped(process.pid):
                    self.assert_has_all_between(self.directory / f"{cycle}.reel", begin, end, since)
            self.wait_until(lambda: (self.threads(process.pid), self.files(process.pid)) == before)
        self.assertNotIn("rwxp", Path(f"/proc/{process.pid}/maps").read_text())
        self.assertIsNone(process.poll())

    def start_waiting(self, kind):
        process = self.run_program(WAITING, kind)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def assert_undisturbed(self, process):
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
        found = re.fullmatch(r"rounds (\d+) wrong (\d+) signals (\d+) of (\d+)\n", output)
        self.assertTrue(found, output)
        rounds, wrong, received, sent = map(int, found.groups())
        self.assertGreater(rounds, 0)
        self.assertEqual(wrong, 0)
        self.assertEqual(received, sent)

    def check_kind(self, kind):
        process = self.start_waiting(kind)
        for cycle in range(5):
            self.memreel("attach", process.pid, "-o", f"{kind}.reel", "--time-limit", 20)
            self.memreel("detach", process.pid)
        self.assertEqual(len(self.traces()), 5)
        time.sleep(0.1)
        self.assert_undisturbed(process)

    def test_attacher_killed(self):
        """Kills memreel at any moment: the program continues undisturbed, and can be attached to again."""
        chance = random.Random(7)
        process = self.start_waiting("compute")
        for _ in range(25):
            attach = subprocess.Popen([MEMREEL, "attach", str(process.pid), "-o", "killed.reel"], cwd=self.directory,
                                      env=self.environment(), stderr=subprocess.DEVNULL)
            time.sleep(0.025 * chance.random())
            attach.kill()
            attach.wait()
            self.memreel("detach", "-q", process.pid, code=None)
        self.memreel("attach", process.pid, "--time-limit", 20)
        self.memreel("detach", process.pid)
        self.assert_undisturbed(process)

    def test_program_killed(self):
        chance = random.Random(8)
        for _ in range(10):
            process = self.start_waiting("poll")
            attach = subprocess.Popen([MEMREEL, "attach", str(process.pid), "-o", "killed.reel"], text=True,
                                      cwd=self.directory, env=self.environment(), stderr=subprocess.PIPE)
            time.sleep(0.025 * chance.random())
            process.kill()
            _, errors = attach.communicate(timeout=30)
            self.assertIn(attach.returncode, (0, 2), errors)
            self.end(process)

    def test_recorded_already(self):
        process = self.start(PROGRAM, "endless", 1, options=["-o", "run.reel"],
                             environment=self.environment(FAKE_CUDA_DELAY_US=100))
        self.wait_for_truth(20)
        pid = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
        self.assert_refused(self.memreel("attach", pid, code=2), pid, "run.reel")
        time.sleep(0.3)  # events just before the kill may be missing
        os.kill(int(pid), signal.SIGTERM)
        process.communicate(timeout=30)
        self.assertTrue(self.document("info", self.directory / "run.reel")["kinds"]["alloc"])

    def test_in_a_signal_handler_of_its_own(self):
        """A signal handler may have interrupted anything: a thread in one is left alone until it returns."""
        process = self.run_program(sys.executable, "-c", HANDLER, str(FAKE))
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.memreel("attach", process.pid, "--time-limit", 20)
        self.memreel("detach", process.pid)
        self.assertIsNone(process.poll())


for kind in ("sleep", "poll", "read", "futex", "select", "wait", "epoll", "compute"):
    setattr(Entered, f"test_in_{kind}", lambda self, kind=kind: self.check_kind(kind))


HOST = Path(__file__).with_name("attached_host.c")


@unittest.skipUnless(may_trace(), "this machine does not let a process trace another (ptrace)")
@unittest.skipUnless(shutil.which("cc"), "no C compiler here")
class Hosts(AttachTest):
    """Delicate programs, started without memreel: what they do, they do as if nobody had attached."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.program = f"{directory.name}/host"
        subprocess.run(["cc", "-O1", "-o", cls.program, HOST, "-ldl", "-lpthread"], check=True)

    def check(self, way, codes=(0,)):
        process = self.run_program(self.program, way)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for cycle in range(2):
            attached = self.memreel("attach", process.pid, "-o", f"{cycle}.reel", "--time-limit", 20, code=None)
            self.assertIn(attached.returncode, codes, attached.stderr)
            time.sleep(0.1)
            self.assertIsNone(process.poll())
            self.memreel("detach", process.pid, code=None if 2 in codes else 0)
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=30)
        self.assertRegex(output, r"^rounds [1-9]\d+ wrong 0\n$")
        self.assertEqual((process.returncode, errors), (0, ""))
        for trace in self.traces():
            self.assertGreater(self.document("info", trace)["kinds"].get("alloc", 0), 0)
        self.assertEqual(len(self.traces()), 2 if codes == (0,) else len(self.traces()))


# Where the program leaves no room for memreel, attaching is refused.
for way, codes in {"small_stacks": (0,), "fibres": (0,), "locked_malloc": (0,), "signals": (0,), "forks": (0,), "unloads": (0,),
                   "closes_all": (0, 2), "no_descriptors": (0, 2), "no_memory": (0, 2), "main_leaves": (0, 2)}.items():
    setattr(Hosts, f"test_{way}", lambda self, way=way, codes=codes: self.check(way, codes))


@unittest.skipUnless(may_trace(), "this machine does not let a process trace another (ptrace)")
class Tensors(AttachTest):
    """A Python program with a fake PyTorch allocator, attached to while it runs."""

    def test_what_was_held_and_what_comes(self):
        process = self.run_program(sys.executable, "-B", "-c", TENSORS, C10_CUDA)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for cycle in range(3):
            trace = self.directory / f"{cycle}.reel"
            self.memreel("attach", process.pid, "-o", trace.name, "--time-limit", 20)
            time.sleep(0.4)
            self.memreel("detach", process.pid)
            rows = self.events(trace)
            old = [row for row in rows if row["kind"] == "alloc" and "before recording" in str(row.get("stack", ""))]
            tensors = {(row["address"], row["size"]) for row in old if row["heap"] == "torch.cuda"}
            segments = {(row["address"], row["size"]) for row in old if row["heap"] == "cuda.driver"}
            # The block at 0x10200 is freed, but not by the device; the one at 0x10600 comes and goes.
            self.assertLessEqual({(0x10000, 512), (0x10200, 1024), (0x30000, 4096)}, tensors)
            self.assertLessEqual(len(tensors), 4)
            self.assertEqual(segments, {(0x10000, 2 << 20)})
            self.assertEqual(self.document("info", trace)["losses"]["preexisting_allocations"], len(old))
            new = [row for row in rows if row["heap"] == "torch.cuda" and row["kind"] == "alloc" and row not in old]
            self.assertGreater(len(new), 20)
            self.assertEqual({row["size"] for row in new}, {2048})
            frames = [frame["function"] for frame in new[-1]["stack"]]
            self.assertIn("step", frames)
            report = self.document("report", trace, "--leaks")
            self.assertIn("unknown before attach", {leak["verdict"] for leak in report["leaks"]})
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        self.assertIn("KeyboardInterrupt", errors)

    def check_exact(self, *options):
        """From the moment on at which the allocator told what it held, each address is where PyTorch's rules put it."""
        process = self.run_program(sys.executable, "-B", str(Path(__file__).with_name("torch_attached.py")), C10_CUDA, *options)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for cycle in range(3):
            for wait in (0.5, 2, 5):  # on a busy machine the program's main thread may not run for long
                trace = self.directory / f"{cycle}-{wait}.reel"
                self.memreel("attach", process.pid, "-o", trace.name, "--time-limit", 20)
                time.sleep(wait)
                self.memreel("detach", process.pid)
                if self.document("verify", trace, code=None)["exact"]:
                    break
            rows = [row for row in self.events(trace) if row["heap"] == "torch.cuda" and row["kind"] == "alloc"]
            old = [row for row in rows if "before recording" in str(row.get("stack", ""))]
            self.assertGreaterEqual(len(old), 4)
            self.assertTrue(all(row["size"] % 512 for row in old), "sizes are as requested")
            device, = self.document("verify", trace)["devices"]
            self.assertIs(device["exact"], True, device)
            self.assertEqual(device["allocations"], len(rows) - len(old))
            self.assertGreater(device["allocations"], 50)
            self.assertEqual(self.document("info", trace)["lost_events"], 0)
        self.end(process)

    def test_is_exact_from_the_attach_on(self):
        self.check_exact()

    def test_is_exact_when_the_allocator_is_used_while_it_tells(self):
        self.check_exact("busy")

    def test_what_frees_code_is_put_back(self):
        """Code objects of CPython 3.9 to 3.11 have no version, so frees of them are counted during a recording."""
        place = "print(id(type((lambda: 0).__code__)) + 48, flush=True)\n"  # of PyCode_Type.tp_dealloc
        for python in [python for minor in ("9", "10", "11") for python in pythons(minor)]:
            process = self.run_program(python, "-B", "-c", place + TENSORS, C10_CUDA)
            address = int(process.stdout.readline())
            self.assertEqual(process.stdout.readline(), "ready\n")

            def what_frees():
                with open(f"/proc/{process.pid}/mem", "rb") as memory:
                    memory.seek(address)
                    return memory.read(8)

            pythons_own = what_frees()
            for cycle in range(2):
                self.memreel("attach", process.pid, "-o", f"{cycle}.reel", "--time-limit", 20)
                self.wait_until(lambda: what_frees() != pythons_own)
                self.memreel("detach", process.pid)
                self.assertEqual(what_frees(), pythons_own)
            self.end(process)


@unittest.skipUnless(may_trace(), "this machine does not let a process trace another (ptrace)")
class Python(AttachTest):
    def pythons_that_can_be_asked(self):
        found = [python for minor in ("14", "15") for python in pythons(minor)]
        if not found:
            self.skipTest("there is no CPython 3.14 or newer here, which lets itself be asked to load a library")
        return found

    def test_python_is_asked(self):
        for python in self.pythons_that_can_be_asked():
            path = f"{Path(python).parent}:{os.environ['PATH']}"
            process = self.run_program(python, "-B", "-c", TENSORS, C10_CUDA)
            self.assertEqual(process.stdout.readline(), "ready\n")
            for cycle in range(2):
                told = subprocess.run([MEMREEL, "attach", str(process.pid), "--time-limit", "20"], text=True, timeout=60,
                                      cwd=self.directory, env=self.environment(PATH=path), stderr=subprocess.PIPE)
                self.assertEqual(told.returncode, 0, told.stderr)
                self.assertIn("loaded by Python", told.stderr)
                time.sleep(0.1)
                self.memreel("detach", process.pid)
            self.assertEqual(len(self.traces()), 2)
            self.assertTrue(all("alloc" in self.document("info", trace)["kinds"] for trace in self.traces()))
            for trace in self.traces():
                trace.unlink()
            self.end(process)

    def test_python_does_not_come_to_it(self):
        """A sleeping interpreter is entered from outside, and does not find a stale request later."""
        self.check_other_door()

    def test_python_is_not_to_be_asked(self):
        self.check_other_door(PYTHON_DISABLE_REMOTE_DEBUG=1)

    def check_other_door(self, **variables):
        morning = self.directory / "morning"
        os.mkfifo(morning)
        for python in self.pythons_that_can_be_asked():
            process = self.run_program(python, "-B", "-c", SLEEPER, **variables)
            self.assertEqual(process.stdout.readline(), "ready\n")
            told = self.memreel("attach", process.pid, "--time-limit", 4, "-o", "sleeper.reel").stderr
            self.assertIn("paused one thread for", told)
            self.memreel("detach", process.pid)
            morning.write_text("!")
            self.assertEqual(process.communicate(timeout=30), ("woke up\n", ""))
            self.assertEqual(process.returncode, 0)
            self.document("info", self.trace())
            self.trace().unlink()


C10_CUDA = os.environ.get("MEMREEL_FAKE_C10_CUDA",
                          str(REPOSITORY / "build/release/tests/unit/torch/lib/libc10_cuda.so"))
TENSORS = """
import ctypes, sys, time, types
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
allocator = ctypes.CDLL(sys.argv[1])
total, live = 512 + 4096, False

def report(address, change):
    global total
    total += change
    allocator.fake_report(ctypes.c_void_p(address), ctypes.c_int64(change), ctypes.c_size_t(total), 1, 0)

def snapshot():
    def block(size, state):
        return {"size": size, "requested_size": size - 10, "state": state, "frames": []}
    return [
        {"device": 0, "address": 0x10000, "total_size": 2 << 20, "stream": 0, "segment_type": "small",
         "blocks": [block(512, "active_allocated"), block(1024, "active_pending_free"),
                    block(2048, "active_allocated" if live else "inactive"), block((2 << 20) - 3584, "inactive")]},
        {"device": 0, "address": 0x30000, "total_size": 4096, "stream": 0, "segment_type": "small", "is_expandable": True,
         "blocks": [block(4096, "active_allocated")]}]

torch = types.ModuleType("torch.cuda")
torch.is_initialized = lambda: True
torch.memory_snapshot = snapshot
sys.modules["torch.cuda"] = torch

def step():
    global live
    report(0x10600, 2048)
    live = True
    time.sleep(0.001)
    live = False
    report(0x10600, -2048)

print("ready", flush=True)
while True: step()
"""

SLEEPER = """
import ctypes, os
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
print("ready", flush=True)
os.read(os.open("morning", os.O_RDWR), 1)
print("woke up")
"""

HANDLER = """
import ctypes, signal, sys, time
cuda = ctypes.CDLL(sys.argv[1] + "/libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
libc = ctypes.CDLL(None)
handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda _: libc.usleep(300_000))
libc.signal(signal.SIGALRM, handler)
print("ready", flush=True)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.4)
while True: time.sleep(0.01)
"""


class Refusals(AttachTest):
    def refused(self, pid, *mentions):
        self.assert_refused(self.memreel("attach", pid, code=2), *mentions)
        self.assertFalse(self.traces())

    def test_no_such_process(self):
        self.refused(2 ** 22 - 3, "no such process")

    def test_ended(self):
        process = subprocess.Popen(["true"])
        self.wait_until(lambda: "\tZ" in Path(f"/proc/{process.pid}/status").read_text())
        self.refused(process.pid, "has ended")
        process.wait()

    def test_without_cuda(self):
        process = self.run_program("sleep", 60)
        self.refused(process.pid, "libcuda.so.1", "memreel record")

    def start_between_exec_and_main(self, fifo):
        """A program whose dynamic linker waits for a library that is a FIFO, before it has mapped the C library."""
        os.mkfifo(fifo)
        return self.run_program("sleep", 60, LD_PRELOAD=str(fifo))

    def test_while_it_loads_its_libraries(self):
        self.refused(self.start_between_exec_and_main(self.directory / "fifo").pid, "is still loading its libraries")

    def test_it_waits_until_the_libraries_are_loaded(self):
        fifo = self.directory / "fifo"
        process = self.start_between_exec_and_main(fifo)
        attach = self.run_program(MEMREEL, "attach", process.pid)
        fifo.open("wb").close()  # which the dynamic linker finds too short, and skips
        self.assertIn("libcuda.so.1", attach.communicate()[1])

    @unittest.skipUnless(may_trace(), "this machine does not let a process trace another (ptrace)")
    def test_traced(self):
        process = self.run_program(WAITING, "poll")
        process.stdout.readline()
        tracer = self.run_program(sys.executable, "-c", (
            "import ctypes, time\n"
            f"assert ctypes.CDLL(None).ptrace(0x4206, {process.pid}, 0, 0) == 0\n"
            "print('traced', flush=True)\ntime.sleep(60)"))
        tracer.stdout.readline()
        self.refused(process.pid, "already being traced", tracer.pid)

    def test_stopped(self):
        process = self.run_program(WAITING, "poll")
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        self.wait_until(lambda: "\tT" in Path(f"/proc/{process.pid}/status").read_text())
        self.refused(process.pid, "is stopped", "continue it")

    def test_confined(self):
        """PR_SET_SECCOMP with a filter that allows everything: it might as well forbid what memreel needs."""
        script = ("import ctypes, struct, sys, time\n"
                  "ctypes.CDLL(sys.argv[1] + '/libcuda.so.1')\n"
                  "allow = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))\n"
                  "program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', 1, ctypes.addressof(allow)))\n"
                  "libc = ctypes.CDLL(None)\n"
                  "assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0\n"
                  "print('ready', flush=True)\ntime.sleep(60)")
        process = self.run_program(sys.executable, "-c", script, FAKE)
        if process.stdout.readline() != "ready\n":
            self.skipTest("this machine has no seccomp filters")
        self.refused(process.pid, "seccomp", "memreel record")

    def test_of_32_bits(self):
        process = self.run_program(self.program_of_32_bits())
        self.refused(process.pid, "a 32-bit program")

    def program_of_32_bits(self):
        """A program that only waits for signals (pause(2)), again and again."""
        base, code = 0x8048000, bytes.fromhex("b81d000000cd80ebf7")
        header = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack(
            "<HHIIIIIHHHHHH", 2, 3, 1, base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
        segment = struct.pack("<IIIIIIII", 1, 0, base, base, 84 + len(code), 84 + len(code), 5, 0x1000)
        program = self.file("program-of-32-bits", header + segment + code)
        program.chmod(0o755)
        try:
            subprocess.run([program], timeout=0.2)
        except subprocess.TimeoutExpired:
            return program
        except OSError:
            self.skipTest("this machine does not run programs of 32 bits")
        self.fail("it ended")

    def test_static(self):
        source = self.file("program.c", b"int pause(void); int main(void) { for (;;) pause(); }")
        program = self.directory / "program"
        compiler = shutil.which("cc")
        if compiler is None or subprocess.run([compiler, "-static", "-o", program, source],
                                              stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("there is no compiler here that links statically")
        self.refused(self.run_program(program).pid, "statically linked", "link it dynamically")

    def test_in_a_container(self):
        """That is, with different mounts."""
        unshare = shutil.which("unshare")
        if unshare is None or subprocess.run([unshare, "-m", "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no mounts of one's own may be made here")
        process = self.run_program(unshare, "-m", WAITING, "poll")
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.refused(process.pid, "container", "inside that container")

    def test_another_user(self):
        if os.geteuid() != 0:
            self.refused(1, "another user")
            return
        process = self.run_program(WAITING, "poll")
        process.stdout.readline()
        command = [shutil.which("setpriv"), "--reuid", "65534", "--clear-groups", MEMREEL, "attach", str(process.pid)]
        if command[0] is None:
            self.skipTest("there is no setpriv to become another user with")
        answer = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")
        # This checkout may be readable by its owner only.
        if answer.returncode == 127 or "setpriv" in answer.stderr or "needs the program" in answer.stderr:
            self.skipTest("no other user may run memreel here: " + answer.stderr.strip())
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertRegex(answer.stderr, "another user|can't write a trace")

    def test_bad_usage(self):
        for arguments in (["attach"], ["detach"], ["attach", "1", "--duration", "-1"],
                          ["attach", "1", "--no-such-option"]):
            self.assert_refused(self.memreel(*arguments, code=2), f"memreel {arguments[0]} --help")

    def test_help(self):
        for command in ("attach", "detach"):
            self.assertIn("Examples:", self.memreel(command, "--help").stdout)


if __name__ == "__main__":
    unittest.main()
