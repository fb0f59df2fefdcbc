# SPDX-License-Identifier: Apache-2.0
"""The Debian packages made by cpack, installed in a bare Debian 12."""

import json
import os
import shutil
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL, ProgramTest

BUILD = Path(MEMREEL).resolve().parents[1]
INSTALLED = ("memreel", "memreel-viewer", "libmemreel-dev", "memreel-doc")


def run(*words, code=0, **options):
    process = subprocess.run(list(map(str, words)), text=True, capture_output=True, stdin=subprocess.DEVNULL, **options)
    if process.returncode != code:
        raise AssertionError(f"{' '.join(map(str, words))} ended with {process.returncode}\n{process.stdout}{process.stderr}")
    return process


class PackagesTest(ProgramTest):
    def setUp(self):
        super().setUp()
        if not shutil.which("cpack") or not (BUILD / "CPackConfig.cmake").exists():
            self.skipTest("not run from a build")
        run("cpack", "-G", "DEB", "-B", self.directory, cwd=BUILD)
        self.packages = {file.name.split("_")[0]: file for file in self.directory.glob("*.deb")}
        self.assertLessEqual(set(INSTALLED), set(self.packages))


class Lintian(PackagesTest):
    @unittest.skipUnless(shutil.which("lintian"), "needs lintian")
    def test_lintian_finds_no_errors(self):
        # Not an official Debian package: no Debian changelog, no Debian maintainer.
        run("lintian", "--allow-root", "--fail-on", "error", "--suppress-tags", "no-changelog,bogus-mail-host",
            *self.packages.values())


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("debootstrap"), "needs root and debootstrap")
class Installed(PackagesTest):
    def setUp(self):
        super().setUp()
        bare = BUILD / "root-bookworm"
        if not (bare / "complete").exists():
            shutil.rmtree(bare, ignore_errors=True)
            run("debootstrap", "--variant=minbase", "bookworm", bare, "http://deb.debian.org/debian")
            (bare / "complete").touch()
        self.root = self.directory / "root"
        run("cp", "-a", bare, self.root)
        (self.root / "packages").mkdir()

    def inside(self, script, code=0):
        return run("unshare", "--mount", "--pid", "--fork", "chroot", self.root, "/bin/sh", "-ec",
                   "mount -t proc proc /proc\ncd /packages\nexport DEBIAN_FRONTEND=noninteractive\n" + script,
                   code=code, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def install(self, names, *others):
        for name in names:
            shutil.copy(self.packages[name], self.root / "packages")
        self.inside(f"apt-get -qq update && apt-get -qq install --yes --no-install-recommends ./*.deb {' '.join(others)}")

    def purge(self, names):
        self.inside(f"apt-get -qq purge --yes {' '.join(names)} && ! find / -xdev -name '*memreel*' -not -path '/packages/*' | grep .")

    def test_installed_used_and_removed(self):
        self.install(INSTALLED, "python3-minimal", "libpython3-stdlib", "libegl1")
        self.assertIn("11,583 of 11,583", self.inside("memreel demo").stdout)
        self.assertIn("activation", self.inside("python3 -c 'import memreel; print(memreel.load("
                                                "\"/usr/share/memreel/samples/gpt_default.reel\").categories()[0])'").stdout)
        self.assertIn("true ended", self.inside("memreel record -- /bin/true").stderr)
        self.inside("test -f /usr/include/memreel/memreel.h && memreel view --version")
        self.inside("grep -q x-memreel-trace /usr/share/applications/memreel-view.desktop /usr/share/mime/packages/memreel.xml")
        self.purge(INSTALLED)

    def test_a_job_is_judged_with_mpi(self):
        if "memreel-mpi" not in self.packages:
            self.skipTest("built without MPI")
        self.install(("memreel", "memreel-mpi"), "openmpi-bin")
        self.assertIn("Recommends: openmpi-bin", self.inside("dpkg-query --show --showformat 'Recommends: ${Recommends}' memreel-mpi").stdout)
        self.inside("mkdir job && for rank in 0 1 2; do cp /usr/share/memreel/samples/gpt_default.reel job/rank$rank.reel; done")
        expected = json.loads(self.inside("memreel fleet job --no-setting --json").stdout)
        self.assertEqual(expected["world_size"], 3)
        said = self.inside("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=sh\n"
                           "mpirun --oversubscribe -n 2 memreel-fleet-mpi job -o out --no-setting -- --json")
        self.assertEqual(json.loads(said.stdout), expected)
        self.assertEqual(self.inside("ls out | wc -l").stdout, "3\n")
        self.inside("rm -r job out")
        self.purge(("memreel", "memreel-mpi"))


if __name__ == "__main__":
    unittest.main()
