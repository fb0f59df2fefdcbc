# SPDX-License-Identifier: Apache-2.0
"""memreel for 64-bit Arm, on a machine that has another processor: the preset aarch64, run by qemu. Other tests of recording are run
there too, unchanged (arm.py)."""

import os
import re
import shutil
import subprocess
import unittest
import zipfile
from pathlib import Path

import arm
import arm_machine
from ground_truth import differences, read_trace, read_truth
from program import MEMREEL, SAMPLES, ProgramTest
from test_package import VERSION

BIN, FAKE = arm.BUILD / "bin", arm.BUILD / "fake"
KINDS = ("sleep", "poll", "read", "futex", "select", "wait", "epoll", "compute")


class ArmTest(ProgramTest):
    def setUp(self):
        super().setUp()
        if reason := arm.why_not():
            self.skipTest(reason)

    def run_there(self, *words, **variables):
        return subprocess.run(arm.command(*words), cwd=self.directory, env=os.environ | variables, capture_output=True, text=True, timeout=300)


class Units(ArmTest):
    """Unit tests that are not one run of one program; CMakeLists.txt has the others."""

    def assert_passes(self, *words, **variables):
        process = self.run_there(*words, **variables)
        self.assertEqual(process.returncode, 0, process.stdout[-4000:] + process.stderr[-2000:])

    def test_torch(self):
        """Each test by itself: they interpose functions of the process."""
        program = BIN / "torch_test"
        tests = len(re.findall("(?m)^  ", self.run_there(program, "--gtest_list_tests").stdout))
        self.assertGreater(tests, 10)
        for i in range(tests):
            self.assert_passes(program, "--gtest_brief=1", GTEST_TOTAL_SHARDS=str(tests), GTEST_SHARD_INDEX=str(i))

    def test_python(self):
        self.assert_passes(BIN / "python_test", "--gtest_brief=1")
        python = arm.ROOT / "usr/bin/python3.11"
        self.assert_passes(python, "-B", arm.SOURCES / "tests/unit/python/walk_test.py", python, arm.BUILD / "lib/libpython_probe.so")


class Traces(ArmTest):
    """Recorded on Arm, read here by memreel for this processor."""

    def recorded(self, *mode, options=()):
        truth, trace = self.directory / "truth", self.directory / "run.reel"
        process = self.run_there(BIN / "memreel-record", "record", "-o", trace, *options, "--", BIN / "fake_program", *mode,
                                 LD_LIBRARY_PATH=str(FAKE), MEMREEL_TRUTH=str(truth))
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("none lost", process.stderr)
        events = read_trace(MEMREEL, trace)
        self.assertEqual(differences(read_truth(truth.read_text()), events), [])
        info = self.document("info", trace)
        self.assertEqual((info["machine"], info["byte_order"], info["page_size"]), ("aarch64", "little", 4096))
        return trace, events

    def test_events(self):
        for mode in (("kinds",), ("vmm",), ("pools", 100), ("threads", 4, 50)):
            with self.subTest(mode):
                trace, _ = self.recorded(*mode)
                trace.unlink()
                (self.directory / "truth").unlink()

    def test_functions_of_the_driver_that_a_program_looks_up(self):
        self.recorded("kinds", options=["--backend", "interpose"])
        lookup = ("import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); context, address = ctypes.c_void_p(), ctypes.c_uint64()\n"
                  "assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0\n"
                  "assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4711)) == 0\n")
        trace = self.directory / "python.reel"
        process = self.run_there(BIN / "memreel-record", "record", "-o", trace, "--backend", "interpose", "--", arm.ROOT / "usr/bin/python3.11", "-c", lookup,
                                 LD_LIBRARY_PATH=str(FAKE))
        self.assertEqual(process.returncode, 0, process.stderr)
        rows = [row for row in read_trace(MEMREEL, trace) if row["kind"] == "alloc"]
        self.assertEqual([row["size"] for row in rows], [4711])
        self.assertIn("<module>", [frame["function"] for frame in rows[0]["stack"]], "Python's frames")

    def test_native_frames_are_named_with_the_other_machines_files(self):
        _, events = self.recorded("nested", 20)
        names = {frame["function"] for row in events for frame in row.get("stack", ())}
        self.assertTrue(any("nest" in name for name in names), names)
        trace = self.directory / "run.reel"
        named = self.directory / "named.reel"
        self.answer("symbols", trace, "--sysroot", arm.ROOT, "-o", named)
        names = {frame["function"] for row in read_trace(MEMREEL, named) for frame in row.get("stack", ())}
        self.assertTrue(any("libc_start" in name for name in names), names)


