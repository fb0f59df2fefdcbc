# SPDX-License-Identifier: Apache-2.0
"""Finds memreel's programs, and replaces this one with them."""
from __future__ import annotations

import os
import shutil
import signal
import sys
from typing import Iterator, NoReturn

_HERE = os.path.dirname(os.path.abspath(__file__))


def _candidates(name: str) -> Iterator[str]:
    yield os.path.join(_HERE, "_dist/bin", name)  # installed by pip
    yield os.path.join(_HERE, "../../../../bin", name)  # installed by cmake: PREFIX/share/memreel/python/memreel
    found = shutil.which(name)
    # Not the script that calls main().
    if found and os.path.realpath(found) != os.path.realpath(sys.argv[0]):
        yield found


def program(name: str = "memreel") -> str:
    """The path of one of memreel's programs: that of this package, else of the installation it is in, else on PATH."""
    for path in _candidates(name):
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return os.path.realpath(path)
    raise FileNotFoundError(f"the program {name} is not installed (pip install memreel)")


def main() -> NoReturn:
    """Becomes the program memreel: its exit code, its signals and its standard streams are those of this process."""
    try:
        path = program()
    except FileNotFoundError as problem:
        print(f"memreel: error: {problem}", file=sys.stderr)
        sys.exit(2)
    # Python ignores these, and the new program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.environ.setdefault("MEMREEL_PYTHON", sys.executable)  # has this package, which `memreel fleet --engine ray` needs
    os.execv(path, ["memreel", *sys.argv[1:]])
