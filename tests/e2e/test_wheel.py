# SPDX-License-Identifier: Apache-2.0
"""The wheel made by `./dev wheel`, installed in bare environments."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import unittest
import urllib.request
import zipfile
from pathlib import Path

import peers
import test_hardening
from program import MEMREEL, REPOSITORY, SAMPLES
from recorded import FAKE, PROGRAM
from test_package import VERSION

SAMPLE = SAMPLES / "gpt_default.reel"
FLOOR = REPOSITORY / "cmake/wheel/check_floor.py"
DEBIAN, UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"


def run(*words, code=0, **options):
    process = subprocess.run(list(map(str, words)), text=True, capture_output=True, stdin=subprocess.DEVNULL, **options)
    if process.returncode != code:
        raise AssertionError(f"{' '.join(map(str, words))} ended with {process.returncode}\n{process.stdout}{process.stderr}")
    return process


def made_wheel():
    if "MEMREEL_WHEEL" not in os.environ:
        run(REPOSITORY / "dev", "wheel")
    return Path(os.environ.get("MEMREEL_WHEEL") or next((REPOSITORY / "dist").glob(f"memreel-{VERSION}-*_x86_64.whl")))


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel = made_wheel()
        directory = tempfile.TemporaryDirectory(prefix="memreel-wheel-")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = Path(directory.name)
        cls.clean = {"PATH": "/usr/bin:/bin", "HOME": str(cls.directory), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    @classmethod
    def environment(cls, name, *packages):
        """The bin folder of a new environment with the wheel and these packages."""
        run(sys.executable, "-m", "venv", cls.directory / name)
        programs = cls.directory / name / "bin"
        # With this machine's pip settings.
        run(programs / "pip", "install", "--quiet", cls.wheel, *packages, env=os.environ | {"PYTHONPATH": ""})
        return programs


class Contents(WheelTest):
    def test_one_for_every_python_and_not_large(self):
        self.assertEqual(self.wheel.name, f"memreel-{VERSION}-py3-none-manylinux_2_28_x86_64.whl")
        page = next((member.compress_size for member in zipfile.ZipFile(self.wheel).infolist()
                     if member.filename.endswith("/memreel-view.html")), 0)
        self.assertLess(self.wheel.stat().st_size - page, 15_000_000)
        self.assertLess(page, 4_000_000, "the viewer for browsers")

    def test_what_it_holds(self):
        names = set(zipfile.ZipFile(self.wheel).namelist())
        for name in ("bin/memreel", "bin/memreel-record", "bin/memreel-attach", "bin/memreel-top", "bin/memreel-view",
                     "lib/memreel/libmemreel-agent.so", "include/memreel/memreel.h", "share/man/man1/memreel-record.1.gz",
                     "share/memreel/schema/report.json",
                     "share/memreel/licenses/libdw-dev", "share/memreel/samples/gpt_default.reel"):
            self.assertIn(f"memreel/_dist/{name}", names)
        self.assertLessEqual({"memreel/py.typed", "memreel/torch_oom.py", "memreel/integrations/lightning.py"}, names)

    def test_metadata(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            text = wheel.read(f"memreel-{VERSION}.dist-info/METADATA").decode()
        self.assertEqual(set(re.findall(r"(?m)^Provides-Extra: (.*)$", text)), {"cu12", "cu13", "pandas", "ray"})
        self.assertNotIn("Requires-Dist", re.sub(r"(?m)^Requires-Dist: .*extra == .*$", "", text))

    def test_the_source_distribution_has_all_that_is_built_and_installed(self):
        python = peers.python_with("build", "scikit_build_core")
        run(python, "-m", "build", "--sdist", "--no-isolation", "--outdir", self.directory, REPOSITORY)
        with tarfile.open(self.directory / f"memreel-{VERSION}.tar.gz") as archive:
            archive.extractall(self.directory)
        source = self.directory / f"memreel-{VERSION}"
        run("cmake", "-G", "Ninja", "-S", source, "-B", source / "made", "-D", "MEMREEL_TESTS=OFF", "-D", "MEMREEL_CUDA=OFF")
        rules = (source / "made/cmake_install.cmake").read_text()
        # build/web is what `./dev web` builds, and optional.
        named = [Path(name) for name in re.findall(rf'"({re.escape(str(source))}/[^"]+)"', rules)
                 if not name.startswith((f"{source}/made/", f"{source}/build/web/"))]
        self.assertGreater(len(named), 8)
        self.assertEqual([str(file) for file in named if not file.exists()], [])

    def test_nothing_newer_than_glibc_2_28(self):
        run(FLOOR, self.wheel)
        # The check rejects this system's own programs.
        self.assertIn("memreel needs glibc", run(FLOOR, Path(MEMREEL).parent, code=1).stderr)

    def test_its_programs_are_hardened(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            wheel.extractall(self.directory / "unpacked")
        files = [file for file in (self.directory / "unpacked").rglob("*")
                 if file.is_file() and file.read_bytes()[:4] == b"\x7fELF" and file.name != "libglfw.so.3"]
        self.assertEqual(len(files), 6, files)
        found = {f"{file.name} {line}" for file in files for line in test_hardening.shortcomings(file)}
        self.assertLessEqual(found, {"memreel-view looks for libraries where it was built"})  # $ORIGIN, for libglfw.so.3

    def test_auditwheel_agrees(self):
        python = peers.python_with("auditwheel")
        said = " ".join(run(python, "-m", "auditwheel", "show", self.wheel).stdout.split())
        found = re.search(r'consistent with the following platform tag: "manylinux_2_(\d+)_x86_64"', said)
        self.assertTrue(found and int(found[1]) <= 28, said)


class Installed(WheelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.programs = cls.environment("environment")
        cls.memreel = cls.programs / "memreel"

    def test_the_demonstration(self):
        self.assertIn("11,583 of 11,583", run(self.memreel, "demo", env=self.clean).stdout)
        self.assertEqual(run(self.programs / "python", "-m", "memreel", "--version", env=self.clean).stdout, f"memreel {VERSION}\n")

    def test_it_finds_its_names_of_native_frames(self):
        """elfutils is included: the report equals that of a program with the system's."""
        self.assertEqual(run(self.memreel, "report", SAMPLE, env=self.clean).stdout, run(MEMREEL, "report", SAMPLE).stdout)

    def test_it_says_where_its_headers_are(self):
        includes = run(self.programs / "memreel", "--includes", env=self.clean).stdout.strip()
        self.assertTrue(Path(includes.removeprefix("-I"), "memreel/memreel.h").exists())
        for option, file in (("--cmake-dir", "memreelConfig.cmake"), ("--pkgconfig-dir", "memreel.pc")):
            self.assertTrue(Path(run(self.programs / "memreel", option, env=self.clean).stdout.strip(), file).exists())

    def test_a_recording_on_the_fake_gpu(self):
        trace = self.directory / "run.reel"
        said = run(self.memreel, "record", "-o", trace, "--", PROGRAM, "single", "50",
                   env=self.clean | {"LD_LIBRARY_PATH": str(FAKE), "MEMREEL_TRUTH": str(self.directory / "truth")}).stderr
        self.assertIn("none lost", said)
        kinds = json.loads(run(self.memreel, "info", trace, "--json", env=self.clean).stdout)["kinds"]
        self.assertGreater(kinds["alloc"], 10)

    def test_python_reads_it(self):
        said = run(self.programs / "python", "-c", f"import memreel; print(memreel.load({str(SAMPLE)!r}).categories()[0]['category'])",
                   env=self.clean).stdout
        self.assertEqual(said, "activation\n")

    def test_a_picture_without_a_display(self):
        if not any(Path(folder, "libEGL.so.1").exists() for folder in ("/usr/lib64", "/usr/lib/x86_64-linux-gnu")):
            self.skipTest("there is no EGL here")
        picture = self.directory / "picture.png"
        run(self.memreel, "view", SAMPLE, "--screenshot", picture, "--size", "800x600", env=self.clean)
        self.assertGreater(picture.stat().st_size, 20_000)
        said = run(self.memreel, "view", SAMPLE, env=self.clean, code=2).stderr
        self.assertRegex(said, r"^memreel: error: can't open a window: .*DISPLAY.*\(a display is needed.*\)\n$")

    def test_it_leaves_nothing_behind(self):
        folder = self.directory / "gone"
        run(sys.executable, "-m", "venv", folder)

        def files():
            return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}
        before = files()
        run(folder / "bin/pip", "install", "--quiet", self.wheel)
        self.assertIn(folder / "bin/memreel", files() - before)
        run(folder / "bin/memreel", "demo", env=self.clean)
        run(folder / "bin/python", "-c", "import memreel", env=self.clean)
        run(folder / "bin/pip", "uninstall", "--quiet", "--yes", "memreel")
        self.assertEqual(files() - before, set())


