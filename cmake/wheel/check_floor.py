#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the contents of a wheel (or a directory) run on systems as old as its tag promises.

    check_floor.py WHEEL|DIRECTORY [MAJOR.MINOR]

No program or library may need a C library symbol newer than that (default: 2.28, RHEL 8's), one of GCC's run-time library
that RHEL 8's GCC 8 lacks, nor a library that such systems may lack. Prints a line per file; exit code 1 if one needs more.
"""
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Libraries on every system, by PEP 600, and those in the wheel. Window system libraries are loaded at run time.
ALLOWED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libgcc_s.so.1", "ld-linux-x86-64.so.2",
           "ld-linux-aarch64.so.1", "libglfw.so.3"}


GCC = (8,)


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], check=True, capture_output=True, text=True).stdout


def asks_for(file):
    """The newest symbol versions of the C library and of GCC's that it needs, as numbers, and the libraries."""
    needs = readelf("--version-info", file).partition("Version needs section")[2]

    def newest(prefix):
        return max((tuple(map(int, found.split("."))) for found in re.findall(rf"Name: {prefix}_(\d[\d.]*)", needs)), default=(0,))
    return newest("GLIBC"), newest("GCC"), re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", file))


def complaints(root, floor):
    files = [file for file in sorted(root.rglob("*")) if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
    if not files:
        yield "there is no program in it"
    for file in files:
        version, gcc, libraries = asks_for(file)
        print(f"{file.name:28} {file.stat().st_size / 1e6:6.2f} MB   glibc {'.'.join(map(str, version))}   {' '.join(libraries)}")
        if version > floor:
            yield f"{file.name} needs glibc {'.'.join(map(str, version))}"
        if gcc >= (GCC[0] + 1,):
            yield f"{file.name} needs GCC {'.'.join(map(str, gcc))}'s libgcc_s"
        for library in sorted(set(libraries) - ALLOWED):
            yield f"{file.name} needs {library}"


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    subject, floor = Path(sys.argv[1]), tuple(map(int, (sys.argv[2:] or ["2.28"])[0].split(".")))
    with tempfile.TemporaryDirectory(prefix="memreel-floor-") as directory:
        if subject.is_file():
            zipfile.ZipFile(subject).extractall(directory)
        found = list(complaints(Path(directory) if subject.is_file() else subject, floor))
    for line in found:
        print(f"check_floor: {line}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
