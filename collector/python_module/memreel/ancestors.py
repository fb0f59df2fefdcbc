# SPDX-License-Identifier: Apache-2.0
"""Which objects lead to some others: found backwards, from those to what references them, without a set of all objects.

The interpreter has no list of an object's referrers, so each pass looks at all objects, in chunks whose references C code
collects. It leaves out almost all after the first pass: a chunk is looked at again only if it references a page of memory
in which something was found since.
"""
from __future__ import annotations

import gc
from itertools import repeat
from operator import rshift
from typing import Any, Callable, Collection, Dict, Iterable, List, Set

Ids = Set[int]

CHUNK = 512  # objects that are looked at together
_PAGE = 16  # the logarithm of its bytes
_CHUNKS_BETWEEN_LOOKS = 16  # at the clock


class Ancestors:
    """`by_id` has the objects of `objects` from which a way leads to `targets`, if it passes none of `roots` before its end,
    and is none of `ignored`. Instances lead to what their class references only if classes_lead() says so.

    `tracked`: whether everything of interest is tracked by the garbage collector."""

    def __init__(self, objects: List[Any], targets: Iterable[Any], roots: Collection[int], ignored: Collection[int], tracked: bool) -> None:
        self.by_id: Dict[int, Any] = {}
        self._objects, self._roots, self._ignored, self._tracked = objects, roots, ignored, tracked
        self._sought: Ids = set(map(id, targets))  # whose referrers are of interest
        self._classes: Ids = set()  # that lead from their instances to what is sought
        self._pages: List[Set[int]] = []  # that each chunk references
        self._looked: List[int] = []  # when each chunk was
        self._changed: Dict[int, int] = {}  # when something in a page was last added to what is sought
        self._time = 1

    def find(self, check: Callable[[], None]) -> None:
        """Passes over all objects until nothing more is found; `check` may end it."""
        chunks = range(0, len(self._objects), CHUNK)
        if not self._pages:
            self._pages, self._looked = [set() for _ in chunks], [0] * len(chunks)
        # The collector has most objects before those that they reference.
        backwards = True
        while True:
            before = self._time
            order = range(len(chunks))
            for place in reversed(order) if backwards else order:
                if place % _CHUNKS_BETWEEN_LOOKS == 0:
                    check()
                self._look(place, backwards)
            if self._time == before:
                return
            backwards = not backwards

    def classes_lead(self, classes: Iterable[Any]) -> None:
        """From here on the instances of these classes are wanted, too."""
        self._time += 1
        for kind in classes:
            self._classes.add(id(kind))
            self._changed[id(kind) >> _PAGE] = self._time

    def _look(self, place: int, backwards: bool) -> None:
        if not self._looked[place]:
            chunk = self._objects[place * CHUNK:(place + 1) * CHUNK]
            referents = gc.get_referents(*chunk)
            ids = list(map(id, filter(gc.is_tracked, referents) if self._tracked else referents))
            self._pages[place] = set(map(rshift, ids, repeat(_PAGE)))
        elif max(map(self._changed.get, self._pages[place], repeat(0)), default=0) > self._looked[place]:
            chunk = self._objects[place * CHUNK:(place + 1) * CHUNK]
            ids = list(map(id, gc.get_referents(*chunk)))
        else:
            return
        self._looked[place] = self._time
        if self._sought.isdisjoint(ids):
            return
        self._time += 1
        for thing in reversed(chunk) if backwards else chunk:
            number = id(thing)
            if number in self.by_id or number in self._ignored:
                continue
            leads_to = self._sought.intersection(map(id, gc.get_referents(thing)))
            leads_to -= {id(type(thing))} - self._classes
            if leads_to:
                self.by_id[number] = thing
                if number not in self._roots:
                    self._sought.add(number)
                    self._changed[number >> _PAGE] = self._time
