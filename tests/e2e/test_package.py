# SPDX-License-Identifier: Apache-2.0
"""The Python package memreel, as in the repository and as installed by `cmake --install`."""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
import unittest.mock
from pathlib import Path

from program import MEMREEL, REPOSITORY, SAMPLES, SANITIZED, ProgramTest
from scaled_program import training

MODULE = REPOSITORY / "collector/python_module"
SAMPLE = SAMPLES / "gpt_default.reel"
VERSION = re.search(r"project\(memreel VERSION ([\d.]+)", (REPOSITORY / "CMakeLists.txt").read_text())[1]


class PackageTest(ProgramTest):
    module = MODULE

    def python(self, *words, code=0, program_path=f"{Path(MEMREEL).parent}:{os.environ['PATH']}"):
        """Python with the package, and memreel's programs on PATH."""
        process = subprocess.run([sys.executable, "-B", *map(str, words)], cwd=self.directory, text=True, capture_output=True,
                                 env=os.environ | {"PYTHONPATH": str(self.module), "PATH": program_path}, timeout=300)
        self.assertEqual(process.returncode, code, process.stdout + process.stderr)
        return process

    def value(self, expression):
        """The value of a Python expression in which `recording` is the sample's."""
        program = f"import json, memreel\nrecording = memreel.load({str(SAMPLE)!r})\nprint(json.dumps({expression}))"
        return json.loads(self.python("-c", program).stdout)


class Package(PackageTest):
    def test_it_has_the_version_of_the_program(self):
        self.assertEqual(self.value("memreel.__version__"), VERSION)
        self.assertEqual(self.answer("--version").stdout, f"memreel {VERSION}\n")

    def test_importing_it_takes_nothing_that_is_slow(self):
        loaded = self.python("-c", "import memreel, sys; print(*sys.modules)").stdout.split()
        self.assertFalse({"json", "subprocess", "torch", "pytest", "importlib.metadata"} & set(loaded))

    def test_every_name_has_types(self):
        self.assertTrue((MODULE / "memreel/py.typed").exists())
        untyped = self.value("[name for name in memreel.__all__ if callable(getattr(memreel, name)) and "
                             "not isinstance(getattr(memreel, name), type) and "
                             "'return' not in getattr(memreel, name).__annotations__]")
        self.assertEqual(untyped, [])


class Load(PackageTest):
    def test_documents_are_those_of_the_command_line(self):
        self.assertEqual(self.value("recording.info()"), self.document("info", SAMPLE))
        self.assertEqual(self.value("recording.report(by='layer', leaks=True, oom=False)"),
                         self.document("report", SAMPLE, "--by", "layer", "--leaks"))
        replay = self.value("[p['policy'] for p in recording.document('replay', policy=['bound.live', 'fit.best'])['policies']]")
        self.assertEqual(replay, ["bound.live", "fit.best"])

    def test_an_answer_that_is_no_is_an_answer(self):
        self.assertFalse(self.value("recording.document('check', max_peak='1MiB')['passed']"))

    def test_categories_of_the_peak(self):
        categories = self.value("recording.categories()")
        expected = self.document("report", SAMPLE)["live_at_peak"][0]
        self.assertEqual([c["category"] for c in categories], [c["category"] for c in expected["categories"]])
        self.assertEqual(sum(c["bytes"] for c in categories), expected["bytes"])

    def test_what_gives_no_document_is_refused_and_writes_nothing(self):
        said = self.python("-c", f"import memreel; memreel.load({str(SAMPLE)!r}).document('import')", code=1).stderr
        self.assertRegex(said.splitlines()[-1], r"MemreelError: .*import.*report")
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_notes_are_kept(self):
        cut = self.file("cut.reel", SAMPLE.read_bytes()[:-2000])
        said = self.answer("info", cut, "--json", code=None).stderr
        self.assertTrue(said)
        notes = self.python("-c", f"import memreel; r = memreel.load({str(cut)!r}); r.info(); print(*r.notes, sep='\\n')").stdout
        self.assertEqual(notes.split(), said.replace("memreel: ", "").split())

    def test_values_fit_a_line(self):
        self.assertEqual(self.value("repr(memreel.Pool('cache', kind='arena', device=1))"), "<pool 'cache', arena, device 1, not recorded>")

    def test_a_page_for_notebooks(self):
        page = self.value("recording._repr_html_()")
        self.assertTrue(page.startswith("<iframe"), page[:100])
        self.assertIn("&lt;html", page)
        self.assertNotIn("<html", page)

    def test_what_cannot_be_read_is_an_error_of_one_line(self):
        bad = self.file("bad.pickle", b"nothing")
        said = self.python("-c", f"import memreel; memreel.load({str(bad)!r}).info()", code=1).stderr
        self.assertRegex(said.splitlines()[-1], r"^memreel\.analysis\.MemreelError: .*bad\.pickle")
        self.assertTrue(self.value("issubclass(memreel.MemreelError, RuntimeError)"))
        said = self.python("-c", "import memreel; memreel.load('missing.reel')", code=1).stderr
        self.assertIn("FileNotFoundError", said)
        self.assertIn("missing.reel", said)


