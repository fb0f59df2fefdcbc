# SPDX-License-Identifier: Apache-2.0
"""What memreel says of several recordings, as values: memreel.fleet(), memreel.predict(), memreel.diff().

Fields are the keys of the program's JSON documents, which docs/schema describes; `document` has those that are not fields
here. Sizes are integers, in bytes; what is not known is None.
"""
from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass, field, fields
from typing import Any, Iterable, Mapping, Optional, Sequence, TypeVar, Union, overload

from .analysis import Document, answer, frame_of, path_word, words_of
from .quantity import size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pandas
    import pyarrow  # type: ignore[import-untyped,import-not-found,unused-ignore]

Path = Union[str, "os.PathLike[str]"]
Result = TypeVar("Result")


def _made(kind: type[Result], source: Document, /, **more: Any) -> Result:
    names = [f.name for f in fields(kind) if f.init]  # type: ignore[arg-type]
    return kind(**{name: source[name] for name in names if name in source and name not in more}, **more)


def _document(*words: str) -> tuple[Document, tuple[str, ...]]:
    """The document, and the notes that the program writes beside it."""
    output, notes = answer(*words, "--json")
    document: Document = json.loads(output)
    return document, notes


def _table(rows: Sequence[Document]) -> pyarrow.Table:
    """Without what is no single value."""
    import pyarrow
    return pyarrow.Table.from_pylist([{key: value for key, value in row.items() if not isinstance(value, (list, dict))} for row in rows])


def _bars(rows: Sequence[tuple[str, int, int, int]]) -> str:
    """An SVG with a bar for each row: label, value, and the range in which it may be."""
    most = max((high for _, _, _, high in rows), default=0) or 1
    height, width, left = 18, 420, 160
    parts = []
    for i, (label, value, low, high) in enumerate(rows):
        y = i * height
        parts.append(f'<text x="{left - 6}" y="{y + 13}" text-anchor="end">{html.escape(label)}</text>'
                     f'<rect x="{left}" y="{y + 3}" width="{value * width / most:.1f}" height="{height - 6}" fill="#56b4e9"/>'
                     f'<path d="M{left + low * width / most:.1f} {y + height / 2}H{left + high * width / most:.1f}" stroke="#000"/>'
                     f'<text x="{left + high * width / most + 6:.1f}" y="{y + 13}">{size_text(value)}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" height="{len(rows) * height}" '
            f'font-family="sans-serif" font-size="12">{"".join(parts)}</svg>')


@dataclass(frozen=True)
class Rank:
    """A recording, or a rank without one."""
    rank: int
    rank_assumed: bool
    status: str
    reason: Optional[str]
    file: Optional[str]
    host: Optional[str]
    device: Optional[int]
    job: Optional[str]
    class_: Optional[int]
    peak_live_bytes: Optional[int]
    peak_allocated_bytes: Optional[int]
    peak_reserved_bytes: Optional[int]
    end_live_bytes: Optional[int]
    other_bytes: Optional[int]
    beside_bytes: Optional[int]  # of the device that headroom_bytes is of
    capacity_bytes: Optional[int]
    headroom_bytes: Optional[int]
    failed_allocations: int
    at_least: bool = False  # its recording is incomplete: peaks are lower bounds

    def __repr__(self) -> str:
        size = "" if self.peak_reserved_bytes is None else f", {size_text(self.peak_reserved_bytes)} reserved"
        return f"<rank {self.rank}: {self.status}{size}>"


@dataclass(frozen=True)
class Decision:
    """Which rank decides whether the job fits."""
    rank: int
    why: str
    next: list[int]
    failed: list[int] = field(default_factory=list)  # ran out of memory, the first one first
    near: list[int] = field(default_factory=list)  # came close, if any failed
    may_decide_instead: list[int] = field(default_factory=list)  # known in part only


