# SPDX-License-Identifier: Apache-2.0
"""Public PyTorch snapshots of programs that strangers recorded at several lengths of context, most from the middle of the program
on: two of each series predict the third. The files are not part of this repository: without them, the test is skipped."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from program import REPOSITORY, ProgramTest  # noqa: E402

FOLDER = REPOSITORY.parent / "shared/wild/torch"
# Their authors' lengths, or lengths with the same ratios: a prediction depends on nothing else.
SERIES = {"w02": ((2, 128), (1, 256), (3, 512)), "w04, forward": ((1, 200), (2, 300), (3, 400)), "w04": ((5, 200), (6, 300), (7, 400)),
          "w08": ((6, 512), (7, 1024), (8, 2048)), "w11": ((2, 128), (1, 256), (3, 512)), "w12": ((1, 128), (2, 256), (3, 512)),
          "w12, trained": ((4, 128), (6, 256), (5, 512)), "w20": ((1, 128), (3, 256), (2, 512))}


@unittest.skipUnless(FOLDER.is_dir(), "no snapshots of strangers here")
class Series(ProgramTest):
    def test_two_recordings_predict_the_third(self):
        rows = []
        for name, sizes in SERIES.items():
            recorded = [(length, FOLDER / f"{name[:3]}-{number}.pickle.xz") for number, length in sizes]
            for left_out in recorded:
                given = [f"context={length}:{file}" for length, file in recorded if file != left_out[1]]
                predicted = self.document("predict", *given, "--to", f"context={left_out[0]}")["predictions"][0]
                device = self.document("info", left_out[1])["devices"][0]
                true, live = device["peak_reserved_bytes"], device["peak_live_bytes"]
                rows.append((f"{name}: context {left_out[0]}", predicted["peak_reserved_bytes"] / true - 1,
                             predicted["peak_live_bytes"] / live - 1,
                             predicted["peak_reserved_low_bytes"] <= true <= predicted["peak_reserved_high_bytes"]))
        for name, reserved, live, is_within in rows:
            print(f"{name:32} reserved {100 * reserved:+6.2f} %  live {100 * live:+6.2f} %  {'' if is_within else 'out of range'}")
        outside = [row for row in rows if not row[3]]
        self.assertLessEqual(10 * len(outside), len(rows), outside)
        self.assertLess(max(abs(row[2]) for row in rows), 0.001, "live")


if __name__ == "__main__":
    unittest.main()
