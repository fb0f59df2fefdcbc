# SPDX-License-Identifier: Apache-2.0
"""Who references an object: one walk over Python's objects from their roots, without running any of the program's code.

Roots are the globals of modules and the locals of frames that are alive. The walk goes backwards from the objects asked for
(ancestors.py), then breadth first from the roots among those alone, so the way that it finds to an object is a shortest one. What no root reaches, although someone outside counts a reference to it, is held by
C code (a running expression, an extension); the rest is garbage that waits for gc.collect(), told apart as CPython's
collector does (Modules/gcmodule.c, subtract_refs and move_unreachable).
"""
from __future__ import annotations

import collections
import copy
import functools
import gc
import itertools
import os
import re
import sys
import sysconfig
import threading
import time
import types
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

from .ancestors import CHUNK, Ancestors, Ids

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_BLOCK = 4096  # objects whose classes are noted together
_FROZEN_AT_START = 1000  # as CPython 3.12 does with some 400
_TRACKED = 1 << 14  # Py_TPFLAGS_HAVE_GC of a class
_ATOMS = frozenset({str, int, float, complex, bytes, bool, type(None), types.CodeType})  # reference nothing that matters
_CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque)
_OPTIMIZED = 0x1  # CO_OPTIMIZED: locals are not in a dictionary
_GENERATORS = {types.GeneratorType: "gi_frame", types.CoroutineType: "cr_frame", types.AsyncGeneratorType: "ag_frame"}
_SUSPENDED = {0x20: "generator ", 0x80: "coroutine ", 0x200: "asynchronous generator "}  # by the flag of their code
_GETTERS = frozenset({"__traceback__", "__context__", "__cause__", "args", "_backward_hooks"})  # of C code, known to only read
_LAYERS = ("_modules", "_parameters", "_buffers")  # dictionaries of a torch.nn.Module
_LRU_CACHE = type(functools.lru_cache(lambda: None))
_SHOWN = 40  # characters of a key

FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()

_mro = type.__dict__["__mro__"].__get__
_flags = type.__dict__["__flags__"].__get__
_subclasses = type.__dict__["__subclasses__"]
_dict_of_class: Any = type.__dict__["__dict__"].__get__
_dict_of_module: Any = vars(types.ModuleType)["__dict__"].__get__
_name_of_class = type.__dict__["__name__"].__get__
_referents = gc.get_referents


def class_name(kind: type) -> str:
    return str(_name_of_class(kind))


def class_dict(kind: type) -> Any:
    """The attributes of the class itself, as a mapping to read."""
    return _dict_of_class(kind) or {}  # a class has none before it is complete


def bases(kind: type) -> Tuple[type, ...]:
    """`kind` and its base classes; no metaclass is asked, unlike by issubclass()."""
    return _mro(kind) or (kind,)


def _classes_not_tracked() -> Set[type]:
    """Those whose instances the garbage collector does not track: they reference no objects, or do not say which."""
    found: Set[type] = set()
    kinds = [object]
    while kinds:
        kinds = [kind for above in kinds for kind in _subclasses(above)]
        found.update(kind for kind in kinds if not _flags(kind) & _TRACKED)
    return found


def native_attribute(thing: Any, name: str) -> Any:
    """An attribute that C code provides, from a slot or a getter; None if there is none or it has no value."""
    for kind in bases(type(thing)):
        found = class_dict(kind).get(name)
        if found is not None:
            if type(found) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
                return None
            try:
                return found.__get__(thing)
            except Exception:
                return None
    return None


def instance_dict(thing: Any) -> Optional[Dict[Any, Any]]:
    if isinstance_of(thing, type) or isinstance_of(thing, threading.local):  # which would make one, and run __init__
        return None
    found = native_attribute(thing, "__dict__")
    return found if type(found) is dict else None


def isinstance_of(thing: Any, kind: type) -> bool:
    """isinstance() that does not ask the object for its __class__."""
    return kind in bases(type(thing))


