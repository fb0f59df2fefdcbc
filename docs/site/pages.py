#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the site's pages together: pages.py FOLDER-OF-MEMREEL FOLDER

The pages are those of docs/ and of the root. Links lead to their places in the site; links into the source tree become plain
words. The reference is written from its sources: --help, docs/schema, docstrings, headers (reference.py).
"""
import os
import re
import shutil
import sys
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parents[2]
RECIPES = "## Seven recipes"
# Where pages of the tree are in the site; those of docs/ keep their names. docs/README.md is the navigation.
PLACES = {"README.md": "index.md", "docs/README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md",
          "CHANGELOG.md": "changelog.md", "samples/traces/README.md": "samples.md",
          # What the reference is written from.
          "docs/schema": "reference/json.md", "collector/include/memreel/memreel.h": "reference/c.md#memreelh",
          "analyzer/include/memreel/policy.h": "reference/c.md#policyh"}
WORDS = re.compile(r"\[(?P<words>[^][]*(?:\[[^]]*\][^][]*)*)\]\((?P<target>[^)\s]+)\)")


def place_of(path):
    """Where a file or folder of the tree is in the site; None if it is not there."""
    if path in PLACES:
        return PLACES[path]
    if path.startswith("docs/") and path.endswith((".md", ".png", ".svg")):
        return path.removeprefix("docs/")
    return None


def anchors_of(text):
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in re.findall(r"(?m)^#+ (.*)$", text)}


class Pages:
    def __init__(self, out):
        self.out, self.used = out, set()
        readme = (ROOT / "README.md").read_text()
        start = readme.index(RECIPES)
        end = readme.index("\n## ", start) + 1
        self.recipes = "# Seven recipes\n" + readme[start:end].partition("\n")[2]
        self.index = readme[:start] + "The [seven recipes](README.md#seven-recipes) answer the common questions.\n\n" + readme[end:]

    def target(self, source, place, link):
        """The link in the site; None if what it leads to is not there."""
        path, _, anchor = link.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(source), path)) if path else source
        if path == "README.md" and anchor in anchors_of(self.recipes):
            there = "recipes.md"
        else:
            there = place_of(path)
        if there is None or not (ROOT / path).exists():
            return None
        there, _, own = there.partition("#")
        if there.endswith((".png", ".svg")):
            self.used.add(there)
        anchor = own or anchor
        return os.path.relpath(there, os.path.dirname(place) or ".") + (f"#{anchor}" if anchor else "")

    def linked(self, source, place, text):
        def words(found):
            if "://" in found["target"] or found["target"].startswith("mailto:"):
                return found[0]
            link = self.target(source, place, found["target"])
            return found["words"] if link is None else f"[{found['words']}]({link})"

        def attribute(found):
            parts = [part.strip().split(" ") for part in found["links"].split(",")]
            return found["name"] + '="' + ", ".join(" ".join([part[0] if ":" in part[0] else self.target(source, place, part[0]) or part[0],
                                                               *part[1:]]) for part in parts) + '"'
        # Not in code. Links may span lines, and so may what they say.
        pieces = re.split(r"(?ms)(^```.*?^```$)", text)
        for at in range(0, len(pieces), 2):
            pieces[at] = re.sub(r'(?P<name>srcset|src|href)="(?P<links>[^"]+)"', attribute, WORDS.sub(words, pieces[at]))
        return "".join(pieces)

    def write(self, source, place, text):
        file = self.out / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.linked(source, place, text))

    def make(self, programs):
        self.write("README.md", "index.md", self.index)
        self.write("README.md", "recipes.md", self.recipes)
        for source, place in PLACES.items():
            if place.endswith(".md") and place != "index.md" and source.endswith(".md"):
                self.write(source, place, (ROOT / source).read_text())
        for page in sorted((ROOT / "docs").rglob("*.md")):
            source = str(page.relative_to(ROOT))
            if source not in PLACES:
                self.write(source, place_of(source), page.read_text())
        for name, text in reference.pages(ROOT, programs).items():
            self.write(f"docs/{name}", f"reference/{name}", text)
        shutil.copy(Path(__file__).parent / "site.css", self.out)
        for name in self.used:
            (self.out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "docs" / name, self.out / name)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    out = Path(sys.argv[2])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    Pages(out).make(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