class Tables(WheelTest):
    def test_events_for_pandas_with_and_without_arrow(self):
        python = peers.python_with("pandas", "pyarrow")
        program = f"""
            import sys
            if len(sys.argv) > 1:
                sys.modules["pyarrow"] = None
            import memreel
            table = memreel.load({str(SAMPLE)!r}).to_pandas()
            print(len(table), table[table.kind == "alloc"]["size"].sum(), table.category.nunique())
        """
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "collector/python_module"),
                                    "PATH": f"{Path(MEMREEL).parent}:{os.environ['PATH']}"}
        with_arrow, without = (run(python, "-c", textwrap.dedent(program), *words, env=environment).stdout for words in ([], ["x"]))
        self.assertEqual(with_arrow, without)
        self.assertTrue(with_arrow.startswith("34294 "), with_arrow)


USE = """
    import memreel

    from memreel.integrations.transformers import MemreelCallback

    job = memreel.fleet("job/", heap="main")
    MemreelCallback("run.pickle", dump_at_end=True)
    peak: int = job.ranks[0].peak_live_bytes or 0
    beside: list[int] = [job.ranks[0].beside_bytes or 0, memreel.predict({1: "a.reel"}, to=[2], heap="main")[0].beside_bytes or 0]
    parts: list[dict[str, object]] = memreel.diff("a.reel", "b.reel", heap="main").device_totals[0].parts
    with memreel.tag("evaluation"), memreel.pool("activations", kind="arena") as pool:
        pool.alloc(4096, peak)
    memreel.usage()[0].live_bytes.bit_length()
"""


