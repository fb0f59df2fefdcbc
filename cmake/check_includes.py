#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include against the table of allowed includes between folders (cmake/arrows.txt), the table and the
headers for cycles, that no file repeats what the model's headers include, that every source names its licence, and that
no two have the same name.
Exit code 1: each finding is printed with its place.

    cmake/check_includes.py            checks
    cmake/check_includes.py --table    prints the table as docs/ARCHITECTURE.md shows it"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("formats", "collector", "analyzer", "viewer")
SOURCES = (".h", ".hpp", ".cpp", ".c", ".cu", ".py", ".sh", ".cmake", ".proto", ".js")
# By Python, Conan, a package that one stands in for, and build folders, which know it from the day they were made.
NAMED_BY_OTHERS = ("__init__.py", "conanfile.py", "transformers.py", "toolchain.cmake")
LICENCE = "SPDX-License-Identifier: Apache-2.0"
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
STANDARD = re.compile(r"\s*#\s*include\s+<([^>]+)>")
# What the model's types are made of: whoever includes one of its headers, even by way of another, has what that includes.
MODEL = "formats/model/"
VOCABULARY = {"chrono", "cstddef", "cstdint", "optional", "string", "string_view", "utility", "vector"}


def read_table(text):
    """{folder: {folders it may include}}, from lines `FOLDER: FOLDER...` with optional continuation lines; `#` begins
    a comment."""
    table = {}
    folder = None
    for line in text.splitlines():
        before, colon, after = line.split("#")[0].rpartition(":")
        if colon:
            folder = before.strip()
        table.setdefault(folder, set()).update(after.split())
    table.pop(None, None)
    return table


def cycle(table):
    """The folders of one cycle in order, with the first repeated at the end; empty if there is none."""
    done, path = set(), []

    def walk(folder):
        if folder in path:
            return path[path.index(folder):] + [folder]
        if folder in done:
            return None
        path.append(folder)
        for next_folder in sorted(table.get(folder, ())):
            found = walk(next_folder)
            if found:
                return found
        done.add(path.pop())
        return None

    return next(filter(None, map(walk, sorted(table))), None)


def findings(root, table):
    """Error messages, one per line."""
    around = cycle(table)
    if around:
        yield "cmake/arrows.txt: a cycle: " + " -> ".join(around)
    for folder in sorted({*table, *(f for allowed in table.values() for f in allowed)}):
        if folder not in table:
            yield f"cmake/arrows.txt: {folder} may be included and has no line of its own"
        if not (root / folder).is_dir():
            yield f"cmake/arrows.txt: there is no folder {folder}"
    headers = {}
    for file in sorted(f for room in ROOMS for f in (root / room).rglob("*") if f.suffix in (".h", ".cpp")):
        included_headers = headers.setdefault(file.relative_to(root).as_posix(), set())
        folder = file.parent.relative_to(root).as_posix()
        for number, line in enumerate(file.read_text().splitlines(), 1):
            include = INCLUDE.match(line)
            if not include or not (root / include[1]).is_file():
                continue  # in the same folder, or generated
            included_headers.add(include[1])
            included = Path(include[1]).parent.as_posix()
            if included != folder and included not in table.get(folder, ()):
                yield (f"{file.relative_to(root)}:{number}: {folder} may not include {included} "
                       f"(allowed: {' '.join(sorted(table.get(folder, ()))) or 'nothing'}; see cmake/arrows.txt)")
    around = cycle(headers)
    if around:
        yield f"{around[0]}:1: includes itself: " + " -> ".join(around)


def repeated(root):
    """Error messages, one per line: standard headers of VOCABULARY that the included headers of the model give."""
    files = {f.relative_to(root).as_posix(): f.read_text() for room in ROOMS for f in sorted((root / room).rglob("*"))
             if f.suffix in (".h", ".cpp")}
    included = {name: [i for i in re.findall(INCLUDE.pattern, text, re.M) if i in files] for name, text in files.items()}
    standard = {name: set(re.findall(STANDARD.pattern, text, re.M)) for name, text in files.items()}

    def reached(name, seen):
        for header in included[name]:
            if header not in seen:
                seen.add(header)
                reached(header, seen)
        return seen

    for name, text in files.items():
        if name.startswith(MODEL):
            continue
        given = {header: by for by in sorted(reached(name, set())) if by.startswith(MODEL) for header in standard[by] & VOCABULARY}
        for number, line in enumerate(text.splitlines(), 1):
            include = STANDARD.match(line)
            if include and include[1] in given:
                yield f"{name}:{number}: repeats <{include[1]}>, which comes with {given[include[1]]}"


def sources(root):
    for room in (*ROOMS, "samples", "tests", "cmake"):
        for file in sorted((root / room).rglob("*")):
            if file.suffix in SOURCES and "data" not in file.parts and "corpus" not in file.parts and file.is_file():
                yield file


def unlicensed(root):
    """Error messages, one per line: sources whose first lines don't name the licence."""
    for file in sources(root):
        text = file.read_text()
        if text and LICENCE not in text[:200]:
            yield f"{file.relative_to(root)}:1: add '{LICENCE}' as the first comment"


def namesakes(root):
    """Error messages, one per line: sources that can't be found by their name, as another has it."""
    first = {}
    for file in sources(root):
        if file.name not in NAMED_BY_OTHERS and first.setdefault(file.name, file) != file:
            yield f"{file.relative_to(root)}:1: has the name of {first[file.name].relative_to(root)}: say what differs"


def markdown(table):
    yield "| folder | may include |"
    yield "|---|---|"
    for folder, allowed in table.items():
        yield f"| `{folder}` | {', '.join(f'`{f}`' for f in sorted(allowed)) or 'nothing'} |"


def main():
    table = read_table((ROOT / "cmake/arrows.txt").read_text())
    if sys.argv[1:] == ["--table"]:
        print("\n".join(markdown(table)))
        return 0
    found = [*findings(ROOT, table), *repeated(ROOT), *unlicensed(ROOT), *namesakes(ROOT)]
    guide = ROOT / "docs/ARCHITECTURE.md"
    if guide.exists() and "\n".join(markdown(table)) not in guide.read_text():
        found.append("docs/ARCHITECTURE.md: not the table of cmake/arrows.txt; print it with: cmake/check_includes.py --table")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
