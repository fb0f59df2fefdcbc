# SPDX-License-Identifier: Apache-2.0
"""Programs for 64-bit Arm on another machine, by qemu-user: a program started here finds the kernel willing to start more of them.

    arm.py PROGRAM ARGUMENT...

Their interpreter is registered in a user namespace of its own, which Linux 6.7 and newer allow: nothing of this system changes, and it
ends with the program.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
ROOT = SOURCES / "build" / "aarch64-root"   # cmake/aarch64/make_root
BUILD = SOURCES / "build" / "aarch64"
QEMU = shutil.which("qemu-aarch64-static")
# An ELF file of 64 bits, little-endian, a program or a library, for machine 183.
RULE = (r":memreel-arm:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
        r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:{qemu}:F")
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
             'mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc; printf %s "$0" >/proc/sys/fs/binfmt_misc/register; exec "$@"')


def command(*words):
    """The words that start a program for Arm."""
    return [*NAMESPACE, RULE.format(qemu=QEMU), *map(str, words)]


def environment(**more):
    return os.environ | {"QEMU_LD_PREFIX": str(ROOT)} | more


def why_not():
    """Why nothing can be run; empty if it can."""
    if QEMU is None:
        return "there is no qemu-aarch64-static (Debian: qemu-user-static)"
    if not (ROOT / "packages").exists():
        return "there is no build/aarch64-root: ./dev build aarch64"
    tried = subprocess.run(command(ROOT / "usr/bin/true"), env=environment(), capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"this kernel has no binfmt_misc for user namespaces (Linux 6.7): {tried.stderr.strip()}"


if __name__ == "__main__":
    os.execvpe(NAMESPACE[0], command(*sys.argv[1:]), environment())