class Several(PackageTest):
    """fleet(), predict() and diff() are what the program says, as values."""

    def test_a_fleet(self):
        job = self.directory / "job"
        job.mkdir()
        for rank in range(3):
            shutil.copy(SAMPLE, job / f"rank{rank}.reel")
        expected = self.document("fleet", job, "--no-setting", "--world-size", 4, code=1)
        given = f"memreel.fleet({str(job)!r}, setting=False, world_size=4)"
        self.assertEqual(self.value(f"{given}.document"), expected)
        self.assertEqual(self.value(f"(lambda f: [f.decides.rank, f.missing_ranks, f.classes, f.ranks[1].peak_reserved_bytes, repr(f)])({given})"),
                         [0, [3], [[0, 1, 2]], expected["ranks"][1]["peak_reserved_bytes"],
                          "<fleet of 4 ranks, 1 missing, rank 0 decides>"])
        self.assertIn("<svg", self.value(f"{given}._repr_html_()"))
        of_heap = f"memreel.fleet({str(job)!r}, setting=False, heap='torch.cuda')"
        self.assertEqual(self.value(f"(lambda f: [f.heap, f.ranks[0].beside_bytes, f.ranks[0].end_live_bytes])({of_heap})"),
                         ["torch.cuda", 0, expected["ranks"][0]["end_live_bytes"]])
        self.assertIn("no heap 'mian'", self.python("-c", f"import memreel; memreel.fleet({str(job)!r}, heap='mian')", code=1).stderr)

    def test_a_prediction(self):
        named = {}
        for batch in (1, 2):
            named[batch] = str(self.file(f"batch{batch}.pickle", training(batch=batch).pickle()))
        expected = self.document("predict", *(f"batch={n}:{file}" for n, file in named.items()), "--to", "batch=4,8")
        given = f"memreel.predict({named!r}, to=[4, 8])"
        self.assertEqual(self.value(f"{given}.document"), expected)
        self.assertEqual(self.value(f"(lambda p: [len(p), p[1].value, p[1].peak_reserved_bytes])({given})"),
                         [2, 8, expected["predictions"][1]["peak_reserved_bytes"]])
        self.assertLess(len(self.value(f"repr({given}[0])")), 100)
        self.assertRegex(self.value(f"repr(memreel.predict({named!r}, to=[4], capacity='80GiB')[0])"), ", (likely )?fits>$")
        fields = ["device_bytes", "driver_recorded", "capacity_bytes", "card", "other_bytes", "other_bytes_assumed"]
        for card in ("80GiB", "H100-80GB"):
            answer = self.document("predict", *(f"batch={n}:{file}" for n, file in named.items()), "--to", "batch=4", "--capacity", card)
            given = f"memreel.predict({named!r}, to=[4], capacity={card!r})"
            self.assertEqual(self.value(f"(lambda p: [getattr(p, name) for name in {fields}] + [p[0].beside_bytes])({given})"),
                             [answer[name] for name in fields] + [answer["predictions"][0]["beside_bytes"]])
        of_heap = f"memreel.predict({named!r}, to=[4], capacity='80GiB', heap='torch.cuda')"
        self.assertEqual(self.value(f"[{of_heap}.other_bytes, {of_heap}[0].beside_bytes]"), [0, 0])
        said = self.python("-c", f"import memreel; memreel.predict({named!r}, to=[4], heap='mian')", code=1).stderr
        self.assertIn("no heap 'mian'", said)

    def test_a_difference(self):
        other = SAMPLES / "leak.reel"
        expected = self.document("diff", SAMPLE, other)
        self.assertEqual(self.value(f"[d.b_live_bytes for d in memreel.diff({str(SAMPLE)!r}, {str(other)!r}).devices]"),
                         [device["b"]["live_bytes"] for device in expected["devices"]])
        totals = expected["device_totals"]
        self.assertEqual(self.value(f"[[t.a, t.b, t.parts] for t in memreel.diff({str(SAMPLE)!r}, {str(other)!r}).device_totals]"),
                         [[total["a"], total["b"], total["parts"]] for total in totals])
        self.assertTrue(totals)
        of_heap = f"memreel.diff({str(SAMPLE)!r}, {str(other)!r}, heap='torch.cuda')"
        self.assertEqual(self.value(f"(lambda d: [[one.heap for one in d.devices], d.device_totals])({of_heap})"), [["torch.cuda"], []])
        said = self.python("-c", f"import memreel; memreel.diff({str(SAMPLE)!r}, {str(other)!r}, heap='mian')", code=1).stderr
        self.assertIn("no heap 'mian'", said)

    def test_tables_are_made_without_a_loop(self):
        if importlib.util.find_spec("pandas") is None or importlib.util.find_spec("pyarrow") is None:
            self.skipTest("pandas or pyarrow is not installed")
        named = {batch: str(self.file(f"batch{batch}.pickle", training(batch=batch).pickle())) for batch in (1, 2)}
        given = f"memreel.predict({named!r}, to=[4, 8]).to_pandas()"
        self.assertEqual(self.value(f"[str(kind) for kind in {given}.dtypes[['value', 'peak_live_bytes']]]"), ["Int64", "Int64"])
        given = f"memreel.diff({str(SAMPLE)!r}, {str(SAMPLES / 'leak.reel')!r})"
        self.assertEqual(self.value(f"len({given}.to_pandas())"), self.value(f"sum(len(d.categories) for d in {given}.devices)"))

    def test_a_name_is_no_option(self):
        shutil.copy(SAMPLE, self.directory / "-o.reel")
        self.assertEqual(self.value("memreel.load('-o.reel').info()['events']"), self.document("info", SAMPLE)["events"])

    def test_errors_are_one_kind(self):
        said = self.python("-c", "import memreel; memreel.fleet('nowhere')", code=1).stderr
        self.assertRegex(said.splitlines()[-1], r"MemreelError: .*nowhere")


