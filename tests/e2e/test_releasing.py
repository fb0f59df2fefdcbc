# SPDX-License-Identifier: Apache-2.0
"""What `./dev release` makes its files with: equal archives, the list of what they contain, notes, checks, the workflow."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

import yaml
from program import MEMREEL, REPOSITORY, ProgramTest

sys.path.insert(0, str(REPOSITORY / "cmake/release"))
import sbom
import state

BUILD = Path(MEMREEL).resolve().parents[1]
EPOCH = "1700000000"


def installed(directory, name, umask, zone):
    """A tree as `cmake --install` leaves it, packed as wheel, sources and Debian package by somebody."""
    was = os.umask(umask)
    try:
        tree = directory / name
        for file, text, mode in (("bin/memreel", "program", 0o755), ("share/a.txt", "a", 0o644), ("share/B.txt", "b", 0o644)):
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            (tree / file).write_text(text)
            (tree / file).chmod(mode & ~umask)
        files = sorted((file for file in tree.rglob("*") if file.is_file()), reverse=umask == 0o077)
        with zipfile.ZipFile(directory / f"{name}.whl", "w", compression=zipfile.ZIP_STORED if umask else zipfile.ZIP_DEFLATED) as wheel:
            for file in files:
                wheel.write(file, file.relative_to(tree))
            wheel.writestr("x.dist-info/RECORD", "")
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as archive:
            for file in [tree / "bin", tree / "share", *files]:
                archive.add(file, file.relative_to(tree), recursive=False)
        (directory / f"{name}.tar.gz").write_bytes(data.getvalue())
        sums = "".join(f"{hashlib.md5(file.read_bytes()).hexdigest()}  {file.relative_to(tree)}\n" for file in files)
        control = io.BytesIO()
        with tarfile.open(fileobj=control, mode="w:xz" if umask else "w:gz") as archive:
            entry = tarfile.TarInfo("./md5sums")
            entry.size, entry.mtime = len(sums), 1600000000 + umask
            archive.addfile(entry, io.BytesIO(sums.encode()))
        members = {"debian-binary": b"2.0\n", "control.tar.xz" if umask else "control.tar.gz": control.getvalue(), "data.tar.gz": data.getvalue()}
        (directory / f"{name}.deb").write_bytes(b"!<arch>\n" + b"".join(
            f"{member:16}{1600000000 + umask:<12}{umask:<6}{0:<6}{0o100644:<8o}{len(content):<10}`\n".encode() + content + b"\n" * (len(content) % 2)
            for member, content in members.items()))
    finally:
        os.umask(was)
    subprocess.run([sys.executable, "-B", REPOSITORY / "cmake/release/same_bytes.py", *directory.glob(f"{name}.*")], check=True,
                   env=os.environ | {"SOURCE_DATE_EPOCH": EPOCH, "TZ": zone, "LC_ALL": "C"})
    return {file.suffix: file.read_bytes() for file in directory.glob(f"{name}.*")}


class Archives(ProgramTest):
    def test_equal_contents_are_equal_bytes(self):
        first = installed(self.directory, "one", 0o022, "UTC")
        second = installed(self.directory, "two", 0o077, "Asia/Kathmandu")
        self.assertEqual(set(first), {".whl", ".gz", ".deb"})
        for kind in first:
            self.assertEqual(first[kind], second[kind], kind)

    def test_nothing_is_lost(self):
        made = installed(self.directory, "one", 0o077, "UTC")
        with tarfile.open(fileobj=io.BytesIO(made[".gz"])) as archive:
            members = {member.name: (oct(member.mode), member.uid, member.mtime) for member in archive}
        self.assertEqual(members, {"bin": ("0o755", 0, 1700000000), "bin/memreel": ("0o755", 0, 1700000000),
                                   "share": ("0o755", 0, 1700000000), "share/B.txt": ("0o644", 0, 1700000000),
                                   "share/a.txt": ("0o644", 0, 1700000000)})
        with zipfile.ZipFile(io.BytesIO(made[".whl"])) as wheel:
            self.assertEqual(wheel.namelist(), ["bin/memreel", "share/B.txt", "share/a.txt", "x.dist-info/RECORD"])
            self.assertEqual(wheel.read("bin/memreel"), b"program")
            self.assertEqual([oct(member.external_attr >> 16) for member in wheel.infolist()][:2], ["0o100755", "0o100644"])
        if shutil.which("dpkg-deb"):
            said = subprocess.run(["dpkg-deb", "--contents", self.directory / "one.deb"], check=True, capture_output=True, text=True).stdout
            self.assertEqual(len(said.splitlines()), 5)
            self.assertRegex(said, r"-rwxr-xr-x root/root .* bin/memreel")


@unittest.skipUnless(shutil.which("ninja") and shutil.which("dpkg-query") and (BUILD / "build.ninja").exists(), "needs a build on Debian")
class Contents(ProgramTest):
    def test_the_list_is_valid_and_true(self):
        package = self.directory / "memreel_9.deb"
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as archive:
            archive.addfile(tarfile.TarInfo("./usr/bin/memreel"))
        package.write_bytes(b"!<arch>\n" + f"{'data.tar.gz':16}{0:<12}{0:<6}{0:<6}{0o100644:<8o}{len(data.getvalue()):<10}`\n".encode() + data.getvalue())
        sources = Path(self.file("memreel-9.tar.gz", gzip.compress(b"")))
        document = sbom.document("9", [([], [sources]), ([BUILD], [package])], int(EPOCH))
        self.assertEqual(json.dumps(document), json.dumps(sbom.document("9", [([], [sources]), ([BUILD], [package])], int(EPOCH))))
        # What SPDX 2.3 asks for.
        self.assertEqual((document["spdxVersion"], document["dataLicense"], document["SPDXID"]), ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertRegex(document["documentNamespace"], r"^https://\S+[0-9a-f]{64}$")
        self.assertEqual(document["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        self.assertRegex(document["creationInfo"]["creators"][0], r"^(Person|Organization|Tool): .")
        names = {"SPDXRef-DOCUMENT"}
        for part in document["packages"]:
            self.assertRegex(part["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertLessEqual({"name", "versionInfo", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText"}, set(part))
            self.assertRegex(part["supplier"], r"^(Organization: .*|NOASSERTION)$")
            self.assertNotIn(part["SPDXID"], names)
            names.add(part["SPDXID"])
        for relationship in document["relationships"]:
            self.assertLessEqual({relationship["spdxElementId"], relationship["relatedSpdxElement"]}, names)
            self.assertIn(relationship["relationshipType"], {"DESCRIBES", "STATIC_LINK", "CONTAINS"})
        # The described files by their sums, and what the program has of others with the versions that are installed.
        sums = {part["packageFileName"]: part["checksums"][0]["checksumValue"] for part in document["packages"] if "checksums" in part}
        self.assertEqual(sums, {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (sources, package)})
        versions = {part["name"]: part["versionInfo"] for part in document["packages"]}
        for name in ("libcli11-dev", "nlohmann-json3-dev", "libprotozero-dev"):
            said = subprocess.run(["dpkg-query", "-W", "-f=${Version}", name], check=True, capture_output=True, text=True).stdout
            self.assertEqual(versions[name], said)
        self.assertNotIn("libgtest-dev", versions)  # in the same build, and not in the package
        self.assertNotIn("libimgui-dev", versions)


CHANGELOG = """# Changelog

