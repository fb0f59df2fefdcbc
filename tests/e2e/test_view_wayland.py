# SPDX-License-Identifier: Apache-2.0
"""The window on Wayland: weston, itself a window on the virtual display, with a screen of scale 2. Needs weston, and GLFW for Wayland
from pip."""

import os
import shutil
import subprocess
import tempfile
import time
import types
import unittest
from pathlib import Path

from peers import python_with
from program import SAMPLES
from viewing import PATIENCE, View, ViewTest, picture

SCALE, WIDTH, HEIGHT = 2, 600, 400  # of the screen; of the window, in its units


@unittest.skipUnless(shutil.which("weston"), "weston is not installed")
class Wayland(ViewTest):
    def setUp(self):
        super().setUp()
        runtime = tempfile.TemporaryDirectory()
        self.addCleanup(runtime.cleanup)
        found = subprocess.run([python_with("glfw"), "-c", "import glfw; print(glfw.__file__)"], check=True, stdout=subprocess.PIPE, text=True)
        shutil.copy(Path(found.stdout.strip()).parent / "wayland/libglfw.so", Path(runtime.name) / "libglfw.so.3")
        desktop = {**self.screen.environment, "XDG_RUNTIME_DIR": runtime.name}
        weston = subprocess.Popen(["weston", "--backend=x11-backend.so", "--socket=memreel", "--use-pixman", "--no-config",
                                   f"--width={WIDTH + 50}", f"--height={HEIGHT + 30}", f"--scale={SCALE}"],
                                  env=desktop, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(weston.wait)
        self.addCleanup(weston.terminate)
        self.wait_until((Path(runtime.name) / "memreel").exists)
        environment = {**desktop, "WAYLAND_DISPLAY": "memreel", "LD_LIBRARY_PATH": runtime.name + os.pathsep + os.environ.get("LD_LIBRARY_PATH", "")}
        del environment["DISPLAY"]
        self.desktop = types.SimpleNamespace(environment=environment)

    def wait_until(self, reached):
        deadline = time.monotonic() + PATIENCE
        while not reached():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def sizes(self, view):
        """The scale of the interface, the height of a menu, and the size of the picture."""
        file = self.directory / "window.png"
        self.assertIsNone(view.ask("screenshot", file=str(file))["error"])
        shown = view.settled()
        return shown["scale"], shown["places"]["split"][3], picture(file)[:2]

    def test_text_is_as_large_as_on_x11_and_as_fine_as_the_screen(self):
        for arguments in ((), ("--scale", "3")):
            with self.subTest(arguments=arguments):
                on_x11 = View(self.screen, SAMPLES / "leak.reel", *arguments, size=f"{WIDTH}x{HEIGHT}")
                self.addCleanup(on_x11.close)
                on_x11.settled()
                scale, height, size = self.sizes(on_x11)
                self.end(on_x11)
                # A scale that was chosen is in pixels.
                finer = SCALE if arguments else 1
                view = View(self.desktop, SAMPLES / "leak.reel", *arguments, size=f"{WIDTH}x{HEIGHT}")
                self.addCleanup(view.close)
                self.wait_until(lambda: self.sizes(view)[2] == (SCALE * WIDTH, SCALE * HEIGHT))
                self.wait_until(lambda: self.sizes(view)[0] == scale / finer)
                self.assertEqual(size, (WIDTH, HEIGHT))
                self.assertAlmostEqual(self.sizes(view)[1], height / finer, delta=1)
                self.end(view)


if __name__ == "__main__":
    unittest.main()
