# SPDX-License-Identifier: Apache-2.0
"""Runs a program in a fork of this process, so that its effects on the allocator end with it."""

import os
import signal
import traceback

LONGEST = 120  # time limit of a program in seconds


class Crashed(Exception):
    """A signal ended the program: something below it is wrong, for instance the fake CUDA lacks a function."""


def run(program, read_as=int):
    """What `program` returns, as `read_as` reads its text; None on failure or timeout. MEMREEL_LAB_VERBOSE=1 shows why. Raises
    Crashed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(LONGEST)
            os.close(read)
            os.write(write, str(program()).encode())
            os._exit(0)
        except BaseException:  # noqa: BLE001: any failure concerns this program only
            if os.environ.get("MEMREEL_LAB_VERBOSE"):
                traceback.print_exc()
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGALRM:
        raise Crashed(signal.Signals(os.WTERMSIG(status)).name)
    return read_as(answer) if status == 0 else None
