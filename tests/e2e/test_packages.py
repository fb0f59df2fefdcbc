"""The Debian packages that cpack makes, installed in a Debian 12 with nothing else."""

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


class Packages(ProgramTest):
    def setUp(self):
        super().setUp()
        if not shutil.which("cpack") or not (BUILD / "CPackConfig.cmake").exists():
            self.skipTest("not run from a build")
        run("cpack", "-G", "DEB", "-B", self.directory, cwd=BUILD)
        self.packages = {file.name.split("_")[0]: file for file in self.directory.glob("*.deb")}
        self.assertLessEqual(set(INSTALLED), set(self.packages))

    @unittest.skipUnless(shutil.which("lintian"), "needs lintian")
    def test_lintian_finds_no_errors(self):
        # Not Debian's own: no changelog as Debian writes it, no maintainer of Debian's.
        run("lintian", "--allow-root", "--fail-on", "error", "--suppress-tags", "no-changelog,bogus-mail-host",
            *self.packages.values())

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("debootstrap"), "needs root and debootstrap")
    def test_installed_used_and_removed(self):
        root = BUILD / "root-bookworm"
        if not (root / "complete").exists():
            shutil.rmtree(root, ignore_errors=True)
            run("debootstrap", "--variant=minbase", "bookworm", root, "http://deb.debian.org/debian")
            (root / "complete").touch()
        used = self.directory / "root"
        run("cp", "-a", root, used)
        (used / "packages").mkdir()
        for name in INSTALLED:
            shutil.copy(self.packages[name], used / "packages")

        def inside(script):
            return run("unshare", "--mount", "--pid", "--fork", "chroot", used, "/bin/sh", "-ec",
                       "mount -t proc proc /proc\ncd /packages\nexport DEBIAN_FRONTEND=noninteractive\n" + script,
                       env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}).stdout

        inside("apt-get -qq update && apt-get -qq install --yes --no-install-recommends ./*.deb python3-minimal libpython3-stdlib libegl1")
        self.assertIn("11,583 of 11,583", inside("memreel demo"))
        self.assertIn("activation", inside("python3 -c 'import memreel; print(memreel.load("
                                           "\"/usr/share/memreel/samples/gpt_default.reel\").categories()[0])'"))
        self.assertIn("true ended", run("unshare", "--mount", "--pid", "--fork", "chroot", used, "/bin/sh", "-ec",
                                        "mount -t proc proc /proc\nmemreel record -- /bin/true").stderr)
        inside("test -f /usr/include/memreel/memreel.h && memreel view --version")
        inside("grep -q x-memreel-trace /usr/share/applications/memreel-view.desktop /usr/share/mime/packages/memreel.xml")
        inside(f"apt-get -qq purge --yes {' '.join(INSTALLED)} && ! find / -xdev -name '*memreel*' -not -path '/packages/*' | grep .")


if __name__ == "__main__":
    unittest.main()
