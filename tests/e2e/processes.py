# SPDX-License-Identifier: Apache-2.0
"""Finds the descendants of a process, and ends them."""

import os
import signal
from pathlib import Path


def processes_below(process):
    """(pid, command line) of all descendants of `process`."""
    below = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            for child in map(int, children.read_text().split()):
                command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                below += [(child, command), *processes_below(child)]
        except OSError:  # it has ended
            continue
    return below


def kill_unless_ended(process):
    """Kills a process found a moment ago; False if it has ended since."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
