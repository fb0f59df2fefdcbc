# SPDX-License-Identifier: Apache-2.0
"""The pages as a site (./dev docs): the reference has everything that its sources have, no link is dead, and nothing comes from
another host."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
from pathlib import Path

from program import MEMREEL, REPOSITORY, run

SITE = REPOSITORY / "docs/site"
sys.path.insert(0, str(SITE))
import reference


class Reference(unittest.TestCase):
    PAGES = reference.pages(REPOSITORY, Path(MEMREEL).parent)

    def test_every_command_with_its_help(self):
        sys.path.insert(0, str(REPOSITORY / "cmake"))
        import man_pages
        overview = man_pages.help_of(MEMREEL)
        names = man_pages.commands_of(overview)
        self.assertGreater(len(names), 15)
        for name in names:
            if text := man_pages.help_of(MEMREEL, name):
                self.assertIn(f"## memreel {name}\n\n```text\n{text.rstrip()}\n```\n", self.PAGES["commands.md"])

    def test_every_key_of_every_document(self):
        for file in (REPOSITORY / "docs/schema").glob("*.json"):
            schema = json.loads(file.read_text())
            for key in schema.get("properties", {}):
                self.assertIn(f"| `{key}` |", self.PAGES["json.md"], file.name)
        # Through references and arrays, each with its sentence.
        self.assertRegex(self.PAGES["json.md"], r"\| `ooms\[\]\.verdict` \| [a-z ]+ \| \w")
        self.assertRegex(self.PAGES["json.md"], r"\| `leaks\[\]\.\w+` \| [a-z ]+ \| \w")

    def test_every_public_name_of_the_package(self):
        text = (REPOSITORY / "collector/python_module/memreel/__init__.py").read_text()
        names = re.findall(r'"(\w+)"', re.search(r"(?s)__all__ = \[(.*?)\]", text)[1])
        self.assertGreater(len(names), 15)
        for name in names:
            self.assertRegex(self.PAGES["python.md"], rf"(?m)^### {name}$")

    def test_every_function_of_the_header(self):
        text = (REPOSITORY / "collector/include/memreel/memreel.h").read_text()
        names = {"memreel_connect", *re.findall(r"\*/\nstatic inline [\w* ]*\b(memreel_\w+)\(", text)}
        self.assertGreater(len(names), 15)
        for name in names:
            self.assertRegex(self.PAGES["c.md"], rf"(?m)^[\w* ]*\b{name}\(")


class Page(html.parser.HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in ("link", "script", "img", "source", "iframe", "video", "audio", "object", "embed"):
            self.loads += [given[key] for key in ("href", "src", "data", "poster") if given.get(key)]
            self.loads += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]


class Built(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(os.environ.get("MEMREEL_PEERS", Path(MEMREEL).resolve().parents[1] / "peers")) / "site"
        cls.folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([SITE / "make", Path(MEMREEL).parent, cls.folder], check=True)
        cls.root = cls.folder / "html"
        cls.pages = {file: Page(file.read_text()) for file in cls.root.rglob("*.html") if file.name != "404.html"}

    def test_no_link_is_dead(self):
        count = 0
        for file, page in self.pages.items():
            for link in page.links:
                target = urllib.parse.urlsplit(link)
                if target.scheme or link == "#":
                    continue
                count += 1
                there = (file.parent / urllib.parse.unquote(target.path)).resolve() if target.path else file
                self.assertTrue(there.is_file(), f"{file.name}: {link}")
                if target.fragment and there in self.pages:
                    self.assertIn(urllib.parse.unquote(target.fragment), self.pages[there].anchors, f"{file.name}: {link}")
        self.assertGreater(count, 2000)

    def test_nothing_comes_from_another_host(self):
        for file, page in self.pages.items():
            for resource in page.loads:
                self.assertFalse(urllib.parse.urlsplit(resource).netloc, f"{file.name} loads {resource}")
                self.assertTrue((file.parent / urllib.parse.urlsplit(resource).path).exists(), f"{file.name} loads {resource}")
        for file in self.root.rglob("*.css"):
            self.assertEqual(re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)]*", file.read_text()), [], file.name)

    def test_a_dead_link_stops_the_build(self):
        with tempfile.TemporaryDirectory(prefix="memreel-site-") as directory:
            pages = Path(directory) / "pages"
            shutil.copytree(self.folder / "pages", pages)
            for link, said in (("nowhere.md", "nowhere.md"), ("leaks.md#nowhere", "nowhere")):
                (pages / "metrics.md").write_text(f"# Metrics\n\n[there]({link})\n")
                done = subprocess.run([self.folder / "tools/bin/mkdocs", "build", "--strict", "--config-file", SITE / "mkdocs.yml", "--site-dir",
                                       f"{directory}/html"], env=os.environ | {"MEMREEL_SITE_PAGES": str(pages)}, capture_output=True, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertIn(said, done.stderr)

    @unittest.skipUnless(shutil.which("chromium"), "needs chromium")
    def test_it_is_searched_from_a_folder_without_a_network(self):
        for query, page in (("leak", "leaks.html"), ("expandable_segments", "policies.html"), ("memreel_pool_create", "reference/c.html")):
            with tempfile.TemporaryDirectory(prefix="memreel-site-") as profile:
                shown = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                                        "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=20000", "--dump-dom",
                                        f"file://{self.root}/search.html?q={query}"], capture_output=True, text=True, timeout=120).stdout
            self.assertRegex(shown, rf'<article><h3><a href="\./{page}', query)


if __name__ == "__main__":
    unittest.main()