class Types(WheelTest):
    def test_the_package_and_a_program_pass_mypy_strict(self):
        programs = self.environment("types", "mypy", "pytest", "pandas-stubs")
        program = self.directory / "use.py"
        program.write_text(textwrap.dedent(USE))
        # The callbacks' base classes are those of packages that are not installed.
        strict = [programs / "mypy", "--strict", "--ignore-missing-imports", "--allow-subclassing-any"]
        run(*strict, "-p", "memreel", cwd=self.directory)
        run(*strict, program, cwd=self.directory)
        program.write_text(program.read_text().replace("peak: int", "peak: str"))
        self.assertIn("Incompatible types in assignment", run(*strict, program, cwd=self.directory, code=1).stdout)
        program.write_text(textwrap.dedent(USE).replace("dump_at_end", "nonsense"))
        self.assertIn("Unexpected keyword argument", run(*strict, program, cwd=self.directory, code=1).stdout)


TESTS = """
    import ctypes
    import pytest

    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuInit(0)
    cuda.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0)

    def use(size):
        pointer = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
        assert cuda.cuMemFree_v2(pointer) == 0

    @pytest.mark.memreel_limit("2 MiB")
    @pytest.mark.parametrize("size", [1, 2, 3, 4])
    def test_size(size):
        use(size << 20)
"""


class Pytest(WheelTest):
    def check(self, *packages):
        programs = self.environment("-".join(packages).replace("=", ""), *packages, "pytest-xdist")
        tests = self.directory / "test_sizes.py"
        tests.write_text(textwrap.dedent(TESTS))
        environment = self.clean | {"LD_LIBRARY_PATH": str(FAKE)}
        command = [programs / "python", "-B", "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", tests]
        for options in ([], ["-n", "2"]):
            with self.subTest(packages=packages, options=options):
                said = run(programs / "memreel", "record", "-q", "-o", self.directory / "%p.reel", "--", *command, *options,
                           "--memreel-required", env=environment, cwd=self.directory, code=1).stdout
                self.assertIn("2 failed, 2 passed", said)
                self.assertIn("1.00 MiB more than its limit of 2.00 MiB", said)
                said = run(*command, *options, env=environment, cwd=self.directory).stdout
                self.assertIn("4 tests have limits on GPU memory that were not checked", said)
                said = run(*command, *options, "--memreel-required", env=environment, cwd=self.directory, code=4)
                self.assertIn("this process is not recorded", said.stdout + said.stderr)

    def test_an_older_one(self):
        self.check("pytest==7.*")

    def test_the_newest(self):
        self.check("pytest>=8")


