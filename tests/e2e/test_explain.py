# SPDX-License-Identifier: Apache-2.0
"""memreel explain: error texts to answers."""

import gzip
import importlib.util
import json
import lzma
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY, ProgramTest, run
from schema import defects

TEXTS = Path(os.environ.get("MEMREEL_OOM_TEXTS", REPOSITORY.parent / "shared/oom_texts"))
# What the column `kind` of index.tsv begins with.
KINDS = {"lack": "lack", "fragmentation": "fragmentation", "refused though free": "refused_though_free", "another process": "other_process",
         "larger than the device": "larger_than_device", "larger than the arena": "larger_than_device", "not a failure": "warning",
         "a private pool": "private_pool", "vLLM budget": "engine_budget", "host memory": "host_memory", "no numbers": "no_figures",
         "allocated + request": "figures_missing", "no capacity": "figures_missing", "a limit": "own_limit",
         "not device memory": "not_device_memory"}
FAILURE = (b"[rank%d]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %d.00 MiB. GPU %d has a total capacity of 79.11 GiB of "
           b"which 1.03 GiB is free. Including non-PyTorch memory, this process has 78.08 GiB memory in use. Of the allocated memory 70.00 "
           b"GiB is allocated by PyTorch, and 7.50 GiB is reserved by PyTorch but unallocated.\n")


BUGS = REPOSITORY.parent / "shared/bugs"
# What PyTorch 2.15 printed when the miniatures ran (FAKE_CUDA_MEMORY=80GiB, tests/lab), and what explain and report make of it.
MINIATURES = {
    "classic_fragmentation": (
        "Tried to allocate 42.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 20.00 GiB is free. Of the allocated memory 20.94 GiB "
        "is allocated by PyTorch, and 39.06 GiB is reserved by PyTorch but unallocated.", "fragmentation", "fragmentation"),
    "mempool_no_retry": (
        "Tried to allocate 70.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 18.00 GiB is free. Of the allocated memory 62.00 GiB "
        "is allocated by PyTorch, with 60.00 GiB allocated in private pools (e.g., CUDA Graphs), and 0 bytes is reserved by PyTorch but "
        "unallocated.", "private_pool", "fragmentation"),
    "other_process": (
        "Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 6.00 GiB is free. Of the allocated memory 16.00 GiB is "
        "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.", "other_process", "lack of memory"),
}


@unittest.skipUnless(BUGS.is_dir(), "the miniatures of bug reports are not here")
class Miniatures(ProgramTest):
    """The text of a failure and the recording of the same failure get the same answer."""

    def test_text_and_recording_agree(self):
        for name, (message, kind, verdict) in MINIATURES.items():
            with self.subTest(name):
                text = self.document("explain", self.file("log", b"OutOfMemoryError: CUDA out of memory. " + message.encode()), code=1)
                recording = self.document("report", BUGS / name / "snapshot.pickle.xz", "--oom")
                failure, recorded = text["failures"][0], recording["ooms"][0]
                self.assertEqual((failure["kind"], recorded["verdict"]), (kind, verdict))
                figures = failure["figures"]
                self.assertEqual(figures["requested_bytes"], recorded["requested_bytes"])
                self.assertAlmostEqual(figures["live_bytes"], recorded["live_bytes"], delta=figures["capacity_bytes"] / 1000)
                cached = figures["cached_bytes"] + figures.get("pools_bytes", 0)
                self.assertAlmostEqual(cached, recorded["reserved_bytes"] - recorded["live_bytes"], delta=figures["capacity_bytes"] / 1000)


