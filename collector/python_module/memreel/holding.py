# SPDX-License-Identifier: Apache-2.0
"""What keeps memory allocated, in the program's own words: memreel.holders() and memreel.growing().

The results hold texts and numbers, never an object of the program.
"""
from __future__ import annotations

import builtins
import collections
import contextlib
import gc
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple, TypeVar

from .blocks import InGraph, Memory, Reader
from .inspection import class_name
from .quantity import size_text
from .references import OutOfTime, References
from .ways import Container, Way

_KINDS = {"device": {"device"}, "pinned": {"pinned"}, "host": {"host"}, "all": {"device", "pinned", "host"},
          "recorded": {"device", "pinned"}}  # the last: what a recording has
_TABLE_ROWS, _TABLE_BLOCKS, _TABLE_TEXT = 64, 10_000, 300  # of table(); readers take no more (formats/model/python_holders.h)
_WAYS = 4  # to a block

_Answer = TypeVar("_Answer")


class _Question(NamedTuple):
    """What a walk is to tell."""
    kind: str
    top: int = 0
    address: Optional[int] = None
    leaked: bool = False
    site: Optional[str] = None
    sites: Dict[int, str] = {}  # where blocks were allocated, by address
    only: Optional[Set[int]] = None  # the addresses of the only blocks that count; None: all


_last: Dict[str, Holders] = {}  # by kind: what leaked=True compares with


def _numbered(count: int, one: str) -> str:
    return f"{count:,} {one}" + ("" if count == 1 else "s")


@dataclass(frozen=True)
class Block:
    """A block of memory, and what keeps it."""
    address: int
    bytes: int
    kind: str  # "device", "pinned", "host"
    device: int  # as CUDA counts; -1: the host
    shape: Tuple[int, ...]  # of a tensor or an array in it
    dtype: str
    requires_grad: bool
    grad_fn: Optional[str]  # the node of the autograd graph that made it
    site: Optional[str]  # where it was allocated, if PyTorch records that and holders() was asked about sites
    kept_by: Tuple[str, ...]  # the shortest ways from a root, the shortest first

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"<{size_text(self.bytes)} {self.dtype}[{shape}] kept by {self.kept_by[0] if self.kept_by else 'unknown'}>"


@dataclass(frozen=True)
class Holder:
    """A variable, container or graph that keeps blocks. A block that several keep counts in each."""
    text: str  # "`history` in `train` (train.py:12), list of 4,912"
    name: str  # the same in every walk
    kind: str  # of the container, "autograd graph", or "" for anything else
    length: int  # its elements or nodes; the number of blocks if it is no container
    blocks: int
    bytes: int
    inside: Tuple[str, ...] = field(default=(), repr=False)  # names of the containers that it is in

    def __repr__(self) -> str:
        return f"<{size_text(self.bytes)} kept by {self.text}>"


@dataclass(frozen=True)
class Cycle:
    """Objects that only reference each other: their memory waits for gc.collect()."""
    classes: Tuple[str, ...]  # of the members, the most frequent first
    count: int  # groups of such objects
    blocks: int
    bytes: int

    def __repr__(self) -> str:
        return f"<{size_text(self.bytes)} in {_numbered(self.count, 'reference cycle')} of {', '.join(self.classes)}>"


