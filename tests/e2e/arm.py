# SPDX-License-Identifier: Apache-2.0
"""Programs for 64-bit Arm on another machine, by qemu-user: a program started here finds the kernel willing to start more of them.

    arm.py PROGRAM ARGUMENT...

Their interpreter is registered in a user namespace of its own, which Linux 6.7 and newer allow, and their loader and libraries are added to
/usr/lib there: nothing of this system changes, and it ends with the program. PROGRAM may also be one of this machine that starts some for Arm.
"""
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2]
ROOT = SOURCES / "build" / "aarch64-root"   # cmake/aarch64/make_root
BUILD = SOURCES / "build" / "aarch64"
QEMU = shutil.which("qemu-aarch64-static")
# An ELF file of 64 bits, little-endian, a program or a library, for machine 183.
RULE = (r":memreel-arm:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
        r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:{qemu}:F")
REGISTER = 'mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc; printf %s "$0" >/proc/sys/fs/binfmt_misc/register; '
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec",
             REGISTER + 'mount -t overlay -o "lowerdir=/usr/lib:$1/usr/lib" overlay /usr/lib; shift; exec "$@"')


def command(*words):
    """The words that start a program for Arm."""
    return [*NAMESPACE, RULE.format(qemu=QEMU), str(ROOT), *map(str, words)]


def inside(root, script, **variables):
    """Runs a shell script in a system for Arm, of which it is root; needs root here. The user namespace has as many users as a system has."""
    holder = subprocess.Popen(["unshare", "--user", "sleep", "infinity"])
    namespace = Path(f"/proc/{holder.pid}/ns/user")
    try:
        while namespace.readlink() == Path("/proc/self/ns/user").readlink():
            time.sleep(0.01)
        for kind in ("uid", "gid"):
            Path(f"/proc/{holder.pid}/{kind}_map").write_text("0 0 65536")
        return subprocess.run(["nsenter", f"--user={namespace}", "--setuid", "0", "--setgid", "0", "unshare", "--mount", "--pid", "--fork", "--kill-child",
                               "sh", "-ec", REGISTER + 'exec chroot "$1" /bin/sh -ec "$2"', RULE.format(qemu=QEMU), str(root), script],
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | variables, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    finally:
        holder.kill()
        holder.wait()


def why_not():
    """Why nothing can be run; empty if it can."""
    if QEMU is None:
        return "there is no qemu-aarch64-static (Debian: qemu-user-static)"
    if not (ROOT / "packages").exists():
        return "there is no build/aarch64-root: ./dev build aarch64"
    tried = subprocess.run(command(ROOT / "usr/bin/true"), capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"this kernel has no binfmt_misc for user namespaces (Linux 6.7): {tried.stderr.strip()}"


if __name__ == "__main__":
    if reason := why_not():
        sys.exit(f"arm.py: {reason}")
    os.execvp(NAMESPACE[0], command(*sys.argv[1:]))
