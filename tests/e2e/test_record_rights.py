# SPDX-License-Identifier: Apache-2.0
"""Other users of the machine gain nothing from a recorded program, and a program loses nothing by being recorded."""

import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY
from recorded import FAKE, PROGRAM, RecordTest

NOBODY = 65534
COMPILER = shutil.which("cc")

# Writes its user ids to a file: proof that a process has loaded the library.
LIBRARY = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void) {
  uid_t real, effective, saved;
  getresuid(&real, &effective, &saved);
  int file = open(PROOF, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file >= 0 && write(file, real == 0 ? "root\\n" : "user\\n", 5) != 5) _exit(1);
}
"""

# Uses the GPU, switches to another user for a while, as a server does, and waits.
SERVER = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
user = int(sys.argv[1])
if user: os.seteuid(user)
print("ready", flush=True)
time.sleep(60)
"""

# Requests a recording from a process's control socket (collector/attach/control_socket.h), and prints the answer.
VISITOR = """
import socket, sys
process, fields = sys.argv[1], sys.argv[2:]
start = open(f"/proc/{process}/stat").read().rpartition(")")[2].split()[19]
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
    connection.connect(f"\\0memreel-control-{process}-{start}")
    connection.send("".join(part + "\\0" for part in ["memreel-control/1", "start", *fields]).encode())
    print(connection.recv(1 << 16).replace(b"\\0", b" ").decode(), flush=True)
"""

# Connects again and again, and never says anything.
SILENT = """
import socket, sys
process = sys.argv[1]
start = open(f"/proc/{process}/stat").read().rpartition(")")[2].split()[19]
held = []
while True:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(f"\\0memreel-control-{process}-{start}")
    held.append(connection)
    if len(held) == 4: print("silent", flush=True)
    del held[:-8]
"""


