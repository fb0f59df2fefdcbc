#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Assembles the viewer's page in one file: the program as base64 in an element, its script, and a placeholder for a
trace.

    page.py OUTPUT.html PAGE.html PROGRAM.js PROGRAM.wasm"""

import base64
import gzip
import sys
from pathlib import Path


def main():
    output, page, script, program = map(Path, sys.argv[1:])
    packed = base64.b64encode(gzip.compress(program.read_bytes(), 9, mtime=0)).decode()
    code = script.read_text()
    if "</script" in code.lower():
        sys.exit(f"{script} can't be put into a page: it has the end of a script in it")
    parts = f'<script type="application/octet-stream" id="program">{packed}</script>\n<script>{code}</script>'
    output.write_text(page.read_text().replace("<!--program-->", parts))


if __name__ == "__main__":
    main()
