# SPDX-License-Identifier: Apache-2.0
"""The memory that Python objects stand for: PyTorch's tensors by their storage, arrays of NumPy, CuPy, JAX and others.

Only C code is asked, never an attribute that the program may have defined: a profile function refuses calls of Python
functions before their first line, and they count as not known.
"""
from __future__ import annotations

import contextlib
import math
import sys
from types import FunctionType
from typing import Any, Callable, Container, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, TypeVar

from .inspection import HERE, bases, class_dict, class_name, instance_dict, native_attribute

Answer = TypeVar("Answer")

_INTERFACES = (("__cuda_array_interface__", "device"), ("__array_interface__", "host"))
_MOST_NODES = 200_000  # of autograd graphs


class Memory(NamedTuple):
    """A block that an object refers to, whole, even if the object is a view of a part."""
    address: int
    bytes: int
    kind: str  # "device", "pinned", "host"
    device: int  # as CUDA counts; -1: the host
    shape: Tuple[int, ...]  # of the object
    dtype: str
    requires_grad: bool
    grad_fn: Optional[str]


_module_of = type.__dict__["__module__"].__get__


def _memory(*values: Any) -> Memory:  # as Memory(), whose constructor is a function of Python's
    return tuple.__new__(Memory, values)


class InGraph(NamedTuple):
    """A block that an autograd graph keeps: saved for the backward pass, or a gradient."""
    memory: Memory
    owner: Any  # the tensor whose graph it is
    how: str  # "saved by MulBackward0 as self", "grad"


class _Refused(Exception):
    pass


def _refuse(frame: Any, event: str, argument: Any) -> None:
    if event == "call" and not frame.f_code.co_filename.startswith(HERE):
        raise _Refused


class Reader:
    """Reads objects of the classes in `kinds` that stand for memory."""

    def __init__(self, kinds: Iterable[type]) -> None:
        native = vars(sys.modules["torch"]).get("_C") if "torch" in sys.modules else None
        names = vars(native) if native is not None and hasattr(native, "__dict__") else {}
        self._tensor: Optional[type] = names.get("TensorBase", names.get("_TensorBase"))
        self._storage: Any = names.get("StorageBase")
        self._functions_off: Any = names.get("DisableTorchFunctionSubclass", names.get("DisableTorchFunction"))
        cuda = sys.modules.get("torch.cuda")
        self._pinned = cuda is not None and bool(vars(cuda).get("_initialized"))
        profile = sys.getprofile()
        self.guarded = profile is None or type(profile) is FunctionType  # a profiler of C code can't be put back
        self._of = {kind: read for kind in kinds for read in [self._reader_for(kind)] if read is not None}

    def kinds_with(self, memory: Container[str]) -> List[type]:
        """The classes that can stand for memory of these kinds."""
        return [kind for kind, read in self._of.items() if read is not _of_numpy or "host" in memory]

    def _reader_for(self, kind: type) -> Optional[Callable[[Any, Any], Optional[Memory]]]:
        known = bases(kind)
        if self._tensor is not None and self._tensor in known:
            return Reader._of_tensor
        if any(class_name(base) == "ndarray" and _module_of(base) == "numpy" for base in known):
            return _of_numpy
        if any(class_name(base) == "generic" and _module_of(base) == "numpy" for base in known):
            return None  # a scalar
        if class_name(type(kind)) == "tensortype":
            return None  # torch.FloatTensor and the like: names of dtypes, without instances
        if class_name(kind) == "ArrayImpl" and str(_module_of(kind)).startswith("jaxlib"):
            return _of_jax
        return _of_interface if any(map(_has_interface, known)) else None

    def read(self, things: Iterable[Any]) -> Iterator[Tuple[Any, Memory]]:
        """Each with its memory, if it has any."""
        for batch in _batches(things):
            yield from self._guarded(lambda thing: self._of[type(thing)](self, thing), batch)

    def _guarded(self, ask: Callable[[Any], Optional[Answer]], things: Iterable[Any]) -> List[Tuple[Any, Answer]]:
        """What `ask` says of each, asking C code only: whatever calls a function of the program fails, and is left out."""
        found, before = [], sys.getprofile()
        guard = sys.setprofile if self.guarded else lambda refuse: None
        with self._functions_off() if self._functions_off is not None else contextlib.nullcontext():
            guard(_refuse)
            try:
                for thing in things:
                    try:
                        answer = ask(thing)
                        if answer is not None:
                            found.append((thing, answer))
                    except Exception:
                        guard(_refuse)  # an error in a profile function ends it
            finally:
                guard(before)
        return found

    def _of_tensor(self, tensor: Any) -> Optional[Memory]:
        of: Any = class_dict(self._tensor or object)
        storage = of["untyped_storage"](tensor)
        size = self._storage.nbytes(storage)
        device = of["device"].__get__(tensor)
        if size == 0 or device.type == "meta":
            return None
        address = self._storage.data_ptr(storage)
        if address == 0:
            return None
        grad_fn = of["grad_fn"].__get__(tensor)
        host = device.type == "cpu"
        kind = "device" if not host else "pinned" if self._pinned and of["is_pinned"](tensor) else "host"
        return _memory(address, size, kind, -1 if host else device.index or 0, tuple(of["shape"].__get__(tensor)),
                      str(of["dtype"].__get__(tensor)).replace("torch.", ""), of["requires_grad"].__get__(tensor),
                      None if grad_fn is None else class_name(type(grad_fn)))

    def graphs(self, things: Iterable[Any], check: Callable[[], None]) -> Tuple[List[InGraph], Dict[int, int], int]:
        """What the autograd graphs of the tensors in `things` keep, which Python does not see: saved tensors and gradients;
        the number of nodes of each tensor's graph, by id(); and how many saved tensors are not known, because the program's
        hooks would have to unpack them."""
        if self._tensor is None:
            return [], {}, 0
        tensors = [thing for thing in things if self._tensor in bases(type(thing))]
        kept: List[InGraph] = []
        of = class_dict(self._tensor)

        def gradient(tensor: Any) -> Any:
            leaf = of["requires_grad"].__get__(tensor) and of["is_leaf"].__get__(tensor)
            return of["grad"].__get__(tensor) if leaf else None

        for owner, grad in self._guarded(gradient, tensors):
            kept += [InGraph(memory, owner, "grad") for _, memory in self._guarded(self._of_tensor, [grad])]
        seen: Dict[int, Any] = {}  # nodes are held, so that their ids stay theirs
        sizes: Dict[int, int] = {}
        hidden = 0
        for owner, first in self._guarded(of["grad_fn"].__get__, tensors) if self.guarded else ():
            nodes, number = [first], 0
            while nodes and len(seen) < _MOST_NODES:
                node = nodes.pop()
                if id(node) in seen:
                    continue
                seen[id(node)] = node
                number += 1
                if number % 256 == 0:
                    check()
                for _, (further, saved, unknown) in self._guarded(_of_node, [node]):
                    nodes += further
                    hidden += unknown
                    for name, tensor in saved:
                        text = f"saved by {class_name(type(node))}" + (f" as {name}" if name else "")
                        kept += [InGraph(memory, owner, text) for _, memory in self._guarded(self._of_tensor, [tensor])]
            if number:
                sizes[id(owner)] = number
        return kept, sizes, hidden


