# SPDX-License-Identifier: Apache-2.0
"""memreel.torch_oom_hook() and the callbacks of memreel.integrations, above stand-ins for PyTorch and what trains with it.

test_torch_hook_peers.py has the same above the real ones.
"""

import lzma
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY, SAMPLES, ProgramTest

MODULE = REPOSITORY / "collector/python_module"
STAND_INS = REPOSITORY / "tests/e2e/stand_ins"
REFUSED = r"^memreel: out of memory on GPU 0: \S+ [KMG]iB refused, \S+ \S+ live, held by .+"
TOLD = (REFUSED, r"^memreel: (lack of memory|fragmentation).*\(.* reserved, .*\); .+",
        r"^memreel: dump: .+-dump-1\.pickle \(memreel report --oom .+-dump-1\.pickle\'?\)$")


class HookTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.snapshot = self.file("snapshot", lzma.open(SAMPLES / "oom_s14_nonsplit.pickle.xz").read())

    def run_program(self, text, code=0, programs=Path(MEMREEL).parent, **variables):
        """Standard error's lines and standard output's last line of a program with `hook` in place of HOOK(...)."""
        text = textwrap.dedent(text).replace("HOOK(", "hook = memreel.torch_oom_hook(")
        process = subprocess.run(
            [sys.executable, "-B", "-c", "import memreel, os, sys, torch\n" + text], cwd=self.directory, text=True, capture_output=True,
            timeout=300, env={"PYTHONPATH": f"{MODULE}:{STAND_INS}", "PATH": str(programs), "STAND_IN_SNAPSHOT": str(self.snapshot),
                              **{name: str(value) for name, value in variables.items()}})
        self.assertEqual(process.returncode, code, process.stdout + process.stderr)
        return process.stderr.splitlines(), (process.stdout.splitlines() or [""])[-1]

    def dumps(self):
        return sorted(path.name for path in self.directory.glob("*-dump-*"))

    def assert_told(self, lines, *patterns):
        said = [line for line in lines if line.startswith("memreel: ")]
        self.assertEqual(len(said), len(patterns), lines)
        for line, pattern in zip(said, patterns):
            self.assertRegex(line, pattern)

    def script(self, name, text):
        """A directory that contains a program."""
        directory = self.directory / "programs"
        directory.mkdir()
        (directory / name).write_text("#!/bin/sh\n" + text)
        (directory / name).chmod(0o755)
        return directory