@dataclass(frozen=True)
class Holders:
    """What one walk found."""
    blocks: Tuple[Block, ...]  # those asked for, the largest first
    holders: Tuple[Holder, ...]  # of all blocks, the one with the most bytes first
    cycles: Tuple[Cycle, ...]
    all_blocks: int
    all_bytes: int
    objects: int  # that the walk saw
    seconds: float
    complete: bool
    notes: Tuple[str, ...]  # what is missing, and why

    def __repr__(self) -> str:
        first = f", most by {self.holders[0].text}" if self.holders else ""
        return f"<{size_text(self.all_bytes)} in {_numbered(self.all_blocks, 'block')}{first}>"

    def __str__(self) -> str:
        """A table of holders, cycles and the largest blocks."""
        rows = [("bytes", "blocks", "kept by")]
        rows += [(size_text(one.bytes), f"{one.blocks:,}", one.text) for one in self.holders[:20]]
        rows += [(size_text(one.bytes), f"{one.blocks:,}", f"{_numbered(one.count, 'reference cycle')} of {', '.join(one.classes)} "
                  "that wait for gc.collect()") for one in self.cycles if one.bytes]
        wide = [max(len(row[column]) for row in rows) for column in (0, 1)]
        lines = [f"{size:>{wide[0]}}  {count:>{wide[1]}}  {text}" for size, count, text in rows]
        lines += [f"{block!r}"[1:-1] for block in self.blocks]
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class Growth:
    """A holder that grew from walk to walk."""
    text: str  # as the last walk has it
    kind: str
    lengths: Tuple[int, ...]  # in each walk
    bytes: Tuple[int, ...]

    def __repr__(self) -> str:
        return (f"<{self.text}: {self.lengths[0]:,} to {self.lengths[-1]:,}, {size_text(self.bytes[0])} to "
                f"{size_text(self.bytes[-1])}>")


def growing(first: Holders, second: Holders, *later: Holders) -> Tuple[Growth, ...]:
    """See memreel.growing()."""
    walks = [{one.name: one for one in walk.holders} for walk in (first, second, *later)]
    grown: Dict[str, List[Holder]] = {}
    for name, last in walks[-1].items():
        before = [walk[name] if name in walk else None for walk in walks]
        # A holder that was not there before has begun, not grown.
        if None in before[-2:] or not all(_more(a, b) for a, b in zip(before, before[1:])):
            continue
        grown[name] = [one or last for one in before]
    outermost = [line for line in grown.values() if not any(outer in grown for outer in line[-1].inside)]
    outermost.sort(key=lambda line: line[0].bytes - line[-1].bytes)
    return tuple(Growth(line[-1].text, line[-1].kind, tuple(one.length for one in line), tuple(one.bytes for one in line))
                 for line in outermost)


def _more(a: Optional[Holder], b: Optional[Holder]) -> bool:
    return a is not None and b is not None and b.length > a.length and b.bytes > a.bytes


@dataclass
class _Group:
    """The blocks of a holder, while they are counted."""
    text: str
    kind: str
    length: int
    inside: Tuple[str, ...]
    blocks: Dict[int, int] = field(default_factory=dict)  # bytes by address
    containers: Set[str] = field(default_factory=set)


def holders(*, top: int = 20, site: Optional[str] = None, address: Optional[int] = None, leaked: bool = False, kind: str = "device",
            seconds: float = 2.0, objects: int = 10_000_000) -> Holders:
    """See memreel.holders()."""
    if kind not in _KINDS:
        raise ValueError(f"kind {kind!r} is unknown; it is one of {', '.join(_KINDS)}")
    question = _Question(kind, top, address, leaked, site, _sites() if site is not None else {})
    return _collecting_nothing(lambda: _walk(question, seconds, objects))[0]


class Told(NamedTuple):
    """A walk, and of each block the holder that says the most of it: a container that grew, else the longest."""
    holders: Holders
    before: Dict[str, int]  # lengths in the walk before, by name
    keepers: Dict[int, str]  # names, by address


def walk_of_recorded(seconds: float = 4.0, objects: int = 10_000_000, only: Optional[Set[int]] = None) -> Told:
    """The memory that a recording has, device memory and pinned: for table(). `only`: the addresses of the blocks that count."""
    before = {one.name: one.length for one in _last["recorded"].holders if only is None or one.kind} if "recorded" in _last else {}
    found, ways = _collecting_nothing(lambda: _walk(_Question("recorded", only=only), seconds, objects))
    now = {one.name: one.length for one in found.holders}

    def says(name: str) -> Tuple[bool, int]:
        return now.get(name, 0) > before.get(name, now.get(name, 0)), now.get(name, 0)

    keepers = {}
    for address, several in ways.items():
        if several:
            names = [container.key for container in several[0].containers] or [several[0].key]
            keepers[address] = max(names, key=says)
    return Told(found, before, keepers)


