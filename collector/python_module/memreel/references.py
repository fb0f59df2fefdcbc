# SPDX-License-Identifier: Apache-2.0
"""Who references an object: one walk over Python's objects from their roots, without running any of the program's code.

Roots are the globals of modules and the locals of frames that are alive. The walk goes backwards from the objects asked for
(ancestors.py), then breadth first from the roots among those alone, so the way that it finds to an object is a shortest one.
What no root reaches, although someone outside counts a reference to it, is held by C code (a running expression, an
extension); the rest is garbage that waits for gc.collect(), told apart as CPython's collector does (Modules/gcmodule.c,
subtract_refs and move_unreachable).
"""
from __future__ import annotations

import collections
import functools
import gc
import itertools
import os
import sys
import threading
import time
import types
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from .ancestors import CHUNK, Ancestors, Ids
from .inspection import HERE, OPTIMIZED, class_name, dict_of_module, file_line, isinstance_of, locals_of, own_code
from .ways import Root, Step, Way, Words, steps_from

_BLOCK = 4096  # objects whose classes are noted together
_FROZEN_AT_START = 1000  # as CPython 3.12 does with some 400
_TRACKED = 1 << 14  # Py_TPFLAGS_HAVE_GC of a class
_ATOMS = frozenset({str, int, float, complex, bytes, bool, type(None), types.CodeType})  # reference nothing that matters

FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()

_flags = type.__dict__["__flags__"].__get__
_subclasses = type.__dict__["__subclasses__"]
_referents = gc.get_referents


def _classes_not_tracked() -> Set[type]:
    """Those whose instances the garbage collector does not track: they reference no objects, or do not say which."""
    found: Set[type] = set()
    kinds = [object]
    while kinds:
        kinds = [kind for above in kinds for kind in _subclasses(above)]
        found.update(kind for kind in kinds if not _flags(kind) & _TRACKED)
    return found


class OutOfTime(Exception):
    pass


def _own_depth() -> int:
    """How many of memreel's own frames the caller is in. They are in no variable here: a frame that something references when it
    ends keeps its locals, and a variable of its own would make that a cycle."""
    depth = 1
    try:
        while sys._getframe(depth).f_code.co_filename.startswith(HERE):
            depth += 1
    except ValueError:  # Python's C code calls memreel, as the program ends
        pass
    return depth - 1


def _frames() -> Iterator[Tuple[types.FrameType, int, str]]:
    """Those of all threads, outermost first, with their lines and the thread's name; not memreel's own. And those of the error that
    ends the program: Python keeps its traceback."""
    names = {thread.ident: thread._name for thread in list(threading._active.values())}  # type: ignore[attr-defined]
    main, own = threading.main_thread().ident, threading.get_ident()
    frames = {} if FREE_THREADED else sys._current_frames()
    try:
        frames[own] = sys._getframe(_own_depth())
    except ValueError:
        frames.pop(own, None)
    for number, frame in sorted(frames.items(), key=lambda item: item[0] != main):
        stack = []
        inner: Optional[types.FrameType] = frame
        while inner is not None:
            if not inner.f_code.co_filename.startswith(HERE):
                stack.append(inner)
            inner = inner.f_back
        thread = "" if number == main else f" of thread {names.get(number, number)}"
        for outer in reversed(stack):
            yield outer, outer.f_lineno or 0, thread
    ended = vars(sys).get("last_traceback")
    while type(ended) is types.TracebackType:
        yield ended.tb_frame, ended.tb_lineno, ""
        ended = ended.tb_next