class Explain(ProgramTest):
    def explained(self, text):
        """The document for a log that has a failure."""
        document = self.document("explain", self.file("some.log", text), code=1)
        self.assertEqual(defects(document), [])
        return document

    def test_a_failure_in_at_most_five_lines(self):
        log = self.file("train.log", b"step 1\n" + FAILURE % (3, 2048, 3))
        lines = self.answer("explain", "--ascii", log, code=1).stdout.splitlines()
        self.assertLessEqual(len(lines), 5)
        self.assertIn(f"{log}:2: rank 3: PyTorch, device 3: fragmentation, 2.00 GiB requested", lines[0])
        self.assertRegex(lines[1], r"^  \[#+\++c?o?\.?\] live 70.00 GiB, cached 7.50 GiB, .*free 1.03 GiB of 79.11 GiB$")
        self.assertIn("expandable_segments:True", lines[3])
        self.assertIn("memreel record", lines[4])

    def test_a_log_without_failure(self):
        log = self.file("fine.log", b"all went well\n")
        self.assertIn("no failure found", self.answer("explain", log).stdout)
        document = self.document("explain", log)
        self.assertEqual(document["failures"], [])
        self.assertEqual(defects(document), [])

    def test_standard_input_and_pipes(self):
        text = FAILURE % (1, 2048, 1)
        for command in ([MEMREEL, "explain"], [MEMREEL, "explain", "-"], [MEMREEL, "explain", "/dev/stdin"]):
            process = subprocess.run(command, input=text, stdout=subprocess.PIPE, timeout=100, check=False)
            self.assertEqual(process.returncode, 1)
            self.assertIn(b"fragmentation", process.stdout)

    def test_compressed_standard_input_and_pipes(self):
        text = b"step\n" * 100_000 + FAILURE % (1, 2048, 1)
        forms = {"gzip": gzip.compress(text), "two members": gzip.compress(text[:1000]) + gzip.compress(text[1000:]), "xz": lzma.compress(text)}
        if zstd := shutil.which("zstd"):
            forms["zstd"] = subprocess.run([zstd], input=text, stdout=subprocess.PIPE, check=True, timeout=100).stdout
        for name, stored in forms.items():
            log = self.file("log." + name, stored)
            for command in (["explain"], ["explain", "-"], ["explain", "/dev/stdin"]):
                for how in ({"input": stored}, {"stdin": open(log, "rb")}):
                    with self.subTest(form=name, command=command, file="stdin" in how):
                        process = subprocess.run([MEMREEL, *command, "--json"], stdout=subprocess.PIPE, timeout=100, check=False, **how)
                        self.assertEqual(process.returncode, 1)
                        document = json.loads(process.stdout)
                        self.assertEqual(document["bytes"], len(text))
                        self.assertEqual([failure["line"] for failure in document["failures"]], [100_001])
                    if "stdin" in how:
                        how["stdin"].close()
            shown = subprocess.run(["bash", "-c", '"$0" explain <(cat "$1")', MEMREEL, log], stdout=subprocess.PIPE, timeout=100, check=False)
            self.assertIn(b"fragmentation", shown.stdout)
        for stored, complaint in ((forms["gzip"][:-100], b"cut off"), (os.urandom(100_000), b"is not text")):
            process = subprocess.run([MEMREEL, "explain"], input=stored, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100, check=False)
            self.assertEqual(process.returncode, 2)
            self.assertRegex(process.stderr, b"^memreel: error: standard input.*\n$")
            self.assertIn(complaint, process.stderr)

    def test_logs_of_other_systems(self):
        text = (b"step 1\n" + FAILURE % (1, 2048, 1)).decode()
        message = json.dumps({"MESSAGE": list(("\x1b[31m" + text).encode())}, separators=(",", ":"))
        wrapped = "".join(line[at:at + 63] + "\r\n" for line in text.splitlines() for at in range(0, len(line), 63))
        for log in (text.encode("utf-16-le"), text.encode("utf-16-be"), text.encode("utf-16"), message.encode(), wrapped.encode()):
            failure = self.explained(log)["failures"][0]
            self.assertEqual(failure["kind"], "fragmentation")
            self.assertEqual(failure["figures"]["requested_bytes"], 2 << 30)

    def test_bad_usage(self):
        some = self.file("some.log", FAILURE % (1, 2048, 1))
        self.assert_refused(run("explain", ""), "LOG")
        for other in (["--json"], ["--clipboard"], [some]):
            self.assert_refused(run("explain", "--texts", *other), "--texts")
        self.assert_refused(run("explain", self.directory / "none.log"), "none.log")
        self.assert_refused(run("explain", "--clipboard", "some.log"), "--clipboard")
        self.assert_refused(run("explain", "--clipboard", environment={"PATH": str(self.directory)}), "clipboard")

    def test_many_failures_of_a_compressed_log(self):
        text = b"".join(FAILURE % (i % 8, 1000 + i, i % 8) + b"x" * 5000 + b"\n" for i in range(200))
        log = self.file("job.log.gz", gzip.compress(text))
        failures = self.document("explain", log, code=1)["failures"]
        self.assertEqual([failure["figures"]["requested_bytes"] >> 20 for failure in failures], list(range(1000, 1200)))
        self.assertEqual([failure["line"] for failure in failures], list(range(1, 400, 2)))

    def test_memory_is_bounded(self):
        log = self.directory / "big.log"
        with open(log, "wb") as file:
            file.write(b"a" * 50_000_000 + FAILURE % (0, 2048, 0) + b"9" * 50_000_000)
            file.write(b"\x1b[" * 1_000_000 + b"\n" * 1_000_000)
        process = run("explain", "--json", log, memory_limit=256 << 20)
        self.assertEqual(process.returncode, 1, process.stderr)
        self.assertEqual(len(json.loads(process.stdout)["failures"]), 1)

    def test_what_the_log_names_is_printed_as_text(self):
        hostile = b"(a\x1b]0;owned\x07b pid=1) CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 \x1b[31m\x00\xff\xe2\x80\xae\n"
        text = self.answer("explain", "--ascii", self.file("h.log", hostile), code=1).stdout
        self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f\u202e]")

    def test_python_and_pytest_explain_an_error(self):
        package = REPOSITORY / "collector/python_module"
        environment = os.environ | {"PYTHONPATH": str(package), "PATH": f"{Path(MEMREEL).resolve().parent}:{os.environ['PATH']}"}
        text = (FAILURE % (0, 2048, 0)).decode()
        program = "import memreel, sys; print([f['kind'] for f in memreel.explain(sys.argv[1])], memreel.explain('fine'))"
        said = subprocess.run([sys.executable, "-c", program, text], env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=100)
        self.assertEqual(said.stdout, "['fragmentation'] []\n")
        if importlib.util.find_spec("pytest") is None:
            return
        test = self.file("test_it.py", f"def test(): raise RuntimeError({text!r})\ndef test_other(): assert False\n".encode())
        said = subprocess.run([sys.executable, "-B", "-m", "pytest", "-q", "-p", "memreel.pytest_plugin", "-p", "no:cacheprovider", test],
                              cwd=self.directory, env=environment, stdout=subprocess.PIPE, text=True, timeout=100)
        self.assertEqual(said.stdout.count("memreel explain"), 1, said.stdout)
        self.assertIn("fragmentation, 2.00 GiB requested", said.stdout)

    def test_the_page_of_error_texts_is_that_table(self):
        self.assertEqual((REPOSITORY / "docs/errors.md").read_text(), self.answer("explain", "--texts").stdout)

    @unittest.skipUnless(TEXTS.is_dir(), "needs the collected texts")
    def test_collected_texts(self):
        for row in (TEXTS / "index.tsv").read_text().splitlines()[1:]:
            name, _, kind, *_ = row.split("\t")
            with self.subTest(name):
                failures = self.explained((TEXTS / name).read_bytes())["failures"]
                self.assertEqual(len(failures), 1)
                expected = next(value for key, value in KINDS.items() if kind.startswith(key))
                self.assertEqual(failures[0]["kind"], expected)


if __name__ == "__main__":
    unittest.main()