def file_line(code: types.CodeType, line: Optional[int]) -> str:
    return f"{os.path.basename(code.co_filename)}:{line or code.co_firstlineno}"


def own_code(code: types.CodeType) -> bool:
    """Whether it is the program's, rather than a library's."""
    return not code.co_filename.startswith(_LIBRARIES + ("<frozen",))


def locals_of(frame: types.FrameType) -> Dict[str, Any]:
    """The local variables of a frame. Does not keep them alive longer, as reading f_locals does before CPython 3.13: there the
    frame keeps what it returned, which is emptied here unless the program has it as well."""
    read: Any = frame.f_locals
    values = dict(read)
    if (sys.version_info < (3, 13) and frame.f_code.co_flags & _OPTIMIZED and frame.f_trace is None
            and sys.getrefcount(read) <= 3):  # the frame's, ours, the argument
        read.clear()
    return values


class Root(NamedTuple):
    """Where a way begins."""
    kind: str  # "global", "local", "extension"
    name: str  # an expression; a module's name if it is a global
    where: str  # of the name, such as " in `train` (train.py:12)"
    lasting: str  # the same without what changes while the program runs


class Step(NamedTuple):
    """From an object to one that it references."""
    kind: str  # "attribute", "item"; "attributes": to the dictionary of them; "new": another name begins
    text: str  # to add to the expression; of "new": the name
    before: str = ""  # of "new": what is said around the name
    after: str = ""


class Container(NamedTuple):
    """One that has elements, on the way to an object."""
    text: str  # "`history` in `train` (train.py:12)"
    key: str  # the same in every walk
    kind: str  # its class
    length: int
    clause: int = 0  # of the way's text, in which it is


class Way(NamedTuple):
    """How an object is reached from a root."""
    text: str  # with the length of the largest container
    key: str  # the same in every walk, and for every element of a container
    kind: str  # that of its root
    containers: Tuple[Container, ...]  # outermost first
    rank: int  # of two that are equally short the lower one says more


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
        self._words: Dict[int, _Words] = {}
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
                add(_dict_of_module(module), Root("global", name, "", ""))
        for frame, line, thread in _frames():
            code = frame.f_code
            if not code.co_flags & _OPTIMIZED and frame.f_locals is frame.f_globals:
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
        ways = [_Words(root).way() for root in self.roots.get(id(target), []) if root.kind != "extension"]
        for parent in self._ways_to.get(id(target), []):
            path = self._path(parent)
            if path and not any(thing is target for thing in path):
                words = self._words_to(parent, path).copy()
                words.add(parent, self._step(parent, target))
                ways.append(words.way())
        if not ways:
            ways = [_Words(root).way() for root in self.roots.get(id(target), [])]
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
            for thing, step in _steps_from(parent, self._relevant):
                if id(thing) in self._relevant:
                    steps.setdefault(id(thing), step)
        return steps.get(id(child)) or Step("new", class_name(type(parent)), "in a ")

    def _words_to(self, thing: Any, path: List[Any]) -> _Words:
        words = self._words.get(id(thing))
        if words is None:
            words = self._words[id(thing)] = _Words(self.roots[id(path[0])][0])
            for parent, child in zip(path, path[1:]):
                words.add(parent, self._step(parent, child))
        return words


