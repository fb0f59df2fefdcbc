# SPDX-License-Identifier: Apache-2.0
"""memreel.torch_oom_hook() and the callbacks of memreel.integrations, with PyTorch, Lightning and transformers themselves.

Their GPU is made up (torch_peer.py); what runs out of memory is PyTorch's own allocator, with its own records.
"""

import csv
import os
import re
import subprocess
import textwrap
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY, ProgramTest
from test_torch_hook import MODULE, TOLD
from torch_peer import python_with_torch

LIGHTNING = "lightning==2.6.6"
TRANSFORMERS = ("transformers==5.23.0", "accelerate==1.15.0")


class PeerTest(ProgramTest):
    packages = ()

    @classmethod
    def setUpClass(cls):
        cls.python, cls.variables = python_with_torch(*cls.packages)

    def run_program(self, text, code=0, command=()):
        """Standard output and lines on standard error."""
        program = self.file("program.py", textwrap.dedent(text).encode())
        process = subprocess.run(
            [*map(str, command), self.python, "-B", program], cwd=self.directory, text=True, capture_output=True, timeout=600,
            env={"PATH": f"{Path(MEMREEL).parent}:{os.environ['PATH']}", "PYTHONPATH": str(MODULE), "HOME": str(self.directory), **self.variables})
        self.assertEqual(process.returncode, code, process.stdout + process.stderr)
        return process.stdout, process.stderr.splitlines()

    def assert_told(self, lines, *patterns, kept=None):
        """`kept`: what the line says that names the variables which keep the memory; the dump's lines come from a process of their own,
        before or after it."""
        said = [line for line in lines if line.startswith("memreel: ")]
        variables = [line for line in said if " kept by `" in line]
        self.assertEqual(len(variables), 0 if kept is None else 1, "\n".join(lines))
        for line in variables:
            self.assertIn(kept, line)
            said.remove(line)
        self.assertEqual(len(said), len(patterns), "\n".join(lines))
        for line, pattern in zip(said, patterns):
            self.assertRegex(line, pattern)

    def recorded(self, text):
        """The trace of a program under `memreel record`, and the number of each mark."""
        self.run_program(text, command=[MEMREEL, "record", "-q", "-o", "run.reel", "--"])
        trace = self.directory / "run.reel"
        marks = {}
        for line in self.answer("export", trace, "--format", "jsonl").stdout.splitlines():
            for name in ("step", "forward", "backward", "optimizer", "validation", "forward and backward", "evaluation"):
                marks[name] = marks.get(name, 0) + (f'"{name}"' in line)
        return trace, marks


    def layers(self, trace):
        rows = csv.DictReader(self.answer("export", trace, "--format", "csv").stdout.splitlines())
        return {row["layer"] for row in rows}


class Torch(PeerTest):
    def test_lack_of_memory(self):
        _, lines = self.run_program("""
            import memreel, torch
            hook = memreel.torch_oom_hook("run.pickle")
            assert not torch.cuda.is_initialized()
            model = torch.nn.Linear(4096, 4096).cuda()
            kept = []
            while True:
                kept.append(torch.empty(300 << 20, dtype=torch.uint8, device="cuda"))  # held
            """, code=1)
        self.assertTrue(any("OutOfMemoryError: CUDA out of memory. Tried to allocate 300.00 MiB" in line for line in lines), lines)
        self.assert_told(lines, r"^memreel: out of memory on GPU 0: 300\.00 MiB refused, 7\.\d+ GiB live, held by .*program\.py:8\) 7\.\d+ GiB",
                         r"^memreel: lack of memory, not fragmentation \(.*\); no setting would have served it$", TOLD[2],
                         kept="GiB kept by `__main__.kept`, list of 27")
        verified = self.document("verify", self.directory / "run-dump-1.pickle")
        self.assertTrue(verified["exact"], verified)

    def test_fragmentation_and_a_setting_that_does_survive(self):
        program = """
            import memreel, torch
            hook = memreel.torch_oom_hook("run.pickle")
            blocks = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(120)]
            del blocks[::2]
            for i in range(60):
                blocks.append(torch.empty(40 << 20, dtype=torch.uint8, device="cuda"))  # a piece of each hole
            try:
                torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
            except torch.cuda.OutOfMemoryError:
                print("went on with", torch.empty(1 << 20, dtype=torch.uint8, device="cuda").numel())
            """
        said, lines = self.run_program(program)
        self.assertEqual(said, "went on with 1048576\n")
        self.assert_told(lines, r"1\.00 GiB refused", r"^memreel: fragmentation .* would have served it", TOLD[2],
                         kept="GiB kept by `__main__.blocks`, list of 120")
        setting = re.search(r"; (\w+:\w+).* would have served it", "\n".join(lines))[1]
        for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            self.variables = self.variables | {name: setting}
        said, lines = self.run_program(program)
        self.assertEqual(said, "")
        self.assert_told(lines)

    def test_an_allocator_that_cannot_be_observed(self):
        _, lines = self.run_program("""
            import os
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "backend:cudaMallocAsync"
            import memreel, torch
            memreel.torch_oom_hook()
            torch.cuda.init()
            """)
        self.assert_told(lines, r"^memreel: can't write dumps when memory runs out: .*cudaMallocAsync")