class Wheel(ProgramTest):
    """The wheel for Arm in a bare Debian for Arm, installed by that system's Python."""

    def setUp(self):
        super().setUp()
        self.wheel = Path(os.environ.get("MEMREEL_ARM_WHEEL", arm.SOURCES / "dist" / f"memreel-{VERSION}-py3-none-manylinux_2_28_aarch64.whl"))
        if reason := arm.why_not():
            self.skipTest(reason)
        if not self.wheel.exists():
            self.skipTest(f"there is no {self.wheel}: ./dev wheel --arch aarch64")

    def test_nothing_newer_than_glibc_2_28(self):
        subprocess.run([arm.SOURCES / "cmake/wheel/check_floor.py", self.wheel], check=True, stdout=subprocess.DEVNULL)

    def test_manual_pages_are_those_of_this_machine(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            pages = {Path(name).name: wheel.read(name) for name in wheel.namelist() if name.endswith(".1.gz")}
        here = {page.name: page.read_bytes() for page in (Path(MEMREEL).parents[1] / "man").glob("*.1.gz") if "mpi" not in page.name}
        self.assertGreater(len(here), 20)
        self.assertEqual(pages, here)

    def inside(self, script, **variables):
        process = arm.inside(self.root, "mount -t proc proc /proc\ncd /try\n" + script, **variables)
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
        return process

    def test_install_and_use(self):
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            self.skipTest("needs root and debootstrap")
        self.root = arm.BUILD / "wheel-root"
        if not (self.root / "complete").exists():
            shutil.rmtree(self.root, ignore_errors=True)
            subprocess.run(["debootstrap", "--variant=minbase", "--foreign", "--arch=arm64", "--include=python3-venv", "bookworm", self.root,
                            "http://deb.debian.org/debian"], check=True, stdout=subprocess.DEVNULL)
            # Devices were made; more can't be, as in LXC.
            process = arm.inside(self.root, "/debootstrap/debootstrap --second-stage", container="lxc")
            self.assertEqual(process.returncode, 0, process.stdout[-2000:] + process.stderr)
            (self.root / "complete").touch()
        work = self.root / "try"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        for file in (self.wheel, SAMPLES / "gpt_default.reel", BIN / "fake_program"):
            shutil.copy(file, work)
        shutil.copytree(FAKE, work / "fake", symlinks=True)
        self.inside("python3 -m venv v && v/bin/pip install --quiet ./memreel-*.whl")
        self.assertIn("11,583 of 11,583", self.inside("v/bin/memreel demo").stdout)
        self.assertEqual(self.inside("v/bin/memreel report gpt_default.reel").stdout,
                         self.answer("report", SAMPLES / "gpt_default.reel").stdout, "as on this machine")
        said = self.inside("v/bin/memreel record -o run.reel -- ./fake_program single 50", LD_LIBRARY_PATH="/try/fake", MEMREEL_TRUTH="/try/truth")
        self.assertIn("none lost", said.stderr)
        self.assertEqual(differences(read_truth((work / "truth").read_text()), read_trace(MEMREEL, work / "run.reel")), [])


class Machine(ProgramTest):
    """Attaching from outside, by a kernel that has ptrace: one for Arm."""

    def setUp(self):
        super().setUp()
        if reason := arm_machine.why_not():
            self.skipTest(reason)

    def test_programs_that_are_attached_to_do_not_notice(self):
        programs = {f"/opt/bin/{name}": BIN / name for name in ("memreel-attach", "waiting_program")}
        programs["/opt/lib/libmemreel-agent.so"] = arm.BUILD / "lib/libmemreel-agent.so"
        programs |= {f"/opt/fake/{name}": FAKE / name for name in ("libcuda.so.1", "libcupti.so.13")}
        script = f"""
export LD_LIBRARY_PATH=/lib:/opt/fake
for kind in {' '.join(KINDS)}; do
  /opt/bin/waiting_program $kind >$kind.out 2>&1 &
  program=$!
  sleep 1
  for round in 1 2 3; do
    /opt/bin/memreel-attach attach $program -o $kind.$round.reel --time-limit 30 >attach.out 2>&1 && sed "s/^/$kind /" attach.out || sed "s/^/$kind failed: /" attach.out
    sleep 0.3
    /opt/bin/memreel-attach detach $program 2>&1 | sed "s/^/$kind /"
  done
  kill -TERM $program; wait $program
  echo "$kind: $(cat $kind.out | tr '\\n' ' ')"
done
"""
        printed, _ = arm_machine.run(script, programs)
        for kind in KINDS:
            with self.subTest(kind):
                self.assertNotRegex(printed, f"{kind} failed", printed)
                found = re.search(rf"^{kind}: ready rounds (\d+) wrong (\d+) signals (\d+) of (\d+)", printed, re.MULTILINE)
                self.assertTrue(found, printed)
                rounds, wrong, received, sent = map(int, found.groups())
                self.assertGreater(rounds, 0)
                # A thread that enters epoll_wait just before it is stopped finds it interrupted (docs/arm.md).
                self.assertLessEqual(wrong, 1 if kind == "epoll" else 0, printed)
                self.assertEqual(received, sent, printed)


if __name__ == "__main__":
    unittest.main()