class BareRoot:
    """A system with nothing but python3-venv."""
    NAME, SUITE, MIRROR, OPTIONS = "", "", DEBIAN, ("--include=python3-venv",)

    def setUp(self):
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            self.skipTest("needs root and debootstrap")
        self.root = Path(MEMREEL).resolve().parents[1] / f"wheel-root-{self.NAME or self.SUITE}"
        if not (self.root / "complete").exists():
            shutil.rmtree(self.root, ignore_errors=True)
            self.prepare()
            run("debootstrap", "--variant=minbase", *self.OPTIONS, self.SUITE, self.root,
                os.environ.get("MEMREEL_OLD_MIRROR", self.MIRROR))
            self.complete()
            (self.root / "complete").touch()
        shutil.rmtree(self.root / "work", ignore_errors=True)
        (self.root / "work").mkdir()
        shutil.copy(self.wheel, self.root / "work")

    def prepare(self):
        """What complete() needs. Skips the test where that can't be had."""

    def complete(self):
        """Changes the new root."""

    def inside(self, script, code=0):
        return run("unshare", "--mount", "--pid", "--fork", "chroot", self.root, "/bin/sh", "-ec",
                   "mount -t proc proc /proc\ncd /work\n" + script, code=code, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def use(self, memreel):
        self.assertIn("11,583 of 11,583", self.inside(f"{memreel} demo").stdout)
        # The agent is loaded, and has nothing to report on a program without CUDA.
        said = self.inside(f"LD_DEBUG=libs {memreel} record -- /bin/true")
        self.assertRegex(said.stderr, r"calling init: .*/libmemreel-agent\.so")
        self.assertIn("true ended", said.stderr)
        # Libraries that the viewer lacks are named with their package.
        self.assertIn("libegl1", self.inside(f"{memreel} view --screenshot x.png", code=2).stderr)
        self.assertIn("libx11-6", self.inside(f"DISPLAY=:7 {memreel} view", code=2).stderr)


class Installable(BareRoot):
    def test_install_and_use(self):
        began = time.monotonic()
        self.inside("python3 -m venv v && v/bin/pip install --quiet ./memreel-*.whl && v/bin/memreel --version")
        print(f"pip install: {time.monotonic() - began:.1f} s", file=sys.stderr)
        self.use("v/bin/memreel")
        self.assertEqual(self.inside("v/bin/pip uninstall --quiet --yes memreel\nfind v -name '*memreel*'").stdout, "")


class Debian11(Installable, WheelTest):  # glibc 2.31, Python 3.9
    SUITE = "bullseye"


class Debian12(Installable, WheelTest):
    SUITE = "bookworm"


class Debian13(Installable, WheelTest):  # glibc 2.41, Python 3.13
    SUITE = "trixie"


class Ubuntu2204(Installable, WheelTest):
    # Debian has no package of Ubuntu's keys.
    SUITE, MIRROR, OPTIONS = "jammy", UBUNTU, (*BareRoot.OPTIONS, "--no-check-gpg", "--components=main,universe")


class RedHat8(BareRoot, WheelTest):
    """The programs with RHEL 8's C library, 2.28, in a Debian 11 whose shell needs none newer; its Python does. The library is that of Debian 10, or what
    `make install DESTDIR=$MEMREEL_GLIBC_2_28` of glibc's branch release/2.28/master installs, for systems that can't reach Debian's archive."""
    NAME, SUITE, OPTIONS = "rhel8", "bullseye", ()
    PACKAGE = "http://archive.debian.org/debian/pool/main/g/glibc/libc6_2.28-10+deb10u1_amd64.deb"

    def prepare(self):
        self.library = Path(os.environ.get("MEMREEL_GLIBC_2_28", self.directory / "glibc"))
        if self.library.exists():
            return
        try:
            with urllib.request.urlopen(self.PACKAGE, timeout=60) as answer:
                (self.directory / "libc6.deb").write_bytes(answer.read())
        except OSError as problem:
            self.skipTest(f"can't get a C library 2.28: {self.PACKAGE}: {problem}")
        run("dpkg-deb", "--extract", self.directory / "libc6.deb", self.library)

    def complete(self):
        libraries = self.root / "lib/x86_64-linux-gnu"
        for file in {file.name: file for pattern in ("lib64/*.so.*", "lib/x86_64-linux-gnu/*.so.*") for file in self.library.glob(pattern)}.values():
            for place in (libraries, self.root / "lib64"):
                if place == libraries or (place / file.name).is_symlink():
                    (place / file.name).unlink(missing_ok=True)
                    shutil.copy(file, place / file.name)

    def test_use(self):
        self.assertIn("release version 2.28", self.inside("/lib/x86_64-linux-gnu/libc.so.6").stdout)
        programs = self.root / "work/memreel/_dist/bin"
        with zipfile.ZipFile(self.wheel) as wheel:
            wheel.extractall(self.root / "work")
        for program in programs.iterdir():
            program.chmod(0o755)
        self.use("memreel/_dist/bin/memreel")


if __name__ == "__main__":
    unittest.main()