class References:
    """The walk. It holds what it found until close(); nothing that it returns does.

    `seconds` and `objects` bound it: `complete` says whether it came to its end, `notes` why not."""

    def __init__(self, seconds: float, objects: int) -> None:
        self._began = time.monotonic()
        self._seconds = seconds
        self.complete = True
        self.notes: List[str] = []
        self.roots: Dict[int, List[Root]] = {}
        self.garbage: List[Any] = []
        self._parents: Dict[int, Any] = {}
        self._ways_to: Dict[int, List[Any]] = {}
        self._steps: Dict[int, Dict[int, Step]] = {}
        self._paths: Dict[int, List[Any]] = {}
        self._words: Dict[int, Words] = {}
        self._relevant: Ids = set()
        self._tracked = True  # whether all that is of interest is tracked by the collector
        self._root_things = self._name_roots()  # before anything else here references a frame's dictionary of locals
        self._objects = gc.get_objects()
        self._own: Ids = set(map(id, [self, vars(self), *vars(self).values()]))
        self._own.update(map(id, map(sys._getframe, range(_own_depth()))))
        if gc.get_freeze_count() > _FROZEN_AT_START:
            self._extend(functools.partial(filter, gc.is_tracked), set(map(id, self._objects)))
        if not gc.is_tracked(References):  # free-threaded 3.13 stops tracking functions and classes at the first thread's start
            self._add_untracked()
        if len(self._objects) > objects:
            del self._objects[objects:]
            self._end(f"the walk ended after {objects:,} objects; what it did not reach is missing")
        self.count = len(self._objects)
        self._kinds = self._kinds_of_blocks()

    def close(self) -> None:
        """Lets go of all objects."""
        for kept in list(vars(self).values()):
            if type(kept) in (dict, list):
                kept.clear()

    def check_time(self, share: float = 1.0) -> None:
        if time.monotonic() - self._began > self._seconds * share:
            raise OutOfTime(f"the walk ended after {self._seconds:g} s; what it did not reach is missing")

    def _name_roots(self) -> List[Any]:
        found: List[Any] = []

        def add(thing: Any, root: Root) -> None:
            known = self.roots.setdefault(id(thing), [])
            if not known:
                found.append(thing)
            if len(known) < 3:
                known.append(root)

        library: List[Tuple[Any, Root]] = []
        for name, module in sorted(list(sys.modules.items()), key=lambda item: item[0] != "__main__"):
            if isinstance_of(module, types.ModuleType):
                add(dict_of_module(module), Root("global", name, "", ""))
        for frame, line, thread in _frames():
            code = frame.f_code
            if not code.co_flags & OPTIMIZED and frame.f_locals is frame.f_globals:
                continue
            function = getattr(code, "co_qualname", code.co_name).replace(".<locals>", "")
            where = f" in `{function}` ({file_line(code, line)}){thread}"
            lasting = f" in `{function}` ({os.path.basename(code.co_filename)}){thread}"
            for name, value in locals_of(frame).items():
                if type(value) not in _ATOMS:
                    root = Root("local", name, where, lasting)
                    if own_code(code):
                        add(value, root)
                    else:
                        library.append((value, root))
        for value, root in library:
            add(value, root)
        return found

    def _end(self, why: str) -> None:
        self.complete = False
        self.notes.append(why)

    def _extend(self, choose: Callable[[List[Any]], Iterable[Any]], known: Ids) -> None:
        """Adds objects that gc.get_objects() leaves out: of what others reference, those that `choose` returns and that are not `known`."""
        things: List[Any] = [*self._objects, self._root_things]
        try:
            while things:
                found: List[Any] = []
                for start in range(0, len(things), CHUNK):
                    self.check_time(0.5)
                    found += [thing for thing in choose(_referents(*things[start:start + CHUNK]))
                              if type(thing) not in _ATOMS and (number := id(thing)) not in known and not known.add(number)]  # type: ignore[func-returns-value]
                self._objects += found
                things = found
        except OutOfTime as why:
            self._end(str(why))

    def _add_untracked(self) -> None:
        if self._tracked:
            self._tracked = False
            self._extend(functools.partial(itertools.filterfalse, gc.is_tracked), set())

    def _kinds_of_blocks(self) -> List[Set[type]]:
        return [set(map(type, self._objects[start:start + _BLOCK])) for start in range(0, len(self._objects), _BLOCK)]

    def kinds(self) -> Set[type]:
        """The classes of all objects, and some that have none."""
        return set().union(*self._kinds, _classes_not_tracked())

    def found(self, kinds: Iterable[type]) -> List[Any]:
        """The objects of exactly these classes. Their ways are known after trace()."""
        wanted = frozenset(kinds)
        if not wanted.isdisjoint(_classes_not_tracked()):
            self._add_untracked()
            self._kinds = self._kinds_of_blocks()
        return [thing for place, kinds_here in enumerate(self._kinds) if not wanted.isdisjoint(kinds_here)
                for thing in self._objects[place * _BLOCK:(place + 1) * _BLOCK] if type(thing) in wanted]

    def trace(self, targets: List[Any], most: int = 4) -> None:
        """Finds who references `targets`, and the ways there: ways() is for these. Sorts them: what a root reaches first, nearest first."""
        self._ways_to = {id(thing): [] for thing in targets}
        leading = Ancestors(self._objects, targets, self.roots, self._own, self._tracked)
        inside = dict(zip(self._ways_to, targets))
        seen: Dict[int, None] = {}  # in the order in which they are reached
        try:
            try:
                leading.find(lambda: self.check_time(0.7))
            finally:  # what was found is told
                inside.update(leading.by_id)
                self._reach(self._root_things, inside, seen, most)
            classes = [thing for number, thing in inside.items() if number not in seen and isinstance_of(thing, type)]
            if classes:
                leading.classes_lead(classes)
                leading.find(lambda: self.check_time(0.7))
                inside.update(leading.by_id)
                seen.clear()
                self._parents.clear()
                for parents in self._ways_to.values():
                    parents.clear()
                self._reach(self._root_things, inside, seen, most)
            del classes
            self._objects.clear()  # so that they count no references
            self._kinds.clear()
            self._divide(targets, leading.by_id, inside, seen, most)
        except OutOfTime as why:
            self._end(str(why))
        order = {number: place for place, number in enumerate(seen)}
        targets.sort(key=lambda thing: order.get(id(thing), len(order)))
        self._relevant = set(self._ways_to).union(self._parents, *(map(id, parents) for parents in self._ways_to.values()))

    def _reach(self, things: List[Any], inside: Dict[int, Any], seen: Dict[int, None], most: int) -> None:
        """Adds to `seen` what is reached from `things` among those `inside`, nearest first, and notes the ways."""
        things = [thing for thing in things if id(thing) in inside]
        seen.update(dict.fromkeys(map(id, things)))
        while things:
            found: List[Any] = []
            for start in range(0, len(things), CHUNK):
                self.check_time(0.9)
                for thing in things[start:start + CHUNK]:
                    for number in filter(inside.__contains__, map(id, _referents(thing))):
                        parents = self._ways_to.get(number)
                        if parents is not None and len(parents) < most and not (parents and parents[-1] is thing):
                            parents.append(thing)
                        if number not in seen:
                            seen[number] = None
                            self._parents[number] = thing
                            found.append(inside[number])
            things = found

    def _divide(self, targets: List[Any], ancestors: Dict[int, Any], inside: Dict[int, Any], seen: Dict[int, None], most: int) -> None:
        """Divides what no root reaches into what someone outside Python holds and what nobody does."""
        rest = [thing for number, thing in inside.items() if number not in seen]
        counts: collections.Counter[int] = collections.Counter()
        for start in range(0, len(rest), CHUNK):
            self.check_time(0.9)
            counts.update(filter(inside.__contains__, map(id, _referents(*rest[start:start + CHUNK]))))
        if FREE_THREADED:  # its counts of references are in parts
            held = [thing for thing in rest if id(thing) not in counts]
            self.notes.append("free-threaded Python: locals of other threads are not seen, nor whether a cycle is held by C code")
        else:
            count, probe = sys.getrefcount, [object()]
            ours = [count(thing) for thing in probe][0] + 1  # `inside` has each, too; `targets` and `ancestors` some
            held = [thing for thing in rest if count(thing) - counts[id(thing)] > ours + (id(thing) in self._ways_to) + (id(thing) in ancestors)]
        for thing in held:
            held_by = " held by a running expression or C code"
            self.roots.setdefault(id(thing), []).append(Root("extension", class_name(type(thing)), held_by, held_by))
        self._reach(held, inside, seen, most)
        self.garbage = [thing for thing in rest if id(thing) not in seen]

    def ways(self, target: Any) -> List[Way]:
        """The shortest first."""
        ways = [Words(root).way() for root in self.roots.get(id(target), []) if root.kind != "extension"]
        for parent in self._ways_to.get(id(target), []):
            path = self._path(parent)
            if path and not any(thing is target for thing in path):
                words = self._words_to(parent, path).copy()
                words.add(parent, self._step(parent, target))
                ways.append(words.way())
        if not ways:
            ways = [Words(root).way() for root in self.roots.get(id(target), [])]
        ways.sort(key=lambda way: way.rank)
        return list({way.text: way for way in ways}.values())

    def _path(self, thing: Any) -> List[Any]:
        """From a root to `thing`; empty if there is none, as in garbage."""
        known = self._paths.get(id(thing))
        if known is None:
            known, at = [thing], thing
            while id(at) not in self.roots:
                at = self._parents.get(id(at))
                if at is None or len(known) > 10_000:
                    known = [None]
                    break
                known.append(at)
            known.reverse()
            self._paths[id(thing)] = known
        return [] if known[0] is None else known

    def cycles(self) -> List[List[Any]]:
        """The garbage, divided into what hangs together."""
        group = {id(thing): id(thing) for thing in self.garbage}

        def head(number: int) -> int:
            while group[number] != number:
                group[number] = number = group[group[number]]
            return number

        try:
            for place, thing in enumerate(self.garbage):
                if place % CHUNK == 0:
                    self.check_time()
                mine = head(id(thing))
                for number in filter(group.__contains__, map(id, _referents(thing))):
                    group[head(number)] = mine
        except OutOfTime as why:
            self.complete = False
            self.notes.append(str(why))
        together: Dict[int, List[Any]] = {}
        for thing in self.garbage:
            together.setdefault(head(id(thing)), []).append(thing)
        return list(together.values())

    def _step(self, parent: Any, child: Any) -> Step:
        steps = self._steps.get(id(parent))
        if steps is None:
            steps = self._steps[id(parent)] = {}
            for thing, step in steps_from(parent, self._relevant):
                if id(thing) in self._relevant:
                    steps.setdefault(id(thing), step)
        return steps.get(id(child)) or Step("new", class_name(type(parent)), "in a ")

    def _words_to(self, thing: Any, path: List[Any]) -> Words:
        words = self._words.get(id(thing))
        if words is None:
            words = self._words[id(thing)] = Words(self.roots[id(path[0])][0])
            for parent, child in zip(path, path[1:]):
                words.add(parent, self._step(parent, child))
        return words
