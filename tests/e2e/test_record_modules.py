# SPDX-License-Identifier: Apache-2.0
"""The nn.Module that made a tensor: by the program's name for it, or by class and number."""

import csv
import json
import os
import sys
import unittest
from pathlib import Path

from program import REPOSITORY
from recorded import RecordTest

sys.path.insert(0, str(REPOSITORY / "tests/unit/python"))
from each_python import pythons  # noqa: E402

C10_CUDA = os.environ.get("MEMREEL_FAKE_C10_CUDA",
                          str(REPOSITORY / "build/release/tests/unit/torch/lib/libc10_cuda.so"))
MODULE = str(REPOSITORY / "collector/python_module")
PROGRAM = str(Path(__file__).parent / "modules_program.py")
# Calls go through functions with the names of those in PyTorch's file of this path.
TORCH_MODULE = """
class Module:
    def __init__(self, **parts):
        self.parts = parts

    def __getattr__(self, name):
        return self.__dict__["parts"][name]

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, part in self.parts.items():
            yield from part.named_modules(f"{prefix}.{name}" if prefix else name)

    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    __call__ = _wrapped_call_impl
"""


class Modules(RecordTest):
    def layers(self, python, *named):
        """The size and layer of each tensor: according to the program, and to the recording."""
        package = self.directory / "torch/nn/modules"
        package.mkdir(parents=True, exist_ok=True)
        (package / "module.py").write_text(TORCH_MODULE)
        process = self.record(python, "-B", PROGRAM, self.directory, C10_CUDA, MODULE, *named)
        trace, table = self.trace(), self.directory / "events.csv"
        self.answer("export", trace, "--format", "csv", "-o", table)
        with open(table, newline="") as rows:
            recorded = [[int(row["size"]), row["layer"]] for row in csv.DictReader(rows)
                        if row["kind"] == "alloc" and row["heap"] == "torch.cuda"]
        trace.unlink()
        return json.loads(process.stdout), recorded

    def each_python(self):
        found = [python for minor in range(9, 16) for python in pythons(str(minor))]
        self.assertTrue(found)
        for python in found:
            with self.subTest(python):
                yield python

    def test_named(self):
        for python in self.each_python():
            told, recorded = self.layers(python, "named")
            self.assertEqual(recorded, told)

    def test_counted_by_class(self):
        for python in self.each_python():
            _, recorded = self.layers(python)
            first_step = [layer for _, layer in recorded[:10]]
            expected = []
            for n in range(3):
                mlp = f"Model 0/Block {n}/Mlp {n}"
                expected += [f"{mlp}/Linear {2 * n}", f"{mlp}/Linear {2 * n + 1}", mlp]
            self.assertEqual(first_step, expected + ["Model 0"])
            self.assertEqual([layer for _, layer in recorded], 3 * first_step)


if __name__ == "__main__":
    unittest.main()
