# SPDX-License-Identifier: Apache-2.0
"""A whole machine with a 64-bit Arm processor, by qemu-system, for what qemu-user lacks: ptrace, the vDSO, the kernel's signal frames.

It has a kernel of Debian's, boots from memory, runs one shell script as root, and ends. Nothing of it is stored.
"""
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from arm import ROOT

QEMU = shutil.which("qemu-system-aarch64")
KERNEL = next(iter(sorted((ROOT / "boot").glob("vmlinuz-*"))), None)
BUSYBOX = ROOT / "usr/bin/busybox"
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
export PATH=/bin LD_LIBRARY_PATH=/lib HOME=/tmp
cd /tmp
echo "<begin>"
sh /script 2>&1
echo "<end $?>"
poweroff -f
"""


def why_not():
    """Why there is no such machine; empty if there is one."""
    if QEMU is None:
        return "there is no qemu-system-aarch64 (Debian: qemu-system-arm)"
    if KERNEL is None or not BUSYBOX.exists():
        return "build/aarch64-root has no kernel or no busybox"
    return ""


def libraries_of(file, known):
    """Adds the libraries that an ELF file asks for, and theirs, to `known`."""
    text = subprocess.run(["readelf", "--dynamic", file], capture_output=True, text=True).stdout
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", text):
        path = next((folder / name for folder in (ROOT / "usr/lib/aarch64-linux-gnu", ROOT / "usr/lib") if (folder / name).exists()), None)
        if path is not None and name not in known:
            known[name] = path.resolve()
            libraries_of(path, known)


def entry(number, name, mode, content):
    """A file in the format "newc" of cpio, which kernels unpack."""
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    head += bytes(-len(head) % 4)
    return head + content + bytes(-len(content) % 4)


def archive(files):
    """`files`: paths in the machine, and what is there: bytes, or a file of this machine."""
    folders = sorted({str(parent) for name in files for parent in Path(name).parents if str(parent) != "."} | {"proc", "sys", "dev", "tmp"})
    parts = [entry(i, name, 0o40755, b"") for i, name in enumerate(folders)]
    for name, content in files.items():
        content = content if isinstance(content, bytes) else Path(content).read_bytes()
        parts.append(entry(len(parts), name, 0o100755, content))
    return b"".join([*parts, entry(0, "TRAILER!!!", 0, b"")])


def run(script, programs, processor="max", timeout=300):
    """What the script prints, and its exit code. `programs`: paths in the machine, and files of this one; their libraries come along."""
    libraries = {}
    for file in programs.values():
        libraries_of(file, libraries)
    files = {"init": INIT.encode(), "bin/busybox": BUSYBOX, "script": script.encode(), **{name.lstrip("/"): file for name, file in programs.items()},
             "lib/ld-linux-aarch64.so.1": (ROOT / "usr/lib/ld-linux-aarch64.so.1").resolve(),
             **{f"lib/{name}": path for name, path in libraries.items()}}
    with tempfile.TemporaryDirectory(prefix="memreel-arm-") as folder:
        image = Path(folder) / "initramfs"
        image.write_bytes(archive(files))
        machine = subprocess.run([QEMU, "-M", "virt", "-cpu", processor, "-smp", "2", "-m", "1024", "-nographic", "-no-reboot", "-nic", "none",
                                  "-kernel", KERNEL, "-initrd", image, "-append", "console=ttyAMA0 quiet panic=-1"],
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout)
    found = re.search(r"<begin>\r?\n(.*)<end (\d+)>", machine.stdout, re.DOTALL)
    if not found:
        raise AssertionError(f"the machine did not get to the end of the script:\n{machine.stdout[-3000:]}\n{machine.stderr[-1000:]}")
    return found[1].replace("\r", ""), int(found[2])
