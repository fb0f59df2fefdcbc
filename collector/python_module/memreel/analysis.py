# SPDX-License-Identifier: Apache-2.0
"""Analysis of a recording, as Python values: memreel.load("snapshot.pickle").

Every method runs the program memreel and reads its JSON document; memreel's docs/schema describes each key.
"""
from __future__ import annotations

import html
import json
import os
import subprocess
from typing import Any

from .launch import program

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pandas
    import pyarrow  # type: ignore[import-untyped,import-not-found,unused-ignore]

Document = dict[str, Any]
_COMMANDS = ("check", "info", "replay", "report", "tune", "verify")


class MemreelError(RuntimeError):
    """memreel's error message: what is wrong, where, and how to fix it."""


def answer(*words: str, text: bytes = b"") -> tuple[bytes, tuple[str, ...]]:
    """The program's standard output, and the lines of its standard error: notes on what limits the answer."""
    done = subprocess.run([program(), *words], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode in (0, 1):  # 1: the answer is no, with the document that says why
        return done.stdout, tuple(line.removeprefix("memreel: ") for line in said)
    raise MemreelError((said or [f"memreel exited with code {done.returncode}"])[-1].removeprefix("memreel: error: "))


def _answer(*words: str, text: bytes = b"") -> bytes:
    return answer(*words, text=text)[0]


def path_word(path: str | os.PathLike[str]) -> str:
    """The path as an argument that is no option."""
    name = os.fspath(path)
    return os.path.join(".", name) if name.startswith("-") else name


def frame_of(table: pyarrow.Table) -> pandas.DataFrame:
    """Integers stay integers where some are missing: an address has no place in a float."""
    import pandas
    import pyarrow
    kinds = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.uint64(): pandas.UInt64Dtype(), pyarrow.bool_(): pandas.BooleanDtype()}
    frame: pandas.DataFrame = table.to_pandas(types_mapper=kinds.get)
    return frame


def words_of(options: dict[str, Any]) -> list[str]:
    """Options as on the command line: by="layer", leaks=True, policy=["torch.native", "fit.best"]."""
    words = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                words.append(option)
            elif one is not None and one is not False:
                words += [option, str(one)]
    return words


def explain(text: str | bytes) -> list[Document]:
    """See memreel.explain()."""
    given = text.encode(errors="replace") if isinstance(text, str) else text
    failures: list[Document] = json.loads(_answer("explain", "--json", text=given))["failures"]
    return failures


class Recording:
    """A recording; see load(). Options are those of the command line: recording.report(by="layer", top=20)."""

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self.file = os.fspath(file)
        self.notes: tuple[str, ...] = ()
        """What limits the latest answer: the lines that the program writes beside it."""
        if not os.path.exists(self.file):
            raise FileNotFoundError(2, "no such recording", self.file)

    def document(self, command: str, **options: Any) -> Document:
        """The JSON document of `memreel COMMAND FILE`: info, report, verify, replay, tune, check. Raises MemreelError for a
        command that gives none."""
        if command not in _COMMANDS:
            raise MemreelError(f"document: {command!r} gives no document about a recording: it takes {', '.join(_COMMANDS)}")
        output, self.notes = answer(command, path_word(self.file), "--json", *words_of(options))
        document: Document = json.loads(output)
        return document

    def info(self, **options: Any) -> Document:
        """What the file contains: events, devices, heaps, losses."""
        return self.document("info", **options)

    def report(self, **options: Any) -> Document:
        """Peaks, who holds the memory, leaks, fragmentation, failures."""
        return self.document("report", **options)

    def categories(self, **options: Any) -> list[Document]:
        """What the memory is used for at the peak of live bytes: dictionaries with heap, device, category, bytes, count, evidence."""
        return [{"heap": heap["heap"], "device": heap["device"], **category}
                for heap in self.report(**options)["live_at_peak"] for category in heap.get("categories", [])]

    def to_pandas(self) -> pandas.DataFrame:
        """Every event, one row each; columns as in `memreel export --format csv`."""
        import io

        import pandas
        try:
            return frame_of(self.to_arrow())
        except ImportError:
            return pandas.read_csv(io.BytesIO(_answer("export", path_word(self.file), "--format", "csv")), low_memory=False,
                                   dtype_backend="numpy_nullable")

    def to_arrow(self) -> pyarrow.Table:
        """The same as an Arrow table; pyarrow.parquet.write_table() writes it."""
        import pyarrow
        from pyarrow import csv
        events = pyarrow.BufferReader(_answer("export", path_word(self.file), "--format", "csv"))
        return csv.read_csv(events, convert_options=csv.ConvertOptions(strings_can_be_null=True))

    def html(self, **options: Any) -> str:
        """The page that `memreel report -o FILE.html` writes: a single self-contained file."""
        return _answer("report", path_word(self.file), "--format", "html", *words_of(options)).decode()

    def _repr_html_(self) -> str:
        """For notebooks. In its own frame, so that their styles don't mix."""
        return ('<iframe style="width:100%;height:40em;border:0" sandbox="allow-scripts" '
                f'srcdoc="{html.escape(self.html(), quote=True)}"></iframe>')

    def __repr__(self) -> str:
        return f"memreel.load({self.file!r})"