## [Unreleased]

[Everything](docs/all.md), and [elsewhere](https://example.org).

## [9.8.7] - 2026-01-02

### Added

- This.

## [9.8.6] - 2026-01-01

- That.
"""


class State(ProgramTest):
    def tree(self, changelog, number="9.8.7"):
        for name in state.STATED:
            (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, self.directory / name)
            text = (self.directory / name).read_text()
            for found in reversed(list(re.finditer(state.STATED[name], text))):
                text = text[:found.start(1)] + number + text[found.end(1):]
            (self.directory / name).write_text(text)
        self.file("CHANGELOG.md", changelog.encode())
        return self.directory

    def test_a_tree_that_states_one_version_can_be_released(self):
        released = CHANGELOG.replace("## [Unreleased]\n\n[Everything](docs/all.md), and [elsewhere](https://example.org).\n\n", "")
        self.assertEqual(list(state.reasons(self.tree(released))), [])
        self.assertEqual(state.notes(root=self.directory), "### Added\n\n- This.\n")

    def test_each_place_that_states_another_is_named(self):
        root = self.tree(CHANGELOG)
        self.assertEqual(list(state.reasons(root)), ["CHANGELOG.md begins with [Unreleased], and CMakeLists.txt says 9.8.7"])
        for name in set(state.STATED) - {"CMakeLists.txt"}:
            file = root / name
            was = file.read_text()
            file.write_text("9.8.8".join(was.rsplit("9.8.7", 1)))
            self.assertIn(f"{name} says 9.8.8, and CMakeLists.txt says 9.8.7", list(state.reasons(root)))
            file.write_text(was)
        self.file("CHANGELOG.md", b"## [9.8.7]\n\n- This.\n")
        self.assertEqual(list(state.reasons(root)), ["CHANGELOG.md has no date for 9.8.7: write ## [9.8.7] - YYYY-MM-DD"])

    def test_notes_are_the_changelogs(self):
        root = self.tree(CHANGELOG)
        self.assertEqual(state.notes(root=root), "Everything, and [elsewhere](https://example.org).\n")
        self.assertEqual(state.notes("https://here/v9/", root), "[Everything](https://here/v9/docs/all.md), and [elsewhere](https://example.org).\n")
        text = (REPOSITORY / "CHANGELOG.md").read_text()
        for name, _, section in state.sections(text):
            self.assertIn(f"## [{name}]", text)
            self.assertIn(section.strip(), text)
        with contextlib.suppress(StopIteration):
            self.assertNotEqual(next(iter(state.sections(text)))[2].strip(), "")


MAKES = """
for folder in dist/release build/twice/a/dist/release; do
  mkdir -p $folder
  touch $folder/memreel.whl $folder/memreel.tar.gz $folder/memreel_1_amd64.deb $folder/SHA256SUMS $folder/Containerfile
done"""


class Workflow(unittest.TestCase):
    TEXT = (REPOSITORY / ".github/workflows/release.yml").read_text()

    def test_it_runs_what_there_is_and_stores_no_secret(self):
        jobs = yaml.safe_load(self.TEXT)["jobs"]
        steps = [step for job in jobs.values() for step in job["steps"]]
        self.assertIn("./dev release --twice", "\n".join(step.get("run", "") for step in steps))
        self.assertEqual(jobs["pypi"]["permissions"], {"id-token": "write"})
        self.assertNotIn("secrets.", self.TEXT)
        self.assertNotIn("password", self.TEXT)
        check = next(step["run"] for step in steps if step.get("name") == "The tag is the version")
        for tag, code in ((f"v{state.version()}", 0), ("v9.9.9", 1)):
            self.assertEqual(subprocess.run(["sh", "-c", check], cwd=REPOSITORY, env=os.environ | {"GITHUB_REF_NAME": tag}).returncode, code)

    def test_its_steps_run_as_written(self):
        """In a folder whose ./dev makes files of no content, in order, with what each job gets of the one before."""
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            tools, build = folder / "tools", folder / "build"
            shutil.copytree(REPOSITORY / "cmake", build / "cmake")
            for name in ("CMakeLists.txt", "CHANGELOG.md", "pyproject.toml"):
                shutil.copy(REPOSITORY / name, build)
            tools.mkdir()
            for path, text in ((build / "dev", MAKES), (tools / "apt-get", ": $*"), (tools / "git", ": $*"),
                               (tools / "gh", 'printf "%s\\n" "$@" >"$LOG"; ls "${@:9}" >/dev/null')):
                path.write_text(f"#!/bin/bash\nset -e\n{text}\n")
                path.chmod(0o755)
            tag = f"v{state.version()}"
            known = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder), "GITHUB_WORKSPACE": str(build), "GITHUB_REF_NAME": tag,
                     "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "memreel/memreel", "LOG": str(folder / "gh.log")}
            ran = []
            for name, job in yaml.safe_load(self.TEXT)["jobs"].items():
                (folder / name).mkdir(exist_ok=True)
                for step in job["steps"]:
                    if "run" in step:
                        subprocess.run(["bash", "-e", "-o", "pipefail", "-c", step["run"]], cwd=folder / name, env=known, check=True)
                        ran.append(step["run"])
                    elif "upload-artifact" in step["uses"]:
                        uploaded = step["with"]["path"].split()
                    elif "download-artifact" in step["uses"]:
                        for path in uploaded:
                            (shutil.copytree if path.endswith("/") else shutil.copy)(build / path, folder / name / path)
            self.assertEqual(len(ran), 9, ran)
            self.assertEqual({file.suffix for file in (folder / "pypi/upload").iterdir()}, {".whl", ".gz"})
            asked = (folder / "gh.log").read_text().split("\n")
            self.assertEqual(asked[:4], ["release", "create", tag, "--draft"])
            self.assertLessEqual({f"dist/release/{name}" for name in ("SHA256SUMS", "Containerfile", "memreel.whl", "memreel.tar.gz")}, set(asked))
            self.assertIn(f"(https://github.com/memreel/memreel/blob/{tag}/docs/", (folder / "github/notes-with-links.md").read_text())

    def test_the_image_has_what_the_release_has(self):
        text = (REPOSITORY / "cmake/docker/Containerfile").read_text()
        packages = set(re.findall(r"(memreel[a-z-]*)_\*_amd64\.deb", text))
        named = set(re.findall(r"memreel_package\(\w+ ([a-z-]+)", (REPOSITORY / "cmake/MemreelPackages.cmake").read_text()))
        self.assertEqual(packages, {"memreel", "memreel-viewer"})
        self.assertLessEqual(packages, named)


if __name__ == "__main__":
    unittest.main()
