#!/usr/bin/env python3
"""Draws docs/images/demo.svg from what memreel really prints: render.py MEMREEL > demo.svg"""

import html
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (
    ["verify", "samples/traces/gpt_default.reel"],
    ["replay", "samples/traces/gpt_default.reel", "--policy", "bound.live,cuda.malloc,torch.native,fit.best"],
)
CELL_WIDTH, LINE_HEIGHT, MARGIN = 8.4, 19, 20


def terminal(memreel):
    """Lines as (text, is a command)."""
    for arguments in COMMANDS:
        yield "$ memreel " + " ".join(arguments), True
        output = subprocess.run([memreel, *arguments], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout
        yield "", False
        for line in output.rstrip().splitlines():
            yield line, False
        yield "", False


def main(memreel):
    lines = list(terminal(memreel))[:-1]
    width = round(max(len(text) for text, _ in lines) * CELL_WIDTH + 2 * MARGIN)
    height = len(lines) * LINE_HEIGHT + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">')
    print(f'<rect width="{width}" height="{height}" rx="6" fill="#1b1e23"/>')
    print('<g font-family="ui-monospace, \'DejaVu Sans Mono\', Menlo, Consolas, monospace" font-size="14" fill="#d7dae0">')
    for row, (text, is_command) in enumerate(lines):
        y = MARGIN + (row + 0.75) * LINE_HEIGHT
        # textLength holds the columns together whatever monospace font is found.
        if text:
            colour = ' fill="#56b4e9"' if is_command else ""
            print(f'<text x="{MARGIN}" y="{y:g}" textLength="{len(text) * CELL_WIDTH:.1f}" xml:space="preserve"{colour}>'
                  f"{html.escape(text)}</text>")
    print("</g>\n</svg>")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
