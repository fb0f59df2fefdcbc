#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the translation units of a build, skipping those that were clean and have not changed since.

A unit has changed when its own text, a project header that it includes, its compiler options or .clang-tidy has. Clean
units are remembered in BUILD/clang-tidy, one empty file each; delete that directory to start over.

usage: lint.py BUILD [FILE...]     all units of BUILD/compile_commands.json, or those of the named sources
exit code: 0 all clean, 1 findings (on standard output), 2 not a build
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIDY = "clang-tidy-14"
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


@lru_cache(maxsize=None)
def text_and_includes(file: Path) -> tuple[bytes, list[str]]:
    text = file.read_bytes()
    return text, [name.decode() for name in INCLUDE.findall(text)]


def sources_of(unit: Path, search: list[Path]) -> list[Path]:
    """The unit and every project file that it includes, directly or indirectly, regardless of #if conditions."""
    found, waiting = {unit}, [unit]
    while waiting:
        file = waiting.pop()
        for name in text_and_includes(file)[1]:
            for directory in [file.parent, *search]:
                header = Path(os.path.normpath(directory / name))
                if header.is_file():
                    if header not in found:
                        found.add(header)
                        waiting.append(header)
                    break
    return sorted(found)


def fingerprint(entry: dict) -> str:
    options = entry["command"]
    search = [Path(directory) for directory in re.findall(r"-I\s*(\S+)", options)]
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + options.encode())
    for folder in Path(entry["file"]).parents:  # folder-specific settings
        if folder != ROOT and ROOT in folder.parents and (folder / ".clang-tidy").is_file():
            digest.update((folder / ".clang-tidy").read_bytes())
    for file in sources_of(Path(entry["file"]), search):
        digest.update(str(file).encode() + b"\0" + text_and_includes(file)[0])
    return digest.hexdigest()


def tidy(build: Path, entry: dict) -> tuple[str, str]:
    """The unit's name in the project, and clang-tidy's findings."""
    file = os.path.relpath(entry["file"], ROOT)
    # Commands are GCC's and have options that Clang doesn't use.
    command = [TIDY, "--quiet", "-p", build, "--extra-arg=-Wno-unused-command-line-argument", entry["file"]]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    # Standard error has the counts of filtered findings, and compiler errors.
    said = run.stdout if run.returncode == 0 or run.stdout else run.stderr
    return file, said if run.returncode else ""


def main() -> int:
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "compile_commands.json").is_file():
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(sys.argv[1])
    wanted = {Path(name).resolve() for name in sys.argv[2:]}
    entries = json.loads((build / "compile_commands.json").read_text())
    ours = [e for e in entries if build.resolve() not in Path(e["file"]).parents and (not wanted or Path(e["file"]) in wanted)]

    clean = build / "clang-tidy"
    clean.mkdir(exist_ok=True)
    changed = [(entry, mark) for entry in ours if not (mark := clean / fingerprint(entry)).exists()]
    print(f"{len(ours)} units, {len(ours) - len(changed)} of them unchanged since they were clean", flush=True)

    findings = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        runs = {pool.submit(tidy, build, entry): mark for entry, mark in changed}
        for done, run in enumerate(concurrent.futures.as_completed(runs), 1):
            file, said = run.result()
            if said:
                findings += 1
                print(f"{said.rstrip()}\n", flush=True)
            else:
                runs[run].touch()
            if sys.stderr.isatty():
                print(f"\r[{done}/{len(changed)}] {file:<80.80}", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(f"{findings} of {len(ours)} units have findings" if findings else f"all {len(ours)} units are clean")
    return 1 if findings else 0


sys.exit(main())
