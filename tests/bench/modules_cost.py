# SPDX-License-Identifier: Apache-2.0
"""The ns that an event costs a program whose nn.Modules change at every second allocation/free pair, without a GPU.

modules_cost.py [--turns N] [--lines N] [--python PYTHON] [NAME=AGENT...]

Each AGENT, a build's libmemreel-agent.so, records the same synthetic program in separate processes, in turn; without
any, the release build's does. Before each event the program reads that many cache lines (--lines: 0 is fastest; 20,000
exceed the L2 cache). Prints the minimum, the quartiles and the median of all processes. Modules are nested five deep,
in twelve blocks. The same on a GPU, with PyTorch: tests/gpu/run modules-cost. Needs the benchmarks and tests built.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build/release"
REPORTS = BUILD / "lib/libtimed_reports.so"
# Calls go through functions with the names in PyTorch's file at this path.
MODULE = """
class Module:
    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    __call__ = _wrapped_call_impl
"""


def program(lines, rounds):
    import ctypes

    space = {}
    exec(compile(MODULE, "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", "exec"), space)
    reports, cuda = ctypes.CDLL(str(REPORTS)), ctypes.CDLL("libcuda.so.1")
    reports.report_pairs.argtypes = [ctypes.c_int, ctypes.c_size_t]

    class Inner(space["Module"]):
        def forward(self):
            reports.report_pairs(2, lines)

    class Outer(space["Module"]):
        def __init__(self, inner):
            self.inner = inner

        def forward(self):
            self.inner()

    def nested(depth):
        return Outer(nested(depth - 1)) if depth else Inner()

    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    blocks = [nested(4) for _ in range(12)]
    for _ in range(rounds):
        for block in blocks:
            block()
    reports.print_cost()


def measure(arguments):
    agents = dict(agent.split("=", 1) for agent in arguments.agents) or {"now": BUILD / "lib/libmemreel-agent.so"}
    costs = {name: [] for name in agents}
    environment = os.environ | {"LD_LIBRARY_PATH": str(BUILD / "fake")}
    with tempfile.TemporaryDirectory() as directory:
        for name, agent in agents.items():  # memreel-record uses its own installation's agent
            for file, place in (BUILD / "bin/memreel-record", "bin/memreel-record"), (agent, "lib/libmemreel-agent.so"):
                (Path(directory) / name / place).parent.mkdir(parents=True)
                shutil.copy(file, Path(directory) / name / place)
        for _ in range(arguments.turns):
            for name in agents:
                place = Path(directory) / name
                ran = subprocess.run([place / "bin/memreel-record", "-q", "-o", place / "run.reel", "--", arguments.python, "-B", __file__,
                                      "--lines", str(arguments.lines), "--program", "2000"],
                                     env=environment, check=True, stdout=subprocess.PIPE)
                costs[name].append(float(ran.stdout))
    for name, values in costs.items():
        first, median, third = statistics.quantiles(values, n=4)
        print(f"{name:12} {min(values):7.1f} at least, quartiles {first:.1f}, {median:.1f}, {third:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agents", nargs="*", metavar="NAME=AGENT")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--lines", type=int, default=0)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--program", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    program(arguments.lines, arguments.program) if arguments.program else measure(arguments)


if __name__ == "__main__":
    main()
