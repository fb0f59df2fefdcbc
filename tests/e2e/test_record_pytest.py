# SPDX-License-Identifier: Apache-2.0
"""Limits on GPU memory in pytest, on the fake GPU."""

import re
import shutil
import subprocess
import sys
import textwrap
import unittest

from program import REPOSITORY
from recorded import RecordTest

# Debian's pytest is for Debian's Python.
PYTHONS = [sys.executable, "/usr/bin/python3"]
PYTHON = next((python for python in PYTHONS
               if subprocess.run([python, "-c", "import pytest"], stderr=subprocess.DEVNULL).returncode == 0), None)

GPU = """
    import ctypes
    import pytest

    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuInit(0)
    cuda.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0)

    def alloc(size):
        pointer = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
        return pointer

    def free(pointer):
        assert cuda.cuMemFree_v2(pointer) == 0

    @pytest.fixture
    def weights():
        pointer = alloc(64 << 20)
        yield pointer
        free(pointer)
"""


@unittest.skipUnless(PYTHON, "there is no pytest here")
class Pytest(RecordTest):
    def pytest(self, tests, *options, recorded=True, code):
        """Runs pytest on a file of tests; returns its output."""
        (self.directory / "test_gpu.py").write_text(textwrap.dedent(GPU) + textwrap.dedent(tests))
        command = [PYTHON, "-B", "-m", "pytest", "-p", "memreel.pytest_plugin", "-p", "no:cacheprovider", "-rA", *options]
        environment = self.environment(PYTHONPATH=REPOSITORY / "collector/python_module", COLUMNS=200)
        if recorded:
            return self.record(*command, environment=environment, code=code).stdout
        process = subprocess.run(command, cwd=self.directory, env=environment, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(process.returncode, code, process.stdout + process.stderr)
        return process.stdout + process.stderr

    def installed(self):
        """Where pip would have put the package, with the entry points of pyproject.toml: pytest loads these."""
        site = self.directory / "site"
        shutil.copytree(REPOSITORY / "collector/python_module/memreel", site / "memreel")
        project = (REPOSITORY / "pyproject.toml").read_text()
        entries = re.search(r"\[project\.entry-points\.pytest11\]\n((?:.+ = .*\n)+)", project)[1]
        record = site / "memreel-0.1.0.dist-info"
        record.mkdir()
        (record / "METADATA").write_text("Metadata-Version: 2.1\nName: memreel\nVersion: 0.1.0\n")
        points = re.sub(r'"([^"]*)" = "([^"]*)".*', r"\1 = \2", entries)
        (record / "entry_points.txt").write_text(f"[pytest11]\n{points}")
        return site

    def test_an_installed_plugin_is_found(self):
        site = self.installed()
        (self.directory / "test_gpu.py").write_text(textwrap.dedent("""
            import pytest
            @pytest.mark.memreel_limit("1 B")
            def test_one():
                pass
        """))
        for options in ([], ["-p", "memreel.pytest_plugin"]):
            process = subprocess.run([PYTHON, "-B", "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", *options],
                                     cwd=self.directory, env=self.environment(PYTHONPATH=site), text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
            self.assertEqual(process.returncode, 0, process.stdout)
            self.assertIn("1 passed", process.stdout)
            self.assertIn("limits on GPU memory that were not checked", process.stdout)

    def test_a_limit_is_on_what_the_test_has_at_most(self):
        said = self.pytest("""
            @pytest.mark.memreel_limit("32 MiB")
            def test_within(weights):
                for _ in range(3):
                    free(alloc(32 << 20))

            @pytest.mark.memreel_limit("32MiB")
            def test_beyond(weights):
                first, second = alloc(32 << 20), alloc(3 << 19)
                free(first)
                free(second)

            @pytest.mark.memreel_limit("1 GiB")
            def test_that_fails_by_itself():
                assert False
        """, code=1)
        self.assertIn("PASSED test_gpu.py::test_within", said)
        self.assertIn("FAILED test_gpu.py::test_beyond", said)
        self.assertIn("the test used up to 33.50 MiB on device 0, 1.50 MiB more than its limit of 32.00 MiB", said)
        self.assertIn("FAILED test_gpu.py::test_that_fails_by_itself - assert False", said)

    def test_what_a_test_keeps_is_a_leak(self):
        said = self.pytest("""
            kept = []

            @pytest.mark.memreel_leaks()
            def test_clean(weights):
                free(alloc(1 << 20))

            @pytest.mark.memreel_leaks()
            def test_leaky(weights):
                kept.append(alloc(1000))

            @pytest.mark.memreel_leaks("1 MiB")
            def test_allowed():
                kept.append(alloc(1 << 20))

            @pytest.mark.memreel_leaks(warmups=1)
            def test_cache():
                if len(kept) < 3:
                    kept.append(alloc(1 << 20))

            def test_of_nothing():
                kept.append(alloc(1 << 20))
        """, code=1)
        self.assertIn("FAILED test_gpu.py::test_leaky", said)
        self.assertIn("the test kept 1000 B on device 0; it may keep nothing", said)
        self.assertIn("1 failed, 4 passed", said)

    def test_unittest_is_judged_too(self):
        tests = """
            import unittest
            kept = []

            class TestUnit(unittest.TestCase):
                def setUp(self):
                    self.weights = alloc(1 << 20)

                def tearDown(self):
                    free(self.weights)

                @pytest.mark.memreel_limit("100 MiB")
                def test_beyond(self):
                    free(alloc(500 << 20))

                @pytest.mark.memreel_limit("100 MiB")
                def test_within(self):
                    free(alloc(50 << 20))

                @pytest.mark.memreel_leaks(warmups=1)
                def test_cache(self):
                    if not kept:
                        kept.append(alloc(1 << 20))

            @pytest.mark.memreel_leaks()
            class TestKeeps(unittest.TestCase):
                def test_keeps(self):
                    kept.append(alloc(5 << 20))

                def test_fails_by_itself(self):
                    self.fail("by itself")
        """
        said = self.pytest(tests, code=1)
        self.assertIn("the test used up to 501.00 MiB on device 0, 401.00 MiB more than its limit of 100.00 MiB", said)
        self.assertIn("the test kept 5.00 MiB on device 0; it may keep nothing", said)
        for name in ("TestUnit::test_beyond", "TestKeeps::test_keeps", "TestKeeps::test_fails_by_itself"):
            self.assertIn(f"FAILED test_gpu.py::{name}", said)
        self.assertIn("3 failed, 2 passed", said)
        said = self.pytest(tests, recorded=False, code=1)
        self.assertIn("5 tests have limits on GPU memory that were not checked", said)

    def test_a_framework_is_judged_by_its_tensors(self):
        said = self.pytest("""
            import memreel

            @pytest.mark.memreel_limit("1 KiB")
            def test_pool():
                with memreel.pool("pool", "caching") as pool:
                    base = alloc(64 << 20)
                    pool.segment_add(base.value, 64 << 20)
                    pool.alloc(base.value, 1024)
                    pool.free(base.value)
                    pool.segment_remove(base.value)
                    free(base)
        """, code=0)
        self.assertIn("1 passed", said)

    def test_the_device_is_judged_whatever_pools_there_are(self):
        said = self.pytest("""
            import memreel

            def pool_of(size, name):
                pool = memreel.pool(name, "arena")
                base = alloc(size)
                pool.segment_add(base.value, size)
                return pool, base

            def test_a_pool_is_made():
                global pools
                pools = [pool_of(100 << 20, name) for name in "ab"]

            @pytest.mark.memreel_limit("100 MiB")
            def test_beside_the_pool():
                free(alloc(500 << 20))

            @pytest.mark.memreel_leaks()
            def test_leaks_beside_the_pool():
                alloc(64 << 20)

            @pytest.mark.memreel_limit("100 MiB")
            def test_two_pools_at_once():
                for pool, base in pools:
                    pool.alloc(base.value, 80 << 20)
                for pool, base in pools:
                    pool.free(base.value)

            @pytest.mark.memreel_limit("100 MiB")
            def test_two_pools_after_each_other():
                for pool, base in pools:
                    pool.alloc(base.value, 80 << 20)
                    pool.free(base.value)

            @pytest.mark.memreel_limit("50 MiB")
            @pytest.mark.memreel_leaks()
            def test_a_pool_in_a_pool_counts_once():
                outer, base = pools[0]
                outer.alloc(base.value, 80 << 20)
                inner = memreel.pool("inner", "slab", parent=outer)
                inner.segment_add(base.value, 80 << 20)
                inner.alloc(base.value, 40 << 20)
                inner.free(base.value)
                inner.segment_remove(base.value)
                outer.free(base.value)
        """, code=1)
        self.assertIn("the test used up to 500.00 MiB on device 0, 400.00 MiB more than its limit of 100.00 MiB", said)
        self.assertIn("the test kept 64.00 MiB on device 0; it may keep nothing", said)
        self.assertIn("the test used up to 160.00 MiB on device 0, 60.00 MiB more than its limit of 100.00 MiB", said)
        for name in ("a_pool_is_made", "two_pools_after_each_other", "a_pool_in_a_pool_counts_once"):
            self.assertIn(f"PASSED test_gpu.py::test_{name}", said)
        self.assertIn("3 failed, 3 passed", said)

    def test_tests_are_ranges_of_the_trace(self):
        self.pytest("def test_one():\n    free(alloc(512))\n", code=0)
        events = self.events()
        names = [(row["mark"], row["phase"]) for row in events if row["kind"] == "mark"]
        self.assertEqual(names, [("test_gpu.py::test_one", "begin"), ("test_gpu.py::test_one", "end")])

    def test_without_a_recorder_the_tests_run_and_say_so(self):
        tests = """
            @pytest.mark.memreel_limit("1 B")
            def test_one():
                free(alloc(512))
        """
        said = self.pytest(tests, "--strict-markers", recorded=False, code=0)
        self.assertIn("1 test has limits on GPU memory that were not checked", said)
        self.assertIn("memreel record -- python -m pytest", said)
        said = self.pytest(tests, "--memreel-required", recorded=False, code=4)
        self.assertIn("this process is not recorded", said)

    def test_a_limit_that_is_none(self):
        said = self.pytest("""
            @pytest.mark.memreel_limit("much")
            def test_one():
                pass
        """, code=1)
        self.assertIn("'much' is not a valid size", said)


if __name__ == "__main__":
    unittest.main()
