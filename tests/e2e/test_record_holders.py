# SPDX-License-Identifier: Apache-2.0
"""Which Python variables keep the memory: in dumps, and in what reports say of them."""

import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY, ProgramTest, run
from recorded import RecordTest
from schema import defects
from test_leaks import Training

sys.path.insert(0, str(REPOSITORY / "tests/unit/python"))
from each_python import pythons  # noqa: E402

HISTORY = "`history` in `train` (train.py:12), list of 4,912"


class Reports(ProgramTest):
    """Of a snapshot with the table that memreel.torch_oom_hook() adds, made up."""

    def snapshot(self, leak=3 << 20, **added):
        training = Training()
        training.train(20, leak=leak)
        snapshot = pickle.loads(training.snapshot())
        leaked = [address for address, (size, _) in training.live.items() if size == leak]
        lines = ["walk 1700000000000000000 350000000 412000", f"holder {900 << 20} 40 3 0 dict\t`model.weights`, dict of 3",
                 f"holder {len(leaked) * leak} {len(leaked)} 4912 4800 list\t{HISTORY}"]
        lines += [f"block {address} 1" for address in leaked] + [f"block {training.end + 512} 0"]
        return self.file("run.pickle", pickle.dumps(snapshot | {"memreel_holders": "\n".join(lines) + "\n"} | added))

    def test_a_leak_is_kept_by_a_variable(self):
        path = self.snapshot()
        report = self.document("report", path)
        self.assertEqual(report["verdict"]["kept_by"], {"text": HISTORY, "bytes": 60 << 20, "is_leak": True})
        [line] = [line["text"] for line in report["verdict"]["lines"] if line["topic"] == "kept by"]
        self.assertEqual(line, HISTORY + " (+112): 60.00 MiB")
        self.assertLessEqual(len(report["verdict"]["lines"]), 5)
        self.assertEqual({leak["kept_by"] for leak in report["leaks"] if leak["verdict"] == "leak"}, {HISTORY})
        self.assertEqual({leak["kept_by"] for leak in report["leaks"] if leak["verdict"] != "leak"}, {None})
        holders = report["holders"]
        self.assertEqual([holders["took_ns"], holders["objects"], holders["note"]], [350_000_000, 412_000, None])
        self.assertEqual(holders["rows"][1], {"bytes": 60 << 20, "blocks": 20, "length": 4912, "length_before": 4800, "kind": "list", "text": HISTORY})
        self.assertIsNone(holders["rows"][0]["length_before"])
        text = self.answer("report", path).stdout
        self.assertIn("kept by Python variables; walked 412,000 objects in 350.0 ms", text)
        for form in ([], ["--leaks"], ["--format", "markdown"], ["--format", "html"]):
            self.assertIn("4,912", self.answer("report", path, *form).stdout, form)
        self.assertIn("kept by " + HISTORY + " (+112)", " ".join(self.answer("report", path, "--leaks").stdout.split()))

    def test_a_trace_keeps_it(self):
        path = self.snapshot()
        self.answer("import", path, "-o", self.directory / "run.reel")
        self.assertEqual(*(self.document("report", each)["holders"] for each in (path, self.directory / "run.reel")))

    def test_without_a_leak_what_keeps_the_most_is_named(self):
        kept = self.document("report", self.snapshot(leak=0))["verdict"]["kept_by"]
        self.assertEqual(kept, {"text": "`model.weights`, dict of 3", "bytes": 900 << 20, "is_leak": False})

    def test_cycles_are_named_where_memory_is_freed_in_bursts(self):
        def report(*rows):
            training, kept = Training(), []
            for step in range(30):
                kept.append(training.alloc(8 << 20, *training.main(21)))
                training.train(1)
                if step % 9 == 8:  # the collector runs
                    while kept:
                        training.free(kept.pop())
            table = "\n".join(["walk 1700000000000000000 350000000 412000", *rows]) + "\n"
            snapshot = pickle.loads(training.snapshot()) | {"memreel_holders": table}
            report = self.document("report", self.file("run.pickle", pickle.dumps(snapshot)))
            return next(line["text"] for line in report["verdict"]["lines"] if line["topic"] == "leaks")

        cycle = f"holder {24 << 20} 3 2 0 reference cycle\treference cycle of Node, dict, waiting for gc.collect()"
        other = f"holder {900 << 20} 40 3 0 dict\t`model.weights`, dict of 3"
        self.assertRegex(report(other, cycle), r"^none; freed in bursts: 7\d\.\d+ MiB at the peak, train\.py:21 \(cycles of Node, dict\)$")
        self.assertRegex(report(other), r"\(cycles\?\)$")

    def test_nonsense_is_left_out(self):
        for table in (7, "", "holder\nblock 1 1\nwalk x", "holder 1 2 3\n", "block 99999999999999999999999 0\nholder 1 1 1 1 \tx\n", ["a"]):
            report = self.document("report", self.snapshot(memreel_holders=table))
            self.assertIn(report["verdict"]["kept_by"], (None, ), table)
        rows = self.document("report", self.snapshot(memreel_holders="".join(f"holder 9 9 9 0 list\t\x1b[31m{'x' * 999}{i}\n" for i in range(99))))
        self.assertEqual(len(rows["holders"]["rows"]), 64)
        self.assertLess(max(len(row["text"]) for row in rows["holders"]["rows"]), 400)
        self.assertNotIn("\x1b", rows["holders"]["rows"][0]["text"])


