# SPDX-License-Identifier: Apache-2.0
"""torch.profiler together with a recording: torch_profiled.py first|second|alone.

`second`: memreel starts before the profiler. `first`: the recording starts after the profiler has run (the program
must have been started with MEMREEL_DORMANT=1). Prints the number of kernels that the profiler saw, and the allocations
of the recorded part."""
import ctypes
import json
import sys

import torch


def work():
    return [torch.randn(256, 256, device="cuda") @ torch.randn(256, 256, device="cuda") for _ in range(20)]


def profiled():
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        work()
        torch.cuda.synchronize()
    return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in profile.events())


if sys.argv[1] == "first":
    kernels = profiled()
    if not ctypes.PyDLL(None).memreel_agent_start():
        print("not started", file=sys.stderr)
    work()
else:
    work()
    kernels = profiled()
before = torch.cuda.memory_stats()["allocation.all.allocated"]
work()
torch.cuda.synchronize()
print(json.dumps({"kernels": kernels, "allocations": torch.cuda.memory_stats()["allocation.all.allocated"] - before}))
