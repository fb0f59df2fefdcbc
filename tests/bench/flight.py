#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of the flight recorder on the fake GPU, compared with recording everything.

flight.py [EVENTS] [--flight SIZE] [--soak SECONDS]

Prints a Markdown table: the program's events per second, its processor time, memory after a third of the events and at
the end, and peak disk usage. With --soak, EVENTS are spread evenly over that many seconds, and memory is printed ten
times."""

import argparse
import os
import resource
import subprocess
import tempfile
import threading
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MEMREEL_BUILD", REPOSITORY / "build/release"))
STEPS = 100


def resident(pid):
    """MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0


def on_disk(directory):
    """Disk usage of the recording in MiB."""
    size = 0
    for path in directory.glob("run*"):
        try:
            size += path.stat().st_size
        except FileNotFoundError:
            pass
    return size / 1024 / 1024


class Disk(threading.Thread):
    """Peak disk usage in MiB."""

    def __init__(self, directory):
        super().__init__(daemon=True)
        self.directory, self.most, self.over = directory, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.01):
            self.most = max(self.most, on_disk(self.directory))


def processor_time():
    """Processor seconds of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(name, options, events, seconds):
    """Runs the program with `options` (None: without memreel) and prints a row."""
    before = processor_time()
    with tempfile.TemporaryDirectory(prefix="memreel-flight-") as text:
        directory = Path(text)
        command = [str(BUILD / "bin/flight_program"), "churn", str(events), str(max(1, events // 2000)), str(STEPS)]
        if options is not None:
            command = [str(BUILD / "bin/memreel"), "record", *options, "-o", "run.reel", "--", *command]
        program = subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(BUILD / "fake"),
                                        "HOME": text})
        disk = Disk(directory)
        disk.start()
        memory, began = [], time.monotonic()
        for step in range(STEPS):
            assert program.stdout.readline().startswith("step"), program.stderr.read()
            pid = program.pid if options is None else int(
                Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()[0])
            memory.append(resident(pid))
            if seconds and step % (STEPS // 10) == STEPS // 10 - 1:
                print(f"| {name} | {(step + 1) * events // STEPS:,} events after {time.monotonic() - began:.0f} s | "
                      f"{memory[-1]:.1f} MiB | {on_disk(directory):.1f} MiB |", flush=True)
            wait = began + (step + 1) * seconds / STEPS - time.monotonic() if seconds else 0
            if wait > 0:
                time.sleep(wait)
            program.stdin.write("\n")
            program.stdin.flush()
        rate = events / (time.monotonic() - began)
        errors = program.communicate()[1]
        disk.over.set()
        assert program.returncode == 0, errors
        lost = next((part for line in errors.splitlines() if ".reel (" in line
                     for part in line.replace(";", ",").split(", ") if part.endswith(" lost")), "")
        if not seconds:
            cost = (processor_time() - before) / events * 1e9
            print(f"| {name} | {rate / 1e6:.2f} M | {cost:.0f} ns | {memory[STEPS // 3]:.1f} MiB | {memory[-1]:.1f} MiB | "
                  f"{disk.most:.1f} MiB | {lost} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("events", nargs="?", type=int, default=100_000_000)
    parser.add_argument("--flight", default="256MiB")
    parser.add_argument("--soak", type=float, default=0)
    arguments = parser.parse_args()
    flight = ["--flight", arguments.flight, "--when-full", "block"]
    if arguments.soak:
        print("| recording | when | memory of the program | on disk |\n|---|---|---:|---:|")
        return measure(f"--flight {arguments.flight}", flight, arguments.events, arguments.soak)
    print(f"{arguments.events:,} events\n\n| recording | events per second | processor time per event | memory after a third | memory at the end | "
          "most on disk | lost |\n|---|---:|---:|---:|---:|---:|---:|")
    measure("none", None, arguments.events, 0)
    measure("record", ["--when-full", "block"], arguments.events, 0)
    measure(f"record --flight {arguments.flight}", flight, arguments.events, 0)


if __name__ == "__main__":
    main()
