# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them."""
from __future__ import annotations

import re
from typing import Union

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", 1):
    _UNITS[_letter] = _UNITS[_letter + "IB"] = 1024**_power
    _UNITS[_letter + "B"] = 1000**_power


def parse_size(text: Union[int, str]) -> int:
    """Bytes of "2 GiB", "500MB", "64M" (binary) or a number."""
    if isinstance(text, int):
        return text
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]*)\s*", text)
    if not found or found[2].upper() not in _UNITS:
        raise ValueError(f"{text!r} is not a valid size; write it as '2 GiB', '500MB' or plain bytes")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def size_text(count: float) -> str:
    """ "1.50 GiB" of a number of bytes."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count} B" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"
