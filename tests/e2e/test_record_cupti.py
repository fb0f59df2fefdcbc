# SPDX-License-Identifier: Apache-2.0
"""Releases of CUPTI from 11.8 to 13.5, simulated by tests/fake: each records, and those that can be shared are."""

import os
import shutil
import unittest

from recorded import FAKE, RecordTest

PYTHON = shutil.which("python3")
SANITIZED = bool(os.environ.get("MEMREEL_SANITIZE"))

RELEASES = {"11.8": FAKE / "cupti-11.8/libcupti.so.11.8", "12.9": FAKE / "cupti-12.9/libcupti.so.12",
            "13.0": FAKE / "libcupti.so.13", "13.2": FAKE / "cupti-13.2/libcupti.so.13",
            "13.5": FAKE / "cupti-13.5/libcupti.so.13"}

# Another subscriber in the same process. It writes into CUPTI's 8 bytes per call, as profilers do.
SUBSCRIBES = """
import ctypes, sys
how = sys.argv[1]
cuda, cupti = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(sys.argv[2])

class Params(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("old_name", ctypes.c_char_p),
                ("old_name_size", ctypes.c_size_t), ("allow_multiple", ctypes.c_uint8), ("reserved", ctypes.c_uint8 * 7)]

@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
def called(user, domain, number, data):
    slot = ctypes.c_uint64.from_address(data + 56).value
    ctypes.c_uint64.from_address(slot).value = 0xDEAD
    calls.append(number)

calls, subscriber = [], ctypes.c_void_p()
def subscribe(allow):
    if allow is None:
        return cupti.cuptiSubscribe(ctypes.byref(subscriber), called, None)
    params = Params(size=ctypes.sizeof(Params), name=b"profiler", allow_multiple=allow)
    return cupti.cuptiSubscribe_v2(ctypes.byref(subscriber), called, None, ctypes.byref(params))

def allocate(size):
    pointer = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
    return pointer

cuda.cuInit(0)
context = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
cuda.cuCtxSetCurrent(context)
first = allocate(1000)
answers = [subscribe({"v1": None, "alone": 0, "shared": 1}[word]) for word in how.split(",")]
for number in (243, 245):
    cupti.cuptiEnableCallback(1, subscriber, 1, number)
second = allocate(2000)
assert cuda.cuMemFree_v2(first) == 0
assert cuda.cuMemFree_v2(ctypes.c_uint64(0xdead0000)) != 0
assert cuda.cuMemFree_v2(second) == 0
print(*answers, len(calls))
"""
WHAT_IT_DOES = [("alloc", 1000), ("alloc", 2000), ("free_requested", 1000), ("free_requested", 2000)]
BEFORE_13_3, FROM_13_3 = 13020, 13030  # versions of the driver


class Releases(RecordTest):
    def test_each_records(self):
        for release, library in RELEASES.items():
            for mode in ("kinds", "pools", "vmm", "capture", "contexts"):
                with self.subTest(release, mode=mode):
                    self.record_program(mode, options=("--libcupti", library),
                                        environment=self.environment(FAKE_CUDA_VERSION=BEFORE_13_3))
                    self.assertEqual(self.document("info", self.trace())["source"], "cupti")
                    self.assert_equals_truth()
                    self.trace().unlink()
                    self.truth_file.unlink()

    def test_each_names_who_has_it(self):
        for release, library in RELEASES.items():
            with self.subTest(release):
                process = self.record_program("single", 50, options=("--libcupti", library),
                                              environment=self.environment(FAKE_CUDA_VERSION=BEFORE_13_3,
                                                                           FAKE_CUPTI_TAKEN="Nsight Systems"))
                told = "Nsight Systems" if release.startswith("13") else "another tool"
                self.assertIn("CUPTI is in use by " + told, process.stderr)
                self.assertEqual(self.document("info", self.trace())["source"], "interpose")
                self.trace().unlink()


    def test_13_2_is_left_alone_where_the_driver_is_older(self):
        process = self.record_program("single", 50, options=("--libcupti", RELEASES["13.2"]),
                                      environment=self.environment(FAKE_CUDA_VERSION=13010))
        self.assertIn("needs a driver for CUDA 13.2 or newer; intercepting driver calls instead", process.stderr)
        self.assert_equals_truth()


@unittest.skipIf(SANITIZED or PYTHON is None, "Python can't load a sanitized library")
class Shared(RecordTest):
    def subscribed(self, how, release="13.5", driver=FROM_13_3, backend="auto", source="cupti", **variables):
        """The results of the program's subscriptions, its number of callbacks, and the messages. Checks that all of its calls
        are in the trace."""
        library = RELEASES[release]
        process = self.record(PYTHON, "-c", SUBSCRIBES, how, library,
                              options=("--libcupti", library, "--backend", backend),
                              environment=self.environment(FAKE_CUDA_VERSION=driver, **variables))
        calls = [(row["kind"], row["size"]) for row in self.events() if row["heap"] == "cuda.driver" and
                 row["kind"] in ("alloc", "free_requested")]
        self.assertEqual(calls, WHAT_IT_DOES)
        self.assertEqual(self.document("info", self.trace())["losses"]["unmatched_frees"], 0)
        self.trace().unlink()
        *answers, heard = map(int, process.stdout.split())
        self.assertEqual(heard, 8 if answers[-1] == 0 else 0, "two callbacks for each of four calls")
        return answers, process.stderr

    def test_both_have_it_where_both_share_it(self):
        answers, told = self.subscribed("shared")
        self.assertEqual(answers, [0])
        self.assertIn("CUPTI is shared with another part of the program", told)
        self.assertNotIn("intercepting", told)

    def test_whoever_was_first(self):
        answers, told = self.subscribed("shared", FAKE_CUPTI_SHARED="CUPTI for XProf")
        self.assertEqual(answers, [0])
        self.assertIn("CUPTI is shared with CUPTI for XProf", told)

    def test_it_is_shared_even_with_cupti_and_nothing_else(self):
        self.assertEqual(self.subscribed("shared", backend="cupti")[0], [0])

    def test_who_does_not_share_gets_it_alone(self):
        for how in ("v1", "alone"):
            with self.subTest(how):
                answers, told = self.subscribed(how)
                self.assertEqual(answers, [0])
                self.assertIn("handing CUPTI over", told)

    def test_who_does_not_share_gets_nothing_when_told_so(self):
        for how in ("v1", "alone"):
            with self.subTest(how):
                self.assertEqual(self.subscribed(how, backend="cupti")[0], [39])

    def test_older_drivers_have_it_for_one(self):
        answers, told = self.subscribed("shared,alone", driver=BEFORE_13_3)
        self.assertEqual(answers, [39, 0], "as without memreel")
        self.assertIn("handing CUPTI over", told)

    def test_older_releases_have_it_for_one(self):
        for release in ("13.2", "13.0"):
            with self.subTest(release):
                answers, told = self.subscribed("v1", release=release)
                self.assertEqual(answers, [0])
                self.assertIn("handing CUPTI over", told)

    def test_it_is_not_shared_with_who_came_first_and_does_not(self):
        process = self.record(PYTHON, "-c", SUBSCRIBES, "shared", RELEASES["13.5"],
                              options=("--libcupti", RELEASES["13.5"]),
                              environment=self.environment(FAKE_CUDA_VERSION=FROM_13_3, FAKE_CUPTI_TAKEN="Nsight"))
        self.assertIn("CUPTI is in use by Nsight; intercepting", process.stderr)


if __name__ == "__main__":
    unittest.main()
