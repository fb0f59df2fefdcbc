#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How one libcupti can be subscribed to on this machine's driver: cupti_releases.py LIBRARY

Tries what programs do, each in its own process, since some releases crash on an older driver. Prints one line: CUPTI's
result for each sequence of subscriptions (0: success; 39: already taken). cupti_releases.py LIBRARY STEP... is one of
these processes. Steps: v1, alone and shared subscribe; leave ends the last subscription."""

import ctypes
import signal
import subprocess
import sys

SEQUENCES = ("v1", "alone", "shared", "shared shared", "shared v1", "alone leave v1", "shared leave v1")


class Params(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("old_name", ctypes.c_char_p),
                ("old_name_size", ctypes.c_size_t), ("allow_multiple", ctypes.c_uint8), ("reserved", ctypes.c_uint8 * 7)]


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
def called(*_):
    pass


def steps(cupti, words):
    """The result of each step; none for a function that this release lacks."""
    context, subscriber = ctypes.c_void_p(), ctypes.c_void_p()
    cuda = ctypes.CDLL("libcuda.so.1")
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    for word in words:
        if word == "leave":
            yield cupti.cuptiUnsubscribe(subscriber)
        elif word == "v1":
            yield cupti.cuptiSubscribe(ctypes.byref(subscriber), called, None)
        elif not hasattr(cupti, "cuptiSubscribe_v2"):
            yield None
        else:
            size = 40 if hasattr(cupti, "cuptiActivityGetAttribute_v2") else 32
            params = Params(size=size, name=b"probe", allow_multiple=word == "shared")
            yield cupti.cuptiSubscribe_v2(ctypes.byref(subscriber), called, None, ctypes.byref(params))


def tried(library, sequence):
    done = subprocess.run([sys.executable, __file__, library, *sequence.split()], capture_output=True, text=True, timeout=50)
    if done.returncode < 0:
        return "died of " + signal.Signals(-done.returncode).name
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def main(library, *words):
    if words:
        print(*("none" if answer is None else answer for answer in steps(ctypes.CDLL(library), words)), flush=True)
    else:
        print("; ".join(f"{sequence}: {tried(library, sequence)}" for sequence in SEQUENCES))


if __name__ == "__main__":
    main(*sys.argv[1:])
