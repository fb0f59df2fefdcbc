# SPDX-License-Identifier: Apache-2.0
"""Annotations in a process without a recorder, then with one that arrives late: alone.py LIBRARY [RECORDER]."""
import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../collector/python_module"))
import memreel

library = ctypes.CDLL(sys.argv[1])
library.annotated_pool.restype = ctypes.c_uint64
library.annotated_pool.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int]
library.annotated_life.argtypes = [ctypes.c_uint64]

assert library.annotated_connected() == 0
assert library.annotated_connect() == 0
assert library.annotated_pool(b"unseen", 0, 0) == 0
library.annotated_life(0)
library.annotated_marks()

assert not memreel.recording()
memreel.step()
memreel.mark("unseen")
memreel.snapshot()
assert memreel.usage(reset=True) == []
with memreel.tag("unseen"), memreel.pool("unseen", "arena") as pool:
    pool.segment_add(0, 100)
    pool.alloc(0, 10)
    pool.free(0)
    pool.oom(1)
memreel.steps_of_optimizers()()

recorder = ctypes.CDLL(sys.argv[2])  # loaded with RTLD_LOCAL, like an injected library
assert library.annotated_connected() == 0
recorder.late_recorder_introduce()
assert library.annotated_connected() == 1