def table_of_site(site: str, allocated: str) -> str:
    """table() of the memory that was allocated at `site`, "train.py:12": the blocks at the addresses `allocated`, hexadecimal numbers,
    as a recording knows, and those of which PyTorch does."""
    only = {int(address, 16) for address in allocated.split()}
    with contextlib.suppress(ValueError):
        only.update(address for address, frames in _sites().items() if site in frames)
    if not only:
        return f"note no live memory is known to have been allocated at {_one_line(site)}\n"
    return table(walk_of_recorded(only=only), with_blocks=False)


def table(told: Optional[Told] = None, *, with_blocks: bool = True, **limits: Any) -> str:
    """A walk as formats/model/python_holders.h reads it, for a dump: what keeps the most, what grew, and, `with_blocks`, who keeps
    which block."""
    told = told or walk_of_recorded(**limits)
    found = told.holders
    lines = [f"walk {time.time_ns()} {round(found.seconds * 1e9)} {found.objects}"]
    lines += [f"note {_one_line(note)}" for note in found.notes]
    kept: Dict[str, int] = collections.defaultdict(int)
    sizes = {one.name: one.bytes for one in found.holders}
    for name in told.keepers.values():
        kept[name] = sizes.get(name, 0)
    grown = [one.name for one in found.holders if one.length > told.before.get(one.name, one.length)]
    largest = [one.name for one in found.holders[:_TABLE_ROWS // 4]]
    names = dict.fromkeys([*largest, *grown[:_TABLE_ROWS // 4], *sorted(kept, key=lambda name: -kept[name])])
    wanted = set(list(names)[:_TABLE_ROWS])
    rows = [(one.bytes, one.blocks, one.length, told.before.get(one.name, 0), one.kind, one.text, one.name)
            for one in found.holders if one.name in wanted]
    rows += [(one.bytes, one.blocks, one.count, 0, "reference cycle", _said_of_cycle(one.classes), _said_of_cycle(one.classes))
             for one in found.cycles if one.bytes]
    rows.sort(key=lambda row: -row[0])
    rows = rows[:_TABLE_ROWS]
    lines += [f"holder {size} {blocks} {length} {before} {_one_line(kind)}\t{_one_line(text)}"
              for size, blocks, length, before, kind, text, _ in rows]
    numbers = {row[-1]: number for number, row in enumerate(rows)}
    blocks = sorted((address, numbers[name]) for address, name in told.keepers.items() if name in numbers) if with_blocks else []
    step = len(blocks) // _TABLE_BLOCKS + 1
    lines += [f"block {address} {number}" for address, number in blocks[::step]]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[:_TABLE_TEXT])
    return shown.encode("utf-8", "replace").decode()


def _collecting_nothing(walk: Callable[[], _Answer]) -> _Answer:
    collects = gc.isenabled()
    gc.disable()  # a collection would run finalizers, and change what is alive
    try:
        return walk()
    finally:
        if collects:
            gc.enable()


def _walk(question: _Question, seconds: float, objects: int) -> Tuple[Holders, Dict[int, List[Way]]]:
    began = time.monotonic()
    references = References(seconds, objects)
    try:
        return _told(references, began, question)
    finally:
        references.close()


def _told(references: References, began: float, question: _Question) -> Tuple[Holders, Dict[int, List[Way]]]:
    """With the ways to each block."""
    def counts(memory: Memory) -> bool:
        return memory.kind in _KINDS[question.kind] and (question.only is None or memory.address in question.only)

    reader = Reader(references.kinds())
    notes = references.notes
    things = references.found(reader.kinds_with(_KINDS[question.kind]))
    references.trace(things, _WAYS)
    memories = [(thing, memory) for thing, memory in reader.read(things) if counts(memory)]
    kept: List[InGraph] = []
    nodes: Dict[int, int] = {}
    try:
        kept, nodes, hidden = reader.graphs(things, references.check_time)
        kept = [one for one in kept if counts(one.memory)]
        if hidden:
            notes.append(f"{_numbered(hidden, 'saved tensor')} not seen: hooks of the program unpack them")
    except OutOfTime as why:
        references.complete = False
        notes.append(str(why))

    blocks: Dict[int, Memory] = {}
    ways: Dict[int, List[Way]] = collections.defaultdict(list)
    spoken: Dict[int, List[Way]] = {}
    waiting: Dict[int, Set[int]] = collections.defaultdict(set)  # blocks of garbage, by id() of their objects
    garbage = set(map(id, references.garbage))

    def ways_of(thing: Any) -> List[Way]:
        if id(thing) not in spoken:
            spoken[id(thing)] = references.ways(thing)
        return spoken[id(thing)]

    # Largest first: what remains when time is up is small.
    try:
        for place, (thing, memory) in enumerate(sorted(memories, key=lambda pair: -pair[1].bytes)):
            if place % 256 == 0:
                references.check_time()
            blocks.setdefault(memory.address, memory)
            if id(thing) in garbage:
                waiting[id(thing)].add(memory.address)
            else:
                ways[memory.address] += ways_of(thing)
        for place, one in enumerate(kept):
            if place % 256 == 0:
                references.check_time()
            blocks.setdefault(one.memory.address, one.memory)
            if id(one.owner) in garbage:
                waiting[id(one.owner)].add(one.memory.address)
            ways[one.memory.address] += [_through(way, one.how, nodes.get(id(one.owner), 0)) for way in ways_of(one.owner)[:2]]
    except OutOfTime as why:
        references.complete = False
        notes.append(str(why))

    for start, several in ways.items():  # what the graph says is more than that C code holds it
        ways[start] = [way for way in several if way.kind != "extension"] or several
    cycles = _cycles(references, waiting, blocks, ways)
    groups = _groups(blocks, ways)
    found = tuple(sorted((Holder(group.text, name, group.kind, group.length, len(group.blocks), sum(group.blocks.values()), group.inside)
                          for name, group in groups.items()), key=lambda one: (-one.bytes, len(one.inside), one.text)))
    chosen: Iterable[int] = blocks
    if question.address is not None:
        chosen = [start for start, memory in blocks.items() if start <= question.address < start + memory.bytes]
    if question.site is not None:
        chosen = [start for start in chosen if question.site in question.sites.get(start, "")]
    walked = Holders((), found, cycles, len(blocks), sum(memory.bytes for memory in blocks.values()), references.count,
                     0.0, references.complete, tuple(notes))
    if question.leaked:
        grown = _leaked(walked, groups, waiting, question.kind, notes)
        chosen = [start for start in chosen if start in grown]
    if question.only is None:
        _last[question.kind] = walked
    largest = sorted(chosen, key=lambda start: -blocks[start].bytes)[:max(question.top, 0)]
    shown = tuple(_block(blocks[start], ways[start], question.sites.get(start)) for start in largest)
    return Holders(shown, found, cycles, walked.all_blocks, walked.all_bytes, walked.objects, time.monotonic() - began,
                   references.complete, tuple(dict.fromkeys(notes))), ways


def _through(way: Way, how: str, nodes: int) -> Way:
    """The way to what the graph or the gradient of a tensor keeps."""
    if how == "grad":
        return way._replace(text=f"gradient of {way.text}", key=f"gradient of {way.key}")
    graph = Container(f"autograd graph of {way.text}", f"autograd graph of {way.key}", "autograd graph", nodes)
    return way._replace(text=f"{graph.text}, {nodes:,} nodes, {how}", key=graph.key, containers=(*way.containers, graph))


def _sized(container: Container) -> str:
    if container.kind == "autograd graph":
        return f"{container.length:,} nodes"
    return f"{container.kind} of {container.length:,}"


def _block(memory: Memory, ways: List[Way], site: Optional[str]) -> Block:
    told = tuple(dict.fromkeys((way.text for way in ways)))[:_WAYS]
    return Block(memory.address, memory.bytes, memory.kind, memory.device, memory.shape, memory.dtype, memory.requires_grad,
                 memory.grad_fn, site, told)


def _groups(blocks: Dict[int, Memory], ways: Dict[int, List[Way]]) -> Dict[str, _Group]:
    groups: Dict[str, _Group] = {}
    for start, memory in blocks.items():
        for way in ways.get(start, ()):
            outer: Tuple[str, ...] = ()
            for one in way.containers:
                group = groups.setdefault(one.key, _Group("", one.kind, 0, outer))
                if one.text not in group.containers:
                    group.containers.add(one.text)
                    group.length += one.length
                    group.text = group.text or f"{one.text}, {_sized(one)}"
                group.blocks[start] = memory.bytes
                outer += (one.key,)
            if not way.containers and way.kind != "cycle":
                group = groups.setdefault(way.key, _Group(way.text, "", 0, ()))
                group.blocks[start] = memory.bytes
                group.length = len(group.blocks)
    for group in groups.values():
        if len(group.containers) > 1:
            group.text += f", and {len(group.containers) - 1:,} like it"
    return groups


def _said_of_cycle(classes: Iterable[str]) -> str:
    return f"reference cycle of {', '.join(classes)}, waiting for gc.collect()"


def _cycles(references: References, waiting: Dict[int, Set[int]], blocks: Dict[int, Memory], ways: Dict[int, List[Way]]) -> Tuple[Cycle, ...]:
    """Garbage by the classes of its objects; blocks that something else keeps as well don't wait."""
    found: Dict[Tuple[str, ...], List[Set[int]]] = collections.defaultdict(list)
    if not waiting:
        return ()
    for group in references.cycles():
        starts = {start for thing in group for start in waiting.get(id(thing), ())}
        if not starts or len(group) == 1:  # a single object was kept alive by this walk
            continue
        names = collections.Counter(class_name(type(thing)) for thing in group if id(thing) not in waiting or len(starts) == len(group))
        classes = tuple(name for name, _ in sorted(names.items(), key=lambda pair: (hasattr(builtins, pair[0]), -pair[1], pair[0])))[:6]
        found[classes].append(starts)
    rows = []
    for classes, groups in found.items():
        starts = {start for group in groups for start in group}
        only = [start for start in starts if not ways.get(start)]
        rows.append(Cycle(classes, len(groups), len(only), sum(blocks[start].bytes for start in only)))
        said = _said_of_cycle(classes)
        for start in only:
            ways[start] = [Way(said, said, "cycle", (), 0)]
    return tuple(sorted(rows, key=lambda row: -row.bytes))


def _leaked(walked: Holders, groups: Dict[str, _Group], waiting: Dict[int, Set[int]], kind: str, notes: List[str]) -> Set[int]:
    """Blocks of holders that grew since the last walk, and of garbage."""
    starts = {start for several in waiting.values() for start in several}
    if kind not in _last:
        notes.append("the first walk has nothing to compare with: call holders(leaked=True) again some steps later")
        return starts
    texts = {one.text for one in growing(_last[kind], walked)}
    for name, group in groups.items():
        if group.text in texts:
            starts.update(group.blocks)
    return starts


def _sites() -> Dict[int, str]:
    """Where each of PyTorch's blocks was allocated, "train.py:12 train", by address; as far as PyTorch records it."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized() or not torch._C._cuda_isHistoryEnabled():  # type: ignore[union-attr]
        raise ValueError("no allocation sites are recorded; call memreel.torch_oom_hook() at the program's start")
    return sites_of(cuda.memory._snapshot())


def sites_of(snapshot: Any) -> Dict[int, str]:
    """The frames of the blocks in a snapshot of PyTorch's, innermost first, by the block's address."""
    found = {}
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            frames = block.get("frames") or (block.get("history") or [{}])[0].get("frames") or []
            if block["state"] == "active_allocated":
                found[block.get("address", address)] = "; ".join(f"{os.path.basename(frame['filename'])}:{frame['line']} {frame['name']}"
                                                                 for frame in frames)
            address += block["size"]
    return found