class Rights(RecordTest):
    def setUp(self):
        super().setUp()
        self.directory.chmod(0o777)

    def library(self):
        """A library that writes `self.proof` when it is loaded."""
        if COMPILER is None:
            self.skipTest("there is no C compiler here")
        self.proof = self.directory / "proof"
        source = self.file("evil.c", LIBRARY.encode())
        library = self.directory / "evil.so"
        subprocess.run([COMPILER, "-shared", "-fPIC", f'-DPROOF="{self.proof}"', "-o", library, source], check=True)
        return library

    def start_server(self, user):
        """The PID of a dormant process with the library loaded."""
        process = subprocess.Popen([MEMREEL, "record", "--dormant", "--", sys.executable, "-c", SERVER, str(user)],
                                   text=True, cwd=self.directory, env=self.environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(process.communicate)
        self.addCleanup(lambda: os.killpg(process.pid, signal.SIGKILL))
        self.assertEqual(process.stdout.readline(), "ready\n")
        return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])

    def visit(self, process, user, *fields):
        answer = subprocess.run(["/usr/bin/python3", "-c", VISITOR, str(process), *fields], text=True, cwd="/",
                                user=user, group=user, extra_groups=[], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=30)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_root_that_works_as_somebody_else_is_not_his(self):
        library = self.library()
        process = self.start_server(NOBODY)
        answer = self.visit(process, NOBODY, "MEMREEL_BACKEND=cupti", f"MEMREEL_LIBCUPTI={library}",
                            f"MEMREEL_OUTPUT={self.directory}/stolen.reel")
        self.assertIn("memreel-control/1 error", answer)
        self.assertIn("is not owned by user 65534 alone", answer)
        self.assertFalse(self.proof.exists(), "a library of another user's was loaded into a program of root's")
        self.assertFalse((self.directory / "stolen.reel").exists())

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_root_that_became_somebody_else_for_good_is_not_his_either(self):
        process = self.start_server(0)
        # The same, with every id: files opened earlier still belong to root.
        script = SERVER.replace("os.seteuid(user)", "os.setresuid(user, user, user)")
        process = self.start_program(script, NOBODY)
        answer = self.visit(process, NOBODY, f"MEMREEL_OUTPUT={self.directory}/stolen.reel")
        self.assertIn("has changed its user or group", answer)
        self.assertFalse((self.directory / "stolen.reel").exists())

    def start_program(self, script, user):
        global SERVER
        before, SERVER = SERVER, script
        try:
            return self.start_server(user)
        finally:
            SERVER = before

    def test_nobody_who_asks_names_a_library_to_load(self):
        library = self.library()
        process = self.start_server(0)
        answer = self.visit(process, os.getuid(), "MEMREEL_BACKEND=cupti", f"MEMREEL_LIBCUPTI={library}",
                            f"MEMREEL_OUTPUT={self.directory}/run.reel")
        self.assertIn("does not let memreel attach choose libcupti", answer)
        self.assertFalse(self.proof.exists())

    def test_its_owner_is_answered(self):
        process = self.start_server(0)
        answer = self.visit(process, os.getuid(), f"MEMREEL_OUTPUT={self.directory}/run.reel")
        self.assertIn("memreel-control/1 ok recording=1", answer)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_nobodys_silent_connections_keep_its_owner_waiting(self):
        """One connection is served at a time, and these never say anything."""
        process = self.start_server(0)
        crowd = subprocess.Popen(["/usr/bin/python3", "-c", SILENT, str(process)], text=True, cwd="/", user=NOBODY, group=NOBODY,
                                 extra_groups=[], stdout=subprocess.PIPE)
        self.addCleanup(crowd.communicate)
        self.addCleanup(crowd.kill)
        self.assertEqual(crowd.stdout.readline(), "silent\n")
        answer = self.visit(process, os.getuid(), f"MEMREEL_OUTPUT={self.directory}/run.reel")
        self.assertIn("memreel-control/1 ok recording=1", answer)
        if Path(MEMREEL).with_name("memreel-top").exists():
            shown = subprocess.run([MEMREEL, "top", str(process), "--once"], text=True, capture_output=True, timeout=60)
            self.assertEqual((shown.returncode, "dormant" in shown.stdout), (0, False), shown.stderr)
            self.assertIn(str(process), shown.stdout)

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a program another user's")
    def test_nothing_is_recorded_with_raised_privileges(self):
        if not all(folder.stat().st_mode & 0o001 for folder in Path(PROGRAM).resolve().parents):
            self.skipTest("the fake GPU lies in a folder that only its owner may search, and the program becomes another user")
        program = self.directory / "program"
        shutil.copy(PROGRAM, program)
        os.chown(program, NOBODY, NOBODY)
        program.chmod(0o4755)
        agent = Path(MEMREEL).resolve().parent.parent / "lib/libmemreel-agent.so"
        environment = self.environment(CUDA_INJECTION64_PATH=agent, MEMREEL_OUTPUT=self.directory / "run.reel",
                                       MEMREEL_JOURNAL=self.directory / "journal")
        process = subprocess.run([program, "single", "10"], cwd=self.directory, env=environment, timeout=60,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertFalse(self.traces())
        self.assertFalse((self.directory / "journal").exists())

    def test_a_process_that_never_answers(self):
        process = self.start_server(0)
        os.kill(process, signal.SIGSTOP)
        for command in (["attach", process, "--time-limit", 1],):
            answer = subprocess.run([MEMREEL, *map(str, command)], text=True, cwd=self.directory, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, timeout=12)  # 30 s once
            self.assert_refused(answer, process, "does not answer")


class Files(RecordTest):
    def mode(self, path):
        return stat.S_IMODE(path.stat().st_mode)

    def test_a_trace_is_its_owners_alone(self):
        self.record_program("single", 10, preexec_fn=lambda: os.umask(0o022))
        self.assertEqual(self.mode(self.trace()), 0o600)

    def test_unless_its_owner_says_otherwise(self):
        self.record_program("single", 10, options=["--mode", "664"], preexec_fn=lambda: os.umask(0o077))
        self.assertEqual(self.mode(self.trace()), 0o664)
        for mode in ("u+r", "440", "1777", "888"):
            answer = subprocess.run([MEMREEL, "record", "--mode", mode, "true"], text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
            self.assert_refused(answer, "--mode")

    def test_secrets_are_masked(self):
        arguments = ["single", 10, "--api-key=sesame1", "--token", "sesame2", "PASSWORD=sesame3", "--epochs=7"]
        self.record_program(*arguments)
        content = self.trace().read_bytes()
        self.assertNotIn(b"sesame", content)
        self.assertIn(b"--api-key=*** --token *** PASSWORD=*** --epochs=7", content)
        self.trace().unlink()
        self.record_program(*arguments, options=["--show-secrets"])
        self.assertIn(b"--token sesame2", self.trace().read_bytes())

    def test_a_limit_on_the_size_of_files(self):
        """However small the limit: it does not end the program, and the summary says what happened."""
        for limit in (0, 100, 4096):
            def set_limit():
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            errors = self.record_program("single", 20_000, preexec_fn=set_limit,
                                         environment=self.environment(MEMREEL_TRUTH="/dev/null")).stderr
            self.assertIn("File too large", errors)

    def test_a_full_disk_is_said_with_what_was_lost(self):
        disk = self.directory / "disk"  # with room for one block of events (300 KiB), but not for all of them (900 KiB)
        disk.mkdir()
        script = (f"mount -t tmpfs -o size=512k none {disk} || exit 99\n"
                  f"{MEMREEL} record -o {disk}/run.reel -- {PROGRAM} single 100000\n"
                  f"cp {disk}/run.reel {self.directory}/kept.reel")
        unshare = shutil.which("unshare")
        if unshare is None:
            self.skipTest("there is no unshare here")
        process = subprocess.run([unshare, "-m", "sh", "-c", script], text=True, env=self.environment(),
                                 cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        if "mount" in process.stderr or "unshare" in process.stderr:
            self.skipTest("no disk can be mounted here")
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("No space left on device", process.stderr)
        self.assertNotIn("was killed", process.stderr)
        self.assertNotIn("none lost", process.stderr)
        lost = int(re.search(r"([\d,]+) lost", process.stderr)[1].replace(",", ""))
        kept = self.document("info", self.directory / "kept.reel")["events"]
        made = len(self.truth())
        self.assertGreater(kept, 0)
        self.assertGreater(lost, 0)
        self.assertAlmostEqual(kept + lost, made, delta=100)  # samples of the device's memory are events, too

    def test_a_thousand_names_are_taken(self):
        for number in range(1002):
            (self.directory / (f"run-{number}.reel" if number else "run.reel")).touch()
        errors = self.record_program("single", 10, options=["-o", "run.reel"]).stderr
        self.assertNotIn("not recorded", errors)
        self.assertEqual(len(list(self.directory.glob("*.reel"))), 1003)

    def test_a_directory_that_is_not_there(self):
        errors = self.record_program("single", 10, options=["-o", "missing-%p/run.reel"]).stderr
        self.assertIn("No such file or directory", errors)
        self.assertNotIn("Bad file descriptor", errors)


if __name__ == "__main__":
    unittest.main()
