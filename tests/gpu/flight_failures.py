# SPDX-License-Identifier: Apache-2.0
"""Runs out of memory under a flight recorder on a real GPU: flight_failures.py MEMREEL DIRECTORY HOW

HOW: `limit` (PyTorch's own, set_per_process_memory_fraction), `profiled` (the same while torch.profiler runs),
`driver` (cuMemAlloc until the device refuses, without PyTorch's allocator), or `hook` (like `limit`, with
memreel.torch_oom_hook() instead of a recorder). The program must print the same with and without MEMREEL. Prints one
line: the time from the failure to the third line and to the dump; fails if it exceeds a second."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

PATIENCE = 1.0  # seconds


def out_of_memory(how):
    """Allocates until a request fails. Returns the time of failure, in ns since the epoch, and the allocations so
    far."""
    import torch
    if how == "driver":
        driver = ctypes.CDLL("libcuda.so.1")
        torch.zeros(1, device="cuda")  # a context
        held, pointer = [], ctypes.c_uint64()
        size = 1 << 30
        while driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0:
            held.append(pointer.value)
        failed = time.time_ns()
        for one in held:
            driver.cuMemFree_v2(ctypes.c_uint64(one))
        return failed, None
    torch.cuda.set_per_process_memory_fraction(0.05)
    held = []
    try:
        while True:
            held.append(torch.ones(8 << 20, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        return time.time_ns(), len(held)


def program(how):
    """Fails in the middle of a computation and continues."""
    import contextlib
    import torch
    if how == "hook":
        sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "collector/python_module"))
        import memreel
        memreel.torch_oom_hook("run.pickle")
    torch.manual_seed(1)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    profile = torch.profiler.profile(activities=activities) if how == "profiled" else contextlib.nullcontext()
    with profile:
        weights = torch.randn(512, 512, device="cuda")
        total = sum((weights @ torch.randn(512, 512, device="cuda")).abs().mean() for _ in range(200))
        failed, held = out_of_memory(how)
        total += sum((weights @ torch.randn(512, 512, device="cuda")).abs().mean() for _ in range(200))
        torch.cuda.synchronize()
    events = profile.events() if how == "profiled" else []
    kernels = sum(event.device_type == torch.autograd.DeviceType.CUDA for event in events)
    print(f"{total.item():.6f} {held} {kernels > 300}", flush=True)
    print(f"failed {failed}", file=sys.stderr, flush=True)
    sys.stdin.readline()  # until the test has seen the dump


def run(command, directory, dumps):
    """Its output, and its lines of standard error with their arrival times. `dumps`: one of them names a dump."""
    process = subprocess.Popen(command, cwd=directory, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    lines = []

    def read():
        for line in process.stderr:
            lines.append((time.time_ns(), line.strip()))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    printed = process.stdout.readline()
    deadline = time.monotonic() + 20
    while dumps and time.monotonic() < deadline and not any("dump: " in line for _, line in lines):
        time.sleep(0.01)
    process.stdin.write("\n")
    process.stdin.close()
    process.wait(60)
    reader.join(10)
    if process.returncode != 0:
        raise AssertionError(f"ended with {process.returncode}: {[line for _, line in lines][-5:]}")
    return printed, lines


def main():
    memreel, directory, how = sys.argv[1:4]
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("run*"):
        old.unlink()
    os.environ["PATH"] = f"{Path(memreel).resolve().parent}:{os.environ['PATH']}"  # for the hook
    command = [sys.executable, os.path.abspath(__file__), "program"]
    bare, _ = run([*command, "limit" if how == "hook" else how], directory, dumps=False)
    recorder = [] if how == "hook" else [memreel, "record", "--flight", "256MiB", "-o", "run.reel", "--"]
    recorded, lines = run([*recorder, *command, how], directory, dumps=True)
    if bare != recorded:
        raise AssertionError(f"with memreel it printed {recorded!r}, without {bare!r}")
    failed = next(int(line.split()[1]) for _, line in lines if line.startswith("failed "))
    said = [(at, line) for at, line in lines if line.startswith("memreel: ")]
    first = next(i for i, (_, line) in enumerate(said) if "out of memory on GPU" in line)
    three = said[first:first + 3]
    if "dump: " not in three[2][1]:
        raise AssertionError(f"no three lines: {[line for _, line in said]}")
    dumps = list(directory.glob("run-dump-*"))
    if len(dumps) != 1:
        raise AssertionError(f"dumps: {dumps}")
    report = subprocess.run([memreel, "report", "--oom", dumps[0]], capture_output=True, text=True)
    if report.returncode != 0 or "refused" not in report.stdout + three[0][1]:
        raise AssertionError(report.stderr)
    late = (three[2][0] - failed) / 1e9
    print("\n".join(line for _, line in three), file=sys.stderr)
    if late > PATIENCE:
        raise AssertionError(f"the third line came {late:.2f} s after the failure")
    print(f"ok: three lines and the dump {late:.2f} s after the failure, the program printed the same")


if __name__ == "__main__":
    if sys.argv[1] == "program":
        program(sys.argv[2])
    else:
        try:
            main()
        except AssertionError as problem:
            sys.exit(f"flight_failures.py: {problem}")
