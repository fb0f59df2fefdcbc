# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the NVIDIA libraries that a wheel links: every function exists, does nothing and returns 0.

A PyTorch wheel needs a dozen libraries besides CUDA's runtime (cuBLAS, cuDNN, NCCL...). Its allocator uses none of
them, but the dynamic linker needs all their symbols. So each gets an empty library of its name with the required
versions, and one more library, to be preloaded, has the symbols.

NVML is not linked but opened by name, to query what GPUs can share: PyTorch 2.13 and newer query it before
mapping memory of an expandable segment, and abort when it is missing. So it gets a library too, with the functions
named in the wheel: no GPU is part of a fabric.
"""

import pathlib
import re
import subprocess
from collections import defaultdict

SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+|gomp|z)[.-].*)")
NVIDIA = re.compile(r"_{0,2}(cu|nccl|nv)[A-Za-z]")  # the prefix of its functions
UNVERSIONED = "memreel_stubs"
NVML = "libnvidia-ml.so.1"


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True).stdout


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", library))


def versions_needed(library):
    """(library, version) pairs that the dynamic linker requires before it runs anything."""
    pairs, file = [], None
    for line in readelf("-V", library).partition("Version needs section")[2].splitlines():
        if found := re.search(r"File: (\S+)", line):
            file = found[1]
        elif found := re.search(r"Name: (\S+)", line):
            pairs.append((file, found[1]))
    return pairs


def symbols(library):
    """Names that the library defines, and (name, version) of the functions it imports; version None: any."""
    defined, wanted = set(), set()
    for line in readelf("--dyn-syms", library).splitlines():
        field = line.split()
        if len(field) < 8 or not field[0].endswith(":"):
            continue
        name, _, version = field[7].partition("@")
        if field[6] != "UND":
            defined.add(name)
        elif field[4] != "WEAK" and name:
            wanted.add((name, version.lstrip("@") or None))
    return defined, wanted


def nvml_functions(libraries):
    """NVML functions that the libraries look up by name."""
    named = set()
    for file in libraries:
        data = file.read_bytes()
        if NVML.encode() in data:
            named |= {name.decode() for name in re.findall(rb"\0(nvml[A-Z][A-Za-z]*(?:_v\d+)?)(?=\0)", data)}
    return named


def doing_nothing(names):
    """Assembly of functions that return 0."""
    source = ".text\nmemreel_nothing: xor %eax, %eax\nret\n"
    return source + "".join(f'.globl "{name}"\n.type "{name}", @function\n.set "{name}", memreel_nothing\n' for name in sorted(names))


def compile_library(path, source, versions):
    script, code = path.with_suffix(".map"), path.with_suffix(".s")
    script.write_text("".join(f"{version} {{ global: {names} }};\n" for version, names in versions.items()))
    code.write_text(source)
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", path, f"-Wl,-soname,{path.name}", f"-Wl,--version-script={script}", code],
                   check=True)
    script.unlink()
    code.unlink()


def stand_ins_for(prefixes, libraries, out):
    """Libraries with all functions named in `libraries` that have a prefix, for those that are opened by name. `prefixes`: by soname."""
    pattern = rb"(?<=\0)((?:%s)[A-Z]\w*)(?=\0)" % "|".join(prefixes.values()).encode()
    found = {name.decode() for library in libraries for name in re.findall(pattern, library.read_bytes())}
    for soname, prefix in prefixes.items():
        names = {name for name in found if re.match(prefix + "[A-Z]", name)}
        compile_library(out / soname, doing_nothing(names), {UNVERSIONED: " ".join(f"{name};" for name in sorted(names))})


def make(wheel, provided, out):
    """Writes the stand-ins for the libraries below `wheel` into `out`. `provided`: libraries that already exist.

    Returns the library to preload.
    """
    out.mkdir(parents=True, exist_ok=True)
    ours = [file for file in wheel.rglob("*.so*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
    present = {file.name for file in [*ours, *provided]}
    wanted, defined, sonames, insisted = set(), set(), set(), set()
    for file in ours:
        has, wants = symbols(file)
        defined |= has
        wanted |= wants
        sonames |= set(needed(file))
        insisted |= set(versions_needed(file))
    for file in provided:  # without those of other CUDA versions
        if file.name in sonames or file.name.startswith("libcuda."):
            defined |= symbols(file)[0]

    missing = {name for name in sonames if name not in present and not SYSTEM.match(name)}
    versions = defaultdict(set)  # symbols of the missing libraries and of CUDA's runtime
    for name, version in wanted:
        if name not in defined and NVIDIA.match(name):
            versions[version or UNVERSIONED].add(name)
    for i, soname in enumerate(sorted(missing)):
        mark = f"memreel_stub_{i}"
        nodes = {version: f"{mark}_{j};" for j, version in enumerate(sorted(v for file, v in insisted if file == soname))}
        source = "".join(f".globl {name[:-1]}\n{name[:-1]}: ret\n" for name in nodes.values()) or f".globl {mark}\n{mark}: ret\n"
        compile_library(out / soname, ".text\n" + source, nodes or {UNVERSIONED: f"{mark};"})

    if functions := nvml_functions(ours):
        compile_library(out / NVML, doing_nothing(functions), {UNVERSIONED: " ".join(f"{name};" for name in sorted(functions))})

    preload = out / "libmemreel-stubs.so"
    nodes = {version: " ".join(f"{name};" for name in sorted(names)) for version, names in versions.items()}
    compile_library(preload, doing_nothing(set().union(*versions.values())), nodes)
    return preload