PROGRAM = """
    import ctypes, sys, time
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    class Buffer:
        def __init__(self, size):
            pointer = ctypes.c_uint64()
            assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
            self.__cuda_array_interface__ = {"data": (pointer.value, False), "shape": (size,), "typestr": "|u1"}
    def train():
        history = []
        for _ in range(30):
            history.append({"loss": Buffer(1 << 20)})
        print("ready", flush=True)
        WAIT
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    train()
    assert "memreel" not in sys.modules
    """
# Until standard input ends.
WAIT = "while not __import__('select').select([sys.stdin], [], [], 0.01)[0]: pass"


class Dumps(RecordTest):
    def dump(self, python=sys.executable, *, wait=WAIT, options=()):
        """The report on a dump of PROGRAM, and what was on standard error."""
        program = self.file("train.py", textwrap.dedent(PROGRAM).replace("WAIT", wait).encode())
        process = subprocess.Popen([MEMREEL, "record", "--flight", "4MiB", "-o", "run.reel", *options, "--", python, "-B", str(program)], text=True,
                                   cwd=self.directory, env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        pid = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        began = time.monotonic()
        dump = self.answer("dump", pid).stdout.strip()
        self.assertLess(time.monotonic() - began, 60)
        if wait is not WAIT:
            os.kill(pid, signal.SIGKILL)
        _, errors = process.communicate("", timeout=60)
        self.assertEqual(process.returncode, 0 if wait is WAIT else -signal.SIGKILL, errors)
        report = self.document("report", dump)
        for path in self.directory.glob("*.reel"):
            path.unlink()
        return report, errors

    def test_the_variable_is_named_on_every_python(self):
        for python in (each for minor in range(9, 16) for each in pythons(str(minor))):
            with self.subTest(python):
                report, _ = self.dump(python)
                [line] = [line["text"] for line in report["verdict"]["lines"] if line["topic"] == "kept by"]
                self.assertRegex(line, r"^`history` in `train` \(train\.py:\d+\), list of 30: 30\.00 MiB$")
                self.assertGreater(report["holders"]["objects"], 1000)
                self.assertRegex(report["holders"]["note"] or "free-threaded", "^free-threaded")  # whose other threads are not seen

    def test_a_main_thread_that_computes(self):
        """It gives up the GIL to nobody but a thread that waits for it."""
        for python in (each for minor in range(9, 16) for each in pythons(str(minor))):
            with self.subTest(python):
                report, _ = self.dump(python, wait="while True: sum(range(1000))")
                self.assertRegex(report["holders"]["rows"][0]["text"], "^`history` in `train`")

    def test_not_if_it_is_not_wanted(self):
        report, _ = self.dump(options=["--no-holders"])
        self.assertIsNone(report["holders"])

    def test_a_main_thread_in_c_code_makes_no_walk(self):
        report, _ = self.dump(wait="time.sleep(1000)")
        self.assertIsNone(report["verdict"]["kept_by"])
        self.assertRegex(report["holders"]["note"], "main thread did not come to a safe point")


class Outside(RecordTest):
    """`memreel holders PID`."""

    def program(self, *options, wait=WAIT):
        """The process of a recorded PROGRAM, and that of `memreel record`."""
        program = self.file("train.py", textwrap.dedent(PROGRAM).replace("WAIT", wait).encode())
        process = subprocess.Popen([MEMREEL, "record", "-o", "run.reel", *options, "--", sys.executable, "-B", str(program)], text=True,
                                   cwd=self.directory, env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]), process

    def test_the_variable_is_named(self):
        for options in ([], ["--dormant"]):
            pid, process = self.program(*options)
            document = self.document("holders", pid)
            self.assertEqual(defects(document), [])
            self.assertRegex(document["rows"][0]["text"], r"^`history` in `train` \(train\.py:\d+\), list of 30$")
            self.assertRegex(self.answer("holders", pid).stdout, r"30\.00 MiB +30  `history` in `train`")
            _, errors = process.communicate("", timeout=60)
            self.assertEqual(process.returncode, 0, errors)

    def test_memory_of_one_site(self):
        """As the recording knows it: the program records no sites of its own."""
        other = "other = [Buffer(1 << 21) for _ in range(3)]\n    " + WAIT
        line = next(number for number, text in enumerate(textwrap.dedent(PROGRAM).splitlines(), 1) if "history.append" in text)
        for options in ([], ["--flight", "4MiB"]):
            pid, process = self.program(*options, wait=other)
            document = self.wait_for_rows(pid, "--site", f"train.py:{line} train")
            self.assertEqual(defects(document), [])
            self.assertEqual(document["site"], f"train.py:{line} train")
            self.assertEqual([[row[key] for key in ("bytes", "blocks", "length")] for row in document["rows"]], [[30 << 20, 30, 30]] * 2)
            self.assertRegex(document["rows"][0]["text"], r"^`history` in `train` \(train\.py:\d+\), list of 30$")
            self.assertRegex(document["rows"][1]["text"], r"^`history\[\d+\]` in `train` \(train\.py:\d+\), dict of 1, and 29 like it$")
            [row] = self.document("holders", pid, "--site", f"train.py:{line + 2}")["rows"]
            self.assertRegex(row["text"], r"^`other` in `train` \(train\.py:\d+\), list of 3$")
            self.assert_refused(run("holders", pid, "--site", "nowhere.py:1"), "no live memory is known to have been allocated at nowhere.py:1",
                                "memreel.torch_oom_hook()")
            self.assert_refused(run("holders", pid, "--site", "a\nb"), "--site")
            process.communicate("", timeout=60)

    def wait_for_rows(self, pid, *options):
        """What was allocated last may not be in the file yet."""
        for _ in range(50):
            told = run("holders", pid, *options, "--json")
            if told.returncode == 0 and json.loads(told.stdout)["rows"][0]["blocks"] == 30:
                return json.loads(told.stdout)
            time.sleep(0.1)
        self.fail(told.stderr + told.stdout)

    def test_walks_while_the_program_works(self):
        work = "\n    ".join(["import threading", "ended = threading.Event()", "def churn():",
                              "    while not ended.is_set(): [{'a': [i]} for i in range(1000)]",
                              "threads = [threading.Thread(target=churn) for _ in range(3)]", "[each.start() for each in threads]",
                              "kept = []", "while not __import__('select').select([sys.stdin], [], [], 0)[0]:",
                              "    kept = kept[1:] + [[i] for i in range(20)]",
                              "ended.set()", "[each.join() for each in threads]", "assert len(history) == 30"])
        pid, process = self.program(wait=work)
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        for _ in range(int(os.environ.get("MEMREEL_WALKS", "5"))):
            document = self.document("holders", pid)
            self.assertTrue(any("`history`" in row["text"] for row in document["rows"]), document)
        self.assertLessEqual(len(os.listdir(f"/proc/{pid}/fd")), descriptors)
        _, errors = process.communicate("", timeout=60)
        self.assertEqual(process.returncode, 0, errors)

    def test_refusals(self):
        self.assert_refused(run("holders", "x"), "is not a process id")
        self.assert_refused(run("holders", os.getpid()), "is not being recorded")
        pid, process = self.program(wait="time.sleep(1000)")
        self.assert_refused(run("holders", pid), "safe point")
        os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=60)


if __name__ == "__main__":
    unittest.main()