@dataclass(frozen=True)
class Fleet:
    """All ranks of a job."""
    job: Optional[str]
    world_size: int
    missing_ranks: list[int]
    ranks: list[Rank]
    decides: Optional[Decision]
    classes: list[list[int]]
    outliers: list[int]
    recommended: Optional[str]  # the setting for all ranks
    heap: Optional[str]  # the only one judged; None: what each program requested
    other_jobs: list[Fleet]
    notes: tuple[str, ...]
    document: Document = field(repr=False, compare=False)

    def __repr__(self) -> str:
        missing = f", {len(self.missing_ranks)} missing" if self.missing_ranks else ""
        decides = f", rank {self.decides.rank} decides" if self.decides else ""
        return f"<fleet of {self.world_size} ranks{missing}{decides}>"

    def _repr_html_(self) -> str:
        """The heaviest ranks, with their peaks."""
        known = [rank for rank in self.ranks if rank.class_ is not None]
        heaviest = sorted(known, key=lambda rank: -(rank.peak_reserved_bytes or 0))[:32]
        rows = [(f"rank {rank.rank}", rank.peak_reserved_bytes or 0, rank.peak_reserved_bytes or 0, rank.peak_reserved_bytes or 0)
                for rank in heaviest]
        why = f"<p>rank {self.decides.rank} decides: {html.escape(self.decides.why)}</p>" if self.decides else ""
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{why}{_bars(rows)}"

    def to_arrow(self) -> pyarrow.Table:
        """A row for each entry of `ranks`."""
        return _table(self.document["ranks"])

    def to_pandas(self) -> pandas.DataFrame:
        """The same; numbers are integers, also where some are not known."""
        return frame_of(self.to_arrow())


def _fleet_of(document: Document, notes: tuple[str, ...]) -> Fleet:
    return _made(Fleet, document, ranks=[_made(Rank, row, class_=row["class"]) for row in document["ranks"]],
                 decides=_made(Decision, document["decides"]) if document["decides"] else None,
                 classes=[one["ranks"] for one in document["classes"]],
                 outliers=[one["rank"] for one in document["outliers"]],
                 recommended=document["setting"]["recommended"] if document["setting"] else None,
                 other_jobs=[_fleet_of(job, ()) for job in document.get("other_jobs", [])], job=document.get("job"), notes=notes, document=document)


def fleet(paths: Union[Path, Iterable[Path]], *, mesh: Optional[str] = None, world_size: Optional[int] = None,
          capacity: Union[int, str, None] = None, rank_pattern: Optional[str] = None, job: Optional[str] = None,
          heap: Optional[str] = None, setting: bool = True) -> Fleet:
    """See memreel.fleet()."""
    named = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    options = words_of({"mesh": mesh, "world_size": world_size, "capacity": capacity, "rank_pattern": rank_pattern, "job": job,
                        "heap": heap, "no_setting": not setting})
    document, notes = _document("fleet", *options, *map(path_word, named))
    return _fleet_of(document, notes)


Values = Union[int, Mapping[str, int]]


@dataclass(frozen=True)
class Prediction:
    """What a run at `value` needs."""
    value: Any  # a number, or one for each parameter
    peak_live_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_reserved_low_bytes: int
    peak_reserved_high_bytes: int
    beside_bytes: Optional[int]  # what others hold of the device; None: no capacity was named
    fits: Optional[bool]
    verdict: Optional[str]  # "yes", "likely" where the range exceeds the capacity, "no"

    def __repr__(self) -> str:
        fits = {"yes": ", fits", "likely": ", likely fits", "no": ", does not fit"}.get(self.verdict or "", "")
        return (f"<{self.value}: {size_text(self.peak_reserved_bytes)} reserved, {size_text(self.peak_reserved_low_bytes)} to "
                f"{size_text(self.peak_reserved_high_bytes)}{fits}>")


@dataclass(frozen=True)
class Predictions(Sequence[Prediction]):
    """The predictions, in the order of `to`."""
    predictions: list[Prediction]
    largest_that_fits: Optional[int]
    aligned_share: float
    exact_share: float
    device_bytes: Optional[int]
    driver_recorded: Optional[bool]
    capacity_bytes: Optional[int]
    card: Optional[str]
    other_bytes: Optional[int]
    other_bytes_assumed: Optional[bool]
    notes: tuple[str, ...]
    document: Document = field(repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.predictions)

    @overload
    def __getitem__(self, which: int) -> Prediction: ...

    @overload
    def __getitem__(self, which: slice) -> list[Prediction]: ...

    def __getitem__(self, which: Union[int, slice]) -> Union[Prediction, list[Prediction]]:
        return self.predictions[which]

    def __repr__(self) -> str:
        if len(self.predictions) == 1:
            return f"<prediction of {self.predictions[0]!r}>"
        return f"<{len(self.predictions)} predictions>"

    def to_arrow(self) -> pyarrow.Table:
        """A row for each prediction."""
        return _table(self.document["predictions"])

    def to_pandas(self) -> pandas.DataFrame:
        """The same; numbers are integers, also where some are not known."""
        return frame_of(self.to_arrow())

    def _repr_html_(self) -> str:
        return _bars([(str(one.value), one.peak_reserved_bytes, one.peak_reserved_low_bytes, one.peak_reserved_high_bytes)
                      for one in self.predictions])