class Hook(HookTest):
    def test_a_failure_is_three_lines_and_a_dump(self):
        lines, _ = self.run_program("""
            HOOK(file="run.pickle")
            assert not torch.calls and not torch.cuda.is_initialized(), "CUDA is for the program to begin"
            torch.initialize()
            try:
                torch.run_out()
            except torch.OutOfMemoryError as problem:
                assert str(problem) == "CUDA out of memory."
            """)
        self.assert_told(lines, *TOLD)
        self.assertEqual(self.dumps(), ["run-dump-1.pickle"])
        dump = self.directory / "run-dump-1.pickle"
        self.assertEqual(dump.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.document("report", dump, "--oom")["ooms"], self.document("report", self.snapshot, "--oom")["ooms"])

    def test_the_variable_that_keeps_the_most_is_named(self):
        program = """
            class Buffer:
                def __init__(self, number):
                    self.__cuda_array_interface__ = {"data": (number << 21, False), "shape": (1 << 20,), "typestr": "|u1"}
            HOOK(file="run.pickle", holders=%s); torch.initialize()
            def train():
                history = [{"loss": Buffer(i)} for i in range(1, 9)]
                torch.run_out()
            try: train()
            except torch.OutOfMemoryError: pass
            """
        lines, _ = self.run_program(program % True)
        self.assertTrue(any(re.fullmatch(r"memreel: at the failure 8\.00 MiB kept by `history` in `train` \(<string>:\d+\), list of 8 "
                                         r"\(walked [0-9,]+ objects in \d\.\d s\)", line) for line in lines), lines)
        [(self.directory / dump).unlink() for dump in self.dumps()]
        lines, _ = self.run_program(program % False)
        self.assert_told(lines, *TOLD)

    def test_a_program_that_fails_of_it_fails_as_before(self):
        lines, _ = self.run_program("HOOK(); torch.initialize(); torch.run_out()", code=1)
        self.assertIn("torch.OutOfMemoryError: CUDA out of memory.", lines)
        self.assert_told(lines, *TOLD)

    def test_a_storm_is_one_dump(self):
        lines, kept = self.run_program("""
            HOOK(file="run.pickle"); torch.initialize()
            from threading import Thread
            def fail():
                for _ in range(50):
                    try: torch.run_out()
                    except torch.OutOfMemoryError: pass
            threads = [Thread(target=fail) for _ in range(10)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            print(hook.files)
            """)
        self.assertEqual(self.dumps(), ["run-dump-1.pickle"])
        self.assertEqual(kept, str([str(self.directory / "run-dump-1.pickle")]))
        self.assertTrue(any(re.search(r"^memreel: 499 more requests failed after .+-dump-1.pickle was written; no further dump$", line)
                            for line in lines), lines)

    def test_nothing_is_overwritten_and_the_latest_are_kept(self):
        self.file("run-3-dump-1.pickle", b"mine")
        self.run_program("""
            HOOK(file="run-%r.pickle", dumps=2); torch.initialize()
            dumps = [hook.dump() for _ in range(2)]
            os.unlink(dumps[0])  # the program may do with them what it likes
            dumps += [hook.dump() for _ in range(2)]
            assert [os.path.basename(dump) for dump in dumps] == [f"run-3-dump-{i}.pickle" for i in (2, 3, 4, 5)]
            """, RANK=3)
        self.assertEqual(self.dumps(), [f"run-3-dump-{i}.pickle" for i in (1, 4, 5)])
        self.assertEqual((self.directory / "run-3-dump-1.pickle").read_bytes(), b"mine")

    def test_names_are_those_of_recordings(self):
        for pattern, variables, name in (
                ("None", {}, r"memreel-\S+-\d+-dump-1\.pickle"), ("None", {"RANK": 7}, r"memreel-rank7-\S+-\d+-dump-1\.pickle"),
                ("'%%r%r.p'", {}, r"%rnone-dump-1\.p"), ("'%r'", {"RANK": "x", "PMI_RANK": 2}, "2-dump-1"),
                ("'%r'", {"SLURM_PROCID": 0, "SLURM_JOB_ID": 5}, "none-dump-1"),
                ("'%r'", {"SLURM_PROCID": 0, "SLURM_JOB_ID": 5, "SLURM_STEP_ID": 1}, "0-dump-1")):
            with self.subTest(pattern, **variables):
                _, path = self.run_program(f"HOOK({pattern}); torch.initialize(); print(hook.dump())", **variables)
                self.assertRegex(Path(path).name, f"^{name}$")
        launchers = (REPOSITORY / "formats/model/launchers.h").read_text()
        _, names = self.run_program("import memreel.torch_oom; print(*memreel.torch_oom._RANKS)")
        self.assertEqual(names.split(), re.findall(r'\.rank = "(\w+)"', launchers))

    def test_the_ranks_of_a_job_are_told_apart(self):
        for rank in range(2):
            self.run_program("HOOK(); torch.initialize()\ntry: torch.run_out()\nexcept torch.OutOfMemoryError: pass", RANK=rank)
        fleet = self.document("fleet", *self.directory.glob("*.pickle"), "--world-size", 2, code=1)
        self.assertEqual(sorted(fleet["decides"]["failed"]), [0, 1])
        self.assertEqual([rank["rank"] for rank in fleet["ranks"]], [0, 1])
        self.assertEqual(fleet["missing_ranks"], [])

    def test_recording_that_the_program_began_is_left_alone(self):
        self.run_program("""
            HOOK(); torch.initialize(); hook.close(); hook.close()
            assert [call[1] for call in torch.calls] == ["all", None], torch.calls
            torch.calls.clear(); torch.recording = True
            HOOK(); hook.close()
            assert torch.calls == []
            """)

    def test_a_program_without_cuda_is_left_alone(self):
        lines, said = self.run_program("HOOK(); print(repr(hook), hook.dump()); assert torch.calls == []; hook.failed(ValueError)")
        self.assertEqual((lines, self.dumps()), (["memreel: no dump: CUDA is not in use yet"], []))
        self.assertEqual(said, "<hook for PyTorch's memory, waiting for CUDA, 0 dumps> None")

    def test_options_that_make_no_sense_are_refused(self):
        for options in ("dumps=0", "max_entries='many'", "max_entries=0"):
            with self.subTest(options):
                self.run_program(f"""
                    try: HOOK({options})
                    except ValueError as error: assert {options.split('=')[0]!r} in str(error), error
                    else: raise SystemExit("accepted")
                    """)

    def test_errors_that_leave_the_with_statement(self):
        for error, dumps in (("ValueError()", ["run-dump-1.pickle"]), ("KeyboardInterrupt()", [])):
            with self.subTest(error):
                lines, _ = self.run_program(f"""
                    torch.initialize()
                    try:
                        with memreel.torch_oom_hook("run.pickle"):
                            raise {error}
                    except BaseException as problem:
                        assert type(problem) is type({error})
                    """)
                self.assertEqual(self.dumps(), dumps)
                self.assert_told(lines, *(r"^memreel: dump: .+run-dump-1.pickle \(ValueError\)$" for _ in dumps))
                [(self.directory / dump).unlink() for dump in dumps]
        lines, _ = self.run_program("torch.initialize()\nwith memreel.torch_oom_hook('run.pickle'): torch.run_out()", code=1)
        self.assert_told(lines, *TOLD)  # one dump, not two