class _Words:
    """A way as it is said: names with what is around them, from the root on."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._containers: Tuple[Container, ...] = ()
        self._module = root.name if root.kind == "global" else None
        self._said: Tuple[Tuple[str, str], ...] = ()
        self._name = self._lasting = "" if root.kind == "global" else root.name
        self._around: Tuple[str, ...] = ("", root.where, root.lasting)
        self._attributes = root.kind == "global"  # whether the next item is one
        self._layer = False
        self._rank = 1
        self._function: Any = None  # whose closure comes next
        self._variable = ""
        self._thread_local = False

    def copy(self) -> _Words:
        return copy.copy(self)

    def way(self) -> Way:
        parts = self._parts(lasting=False)
        if self._containers:
            largest = max(self._containers, key=lambda one: one.length)
            parts[largest.clause] += f", {largest.kind} of {largest.length:,}"
        rank = 3 if self._root.kind == "extension" else self._rank
        return Way(", ".join(parts), ", ".join(self._parts(lasting=True)), self._root.kind, self._containers, rank)

    def _parts(self, lasting: bool) -> List[str]:
        before, after, always = self._around
        last = f"{before}`{_short(self._lasting)}`{always}" if lasting else f"{before}`{_short(self._name)}`{after}"
        return [*(said[lasting] for said in self._said), last]

    def add(self, parent: Any, step: Step) -> None:
        kind = type(parent)
        if kind is types.FunctionType and step.text == "__closure__":
            self._function = parent
        elif kind is tuple and self._function is not None:
            names = self._function.__code__.co_freevars
            number = int(step.text[1:-1])
            self._variable = names[number] if number < len(names) else "?"
        elif kind is types.CellType:
            of = f" of `{self._function.__qualname__}`" if self._function is not None else ""
            self._begin(self._variable or "?", "closure variable ", of)
            self._function = None
        elif step.kind == "new":
            self._begin(step.text, step.before, step.after)
            self._rank = 2 if step.before == "key " else self._rank
        elif step.kind == "attributes":
            self._attributes = True
        elif step.text[1:] in _LAYERS and step.kind == "attribute":
            self._attributes = self._layer = True
            self._rank = 0
        elif isinstance_of(parent, threading.local):
            self._thread_local = True
            self._around = (self._around[0], *(f"{after} (thread-local)" for after in self._around[1:]))
        elif self._thread_local:  # the dictionary of a thread's dictionaries
            self._thread_local, self._attributes = False, True
        elif self._attributes and step.kind == "item":
            self._attribute(step.text)
        else:
            if step.kind == "item":
                self._container(parent)
            self._name += step.text
            self._lasting += "[...]" if step.kind == "item" else step.text

    def _begin(self, name: str, before: str, after: str) -> None:
        self._said += ((self._parts(lasting=False)[-1], self._parts(lasting=True)[-1]),)
        self._name = self._lasting = name
        self._around = (before, after, re.sub(r":\d+\)", ")", after))

    def _attribute(self, text: str) -> None:
        """An item of a dictionary of attributes. Layers of a torch.nn.Module are said as the program says them: model.layers[3]."""
        name = text[2:-2] if text.startswith("['") else text
        if name in _LAYERS and not self._layer:
            self._layer = True
            self._rank = 0
            return
        self._attributes, layer, self._layer = False, self._layer, False
        if self._module is not None:
            name, self._module = f"{self._module}.{name}", None
        elif layer and name.isdecimal():
            name = f"[{name}]"
        else:
            name = f".{name}" if text.startswith("['") else text
        self._name += name
        self._lasting += name

    def _container(self, thing: Any) -> None:
        length = _length(thing)
        if length:
            kind = "lru_cache" if type(thing) is _LRU_CACHE else class_name(type(thing))
            text, key = (", ".join(self._parts(lasting)) for lasting in (False, True))
            self._containers += (Container(text, key, kind, length, len(self._said)),)


def _short(expression: str) -> str:
    """`head.next...` of a chain."""
    if expression.count(".") + expression.count("[") < 4:
        return expression
    return re.sub(r"((?:\.\w+|\[[^]]*\])+?)\1{2,}", r"\1...", expression)


def _length(thing: Any) -> int:
    if type(thing) is _LRU_CACHE:
        return int(thing.cache_info().currsize)
    return next((kind.__len__(thing) for kind in _CONTAINERS if isinstance_of(thing, kind)), 0)


def _key_text(key: Any) -> str:
    kind = type(key)
    if kind is str:
        short = key if len(key) <= _SHOWN else key[:_SHOWN - 3] + "..."
        return f"['{short}']"
    return f"[{key!r}]" if kind in (int, bool, float, type(None)) else f"[<{class_name(kind)}>]"


def _steps_from(parent: Any, wanted: Ids) -> Iterator[Tuple[Any, Step]]:
    """How `parent` references those `wanted`, and possibly others; incomplete for classes of C code."""
    kind = type(parent)
    attributes = None
    if isinstance_of(parent, dict):
        for key, value in list(dict.items(parent)):
            if id(value) in wanted:
                yield value, Step("item", _key_text(key))
            if id(key) in wanted:
                yield key, Step("new", class_name(type(key)), "key ")
        attributes = instance_dict(parent) if kind is not dict else None
    elif isinstance_of(parent, list) or isinstance_of(parent, tuple):
        base: Any = list if isinstance_of(parent, list) else tuple
        for number, value in enumerate(base.__iter__(parent)):
            if id(value) in wanted:
                yield value, Step("item", f"[{number}]")
        attributes = instance_dict(parent) if kind is not base else None
    elif isinstance_of(parent, collections.deque):
        for number, value in enumerate(list(collections.deque.__iter__(parent))):
            if id(value) in wanted:
                yield value, Step("item", f"[{number}]")
    elif isinstance_of(parent, set) or isinstance_of(parent, frozenset):
        for value in (set if isinstance_of(parent, set) else frozenset).__iter__(parent):
            yield value, Step("item", "[...]")
    elif kind is types.FunctionType:
        yield parent.__closure__, Step("attribute", "__closure__")
        yield parent.__defaults__, Step("attribute", ".__defaults__")
        yield parent.__kwdefaults__, Step("attribute", ".__kwdefaults__")
        yield parent.__globals__, Step("attributes", "")
        yield parent.__dict__, Step("attributes", "")
    elif kind is types.CellType:
        yield from ((value, Step("attribute", "")) for value in _referents(parent))
    elif kind is types.MethodType:
        yield parent.__self__, Step("attribute", ".__self__")
        yield parent.__func__, Step("attribute", ".__func__")
    elif kind is types.ModuleType:
        yield _dict_of_module(parent), Step("attributes", "")
    elif kind is types.FrameType or kind in _GENERATORS:
        frame = native_attribute(parent, _GENERATORS[kind]) if kind in _GENERATORS else parent
        if frame is not None:
            code = frame.f_code
            what = next((name for flag, name in _SUSPENDED.items() if code.co_flags & flag), "")
            for name, value in locals_of(frame).items():
                yield value, Step("new", name, "local ", f" of {what}`{code.co_name}` ({file_line(code, frame.f_lineno)})")
            yield frame, Step("attribute", "")
    elif kind is types.TracebackType:
        yield parent.tb_next, Step("attribute", "")
        yield parent.tb_frame, Step("attribute", "")
    elif kind is _LRU_CACHE:
        attributes = instance_dict(parent)
        for value in _referents(parent):
            if value is not attributes:
                yield value, Step("item", "(...)")
    elif isinstance_of(parent, threading.local):
        yield from ((value, Step("attribute", "")) for value in _referents(parent))
    elif isinstance_of(parent, type):
        attributes = next(iter(_referents(class_dict(parent))), None)
    else:
        attributes = instance_dict(parent)
        for base in bases(kind):
            for name, slot in class_dict(base).items():
                if type(slot) is types.MemberDescriptorType or (type(slot) is types.GetSetDescriptorType and name in _GETTERS):
                    try:
                        yield slot.__get__(parent), Step("attribute", f".{name}")
                    except AttributeError:  # a slot without a value
                        pass
        yield kind, Step("attribute", "")
    if attributes is not None:
        yield attributes, Step("attributes", "")
        for name, value in list(dict.items(attributes)):
            yield value, Step("attribute", f".{name}" if type(name) is str else _key_text(name))
