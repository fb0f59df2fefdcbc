#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes link-time libraries for programs that must run with a C library as old as FLOOR.

    old_glibc.py DIRECTORY [x86_64|aarch64]

The linker picks the newest version of each symbol that the C library offers, so programs linked here would need a C
library as new as this one. The libraries written to DIRECTORY have the symbols of FLOOR and no code: they serve only
for linking. Their names, versions and sizes are those of Debian's oldest release, without anything newer than FLOOR;
the start files and libc_nonshared.a (atexit, stat and others that are linked into every program) are copied from that
release. apt downloads its packages and verifies their signatures.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FLOOR = (2, 28)
SUITE = "bullseye"  # glibc 2.31
PACKAGES = ("libc6", "libc6-dev", "libgcc-s1")
MIRROR = os.environ.get("MEMREEL_OLD_MIRROR", "http://deb.debian.org/debian")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARIES = ("libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "libgcc_s.so.1")

# What differs between processors: Debian's name of it, the folder of libraries, the loader, and what precedes the names of
# the compiler's tools.
Processor = collections.namedtuple("Processor", "debian triplet loader tools")
PROCESSORS = {"x86_64": Processor("amd64", "x86_64-linux-gnu", "ld-linux-x86-64.so.2", ""),
              "aarch64": Processor("arm64", "aarch64-linux-gnu", "ld-linux-aarch64.so.1", "aarch64-linux-gnu-")}
Symbol = collections.namedtuple("Symbol", "name version kind size")


def fetch(root, architecture):
    """Puts the packages' files below `root`; yields name, version and architecture of each."""
    with tempfile.TemporaryDirectory(prefix="memreel-old-glibc-") as work:
        work = Path(work)
        for folder in ("lists/partial", "cache/archives/partial"):
            (work / folder).mkdir(parents=True)
        (work / "sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} {SUITE} main\n")
        (work / "apt.conf").write_text(f'Dir::Etc::sourcelist "{work}/sources.list"; Dir::Etc::sourceparts "-";\n'
                                       f'Dir::State::lists "{work}/lists"; Dir::Cache "{work}/cache";\n'
                                       f'APT::Architecture "{architecture}"; APT::Architectures "{architecture}";\n'
                                       'APT::Sandbox::User "root"; Acquire::Languages "none";\n')
        apt = ["apt-get", "-qq", "-o", "Acquire::Retries=3"]
        environment = os.environ | {"APT_CONFIG": str(work / "apt.conf")}
        subprocess.run([*apt, "update"], env=environment, check=True)
        subprocess.run([*apt, "download", *(f"{package}/{SUITE}" for package in PACKAGES)], env=environment, cwd=work, check=True)
        for package in sorted(work.glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
            yield subprocess.run(["dpkg-deb", "--show", "--showformat=${Package} ${Version} ${Architecture}", package], check=True,
                                 capture_output=True, text=True).stdout.split()


def is_old_enough(version):
    found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
    return (int(found[1]), int(found[2])) <= FLOOR if found else version.startswith("GCC_")


def order(version):
    return [int(number) for number in re.findall(r"\d+", version)]


def symbols_of(library):
    """The newest version of each name that is old enough; names kept only for old programs are left out."""
    table = subprocess.run(["readelf", "--dyn-syms", "--wide", library], check=True, capture_output=True, text=True).stdout
    offered, versions = set(), collections.defaultdict(dict)
    for line in table.splitlines():
        fields = line.split()
        if len(fields) != 8 or fields[6] in ("UND", "ABS", "Ndx") or "@" not in fields[7] or fields[3] == "TLS":
            continue
        name, _, version = fields[7].partition("@")
        if version.startswith("@"):
            offered.add(name)
        version = version.lstrip("@")
        if is_old_enough(version):
            kind = "object" if fields[3] == "OBJECT" else "function"
            versions[name][version] = Symbol(name, version, kind, int(fields[2], 0))
    return [versions[name][max(versions[name], key=order)] for name in sorted(offered & versions.keys())]


def write_stub(tools, directory, soname, symbols):
    """A library with these symbols and no code."""
    by_version = collections.defaultdict(list)
    assembly = [".section .note.GNU-stack,\"\",@progbits"]
    for symbol in symbols:
        by_version[symbol.version].append(symbol.name)
        section = ".text" if symbol.kind == "function" else ".bss\n.balign 32"
        assembly.append(f"{section}\n.globl {symbol.name}\n.type {symbol.name}, @{symbol.kind}\n{symbol.name}:\n"
                        f".zero {max(symbol.size, 1) if symbol.kind == 'object' else 1}\n.size {symbol.name}, {symbol.size}")
    script, local = [], " local: *;"
    for version in sorted(by_version, key=order):
        script.append(f"{version} {{ global: {'; '.join(by_version[version])};{local} }};")
        local = ""
    source, versions = directory / f"{soname}.s", directory / f"{soname}.map"
    source.write_text("\n".join(assembly) + "\n")
    versions.write_text("\n".join(script) + "\n")
    subprocess.run([f"{tools}gcc", "-shared", "-nostdlib", "-fuse-ld=bfd", f"-Wl,-soname={soname}", f"-Wl,--version-script={versions}",
                    "-o", directory / soname, source], check=True)
    source.unlink()
    versions.unlink()


def main():
    if not 2 <= len(sys.argv) <= 3 or sys.argv[2:] and sys.argv[2] not in PROCESSORS:
        sys.exit(__doc__)
    directory, processor = Path(sys.argv[1]), PROCESSORS[(sys.argv[2:] or ["x86_64"])[0]]
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="memreel-old-glibc-") as root:
        root = Path(root)
        # What is copied below is of libc6-dev.
        (directory / "versions").write_text("".join(f". {' '.join(words)}\n" for words in list(fetch(root, processor.debian)) if words[0] == "libc6-dev"))
        for soname in (*LIBRARIES, processor.loader):
            write_stub(processor.tools, directory, soname, symbols_of(root / "lib" / processor.triplet / soname))
        for file in ("crt1.o", "Scrt1.o", "crti.o", "crtn.o", "libc_nonshared.a"):
            shutil.copy(root / "usr/lib" / processor.triplet / file, directory)
    for file, soname in (("libpthread.so", "libpthread.so.0"), ("libdl.so", "libdl.so.2"), ("librt.so", "librt.so.1"),
                         ("libm.so", "libm.so.6")):
        (directory / file).symlink_to(soname)
    floor = Path(__file__).parent / "floor.c"
    subprocess.run([f"{processor.tools}gcc", "-O2", "-D_GNU_SOURCE", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-c", floor, "-o", directory / "floor.o"],
                   check=True)
    subprocess.run([f"{processor.tools}ar", "rcs", directory / "libfloor.a", directory / "floor.o"], check=True)
    (directory / "floor.o").unlink()
    # Including what later C libraries absorbed: programs no longer name those libraries.
    (directory / "libc.so").write_text("GROUP ( AS_NEEDED ( libpthread.so.0 libdl.so.2 librt.so.1 libm.so.6 ) libc.so.6 "
                                       f"libc_nonshared.a libfloor.a AS_NEEDED ( {processor.loader} ) )\n")
    (directory / "libgcc_s.so").write_text("GROUP ( libgcc_s.so.1 -lgcc )\n")


if __name__ == "__main__":
    main()
