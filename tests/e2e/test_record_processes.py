# SPDX-License-Identifier: Apache-2.0
"""Processes that fork, exec, end at the wrong moment or are killed: they don't notice, and their traces open."""

import ctypes.util
import os
import random
import resource
import shlex
import signal
import subprocess
import sys
import unittest

from ground_truth import driver_events, read_truth
from kill import PROMISE, kill_after
from nvtx_program import nvtx_program
from program import MEMREEL, SANITIZED
from recorded import FAKE, PROGRAM, RecordTest


class Processes(RecordTest):
    def truth_of(self, trace):
        """Splits the ground truth into the part written by a trace's process, and the rest."""
        threads = {row["thread"] for row in self.events(trace) if "thread" in row}
        return [line for line in self.truth() if line.thread in threads]

    def assert_each_equals_its_truth(self, count):
        traces = self.traces()
        self.assertEqual(len(traces), count, traces)
        for trace in traces:
            self.assert_equals_truth(trace, self.truth_of(trace))
        self.assertEqual(sum(len(self.truth_of(trace)) for trace in traces), len(self.truth()))

    def test_a_child_that_can_not_use_cuda(self):
        self.record_program("fork-late")
        parent, *child = sorted(self.traces(), key=lambda trace: -trace.stat().st_size)
        self.assert_equals_truth(parent)
        for trace in child:  # it tried
            self.assertNotIn("alloc", self.document("info", trace)["kinds"])

    def test_a_fork_before_cuda(self):
        errors = self.record_program("fork-early").stderr
        self.assert_each_equals_its_truth(2)
        self.assertEqual(errors.count(".reel ("), 2)

    def test_names_from_before_a_fork(self):
        self.assertNotIn("killed", self.record(nvtx_program(self)).stderr)
        found = sorted([(row["mark"], row["phase"]) for row in self.events(trace) if row["kind"] == "mark"]
                       for trace in self.traces())
        self.assertEqual(found, sorted([
            [("registered", "instant"), ("workers", "end")],
            [("in the child", "begin"), ("registered", "instant"), ("in the child", "end"), ("workers", "end")],
            [("before", "begin"), ("workers", "begin"), ("workers", "end"), ("before", "end")]]))

    def test_memory_of_another_process(self):
        self.record_program("ipc", 4, environment=self.environment(FAKE_CUDA_GPUS=2))
        self.assert_each_equals_its_truth(2)
        peaks = [self.document("report", trace)["summary"]["devices"][0] for trace in self.traces()]
        self.assertEqual(sorted(peak["peak_live_bytes"] for peak in peaks), [0, 4 << 20])

    def test_becoming_another_program(self):
        errors = self.record_program("exec").stderr
        self.assertIn("replaced itself (exec)", errors)
        self.assertNotRegex(errors, "killed|none lost.*exec")
        traces = self.traces()
        self.assertEqual(len(traces), 2, traces)  # one process, one name, two PIDs
        kinds = [self.document("info", trace)["kinds"] for trace in traces]
        self.assertEqual(sum(k["alloc"] + k["free_requested"] for k in kinds), len(self.truth()))

    def test_who_starts_the_ranks_does_not_take_their_names(self):
        errors = self.record_program("spawn", 2, 100, 1, options=["-o", "run-%r.reel"]).stderr
        self.assertEqual([trace.name for trace in self.traces()], ["run-0.reel", "run-1.reel", "run-none.reel"])
        self.assertRegex(errors, r"memreel report run-[01].reel shows what holds the memory")
        for rank in "01":
            trace = self.directory / f"run-{rank}.reel"
            self.assert_equals_truth(trace, self.truth_of(trace))

    def test_a_child_with_wrong_options(self):
        errors = self.record("sh", "-c", f"MEMREEL_DEPTH=deep exec {shlex.quote(PROGRAM)} single 10").stderr
        self.assertRegex(errors, r"process \d+ was not recorded: .*MEMREEL_DEPTH")
        self.assertNotIn("without using CUDA", errors)
        self.assertEqual(self.traces(), [])

    def test_children_and_ranks(self):
        self.record_program("spawn", 3, options=["-o", "run-%r-%p.reel"])
        self.assert_each_equals_its_truth(3)
        self.assertEqual({path.name.split("-")[1] for path in self.traces()}, {"0", "1", "2"})

    def test_one_name_for_several_processes(self):
        self.record_program("spawn", 3, options=["-o", "run.reel"])
        self.assert_each_equals_its_truth(3)
        self.assertEqual([path.name for path in self.traces()], ["run-1.reel", "run-2.reel", "run.reel"])

    def test_nothing_is_overwritten(self):
        kept = self.file("run.reel", b"kept")
        self.record_program("single", 10, options=["-o", "run.reel"])
        self.assertEqual(kept.read_bytes(), b"kept")
        self.assert_equals_truth(self.directory / "run-1.reel")

    def test_what_is_no_file_gets_no_trace_beside_it(self):
        pipe = self.directory / "trace"
        os.mkfifo(pipe)
        for place in (pipe, "/dev/null"):
            with self.subTest(place):
                process = self.record_program("single", 100, options=("-o", place), code=2)
                self.assertIn(f"{place}: is not a regular file", process.stderr)
                self.assertIn("give -o a file name", process.stderr)
                self.assertFalse(self.truth_file.exists(), "the program ran, unrecorded")
        self.assertEqual(os.listdir(self.directory), ["trace"])

    def test_a_placeholder_that_leads_to_a_pipe(self):
        os.mkfifo(self.directory / "none.reel")
        process = self.record_program("single", 100, options=("-o", "%r.reel"))
        self.assertIn("is not a regular file", process.stderr)
        self.assertEqual(len(self.truth()), 200)
        self.assertEqual([file.name for file in self.directory.glob("*.reel")], ["none.reel"])

    def test_the_default_name_has_host_and_process(self):
        self.record_program("single", 10)
        self.assertRegex(self.trace().name, rf"^memreel-{os.uname().nodename}-\d+\.reel$")

    def test_ends_in_the_middle_of_calls(self):
        for _ in range(5):
            self.record_program("exit-inside", code=5, environment=self.environment(FAKE_CUDA_DELAY_US=100))
        for trace in self.traces():
            self.assertTrue(self.document("info", trace)["kinds"]["alloc"])

    def test_a_main_thread_that_leaves(self):
        script = ("import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0); "
                  "cuda.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0); "
                  "cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 20)); "
                  "ctypes.CDLL(None).pthread_exit(None)")
        self.assertEqual(subprocess.run([sys.executable, "-c", script], env=self.environment(), timeout=60).returncode, 0)
        for options in ([], ["--flight", "1MiB"], ["--backend", "interpose"]):
            with self.subTest(options):
                self.record(sys.executable, "-c", script, options=options)  # with 0: it ends, as it does alone
        self.assertTrue(all(self.document("info", trace)["events"] for trace in self.traces()))

    def test_a_program_with_address_sanitizer(self):
        program = self.directory / "checked"
        source = self.file("checked.c", b"#include <stdlib.h>\nint main(void) { free(malloc(1)); return 7; }")
        if subprocess.run(["cc", "-fsanitize=address", "-o", program, source], capture_output=True).returncode != 0:
            self.skipTest("no compiler with AddressSanitizer here")
        self.record(program, code=7)

    SANDBOXED = rb"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define ALLOW(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