class Snippet(HookTest):
    def test_ten_lines_without_memreel(self):
        page = (REPOSITORY / "docs/out-of-memory.md").read_text()
        code = next(block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "observer" in block)
        self.assertLessEqual(len([line for line in code.splitlines() if line]), 10)
        self.run_program("torch.initialize()\n" + code + textwrap.dedent("""
            for _ in range(20):
                try: torch.run_out()
                except torch.OutOfMemoryError: pass
            """), RANK=3)
        dumps = sorted(self.directory.glob("oom-rank3-*-*.pickle"))
        self.assertEqual(len(dumps), 8)
        self.assertEqual(self.document("report", dumps[0], "--oom")["ooms"], self.document("report", self.snapshot, "--oom")["ooms"])


class Trouble(HookTest):
    """Whatever is wrong, the program gets its own error and continues."""
    program = """
        HOOK(file="run.pickle"); torch.initialize()
        try: torch.run_out()
        except torch.OutOfMemoryError: print("went on")
        """

    def assert_goes_on(self, *patterns, before="", **arguments):
        lines, said = self.run_program(textwrap.dedent(before) + textwrap.dedent(self.program), **arguments)
        self.assertEqual(said, "went on")
        self.assert_told(lines, *patterns)

    def test_without_memreels_programs(self):
        self.assert_goes_on(r"^memreel: out of memory on GPU 0: 300\.00 MiB refused; dump: .+run-dump-1\.pickle$", programs="/nowhere")
        self.assertEqual(self.dumps(), ["run-dump-1.pickle"])

    def test_when_the_verdict_fails(self):
        self.assert_goes_on(r"refused; dump: .+run-dump-1\.pickle$", programs=self.script("memreel", "exit 3"))

    def test_when_the_verdict_takes_too_long(self):
        pid = self.directory / "pid"
        self.assert_goes_on(programs=self.script("memreel", f"exec >/dev/null 2>&1; echo $$ > {shlex.quote(str(pid))}; exec /bin/sleep 1000"))
        os.kill(int(pid.read_text()), signal.SIGKILL)

    def test_when_the_snapshot_cannot_be_read(self):
        self.snapshot.write_bytes(b"\x80\x04K\x01.")  # the number 1
        self.assert_goes_on(r"^memreel: no dump: 'int' object has no attribute 'setdefault'$")
        self.snapshot.unlink()
        self.assert_goes_on(r"^memreel: no dump: .*No such file")

    def test_when_nothing_can_be_written(self):
        lines, _ = self.run_program("HOOK('no/such/run.pickle'); torch.initialize()\ntry: torch.run_out()\nexcept torch.OutOfMemoryError: pass")
        self.assert_told(lines, r"^memreel: no dump: .*No such file or directory: '.+/no/such/run-dump-1\.pickle'$")

    def test_a_full_disk(self):
        self.assert_goes_on(r"^memreel: no dump: .*File too large", before="""
            import resource
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            """)
        self.assertEqual(self.dumps(), [])

    def test_a_dump_that_cannot_be_finished_is_taken_away(self):
        self.assert_goes_on(r"^memreel: no dump: ", before="torch.cuda.memory._snapshot = lambda: {'segments': lambda: 0}\n")
        self.assertEqual(self.dumps(), [])

    def test_an_allocator_that_cannot_be_observed(self):
        self.assert_goes_on(r"^memreel: can't write dumps when memory runs out: not this one$", before="""
            def refuse(observer): raise RuntimeError("not this one")
            torch._C._cuda_attach_out_of_memory_observer = refuse
            """)

    def test_without_standard_error(self):
        self.assert_goes_on(before="os.close(2)\n")
        self.assertEqual(self.dumps(), ["run-dump-1.pickle"])


