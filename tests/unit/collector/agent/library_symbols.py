#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when libmemreel-agent.so exports more than its entry points, or imports more than the C library provides."""

import re
import subprocess
import sys
from pathlib import Path

ENTRIES = {
    "InitializeInjection", "memreel_agent_start", "memreel_agent_stop",
    "memreel_agent_visit", "memreel_agent_invite", "memreel_get_api",
    "InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension", "cuptiSubscribe", "cuptiSubscribe_v2",
    "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
}
# The driver's symbols, for when it is preloaded, and how they are looked up.
CALLS = Path(__file__).parents[4] / "collector/cuda/calls.inc"
DRIVER = {"cuInit", "cuGetProcAddress", "cuGetProcAddress_v2", "dlsym",
          *re.findall(r"^CALL\((\w+)", CALLS.read_text(), re.MULTILINE)}
# The C library's, in the same case: ways to leave, and to confine the program.
C_LIBRARY = {"_exit", "_Exit", "prctl", "syscall"}
LIBRARIES = re.compile(r"lib(c|m|dl|pthread|rt|asan|ubsan|tsan)\.so\.\d+|ld-linux-\S+")


def nm(library, *options):
    lines = subprocess.run(["nm", "-D", *options, library], check=True, capture_output=True, text=True).stdout
    return [line.split()[-2:] for line in lines.splitlines()]


def main():
    library = sys.argv[1]
    dynamic = subprocess.run(["readelf", "-dW", library], check=True, capture_output=True, text=True).stdout
    sanitized = re.search(r"lib(asan|ubsan|tsan)\.so", dynamic)
    complaints = []

    shown = {name.split("@")[0] for _, name in nm(library, "--defined-only")}
    expected = ENTRIES | DRIVER | C_LIBRARY
    for name in sorted(shown ^ expected):
        complaints.append(f"{'shows' if name in shown else 'does not show'} {name}")

    for needed in re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", dynamic):
        if not LIBRARIES.fullmatch(needed):
            complaints.append(f"needs {needed}")
    for kind, name in nm(library, "--undefined-only"):
        if "@" not in name and kind != "w" and not sanitized:
            complaints.append(f"asks for {name}, which no library that it names has")
        if re.match(r"_ZN?K?St|_ZN6google|cu[A-Z]|cupti", name) and not sanitized:
            complaints.append(f"asks the program for {name}")
    if "NODELETE" not in dynamic:
        complaints.append("can be unloaded while threads are in it")

    for complaint in complaints:
        print(f"{library} {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
