# SPDX-License-Identifier: Apache-2.0
"""Drives the viewer's page in Firefox with real input events. Commands go over a socket (the Marionette protocol). The browser has
a display of its own (Xvfb): without one it has no WebGL."""

import base64
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from browsing import CONTROL, PATIENCE, Scripted, ViewerPage

FIREFOX = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
DISPLAY = shutil.which("Xvfb")
KEYS = {"Escape": "\ue00c", "Enter": "\ue007", "Home": "\ue011", "Control": "\ue009"}  # as WebDriver names them
SETTINGS = {"webgl.force-enabled": True, "marionette.port": 0, "browser.shell.checkDefaultBrowser": False,
            "datareporting.policy.dataSubmissionEnabled": False, "toolkit.telemetry.enabled": False,
            "app.update.disabledForTesting": True, "browser.tabs.inTitlebar": 0}


class Firefox(Scripted):
    """One page, in a window of the given size."""

    def __init__(self, folder, width=1400, height=1000, dark=False):
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        settings = SETTINGS | {"ui.systemUsesDarkTheme": int(dark), "layout.css.prefers-color-scheme.content-override": 0 if dark else 1}
        (self.folder / "user.js").write_text("".join(f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in settings.items()))
        read, write = os.pipe()
        self.display = subprocess.Popen(
            [DISPLAY, "-displayfd", str(write), "-screen", "0", f"{width + 100}x{height + 100}x24", "-nolisten", "tcp"],
            pass_fds=[write], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(write)
        with os.fdopen(read) as number:
            display = ":" + number.readline().strip()
        self.process = subprocess.Popen(
            [FIREFOX, "--marionette", "--no-remote", "--profile", str(self.folder), "--width", str(width), "--height", str(height)],
            env=os.environ | {"DISPLAY": display, "HOME": str(self.folder), "LIBGL_ALWAYS_SOFTWARE": "1", "MOZ_ENABLE_WAYLAND": "0"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        port, deadline = self.folder / "MarionetteActivePort", time.monotonic() + PATIENCE
        while not (port.exists() and port.read_text().strip()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.close()
                raise AssertionError("Firefox does not start")
            time.sleep(0.05)
        self.socket = socket.create_connection(("127.0.0.1", int(port.read_text())), timeout=PATIENCE)
        self.answers, self.ids = self.socket.makefile("rb"), itertools.count(1)
        self.answer()  # its greeting
        self.call("WebDriver:NewSession", capabilities={})
        self.call("WebDriver:SetTimeouts", script=PATIENCE * 1000, pageLoad=PATIENCE * 1000)

    def answer(self):
        size = b""
        while (byte := self.answers.read(1)) != b":":
            if not byte:
                raise AssertionError("the browser ended")
            size += byte
        return json.loads(self.answers.read(int(size)))

    def call(self, method, **parameters):
        """Sends a command and returns the answer."""
        message = json.dumps([0, next(self.ids), method, parameters]).encode()
        self.socket.sendall(str(len(message)).encode() + b":" + message)
        _, _, error, result = self.answer()
        if error:
            raise AssertionError(f"{method}: {error}")
        return result

    def open(self, address):
        self.call("WebDriver:Navigate", url=address)

    def value(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        script = "const done = arguments[1]; Promise.resolve(window.eval(arguments[0])).then(done)"
        return self.call("WebDriver:ExecuteAsyncScript", script=script, args=[expression], sandbox=None, newSandbox=False)["value"]

    def complaints(self):
        return []  # this protocol does not tell what is in the console

    def act(self, kind, device, *actions, **parameters):
        self.call("WebDriver:PerformActions", actions=[
            {"type": kind, "id": device, "actions": list(actions)} | ({"parameters": parameters} if parameters else {})])

    def mouse(self, kind, x, y, button="left", deltaX=0, deltaY=0, **_):
        number = ("left", "middle", "right").index(button)
        if kind == "mouseWheel":
            self.act("wheel", "wheel", {"type": "scroll", "x": int(x), "y": int(y), "deltaX": deltaX, "deltaY": deltaY})
            return
        action = {"mouseMoved": {"type": "pointerMove", "x": int(x), "y": int(y)},
                  "mousePressed": {"type": "pointerDown", "button": number},
                  "mouseReleased": {"type": "pointerUp", "button": number}}[kind]
        self.act("pointer", "mouse", action, pointerType="mouse")

    def press(self, name, modifiers=0):
        held = [{"type": "keyDown", "value": KEYS["Control"]}] if modifiers == CONTROL else []
        self.act("key", "keyboard", *held, {"type": "keyDown", "value": KEYS.get(name, name)})

    def release(self, name, modifiers=0):
        held = [{"type": "keyUp", "value": KEYS["Control"]}] if modifiers == CONTROL else []
        self.act("key", "keyboard", {"type": "keyUp", "value": KEYS.get(name, name)}, *held)

    def picture(self, path):
        """Writes a screenshot as PNG."""
        path.write_bytes(base64.b64decode(self.call("WebDriver:TakeScreenshot", full=False, hash=False)["value"]))

    def resize(self, width, height):
        """Of the window, with the browser's own bars."""
        self.call("WebDriver:SetWindowRect", width=width, height=height)

    def close(self):
        for process in (self.process, self.display):
            try:
                os.killpg(process.pid, signal.SIGKILL) if process is self.process else process.kill()
            except ProcessLookupError:
                pass
            process.wait()
        if hasattr(self, "socket"):
            self.answers.close()
            self.socket.close()


class Page(ViewerPage, Firefox):
    """The viewer in Firefox."""