typedef int (*alloc_function)(unsigned long long*, size_t);
static alloc_function allocate;
static int take(void) { unsigned long long p; return allocate(&p, 512); }
__attribute__((noinline)) static int take_elsewhere(void) { return take() + 0 * getpagesize(); }
#ifdef PRCTL
#define INSTALL prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)
#else
#define INSTALL syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, FLAGS, &filter)
#endif
int main(void) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
  int (*initialize)(unsigned) = dlsym(cuda, "cuInit"), (*retain)(void**, int) = dlsym(cuda, "cuDevicePrimaryCtxRetain");
  int (*use)(void*) = dlsym(cuda, "cuCtxSetCurrent");
  allocate = dlsym(cuda, "cuMemAlloc_v2");
  if (initialize(0) || retain(&context, 0) || use(context) || take()) return 1;
  usleep(300000);
  struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(SYS_exit_group), ALLOW(SYS_futex), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_brk), ALLOW(SYS_madvise),
    ALLOW(SYS_mprotect), ALLOW(SYS_clock_gettime), ALLOW(SYS_newfstatat), ALLOW(SYS_write), ALLOW(SYS_rt_sigreturn),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  struct sock_fprog filter = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || INSTALL) return 2;
  for (int i = 0; i < 100; i++) if (take_elsewhere()) return 3;
  _exit(7);
}
"""

    def test_a_sandbox_that_allows_the_program_alone(self):
        """The filter is the calling thread's, or every thread's (TSYNC): also ours, unless they have ended before."""
        for flags in ("FLAGS=0", "PRCTL", "FLAGS=SECCOMP_FILTER_FLAG_TSYNC"):
            program, source = self.directory / "sandboxed", self.file("sandboxed.c", self.SANDBOXED)
            built = subprocess.run(["cc", "-O1", "-D" + flags, "-o", program, source, "-ldl"], capture_output=True, text=True)
            self.assertEqual(built.returncode, 0, built.stderr)
            if subprocess.run([program], env=self.environment()).returncode != 7:
                self.skipTest("no filters can be installed here")
            for options in ([], ["--backend", "cupti"], ["--flight", "1MiB"], ["--dormant"], ["--when-full", "block", "--ring-events", "64"]):
                with self.subTest((flags, options)):
                    self.record(program, options=options, code=7)

    def test_exit_without_ceremony(self):
        errors = self.record_program("quick-exit", 500, code=6).stderr
        self.assert_equals_truth()
        self.assertRegex(errors, "none lost")
        self.assertNotRegex(errors, "killed|not seen to end")

    # Allocates 20 MiB, then ends in the way that its argument says.
    ENDING = b"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
int cuInit(unsigned);
int cuCtxCreate_v2(void**, unsigned, int);
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuMemFree_v2(unsigned long long);
static void leave(int number) { _exit(number == SIGALRM ? 7 : 8); }
static void late(void) { unsigned long long p; cuMemAlloc_v2(&p, 4096); }
int main(int count, char** arguments) {
  const char* how = arguments[1];
  void* context;
  unsigned long long p;
  (void)count;
  if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuMemAlloc_v2(&p, 20 << 20)) return 1;
  if (!strcmp(how, "many")) {
    unsigned long long q;
    int i;
    if (cuMemAlloc_v2(&p, 492ull << 20)) return 1;
    for (i = 0; i < 107499; ++i)
      if (cuMemAlloc_v2(&q, 512) || cuMemFree_v2(q)) return 1;
    _Exit(7);
  }
  if (!strcmp(how, "_exit")) _exit(7);
  if (!strcmp(how, "_Exit")) _Exit(7);
  if (!strcmp(how, "quick_exit")) { at_quick_exit(late); quick_exit(7); }
  if (!strcmp(how, "vfork")) {  /* the child shares this memory: the recording goes on */
    int status;
    pid_t child = vfork();
    if (child == 0) _exit(3);
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3) return 2;
    late();
    _exit(7);
  }
  if (!strcmp(how, "handler")) {  /* of a signal that may interrupt malloc */
    struct itimerval soon = {{0, 0}, {0, 20000}};
    signal(SIGALRM, leave);
    setitimer(ITIMER_REAL, &soon, 0);
    for (;;) free(malloc(100 + (size_t)rand() % 100000));
  }
  return 9;
}
"""

    def test_every_exit_without_destructors(self):
        program, source = self.directory / "ending", self.file("ending.c", self.ENDING)
        if subprocess.run(["cc", "-O1", "-o", program, source, f"-L{FAKE}", "-l:libcuda.so.1"]).returncode != 0:
            self.skipTest("no compiler here")
        for how, late in (("_exit", 0), ("_Exit", 0), ("quick_exit", 1), ("vfork", 1), ("handler", 0)):
            for options in ([], ["--backend", "interpose"], ["--flight", "1MiB"]):
                with self.subTest(how, options=options):
                    errors = self.record(program, how, options=["-o", "run.reel", *options], code=7).stderr
                    self.assertNotRegex(errors, "killed|not seen to end")
                    sizes = [row["size"] for row in self.events() if row["kind"] == "alloc"]
                    self.assertEqual(sizes, [20 << 20] + late * [4096])
                    self.answer("check", self.trace(), "--max-peak", "20MiB" if late == 0 else "21MiB")
                    self.trace().unlink()

    def test_an_exit_directly_after_many_events_loses_none(self):
        program, source = self.directory / "ending", self.file("ending.c", self.ENDING)
        if subprocess.run(["cc", "-O1", "-o", program, source, f"-L{FAKE}", "-l:libcuda.so.1"]).returncode != 0:
            self.skipTest("no compiler here")
        errors = self.record(program, "many", options=["-o", "run.reel", "--when-full", "block", "--sample-ms", 0], code=7).stderr
        self.assertRegex(errors, r"peak 512\.00 MiB.*; 215,000 events, none lost")
        self.assertNotRegex(errors, "killed|not seen to end")

    # Children that share the memory of their parent, made as the C library's vfork() can't make them: they return from
    # syscall(), one on its parent's stack, the others on one that begins with the address of what they run.
    SHARING = b"""
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int cuInit(unsigned);
int cuCtxCreate_v2(void**, unsigned, int);
int cuMemAlloc_v2(unsigned long long*, size_t);
static void* stack[1 << 13] __attribute__((aligned(16)));
static unsigned long long p;
static void leave(void) { _exit(3); }
static void confine(void) {
  struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO)};
  struct sock_fprog filter = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, FLAGS, &filter);
  _exit(3);
}
static int child_of(void (*body)(void), int how) {
  void** top = stack + (1 << 13) - 2;
  int status = 0;
  *top = (void*)body;
  pid_t child = syscall(SYS_clone, how | SIGCHLD, top, 0, 0, 0);
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
__attribute__((noinline)) static pid_t fork_in_place(void) { return syscall(SYS_vfork); }
int main(void) {
  void* context;
  if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuMemAlloc_v2(&p, 512)) return 1;
  if (child_of(leave, CLONE_VM | CLONE_VFORK) != 3 || child_of(leave, 0) != 3 || child_of(confine, CLONE_VM) != 3) return 2;
  pid_t child = fork_in_place();
  if (child == 0) __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(4));
  int status = 0;
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 4) return 3;
  errno = 0;
  if (syscall(SYS_close, -1) != -1 || errno != EBADF) return 4;
  void* pages = (void*)syscall(SYS_mmap, 0, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || *(char*)pages || munmap(pages, 1 << 16)) return 5;
  return cuMemAlloc_v2(&p, 4096) ? 6 : 7;
}
"""

    @unittest.skipUnless(os.uname().machine == "x86_64", "elsewhere the address to return to is not on the stack")
    def test_children_that_share_memory(self):
        program, source = self.directory / "sharing", self.file("sharing.c", self.SHARING)
        for optimization, flags in (("-O0", "0"), ("-O2", "SECCOMP_FILTER_FLAG_TSYNC")):
            if subprocess.run(["cc", optimization, "-DFLAGS=" + flags, "-o", program, source, f"-L{FAKE}", "-l:libcuda.so.1"]).returncode:
                self.skipTest("no compiler here")
            self.assertEqual(subprocess.run([program], env=self.environment()).returncode, 7)
            for options in ([], ["--backend", "interpose"], ["--flight", "1MiB"], ["--dormant"]):
                with self.subTest(flags, options=options):
                    errors = self.record(program, options=["-o", "run.reel", *options], code=7).stderr
                    self.assertNotRegex(errors, "seccomp|killed|not seen to end")
                    if options == ["--dormant"]:
                        continue
                    self.assertEqual([row["size"] for row in self.events() if row["kind"] == "alloc"], [512, 4096])
                    self.trace().unlink()

    # As multiprocessing does it: forked children end with os._exit().
    WORKERS = b"""
import ctypes, multiprocessing, sys
def work():
    cuda = ctypes.CDLL("libcuda.so.1")
    assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(20 << 20)) == 0
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    workers = [context.Process(target=work) for _ in range(2)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    sys.exit([worker.exitcode for worker in workers] != [0, 0])
"""

    def test_workers_of_multiprocessing(self):
        script = self.file("workers.py", self.WORKERS)
        for method in ("fork", "forkserver", "spawn"):
            with self.subTest(method):
                errors = self.record(sys.executable, script, method).stderr
                self.assertNotRegex(errors, "killed|not seen to end")
                traces = self.traces()
                self.assertEqual(len(traces), 2)
                for trace in traces:
                    peaks = [device["peak_live_bytes"] for device in self.document("report", trace)["summary"]["devices"]]
                    self.assertEqual(peaks, [20 << 20])
                    self.answer("check", trace, "--max-peak", "20MiB")
                    trace.unlink()

    def test_a_crash(self):
        process = self.start(PROGRAM, "crash", 500)
        _, errors = process.communicate()
        self.assert_died_of(process, signal.SIGSEGV)
        self.assertIn("SIGSEGV", errors)
        self.assert_mostly_there(0.2)

    def assert_mostly_there(self, seconds):
        """Nothing is missing except events at the very end."""
        truth = self.truth()
        last = truth[-1].time
        due = [line for line in truth if line.time < last - seconds * 1e9]
        self.assertGreaterEqual(len(driver_events(self.events(), truth)), len(due))

    def test_a_program_without_memory(self):
        errors = self.record_program("initialize").stderr
        self.assertIn("no device memory", errors)

    def test_a_stopped_and_continued_program(self):
        process = self.start(PROGRAM, "handle-signal")
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 15)
        self.assert_equals_truth()


