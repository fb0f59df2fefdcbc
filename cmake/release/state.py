#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether this tree can be released, and what the changelog says of it.

    state.py check      one line for each reason why not; exit code 1 if there is one
    state.py version    the version in CMakeLists.txt
    state.py notes [URL]
                        what CHANGELOG.md says of that version, or of the unreleased one if that is newer. Links into the
                        tree become URL/PATH, or plain words without URL
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNRELEASED = "Unreleased"
# Every file that names the version, and how.
STATED = {
    "CMakeLists.txt": r"(?m)^project\(memreel VERSION ([\d.]+)",
    "collector/python_module/memreel/__init__.py": r'(?m)^__version__ = "([^"]+)"',
    "cmake/conda/recipe.yaml": r'(?m)^  version: "([^"]+)"',
    "cmake/vcpkg/vcpkg.json": r'"version": "([^"]+)"',
    "docs/ci.md": r"memreel-([\d.]+)-py3-none",
    "docs/install.md": r'"memreel/([\d.]+)"',
    "docs/versions.md": r"(?m)^## From [\d.]+ to ([\d.]+)$",
}


def text_of(name, root=ROOT):
    return (root / name).read_text()


def version(root=ROOT):
    return re.search(STATED["CMakeLists.txt"], text_of("CMakeLists.txt", root))[1]


def sections(changelog):
    """The versions of a changelog, newest first, each with its date (empty if none) and text."""
    parts = re.split(r"(?m)^## \[([^]]+)\](?: - (\S+))?\n", changelog)
    return [(name, date or "", text.strip() + "\n") for name, date, text in zip(parts[1::3], parts[2::3], parts[3::3])]


def reasons(root=ROOT):
    """Why the tree can't be released, a sentence each."""
    released = version(root)
    newest, date, _ = sections(text_of("CHANGELOG.md", root))[0]
    if newest != released:
        yield f"CHANGELOG.md begins with [{newest}], and CMakeLists.txt says {released}"
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        yield f"CHANGELOG.md has no date for {newest}: write ## [{newest}] - YYYY-MM-DD"
    for name, pattern in STATED.items():
        for said in dict.fromkeys(re.findall(pattern, text_of(name, root))) or ["nothing"]:
            if said != released:
                yield f"{name} says {said}, and CMakeLists.txt says {released}"


def notes(url="", root=ROOT):
    released = version(root)
    texts = {name: text for name, _, text in sections(text_of("CHANGELOG.md", root))}
    text = texts.get(UNRELEASED) or texts.get(released)
    if text is None:
        raise SystemExit(f"state.py: CHANGELOG.md says nothing of {released}")
    return re.sub(r"\[([^]]+)\]\((?!https?:)([^)]+)\)", rf"[\1]({url.rstrip('/')}/\2)" if url else r"\1", text)


def main():
    if sys.argv[1:] == ["check"]:
        found = list(reasons())
        print("".join(f"{reason}\n" for reason in found), end="")
        sys.exit(1 if found else 0)
    if sys.argv[1:] == ["version"]:
        print(version())
    elif sys.argv[1:2] == ["notes"] and len(sys.argv) <= 3:
        print(notes(*sys.argv[2:]), end="")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
