# SPDX-License-Identifier: Apache-2.0
"""Drives programs in a terminal as a person would: tmux is the terminal, keys go in, the screen comes out."""

import fcntl
import itertools
import os
import shlex
import shutil
import struct
import subprocess
import termios
import time
from pathlib import Path

from program import MEMREEL, SANITIZED

MISSING = [tool for tool in ("tmux",) if shutil.which(tool) is None]
PATIENCE = 240 if SANITIZED else 60
BUSY = ("judging", "trying", "reading", "importing", "drawing", "searching", "Being judged", "comparing", "listing", "weighing")
CONFIGURATION = """
set -g default-terminal "tmux-256color"
set -g status off
set -g remain-on-exit on
set -g set-clipboard on
set -sg escape-time 5
set -g exit-empty off
"""


class Terminal:
    """A shell command in a terminal of its own. Afterwards its screen shows "code N"."""

    number = itertools.count()  # a server that is closed may still have its socket

    def __init__(self, directory, command, size=(80, 24), **environment):
        self.socket, configuration = directory / f"tmux{next(self.number)}", directory / "tmux.conf"
        configuration.write_text(CONFIGURATION)
        self.configuration = configuration
        self.clean = {k: v for k, v in os.environ.items()
                      if k not in ("TMUX", "TERM", "COLORTERM", "NO_COLOR", "LC_ALL", "COLORFGBG", "COLUMNS", "LINES")}
        self.clean |= {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in
                            ({"LC_ALL": "C.UTF-8", "MEMREEL": MEMREEL} | environment).items())
        self.tmux("-u", "new-session", "-d", "-x", size[0], "-y", size[1],
                  f"export {settings}; {command}; echo code $?; exec sleep 1000")
        self.shell, self.tty = self.tmux("display-message", "-p", "#{pane_pid} #{pane_tty}").split()

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-f", self.configuration, "-S", self.socket, *map(str, arguments)], env=self.clean,
                              check=True, timeout=PATIENCE, text=True, stdout=subprocess.PIPE).stdout

    def screen(self, colours=False):
        return self.tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def until(self, condition):
        """The screen, once it is as wanted."""
        deadline = time.monotonic() + PATIENCE
        while not condition(shown := self.screen()):
            if time.monotonic() > deadline:
                raise AssertionError("the screen stays\n" + shown)
            time.sleep(0.03)
        return shown

    def shows(self, *texts):
        return self.until(lambda shown: all(text in shown for text in texts))

    def has_taken_keys(self):
        """Whether the program has read its input and waits for more, none of its threads at work, or has ended."""
        try:
            threads = Path(f"/proc/{self.process()}/task").glob("*/stat")
            states = {thread.read_text().rpartition(")")[2].split()[0] for thread in threads}
            tty = os.open(self.tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
        except (OSError, IndexError):
            return True
        try:
            unread, = struct.unpack("i", fcntl.ioctl(tty, termios.FIONREAD, bytes(4)))
        finally:
            os.close(tty)
        return unread == 0 and not states & {"R", "D"}

    def settled(self):
        """The screen once nothing is being done and it stays as it is."""
        before = [None]

        def is_still(shown):
            same = shown == before[0] and shown.strip() and not any(word in shown.split("\n")[0] or word in shown.split("\n")[1] for word in BUSY)
            before[0] = shown
            same = same and self.has_taken_keys()
            if not same:
                time.sleep(0.1)
            return same
        return self.until(is_still)

    def key(self, *names):
        """Keys by tmux's names: Up, Enter, S-Left, M-Left, or characters."""
        for name in names:
            self.tmux("send-keys", "-t", "0", *(["-l"] if len(name) == 1 else []), name)
        time.sleep(0.05)
        return self.settled()

    def type(self, text):
        self.tmux("send-keys", "-t", "0", "-l", text)
        return self.settled()

    def mouse(self, x, y, button=0):
        """A press of a button (64, 65: the wheel) at a column and row, from 0."""
        for sign in [button] if button >= 64 else [button, 3]:  # the wheel has no release
            # At once: an escape that comes alone is a key.
            self.tmux("set-buffer", "-b", "press", "\033[M" + "".join(chr(32 + n) for n in (sign, x + 1, y + 1)))
            self.tmux("paste-buffer", "-t", "0", "-b", "press", "-d")
        time.sleep(0.05)
        return self.settled()

    def resize(self, width, height):
        self.tmux("resize-window", "-x", width, "-y", height)
        return self.settled()

    def process(self):
        """The process that the shell runs."""
        return int(Path(f"/proc/{self.shell}/task/{self.shell}/children").read_text().split()[0])

    def clipboard(self):
        return self.tmux("show-buffer")

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], env=self.clean, timeout=PATIENCE,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