class Holders(PeerTest):
    packages = ("numpy",)

    def test_what_keeps_memory(self):
        """With MEMREEL_TORCH_RELEASE, in another release of PyTorch."""
        test = REPOSITORY / "tests/unit/python/holders_test.py"
        done = subprocess.run([self.python, "-B", test], text=True, capture_output=True, timeout=600, env={**os.environ, **self.variables})
        self.assertRegex(done.stderr, r"\nOK\n$")  # nothing skipped: PyTorch, its device and NumPy are there


class Lightning(PeerTest):
    packages = (LIGHTNING,)
    program = """
        import lightning, torch, torch.utils.data
        from memreel.integrations.lightning import MemreelCallback

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
                self.kept = []
            def training_step(self, batch, number):
                if KEEP:
                    self.kept.append(torch.empty(KEEP << 20, dtype=torch.uint8, device=self.device))
                return self.net(batch).sum()
            def validation_step(self, batch, number):
                self.net(batch)
            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters())

        data = torch.utils.data.DataLoader(torch.zeros(20, 256), batch_size=2)
        trainer = lightning.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
                                    enable_progress_bar=False, enable_model_summary=False, callbacks=[MemreelCallback("run.pickle", OPTIONS)])
        trainer.fit(Module(), data, data)
        """

    def test_lack_of_memory(self):
        _, lines = self.run_program(self.program.replace("KEEP", "2000").replace("OPTIONS", "every_n_steps=3"), code=1)
        self.assertTrue(any("OutOfMemoryError: CUDA out of memory" in line for line in lines))
        self.assert_told(lines, r"^memreel: step 3: GPU 0: 5\.\d+ GiB allocated, peak \S+ GiB, \S+ GiB reserved$",
                         r"1\.95 GiB refused, .*held by .*program\.py:12", *TOLD[1:],
                         kept="GiB kept by `self.kept` in `Module.training_step` (program.py:12), list of 4")

    def test_phases_steps_and_layers_of_a_recording(self):
        trace, marks = self.recorded(self.program.replace("KEEP", "0").replace("OPTIONS", ""))
        self.assertEqual(marks["step"], 10)
        for phase in ("forward", "backward", "optimizer"):
            self.assertGreaterEqual(marks[phase], 10, marks)
        self.assertGreaterEqual(marks["validation"], 2)
        self.assertIn("net.2", self.layers(trace))


class Transformers(PeerTest):
    packages = TRANSFORMERS
    program = """
        import torch, transformers
        from memreel.integrations.transformers import MemreelCallback

        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
                self.kept = []
            def forward(self, x, labels=None):
                if KEEP:
                    self.kept.append(torch.empty(KEEP << 20, dtype=torch.uint8, device=x.device))
                y = self.net(x)
                return {"loss": y.sum(), "logits": y}

        data = [{"x": torch.zeros(256), "labels": torch.zeros(1)} for _ in range(20)]
        arguments = transformers.TrainingArguments("out", max_steps=10, per_device_train_batch_size=2, report_to=[], save_strategy="no",
                                                   disable_tqdm=True, logging_strategy="no", dataloader_pin_memory=False)
        trainer = transformers.Trainer(Module(), arguments, train_dataset=data, eval_dataset=data,
                                       callbacks=[MemreelCallback("run.pickle", OPTIONS)])
        trainer.train()
        trainer.evaluate()
        """

    def test_lack_of_memory(self):
        _, lines = self.run_program(self.program.replace("KEEP", "2000").replace("OPTIONS", "every_n_steps=3"), code=1)
        self.assertTrue(any("OutOfMemoryError: CUDA out of memory" in line for line in lines))
        self.assert_told(lines, r"^memreel: step 3: GPU 0: 5\.\d+ GiB allocated, peak \S+ GiB, \S+ GiB reserved$",
                         r"1\.95 GiB refused, .*held by .*program\.py:12", *TOLD[1:],
                         kept="GiB kept by `self.kept` in `Module.forward` (program.py:12), list of 4")
        self.assertNotIn("before recording began", str(lines))

    def test_phases_steps_and_layers_of_a_recording(self):
        trace, marks = self.recorded(self.program.replace("KEEP", "0").replace("OPTIONS", "dump_at_end=True"))
        self.assertEqual(marks["step"], 10)
        for phase in ("forward and backward", "optimizer"):
            self.assertGreaterEqual(marks[phase], 10, marks)
        self.assertIn("net.2", self.layers(trace))
        self.assertTrue(self.document("verify", self.directory / "run-dump-1.pickle")["exact"])


if __name__ == "__main__":
    unittest.main()
