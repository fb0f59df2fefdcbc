# SPDX-License-Identifier: Apache-2.0
"""Repeatedly attaches to a training program and detaches: attach_cycles.py MEMREEL DIRECTORY entered|dormant CYCLES

Prints one line: the observed pauses, losses, memory, threads and files, whether the program learned the same as without
memreel, and how many of the traces with tensors verify exactly. Exit code 1 if anything is wrong.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

memreel, directory, door, cycles = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
training = [sys.executable, str(Path(__file__).with_name("attach_training.py"))]
directory.mkdir(parents=True, exist_ok=True)
disturbed, alone = directory / "disturbed.txt", directory / "alone.txt"
warm_up = cycles // 4


def run(*arguments):
    start = time.perf_counter()
    process = subprocess.run([memreel, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.returncode:
        raise SystemExit(f"memreel {arguments[0]}: {process.stderr.strip()}")
    return process.stderr, time.perf_counter() - start


def resident(pid):
    return int(re.search(r"VmRSS:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1])


def count(pid, what):
    return len(os.listdir(f"/proc/{pid}/{what}"))


for leftover in directory.glob("*"):
    leftover.unlink()
launch = [memreel, "record", "-q", "--dormant", "--"] if door == "dormant" else []
process = subprocess.Popen([*launch, *training, str(disturbed)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
process.stdout.readline()
time.sleep(2)
pid = process.pid
if door == "dormant":
    pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

pauses, begins, lost, events = [], [], 0, 0
judged, exact, addresses, differing = 0, 0, 0, []
memory, before = {}, None
for cycle in range(cycles):
    trace = directory / f"{cycle}.reel"
    told, seconds = run("attach", pid, "-o", trace)
    begins.append(1000 * seconds)
    if found := re.search(r"paused one thread for ([\d.]+) (\w+)", told):
        pauses.append(float(found[1]) * {"us": 1e-3, "ms": 1, "s": 1e3}[found[2]])
    time.sleep(0.05)
    run("detach", "-q", pid)
    info = json.loads(subprocess.run([memreel, "info", trace, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    lost += info["lost_events"]
    events += info["events"]
    verified = json.loads(subprocess.run([memreel, "verify", trace, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout or "{}")
    if made := sum(device["allocations"] for device in verified.get("devices", [])):
        judged += 1
        exact += verified["exact"]
        addresses += made
        if not verified["exact"]:
            differing.append(trace)
    if cycle not in (0, cycles - 1) and trace not in differing[:5]:
        trace.unlink()
    if cycle + 1 in (warm_up, cycles):
        time.sleep(0.2)
        memory[cycle + 1] = resident(pid)
        before = before or (count(pid, "task"), count(pid, "fd"))
after = count(pid, "task"), count(pid, "fd")
Path(f"{disturbed}.stop").touch()
if process.wait(timeout=120):
    raise SystemExit(f"the program ended with {process.returncode}")
steps = len(disturbed.read_text().splitlines())
subprocess.run([*training, str(alone), str(steps)], check=True, stdout=subprocess.DEVNULL)
same = alone.read_text() == disturbed.read_text()
growth = memory[cycles] - memory[warm_up]
paused = f"paused {statistics.median(pauses):.2f} ms (at most {max(pauses):.2f})" if pauses else "never paused"
print(f"{cycles} cycles over {steps} steps: losses {'identical' if same else 'DIFFER'}, {events} events, {lost} lost, "
      f"{exact} of {judged} traces with tensors exact ({addresses} addresses), {paused}, "
      f"attach takes {statistics.median(begins):.0f} ms (at most {max(begins):.0f}), resident memory {growth:+} KiB since cycle "
      f"{warm_up}, threads and files {before} then, {after} at the end")
sys.exit(not (same and lost == 0 and exact == judged > 0 and max(pauses, default=0) <= 50 and before == after))
