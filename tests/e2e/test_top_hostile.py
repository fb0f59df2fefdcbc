# SPDX-License-Identifier: Apache-2.0
"""memreel top and its metrics beside processes that report arbitrary data."""

import os
import signal
import sys
import unittest

from test_hostile import MISLEADING
from test_top import WatchTest


class Hostile(WatchTest):
    impostor = r"""if True:
        import ctypes, os, socket, sys
        answer = eval(open(sys.argv[1]).read())
        ctypes.CDLL(None).prctl(15, b"e\x1b[31mv\ni\x9bl")
        start = open("/proc/self/stat", "rb").read().rsplit(b")", 1)[1].split()[19].decode()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(f"\0memreel-control-{os.getpid()}-{start}")
        listener.listen(8)
        print("ready", flush=True)
        held = []
        while True:
            held.append(listener.accept()[0])
            held[-1].recv(65536)
            if answer is not None:
                held[-1].send(answer)
                held.pop().close()
        """

    def start_impostor(self, answer):
        """A process whose control socket gives this answer; None: never answers."""
        process = self.run_program(sys.executable, "-c", self.impostor, self.file("answer", repr(answer).encode()))
        self.assertEqual(process.stdout.readline(), "ready\n", process.poll())
        return process.pid

    def message(self, *fields):
        return b"".join(text + b"\0" for text in (b"memreel-control/1", b"ok", *fields))

    def assert_clean(self, text):
        found = MISLEADING.search(text)
        self.assertIsNone(found, found and repr(text[max(0, found.start() - 60):found.end() + 20]))

    def check(self, answer):
        """The row of such a process; the one beside it is still fully known."""
        _, good = self.start_recording("-o", "good.reel")
        bad = self.start_impostor(answer)
        rows = {row["process"]: row for row in self.top()}
        self.assertTrue(rows[good]["heaps"])
        shown = self.memreel("top", "--once", "--interval", "0.2")
        self.assert_clean(shown.stdout + shown.stderr)
        self.assertIn(str(good), shown.stdout)
        exporter, address = self.start_metrics("top", "--openmetrics", ":0")
        text = self.scrape_until(address, rf'pid="{good}"')
        self.assert_clean(text)
        label = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
        for line in text.splitlines():
            self.assertRegex(line, rf"^# |^[A-Za-z_:]+(\{{{label}(,{label})*\}})? [-+.\w]+$")
        exporter.send_signal(signal.SIGTERM)
        self.assertEqual(exporter.wait(30), 0)
        return rows.get(bad)

    def test_names(self):
        evil = "e\x1b]0;OWNED\x07\nmemreel_up 1\u202e\"}} 1".encode() + b"\xff\x9b"
        row = self.check(self.message(b"recording=1", b"trace=/" + evil, b"source=" + evil, b"rank=" + evil, b"events=1", b"lost=0",
                                      b"heap=0 0 10 10 0 " + evil, b"device=0 1 1"))
        self.assertTrue(row["recording"])

    def test_numbers(self):
        most = b"18446744073709551615"
        row = self.check(self.message(b"recording=1", b"events=" + most, b"lost=-1", b"heap=2147483647 0 " + b" ".join([most] * 3) + b" a",
                                      b"heap=-2147483648 1 " + b" ".join([most] * 3) + b" b", b"heap=99999999999 0 1 1 1 c", b"heap=",
                                      b"device=0 " + most + b" " + most, b"device=1", *[b"heap=%d 0 1 1 1 many" % i for i in range(2000)]))
        self.assertTrue(row["recording"])

    def test_what_is_no_message(self):
        for answer in (b"", b"\xff" * 60000, b"memreel-control/9\x1b[2J\0ok\0", b"memreel-control/1\0error\0what=\x1b[2J\n\0"):
            with self.subTest(answer[:30]):
                row = self.check(answer)
                self.assertTrue(row is None or row["problem"], row)

    def test_who_asks_for_something(self):
        evil = b"\x1b]0;OWNED\x07\x1b[31m\nmemreel: all is well"
        error = b"memreel-control/1\0error\0what=" + evil + b"\0where=" + evil + b"\0remedy=" + evil + b"\0"
        for answer in (self.message(b"recording=1", b"trace=" + evil, b"dump=" + evil, b"events=" + b"9" * 20, b"lost=-1"), error,
                       self.message(b"trace=" + b"x" * 100_000), os.urandom(3000)):
            process = self.start_impostor(answer)
            for command in ("detach", "dump", "attach"):
                with self.subTest(command, answer=answer[:40]):
                    said = self.memreel(command, process, code=None)
                    self.assertIn(said.returncode, (0, 2))
                    self.assert_clean(said.stdout + said.stderr)
                    if said.returncode == 2:
                        self.assertEqual(said.stderr.count("\n"), 1, said.stderr)

    def test_who_never_answers(self):
        self.assertEqual(self.check(None)["problem"], "does not answer")

    def test_a_trace_that_is_none_keeps_nobody_from_being_analysed(self):
        os.mkfifo(self.directory / "fifo")
        for trace in (self.directory / "fifo", "/dev/zero", "/proc/self/mem", self.directory):
            self.start_impostor(self.message(b"recording=1", b"trace=" + str(trace).encode(), b"heap=0 0 1 1 1 a"))
        _, good = self.start_recording("-o", "good.reel")

        def is_known():
            [row] = [row for row in self.top("--categories") if row["process"] == good]
            return row["findings"] and sum(use["bytes"] for use in row["findings"]["categories"])
        self.wait_until(is_known, 120)


if __name__ == "__main__":
    unittest.main()
