# SPDX-License-Identifier: Apache-2.0
"""How an object is reached, as the program says it: "`history` in `train` (train.py:12), list of 4,912"."""
from __future__ import annotations

import collections
import copy
import functools
import gc
import re
import threading
import types
from typing import Any, Iterator, List, NamedTuple, Tuple

from .ancestors import Ids
from .inspection import bases, class_dict, class_name, dict_of_module, file_line, instance_dict, isinstance_of, locals_of, native_attribute

_CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque)
_GENERATORS = {types.GeneratorType: "gi_frame", types.CoroutineType: "cr_frame", types.AsyncGeneratorType: "ag_frame"}
_SUSPENDED = {0x20: "generator ", 0x80: "coroutine ", 0x200: "asynchronous generator "}  # by the flag of their code
_GETTERS = frozenset({"__traceback__", "__context__", "__cause__", "args", "_backward_hooks"})  # of C code, known to only read
_LAYERS = ("_modules", "_parameters", "_buffers")  # dictionaries of a torch.nn.Module
_LRU_CACHE = type(functools.lru_cache(lambda: None))
_SHOWN = 40  # characters of a key

_referents = gc.get_referents


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


class Words:
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

    def copy(self) -> Words:
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


def steps_from(parent: Any, wanted: Ids) -> Iterator[Tuple[Any, Step]]:
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
        yield dict_of_module(parent), Step("attributes", "")
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