def _of_node(node: Any) -> Tuple[List[Any], List[Tuple[str, Any]], int]:
    """The next nodes of an autograd node, its saved tensors by name, and how many it does not tell."""
    saved: List[Tuple[str, Any]] = []
    hidden = 0
    for base in bases(type(node)):
        for name in class_dict(base):
            if not name.startswith("_raw_saved_"):
                continue
            try:
                raw = getattr(node, name)
                several = isinstance(raw, (list, tuple))
                if any(getattr(one, "unpack_hook", None) is not None for one in (raw if several else [raw])):
                    hidden += 1
                    continue
                value = getattr(node, name[4:])
                saved += [(name[11:], one) for one in (value if isinstance(value, (list, tuple)) else [value]) if one is not None]
            except _Refused:
                sys.setprofile(_refuse)
                hidden += 1
            except Exception:  # they were freed by the backward pass
                pass
    if class_name(type(node)) == "AccumulateGrad":
        saved.append(("variable", node.variable))
    else:  # torch.autograd.Function
        try:
            saved += [("", one) for one in getattr(node, "saved_tensors", ()) if one is not None]
        except _Refused:
            sys.setprofile(_refuse)
            hidden += 1
        except Exception:
            pass
    return [further for further, _ in node.next_functions if further is not None], saved, hidden


def _has_interface(kind: type) -> bool:
    """Whether instances may have an array interface: of the class, or set by a function of it."""
    values = class_dict(kind)
    return any(name in values or any(name in value.__code__.co_names for value in list(values.values()) if type(value) is FunctionType)
               for name, _ in _INTERFACES)


def _of_numpy(_: Reader, array: Any) -> Optional[Memory]:
    interface = native_attribute(array, "__array_interface__")
    shape, dtype = interface["shape"], interface["typestr"]  # str(dtype) is code of Python
    while type(native_attribute(array, "base")) is type(array):
        array = native_attribute(array, "base")
    address, size = native_attribute(array, "__array_interface__")["data"][0], native_attribute(array, "nbytes")
    return _memory(address, size, "host", -1, shape, dtype, False, None) if size else None


def _of_jax(_: Reader, array: Any) -> Optional[Memory]:
    address, size = array.unsafe_buffer_pointer(), array.on_device_size_in_bytes()
    host = array.platform() == "cpu"
    # Its shape and type are properties of Python.
    return _memory(address, size, "host" if host else "device", -1 if host else 0, (), "jax.Array", False, None)


def _of_interface(_: Reader, thing: Any) -> Optional[Memory]:
    """By the array interface of NumPy or Numba, if it is plain data or C code gives it."""
    for name, kind in _INTERFACES:
        interface = (instance_dict(thing) or {}).get(name) or native_attribute(thing, name)
        if type(interface) is not dict or type(interface.get("typestr")) is not str:
            continue
        address, shape, item = interface["data"][0], tuple(interface["shape"]), int(interface["typestr"][2:])
        size = math.prod(shape) * item
        strides = interface.get("strides")
        if strides and size:
            size = item + sum((extent - 1) * abs(stride) for extent, stride in zip(shape, strides))
        return _memory(address, size, kind, 0 if kind == "device" else -1, shape, interface["typestr"], False, None) if size else None
    return None


def _batches(things: Iterable[Any]) -> Iterator[List[Any]]:
    """Small enough to look at the clock between two."""
    batch = []
    for thing in things:
        batch.append(thing)
        if len(batch) == 1024:
            yield batch
            batch = []
    yield batch
