# SPDX-License-Identifier: Apache-2.0
"""Running programs are attached to and detached from, again and again, without noticing."""

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

from attaching import AttachTest, may_trace
from nvtx_program import nvtx_program
from program import MEMREEL, REPOSITORY
from recorded import FAKE, PROGRAM

WAITING = os.environ.get("MEMREEL_WAITING_PROGRAM", str(REPOSITORY / "build/release/bin/waiting_program"))


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

    def test_names_from_before_the_recording(self):
        process = self.run_program(MEMREEL, "record", "-o", "0.reel", "--", nvtx_program(self), "endless")
        self.assertEqual(process.stdout.readline(), "ready\n")
        pid = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        self.wait_until(lambda: self.traces())
        for i, options in enumerate(([], ["--depth", 16], ["--ring-events", 4096]), 1):
            self.memreel("detach", pid)
            self.memreel("attach", pid, "-o", f"{i}.reel", *options)
            time.sleep(0.1)
        self.memreel("detach", pid)
        for i in range(4):
            marks = {row["mark"] for row in self.events(self.directory / f"{i}.reel") if row["kind"] == "mark"}
            self.assertEqual(marks, {"range 39"})
        self.assertIsNone(process.poll())

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