class Callbacks(HookTest):
    prelude = """
        import contextlib, pickle
        from memreel import annotate
        said = []
        annotate.mark = lambda name: said.append(name)
        annotate.name_modules = lambda model: said.append("names of " + model)
        @contextlib.contextmanager
        def tag(name):
            said.append("(" + name)
            yield
            said.append(")")
        annotate.tag = tag
        def training_step(i):
            torch.initialize()
            if i == 2: torch.run_out()
        """

    def run_callback(self, framework, text, code=0):
        return self.run_program(textwrap.dedent(self.prelude) +
                                f"from memreel.integrations.{framework} import MemreelCallback\n" + textwrap.dedent(text), code)

    def test_lightning(self):
        _, said = self.run_callback("lightning", """
            from lightning.pytorch import fit
            callback = pickle.loads(pickle.dumps(MemreelCallback()))  # as to processes that a Trainer starts
            fit(callback, "model", 2, training_step)
            assert torch.calls[-1][1] is None, "no more recording"
            print(*said)
            """)
        step = " (forward ) (backward ) (optimizer ) step"
        self.assertEqual(said, "names of model (validation )" + 2 * step)
        self.assertEqual(self.dumps(), [])

    def test_a_dump_at_the_end(self):
        lines, _ = self.run_callback("lightning", """
            from lightning.pytorch import fit
            callback = MemreelCallback("run.pickle", dump_at_end=True)
            fit(callback, "model", 1, training_step)
            callback.setup(None, "model", "test")  # no training
            callback.on_test_start(None, "model")
            callback.on_test_end(None, "model")
            callback.teardown(None, "model", "test")
            """)
        self.assert_told(lines, r"^memreel: dump: .+run-dump-1.pickle \(end of training\)$")

    def test_lightning_without_memory(self):
        lines, _ = self.run_callback("lightning", """
            from lightning.pytorch import fit
            fit(MemreelCallback("run.pickle", every_n_steps=2), "model", 3, training_step)
            """, code=1)
        self.assert_told(lines, r"^memreel: step 2: GPU 0: 1\.50 GiB allocated, peak 2\.00 GiB, 3\.00 GiB reserved$", *TOLD)
        self.assertEqual(self.dumps(), ["run-dump-1.pickle"])

    def test_transformers(self):
        lines, said = self.run_callback("transformers", """
            from transformers import train
            callback = MemreelCallback("run.pickle", dump_at_end=True)
            copy = pickle.loads(pickle.dumps(callback))  # as to the trials of a search
            train(callback, "model", 2, training_step)
            train(copy, "model", 0, training_step)
            print(*said)
            """)
        step = " (forward and backward ) (optimizer ) step"
        self.assertEqual(said, "names of model" + 2 * step + " (evaluation ) names of model (evaluation )")
        self.assert_told(lines, *(rf"^memreel: dump: .+run-dump-{i}.pickle \(end of training\)$" for i in (1, 2)))

    def test_transformers_without_memory(self):
        lines, _ = self.run_callback("transformers", """
            from transformers import train
            train(MemreelCallback("run.pickle"), "model", 3, training_step)
            """, code=1)
        self.assert_told(lines, *TOLD)

    def test_transformers_with_another_error(self):
        lines, _ = self.run_callback("transformers", """
            from transformers import train
            def step(i):
                torch.initialize()
                raise ValueError("a mistake")
            callback = MemreelCallback("run.pickle")
            with callback:
                train(callback, "model", 3, step)
            """, code=1)
        self.assertIn("ValueError: a mistake", lines)
        self.assert_told(lines, r"^memreel: dump: .+run-dump-1.pickle \(ValueError\)$")


if __name__ == "__main__":
    unittest.main()
