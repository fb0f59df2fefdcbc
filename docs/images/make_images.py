#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/pictures.md and its pictures: every pane of five recorded histories, light and dark, at 1x and 2x.

    docs/images/make_images.py build/release/bin/memreel-view

Needs xvfb-run, and takes some minutes. The same trace and program give the same pictures, to the byte.
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TRACES = HERE.parent.parent / "samples" / "traces"
HISTORIES = {
    "gpt_default": "A GPT in training: each step needs more than the one before, until the last",
    "decode_default": "A decoder whose cache grows with every token",
    "oom_default": "Requests that failed although enough memory was free",
    "leak": "A training loop that keeps what it should not",
    "streams_default": "Four streams that lend each other memory",
}
PANES = {
    "window": "The window",
    "verdict": "Verdict",
    "timeline": "Timeline",
    "map": "Allocation map",
    "heap": "Heap at the cursor",
    "inspector": "Inspector",
    "allocations": "Allocations",
    "stacks": "Stacks",
    "flame": "Flame graph",
    "segments": "Segments",
    "leaks": "Leaks",
    "fragmentation": "Fragmentation",
    "oom": "Requests that failed",
    "policies": "Other policies",
    "compare": "Compare",
}
WINDOW, PANE = (1280, 800), (720, 300)
# Those of docs/viewer.md and the README.
SHOWN = {
    "gpt-dark": ("gpt_default", "1600x1000", "--dark"),
    "oom-light": ("oom_default", "1600x620", "--light", "--pane", "oom", "--at", "oom"),
    "map-dark": ("decode_default", "1600x800", "--dark", "--pane", "map"),
}


def run_view(view, history, file, size, *options):
    subprocess.run(
        ["xvfb-run", "-a", view, TRACES / f"{history}.reel", "--screenshot", file, "--few-colours", "--size", size, *options],
        check=True, stdin=subprocess.DEVNULL, env={**os.environ, "LIBGL_ALWAYS_SOFTWARE": "1"})


def take(view, history, theme, scale):
    """All pictures of one history, in one theme, at one scale."""
    suffix = f"-{theme}{'@2x' if scale == 2 else ''}"
    folder = HERE / "panes" / history

    def run(file, size, *options):
        run_view(view, history, file, f"{size[0] * scale}x{size[1] * scale}", f"--{theme}", "--scale", str(scale), *options)

    run(folder / "new", PANE, "--pane", "all")
    run(folder / "new" / "window.png", WINDOW)
    for picture in sorted((folder / "new").iterdir()):
        picture.rename(folder / f"{picture.stem}{suffix}.png")
    (folder / "new").rmdir()


def page():
    """The page that shows them, in the reader's own theme and scale."""
    lines = ["# Every pane, of five recorded histories", "",
             "Made by `./dev pictures` from [samples/traces](../samples/traces). What the panes are for: "
             "[the viewer](viewer.md).", ""]
    lines += [f"- [{title}](#{history})" for history, title in HISTORIES.items()]
    for history, title in HISTORIES.items():
        lines += ["", f'<a id="{history}"></a>', "", f"## {title}"]
        for pane, name in PANES.items():
            path = f"images/panes/{history}/{pane}"
            width = (WINDOW if pane == "window" else PANE)[0]
            lines += ["", f"### {name}", "", "<picture>",
                      f'<source media="(prefers-color-scheme: dark)" srcset="{path}-dark.png 1x, {path}-dark@2x.png 2x">',
                      f'<img src="{path}-light.png" srcset="{path}-light@2x.png 2x" width="{width}" alt="{name}: {title}">',
                      "</picture>"]
    (HERE.parent / "pictures.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    view = pathlib.Path(sys.argv[1]).resolve()
    for name, (history, size, *options) in SHOWN.items():
        run_view(view, history, HERE / "viewer" / f"{name}.png", size, *options)
    for history in HISTORIES:
        for theme in ("light", "dark"):
            for scale in (1, 2):
                take(view, history, theme, scale)
    page()


if __name__ == "__main__":
    main()