class Killed(RecordTest):
    MOMENTS = int(os.environ.get("MEMREEL_KILLS", "6" if SANITIZED else "20"))

    def test_at_random_moments(self):
        chance = random.Random(5)
        for moment in range(self.MOMENTS):
            with self.subTest(moment):
                self.kill_after(0.05 + 0.3 * chance.random())

    def kill_after(self, seconds):
        environment = self.environment(FAKE_CUDA_DELAY_US=50)
        _, oldest_missing = kill_after(MEMREEL, [PROGRAM, "endless", "2"], seconds, environment)
        self.assertLessEqual(oldest_missing, PROMISE)


class Adversity(RecordTest):
    def unchanged(self, *mode, environment, code=0, **arguments):
        """The program must behave as without memreel, whatever happens to the trace; returns its standard error."""
        command = [PROGRAM, *map(str, mode)]
        process = subprocess.run([MEMREEL, "record", "-o", "run.reel", "--", *command], text=True, env=environment,
                                 cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                                 **arguments)
        self.assertEqual(process.returncode, code, process.stderr)
        return process.stderr

    def test_cupti_is_taken(self):
        errors = self.unchanged("single", 100, environment=self.environment(FAKE_CUPTI_TAKEN="Nsight Systems"))
        self.assertTrue("Nsight Systems" in errors or self.traces(), errors)
        if self.traces():
            self.assert_equals_truth()

    def test_no_cupti_anywhere(self):
        lone = self.directory / "lone"
        lone.mkdir()
        (lone / "libcuda.so.1").symlink_to(FAKE / "libcuda.so.1")
        self.unchanged("single", 100, environment=self.environment(LD_LIBRARY_PATH=lone))
        self.assertEqual(len(self.truth()), 200)
        if self.traces():
            self.assert_equals_truth()

    def test_damaged_variables(self):
        for name, value in (("MEMREEL_DEPTH", "-1"), ("MEMREEL_RING_EVENTS", "x" * 10_000), ("MEMREEL_OUTPUT", ""),
                            ("MEMREEL_BACKEND", "\x01\x7f"), ("MEMREEL_FLUSH_MS", "1e9")):
            with self.subTest(name):
                agent = self.directory / "truth"
                process = subprocess.run(
                    [PROGRAM, "single", "100"], text=True, cwd=self.directory, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, timeout=60,
                    env=self.environment(CUDA_INJECTION64_PATH=self.agent_library(), **{name: value}))
                self.assertEqual(process.returncode, 0)
                self.assertEqual(process.stdout, "")
                self.assertEqual(len(read_truth(agent.read_text())), 200)
                self.assertLessEqual(len(process.stderr.splitlines()), 1)
                self.assertIn(name, process.stderr)
                agent.unlink()

    def agent_library(self):
        return FAKE.parent / "lib/libmemreel-agent.so"

    def test_the_directory_goes_away(self):
        target = self.directory / "gone"
        target.mkdir()
        script = f"rm -r {shlex.quote(str(target))} && exec {PROGRAM} single 100"
        process = subprocess.run([MEMREEL, "record", "-o", target / "run.reel", "--", "sh", "-c", script], text=True,
                                 env=self.environment(), cwd=self.directory, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(len(self.truth()), 200)
        self.assertIn("run.reel", process.stderr)

    def test_a_full_disk(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        errors = self.unchanged("single", 20_000, preexec_fn=limit,
                                environment=self.environment(MEMREEL_TRUTH="/dev/null"))
        self.assertIn("run.reel", errors)

    def test_a_program_with_a_protobuf_of_its_own(self):
        protobuf = ctypes.util.find_library("protobuf")
        self.assertIsNotNone(protobuf, "memreel itself is built with it")
        self.record_program("threads", 4, 100, environment=self.environment(LD_PRELOAD=protobuf))
        self.assert_equals_truth()

    def test_children_at_any_moment(self):
        """No child waits for what one of memreel's threads was doing at the time of the fork."""
        process = subprocess.run([PROGRAM, "fork-often", "60"], cwd=self.directory, timeout=120,
                                 env=self.environment(CUDA_INJECTION64_PATH=self.agent_library(), MEMREEL_FLUSH_MS=1,
                                                      MEMREEL_SAMPLE_MS=1))
        self.assertEqual(process.returncode, 0)

    def test_closing_all_files(self):
        """What the program opens afterwards is its own, and the trace continues."""
        self.record_program("close-files", options=["-o", "run.reel"])
        self.assertGreater(self.document("info", self.trace())["kinds"]["alloc"], 300)

    def test_cancelled_threads(self):
        """Threads that wait for room in their ring can't be cancelled there, just as in the driver."""
        self.record_program("cancel", options=["--ring-events", 64, "--when-full", "block"])

    def test_exit_from_a_signal_handler(self):
        """The handler may have interrupted the start of recording."""
        for microseconds in (200, 1000, 2000, 4000, 8000, 16_000):
            self.record_program("exit-in-handler", microseconds, code=7, options=["-q"])

    def test_little_room_for_threads(self):
        self.record("sh", "-c", f"ulimit -s 64; exec {PROGRAM} threads 2 100")
        self.assert_equals_truth()

    def test_too_little_stack_is_the_programs(self):
        """The limit is the program's alone, or the launcher's too."""
        command = f"exec {PROGRAM} single 100"
        for kib in (24, 32):  # with 16, the loader has too little for any LD_PRELOAD
            for options in ("", "--backend cupti", "--flight 1MiB", "--dormant"):
                for limited in (f"{MEMREEL} record {options} -- sh -c 'ulimit -s {kib}; {command}'",
                                f"ulimit -s {kib}; {MEMREEL} record {options} -- {PROGRAM} single 100"):
                    with self.subTest(limited):
                        self.truth_file.unlink(missing_ok=True)
                        process = subprocess.run(["sh", "-c", limited], env=self.environment(), cwd=self.directory, text=True,
                                                 capture_output=True, timeout=60)
                        self.assertEqual((process.returncode, len(self.truth())), (0, 200), process.stderr)
                        self.assertIn("ulimit -s", process.stderr)

    def test_nobody_reads_what_is_said(self):
        """A program without output of its own does not end because of memreel's output."""
        reading, writing = os.pipe()
        os.close(reading)
        process = subprocess.run([PROGRAM, "single", "100"], cwd=self.directory, stderr=writing, timeout=60,
                                 env=self.environment(CUDA_INJECTION64_PATH=self.agent_library(), MEMREEL_DEPTH=-1))
        os.close(writing)
        self.assertEqual(process.returncode, 0)

    SPARING = rb"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context;
  int (*initialize)(unsigned) = dlsym(cuda, "cuInit"), (*retain)(void**, int) = dlsym(cuda, "cuDevicePrimaryCtxRetain");
  int (*use)(void*) = dlsym(cuda, "cuCtxSetCurrent"), (*allocate)(unsigned long long*, size_t) = dlsym(cuda, "cuMemAlloc_v2");
  unsigned long long pointer;
  if (initialize(0) || retain(&context, 0) || use(context)) return 1;
  for (int i = 0; i < 1000; i++) if (allocate(&pointer, 512)) return 1;
  int got = 0;
  for (void *p; got < 2000 && (p = malloc(1 << 20)); got++) memset(p, 1, 4096);
  printf("%d\n", got);
  return 2;
}
"""

    def test_little_address_space_is_the_programs(self):
        program, source = self.directory / "sparing", self.file("sparing.c", self.SPARING)
        subprocess.run(["cc", "-w", "-o", program, source, "-ldl"], check=True)
        for kib in (100_000, 200_000, 600_000):
            def limit(size=kib << 10):
                resource.setrlimit(resource.RLIMIT_AS, (size, size))
            alone = subprocess.run([program], env=self.environment(), preexec_fn=limit, capture_output=True, text=True)
            self.assertEqual(alone.returncode, 2)
            for options in ([], ["--backend", "cupti"], ["--flight", "1MiB"], ["--dormant"]):
                with self.subTest((kib, options)):
                    process = self.record("sh", "-c", f"ulimit -v {kib}; exec {shlex.quote(str(program))}", options=options, code=2)
                    # A mebibyte for the library itself.
                    self.assertAlmostEqual(int(process.stdout), int(alone.stdout), delta=4)
                    self.assertIn("ulimit -v", process.stderr)

    def test_memory_is_bounded(self):
        if SANITIZED:
            return
        script = f"ulimit -v 4000000; exec {PROGRAM} short-threads 2000"
        self.record("sh", "-c", script)
        self.assert_equals_truth()


if __name__ == "__main__":
    unittest.main()
