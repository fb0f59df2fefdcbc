# SPDX-License-Identifier: Apache-2.0
"""A wheel whose memreel is the program under test: tests code that installs a wheel without building one."""

import zipfile
from pathlib import Path

from program import MEMREEL

DATA = "memreel-0.1.0.dist-info"
PACKAGE = f"""
import os, sys
def main():
    os.execv({str(Path(MEMREEL).resolve())!r}, ["memreel", *sys.argv[1:]])
"""


def make(directory):
    """Its path, in `directory`."""
    path = directory / "memreel-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("memreel/__init__.py", PACKAGE)
        program = zipfile.ZipInfo("memreel/_dist/bin/memreel")
        program.external_attr = 0o100755 << 16
        wheel.writestr(program, f'#!/bin/sh\nexec {Path(MEMREEL).resolve()} "$@"\n')
        wheel.writestr("memreel/_dist/share/memreel/samples/README", "none")
        wheel.writestr(f"{DATA}/METADATA", "Metadata-Version: 2.1\nName: memreel\nVersion: 0.1.0\n")
        wheel.writestr(f"{DATA}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n")
        wheel.writestr(f"{DATA}/entry_points.txt", "[console_scripts]\nmemreel = memreel:main\n")
        wheel.writestr(f"{DATA}/RECORD", "")
    return path
