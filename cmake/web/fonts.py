#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a C++ file with the page's fonts: the subset of each file that viewer/page/page_window.h describes.

    fonts.py OUTPUT ROBOTO DEJAVU"""

import io
import sys

from fontTools import subset
from fontTools.ttLib import TTFont

LETTERS = "U+0020-024F,U+0370-052F,U+2010-2030,U+20A0-20BF"
SYMBOLS = "U+2190-21FF,U+25A0-25FF"


def part(file, ranges):
    options = subset.Options(hinting=False, layout_features=[], notdef_outline=True, name_IDs=[1, 13], drop_tables=["GSUB", "GPOS", "GDEF", "kern"])
    font = TTFont(file, recalcTimestamp=False)  # the file's own time, not that of the build
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=subset.parse_unicodes(ranges))
    subsetter.subset(font)
    output = io.BytesIO()
    font.save(output)
    return output.getvalue()


def definition(name, data):
    rows = ("".join(f"{byte}," for byte in data[i:i + 40]) for i in range(0, len(data), 40))
    return (f"constexpr unsigned char {name}_bytes[] = {{\n" + "\n".join(rows) + "};\n"
            f"std::span<const unsigned char> {name}_font() {{ return {name}_bytes; }}\n")


def main():
    output, letters, symbols = sys.argv[1:]
    with open(output, "w") as file:
        file.write('#include "viewer/page/page_window.h"\nnamespace memreel::viewer {\n')
        file.write(definition("letters", part(letters, LETTERS)))
        file.write(definition("symbols", part(symbols, SYMBOLS)))
        file.write("}\n")


if __name__ == "__main__":
    main()
