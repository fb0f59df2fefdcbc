# SPDX-License-Identifier: Apache-2.0
"""Drives pages in headless Chromium with real input events and inspects what is rendered. Commands go over a pipe (DevTools
protocol). firefox.py has the same for Firefox."""

import base64
import itertools
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import zlib

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 240
CONTROL, SHIFT = 2, 8  # DevTools' modifiers
KEYS = {"Escape": (27, ""), "Enter": (13, "\r"), "Home": (36, ""), "Tab": (9, ""), "ArrowDown": (40, ""), "ArrowRight": (39, "")}  # DevTools also needs legacy key codes


def pixels_of(data):
    """The pixels of a PNG with 8 bits per channel and no palette, each as bytes."""
    at, packed, header = 8, b"", None
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            header = struct.unpack(">IIBB", data[at + 8:at + 18])
        elif kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += 12 + size
    width, height, _, kind = header
    channels = {2: 3, 6: 4}[kind]
    raw, stride = zlib.decompress(packed), width * channels
    above = bytes(stride)
    for y in range(height):
        method, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            left, up, corner = (row[i - channels], above[i], above[i - channels]) if i >= channels else (0, above[i], 0)
            if method == 4:
                guess = left + up - corner
                nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            else:
                nearest = (0, left, up, (left + up) // 2)[method]
            row[i] = (row[i] + nearest) & 255
        above = bytes(row)
        yield from (above[i:i + channels] for i in range(0, stride, channels))


class Scripted:
    """A page that has value(): JavaScript runs in it."""

    def wait_for(self, condition):
        """Waits until a JavaScript expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.value(condition):
            if time.monotonic() > deadline:
                raise AssertionError("never: " + condition)
            time.sleep(0.05)


class Browser(Scripted):
    """One page of the given size. `before` is JavaScript that runs before each page's own."""

    def __init__(self, folder, width=1400, height=900, before=""):
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        self.to, self.back = write_here, read_here

        def as_chromium_wants():
            os.dup2(os.dup(read_there), 3)
            os.dup2(os.dup(write_there), 4)

        # Our own pipes may have numbers below 5: move them out of the way first.
        read_there, write_there = (self.beyond(fd) for fd in (read_there, write_there))
        self.process = subprocess.Popen(
            [BROWSER, "--headless=new", "--no-sandbox", "--remote-debugging-pipe", f"--user-data-dir={tempfile.mkdtemp(dir=folder)}", "--no-first-run",
             "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-background-networking", "--force-device-scale-factor=1",
             f"--window-size={width},{height}", "about:blank"],
            preexec_fn=as_chromium_wants, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(read_there)
        os.close(write_there)
        self.ids, self.buffer, self.session, self.events = itertools.count(1), b"", None, []
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        target = pages[0]["targetId"] if pages else self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")
        if before:
            self.call("Page.addScriptToEvaluateOnNewDocument", source=before)

    @staticmethod
    def beyond(fd):
        moved = fd
        while moved < 10:
            moved = os.dup(moved)
        return moved

    def call(self, method, **parameters):
        """Sends a command and returns the answer."""
        message = {"id": next(self.ids), "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.next_message(deadline)
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def next_message(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.back], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError("the browser does not answer")
            part = os.read(self.back, 1 << 20)
            if not part:
                raise AssertionError("the browser ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, address):
        self.call("Page.navigate", url=address)

    def value(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def event(self, method):
        """Returns the first event with this name, waiting for it if necessary."""
        deadline = time.monotonic() + PATIENCE
        while True:
            for event in self.events:
                if event.get("method") == method:
                    return event["params"]
            self.events.append(self.next_message(deadline))

    def complaints(self):
        """The warnings and errors in the page's console."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("warning", "error", "assert"):
                found.append(" ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            if event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                found.append(parameters["entry"]["text"])
        return found

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def touch(self, begin, end, steps=8):
        """Moves one or more fingers."""
        for step in range(steps + 1):
            points = [{"x": a + (b - a) * step / steps, "y": c + (d - c) * step / steps, "id": i}
                      for i, ((a, c), (b, d)) in enumerate(zip(begin, end))]
            self.call("Input.dispatchTouchEvent", type="touchMove" if step else "touchStart", touchPoints=points)
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    @staticmethod
    def as_chromium_names_it(name, modifiers):
        number, text = KEYS[name] if name in KEYS else (ord(name.upper()), name)
        code = name if name in KEYS else f"Key{name.upper()}" if name.isalpha() else f"Digit{name}" if name.isdigit() else \
            {"/": "Slash", ".": "Period", ",": "Comma", "[": "BracketLeft", "]": "BracketRight"}[name]
        return text, {"key": name, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}

    def press(self, name, modifiers=0):
        text, key = self.as_chromium_names_it(name, modifiers)
        self.call("Input.dispatchKeyEvent", type="keyDown", **key, **({"text": text} if text and not modifiers else {}))

    def release(self, name, modifiers=0):
        self.call("Input.dispatchKeyEvent", type="keyUp", **self.as_chromium_names_it(name, modifiers)[1])

    def picture(self, path):
        """Writes a screenshot as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def colours(self, x, y, width, height):
        """The number of colours in a part of the screenshot."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png", clip={
            "x": x, "y": y, "width": width, "height": height, "scale": 1})["data"])
        return len(set(pixels_of(data)))

    def close(self):
        """Kills the browser's process group, whatever its state."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.to)
        os.close(self.back)


class ViewerPage:
    """What a user does with the viewer in a page, whichever browser shows it."""

    def shown(self):
        """The state on screen; None while there is nothing."""
        return self.value("typeof memreel != 'undefined' && memreel.running && Module.calledRun ? memreel.state() : null")

    def settled(self):
        """The state once two looks, frames apart, find nothing left to do."""
        deadline, before = time.monotonic() + PATIENCE, None
        while time.monotonic() < deadline:
            failed = self.value("typeof memreel != 'undefined' && memreel.failed ? document.getElementById('say').textContent : ''")
            if failed:
                raise AssertionError(failed)
            self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))")
            now = self.shown()
            if now and before and now["idle"] and before["idle"] and now["frames"] >= before["frames"]:
                return now
            before = now
        raise AssertionError("the page is not done: " + json.dumps(before)[:2000] + str(self.complaints()))

    def click(self, x, y, button="left", clicks=1):
        self.mouse("mouseMoved", x, y)
        self.settled()
        for count in range(1, clicks + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.mouse(kind, x, y, button=button, buttons=1 if kind == "mousePressed" else 0, clickCount=count)
        return self.settled()

    def click_on(self, place, across=0.5, down=0.5):
        x, y, width, height = self.settled()["places"][place]
        return self.click(x + across * width, y + down * height)

    def drag(self, x, y, to_x, to_y, button="left"):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button=button, buttons=1, clickCount=1)
        self.settled()
        for part in (0.3, 0.6, 1):
            self.mouse("mouseMoved", x + part * (to_x - x), y + part * (to_y - y), button=button, buttons=1)
            self.settled()
        self.mouse("mouseReleased", to_x, to_y, button=button, clickCount=1)
        return self.settled()

    def wheel(self, x, y, notches):
        """Positive turns up and zooms in."""
        self.mouse("mouseMoved", x, y)
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=-100 * notches)
        return self.settled()

    def key(self, name, modifiers=0):
        """One key: a character, or a name in KEYS."""
        self.press(name, modifiers)
        self.settled()
        self.release(name, modifiers)
        return self.settled()

    def type(self, text):
        for character in text:
            self.key(character)
        return self.settled()


class Page(ViewerPage, Browser):
    """The viewer in Chromium."""