class Launch(PackageTest):
    def test_exit_codes_and_output_are_the_programs(self):
        self.assertEqual(self.python("-m", "memreel", "--version").stdout, f"memreel {VERSION}\n")
        self.assertIn("missing.reel", self.python("-m", "memreel", "info", "missing.reel", code=2).stderr)
        self.python("-m", "memreel", "check", SAMPLE, "--max-peak", "1MiB", code=1)

    @unittest.skipIf(SANITIZED, "the shell can't load a sanitized agent")
    def test_signals_are_the_programs(self):
        self.python("-m", "memreel", "record", "--", "sh", "-c", "kill -s SEGV $$", code=-signal.SIGSEGV)
        said = self.python("-m", "memreel", "record", "--", "grep", "SigIgn", "/proc/self/status").stdout
        here = subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True).stdout
        self.assertEqual(said, here)  # Python itself ignores SIGPIPE and SIGXFSZ

    def test_a_python_that_was_chosen_for_ray_is_kept(self):
        (self.directory / "bin").mkdir()
        fake = self.file("bin/memreel", b"#!/bin/sh\necho $MEMREEL_PYTHON\n")
        fake.chmod(0o755)
        path = f"{fake.parent}:{os.environ['PATH']}"
        self.assertEqual(self.python("-m", "memreel", program_path=path).stdout.strip(), sys.executable)
        with unittest.mock.patch.dict(os.environ, MEMREEL_PYTHON="/opt/chosen"):
            self.assertEqual(self.python("-m", "memreel", program_path=path).stdout.strip(), "/opt/chosen")

    def test_without_the_programs_it_says_so(self):
        said = self.python("-m", "memreel", "--version", code=2, program_path="/nowhere").stderr
        self.assertEqual(said, "memreel: error: the program memreel is not installed (pip install memreel)\n")


class Installed(PackageTest):
    def test_it_finds_the_programs_of_its_installation(self):
        build = Path(MEMREEL).parents[1]
        if not shutil.which("cmake") or not (build / "cmake_install.cmake").exists():
            self.skipTest("not run from a build")
        for component in ("runtime", "python"):
            subprocess.run(["cmake", "--install", build, "--component", component, "--prefix", self.directory], check=True,
                           stdout=subprocess.DEVNULL)
        self.module = self.directory / "share/memreel/python"
        self.assertTrue((self.module / "memreel/integrations/lightning.py").exists())
        found = self.python("-c", "from memreel.launch import program; print(program('memreel-record'))", program_path="/nowhere")
        self.assertEqual(found.stdout, f"{self.directory.resolve()}/bin/memreel-record\n")