def predict(recordings: Union[Mapping[int, Path], Iterable[tuple[Mapping[str, int], Path]]],
            to: Union[int, Iterable[int], Mapping[str, Iterable[int]]] = (), *, parameter: str = "batch",
            capacity: Union[int, str, None] = None, policy: Optional[str] = None, heap: Optional[str] = None) -> Predictions:
    """See memreel.predict()."""
    pairs = ([({parameter: value}, file) for value, file in recordings.items()] if isinstance(recordings, Mapping)
             else list(recordings))
    named = [",".join(f"{name}={value}" for name, value in values.items()) + ":" + os.fspath(file) for values, file in pairs]
    targets = to if isinstance(to, Mapping) else {parameter: [to] if isinstance(to, int) else list(to)}
    words = [word for name, values in targets.items() if list(values)
             for word in ("--to", f"{name}=" + ",".join(map(str, values)))]
    document, notes = _document("predict", *named, *words, *words_of({"capacity": capacity, "policy": policy, "heap": heap}))
    return _made(Predictions, document, predictions=[_made(Prediction, one) for one in document["predictions"]],
                 notes=notes, document=document)


@dataclass(frozen=True)
class DeviceDifference:
    """One heap at the two instants; None: the recording lacks it."""
    device: int
    heap: str
    a_live_bytes: Optional[int]
    b_live_bytes: Optional[int]
    categories: list[Document]  # what the memory is for in both, and the change

    def __repr__(self) -> str:
        a, b = ("none" if size is None else size_text(size) for size in (self.a_live_bytes, self.b_live_bytes))
        return f"<{self.heap} on device {self.device}: {a} live in a, {b} in b>"


@dataclass(frozen=True)
class DeviceTotals:
    """What a device holds over all its heaps, each recording at its own peak; None: the recording lacks it."""
    a: Optional[Document]
    b: Optional[Document]
    parts: list[Document]  # whose memory the difference is: name, a_bytes, b_bytes, change_bytes


@dataclass(frozen=True)
class Difference:
    """What recording `b` needs more or less than `a`."""
    a: str
    b: str
    devices: list[DeviceDifference]
    device_totals: list[DeviceTotals]  # none with `heap`
    notes: tuple[str, ...]
    document: Document = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<difference of {os.path.basename(self.a)} and {os.path.basename(self.b)}: {len(self.devices)} heaps>"

    def to_arrow(self) -> pyarrow.Table:
        """A row for each category of each heap: device, heap, and what `categories` says."""
        return _table([{"device": one.device, "heap": one.heap, **category} for one in self.devices for category in one.categories])

    def to_pandas(self) -> pandas.DataFrame:
        """The same; numbers are integers, also where some are not known."""
        return frame_of(self.to_arrow())

    def _repr_html_(self) -> str:
        rows = []
        for one in self.devices:
            for name, size in (("a", one.a_live_bytes or 0), ("b", one.b_live_bytes or 0)):
                rows.append((f"{one.heap} {one.device}, {name}", size, size, size))
        return _bars(rows)


def diff(a: Path, b: Path, *, at: Optional[tuple[str, str]] = None, heap: Optional[str] = None) -> Difference:
    """See memreel.diff()."""
    names = [path_word(a), path_word(b)]
    if at is not None:
        names = [f"{name}@{instant}" for name, instant in zip(names, at)]
    document, notes = _document("diff", *words_of({"heap": heap}), *names)

    devices = [_made(DeviceDifference, one, **{f"{name}_live_bytes": one[name] and one[name]["live_bytes"] for name in ("a", "b")})
               for one in document["devices"]]
    totals = [_made(DeviceTotals, one) for one in document["device_totals"]]
    return Difference(a=os.fspath(a), b=os.fspath(b), devices=devices, device_totals=totals, notes=notes, document=document)
