# SPDX-License-Identifier: Apache-2.0
"""Drives the viewer on a virtual display: real key and mouse events, and checks of its screenshots."""

import json
import mmap
import os
import shutil
import string
import struct
import subprocess
import tempfile
import time
import unittest
import zlib
from pathlib import Path

from program import REPOSITORY, SANITIZED, ProgramTest

VIEW = os.environ.get("MEMREEL_VIEW", str(REPOSITORY / "build/release/bin/memreel-view"))
WIDTH, HEIGHT = 1400, 900
MISSING = [tool for tool in ("Xvfb", "xdotool") if shutil.which(tool) is None]
PATIENCE = 240 if SANITIZED else 60
SHIFTED = string.ascii_uppercase + '~!@#$%^&*()_+{}|:"<>?'  # typed with Shift, which is a key of its own


class Screen:
    """A headless X server."""

    def __init__(self):
        self.memory = tempfile.TemporaryDirectory()
        self.server = subprocess.Popen(
            ["Xvfb", "-displayfd", "1", "-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-nolisten", "tcp", "-noreset",
             "-fbdir", self.memory.name,
             "-r"],  # a key that a busy machine holds for long does not repeat
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.environment = {**os.environ, "DISPLAY": ":" + self.server.stdout.readline().strip(),
                            "LIBGL_ALWAYS_SOFTWARE": "1", "LP_NUM_THREADS": "1"}

    def close(self):
        """Stops the server."""
        self.server.terminate()
        self.server.wait()
        self.server.stdout.close()
        self.memory.cleanup()

    def pixels(self):
        """What is on the screen at this moment, and at every later one: a function of a place to the bytes of its pixels."""
        with (Path(self.memory.name) / "Xvfb_screen0").open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        header = struct.unpack(">25I", memory[:100])  # of the format of xwd
        start, stride, pixel = header[0] + 12 * header[19], header[12], header[11] // 8

        def of(place):
            left, top, width, height = (int(v) for v in place)
            rows = (start + y * stride + left * pixel for y in range(top, top + height))
            return b"".join(memory[at:at + width * pixel] for at in rows)
        return of

    def view(self, *arguments, timeout=PATIENCE):
        return subprocess.run([VIEW, *map(str, arguments)], env=self.environment, timeout=timeout, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class View:
    """A viewer with a window, driven by key and mouse events."""

    def __init__(self, screen, *arguments, size=f"{WIDTH}x{HEIGHT}", program=VIEW):
        self.screen = screen
        self.process = subprocess.Popen([program, *map(str, arguments), "--control", "--size", size],
                                        env=screen.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.mouse, self.pointer = 0, None  # mouse events sent, and the pointer's position
        self.has_window = False

    def ask(self, what, **more):
        self.process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("the viewer ended: " + self.process.stderr.read())
        return json.loads(line)

    def settled(self):
        """The state once nothing is left to do and all input has arrived, which may take long on a busy machine."""
        deadline = time.monotonic() + PATIENCE
        while not self.has_arrived(shown := self.ask("wait")):
            if time.monotonic() > deadline:
                raise AssertionError(f"the mouse did not arrive: {shown['mouse']} of {self.mouse}, {shown['pointer']} at {self.pointer}")
        return shown

    def has_arrived(self, shown):
        return shown["mouse"] >= self.mouse and self.pointer in (None, shown["pointer"])

    def hands(self, *arguments):
        words = [str(argument) for argument in arguments]
        if not self.has_window:
            self.ask("state")  # input sent before there is a window is lost
            self.has_window = True
        subprocess.run(["xdotool", *words], env=self.screen.environment, check=True, stdout=subprocess.DEVNULL)
        for i, word in enumerate(words):
            if word == "mousemove":
                self.pointer = [int(words[i + 1]), int(words[i + 2])]
            elif word in ("mousedown", "mouseup"):
                self.mouse += 1
            elif word == "click":
                times = int(words[i + 2]) if words[i + 1] == "--repeat" else 1
                button = next(w for w in words[i + (3 if times > 1 else 1):] if w in "12345")
                self.mouse += times * (1 if button in "45" else 2)  # the wheel has no release

    def key(self, *names):
        """One after the other: a frame may act on one key only."""
        for name in names:
            shown = self.pressed(name.count("+") + 1, "key", name)
        return shown

    def hold(self, name):
        """A key held down for many frames."""
        return self.pressed(name.count("+") + 1, "keydown", name, "sleep", "0.2", "keyup", name)

    def type(self, text):
        return self.pressed(sum(2 if c in SHIFTED else 1 for c in text), "type", "--delay", "15", text)

    def pressed(self, keys, *arguments):
        """The state once this many keys have arrived, which may take long on a busy machine."""
        before, deadline = self.ask("state")["keys"], time.monotonic() + PATIENCE
        self.hands(*arguments)
        while (shown := self.settled())["keys"] < before + keys:
            if time.monotonic() > deadline:
                raise AssertionError("keys were not pressed")
        return shown

    def click(self, x, y, button=1):
        self.hands("mousemove", int(x), int(y), "sleep", "0.05", "click", button)
        return self.settled()

    def place(self, name):
        """Left, top, width and height, as soon as it is drawn."""
        deadline = time.monotonic() + PATIENCE
        while name not in (places := self.settled()["places"]):
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is not drawn, but {sorted(places)}")
        return places[name]

    def click_on(self, place, across=0.5, down=0.5):
        x, y, width, height = self.place(place)
        return self.click(x + across * width, y + down * height)

    def press(self, place, across, down=0.5):
        """Presses the left button there and keeps it down."""
        self.point(place, across, down)
        self.hands("mousedown", 1)
        return self.settled()

    def point(self, place, across, down=0.5):
        x, y, width, height = self.place(place)
        self.hands("mousemove", int(x + across * width), int(y + down * height))
        return self.settled()

    def release(self):
        self.hands("mouseup", 1)
        return self.settled()

    def drag(self, place, start, end, modifier=None):
        """Drags with the left button from one fraction of a place's width to another."""
        if modifier:
            self.hands("keydown", modifier)
        self.press(place, start)
        self.point(place, (start + end) / 2)
        self.point(place, end)
        shown = self.release()
        if modifier:
            self.hands("keyup", modifier)
        return shown

    def double_click_on(self, place, across=0.5, down=0.5):
        self.point(place, across, down)
        self.hands("click", "--repeat", 2, "--delay", 20, 1)
        return self.settled()

    def close(self):
        """Kills the viewer, whatever its state."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()

    def quit(self):
        """Its exit code and output."""
        self.ask("quit")
        self.process.stdin.close()
        code = self.process.wait(timeout=PATIENCE)
        return code, self.process.stderr.read()


def picture(path):
    """Width, height and rows of RGB bytes of a PNG written by the viewer, with or without a palette."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, width, height, palette = 8, b"", 0, 0, None
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        elif kind == b"PLTE":
            palette = [body[i:i + 3] for i in range(0, size, 3)]
        elif kind == b"IDAT":
            packed += body
        at += 12 + size
    if palette:
        raw = zlib.decompress(packed)
        return width, height, [b"".join(palette[i] for i in raw[y * (width + 1) + 1:(y + 1) * (width + 1)])
                               for y in range(height)]
    raw, stride, rows = zlib.decompress(packed), 3 * width + 1, []
    # Rows are differences from the one above. All bytes of a row are added at once: their low seven bits can't carry into
    # the next byte, and the highest bit is added without a carry.
    high = int.from_bytes(b"\x80" * (stride - 1), "little")
    low = int.from_bytes(b"\x7f" * (stride - 1), "little")
    above = 0
    for y in range(height):
        row = int.from_bytes(raw[y * stride + 1:(y + 1) * stride], "little")
        above = ((row & low) + (above & low)) ^ ((row ^ above) & high)
        rows.append(above.to_bytes(stride - 1, "little"))
    return width, height, rows


def ink(rows, width):
    """The share of pixels that differ from the most frequent colour, and the number of colours."""
    counts = {}
    for row in rows[::3]:
        for x in range(0, 3 * width, 9):
            colour = bytes(row[x:x + 3])
            counts[colour] = counts.get(colour, 0) + 1
    return 1 - max(counts.values()) / sum(counts.values()), len(counts)


@unittest.skipIf(MISSING, "not installed: " + ", ".join(MISSING))
class ViewTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.screen = Screen()

    @classmethod
    def tearDownClass(cls):
        cls.screen.close()

    def open(self, file, *arguments, **how):
        view = View(self.screen, file, *arguments, **how)
        self.addCleanup(view.close)
        return view

    def end(self, view):
        self.assertEqual(view.quit(), (0, ""))

    def while_it_grows(self, source):
        """What the window shows when half of the trace is written, and once all of it is."""
        whole = source.read_bytes()
        path = self.file("growing.reel", whole[:len(whole) // 2])
        view = self.open(path)
        first = view.settled()
        self.assertTrue(first["followed"])
        with path.open("ab") as file:
            file.write(whole[len(whole) // 2:])
        deadline = time.monotonic() + PATIENCE
        while (now := view.settled())["events"] <= first["events"] or now["followed"]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.end(view)
        return first, now

    def copied_row(self, view, table):
        """The cells of a table's first row, as a right click copies them."""
        return self.copied(view, table, "copy/row")[0]

    def copied_rows(self, view, table):
        """The cells of all rows of a table with several."""
        return self.copied(view, table, "copy/all")[1:]

    def copied(self, view, table, what):
        x, y, width, height = view.place(table + "/first row")
        view.hands("mousemove", int(x + 0.5 * width), int(y + 0.5 * height), "click", 3)
        return [line.split("\t") for line in view.click_on(what)["clipboard"].splitlines()]
