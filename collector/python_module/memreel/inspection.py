# SPDX-License-Identifier: Apache-2.0
"""Looks at objects without running any of the program's code: no __getattr__, no property, no metaclass is asked."""
from __future__ import annotations

import os
import sys
import sysconfig
import threading
import types
from typing import Any, Dict, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
OPTIMIZED = 0x1  # COOPTIMIZED: locals are not in a dictionary
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})

dict_of_module: Any = vars(types.ModuleType)["__dict__"].__get__
_mro = type.__dict__["__mro__"].__get__
_dict_of_class: Any = type.__dict__["__dict__"].__get__
_name_of_class = type.__dict__["__name__"].__get__


def class_name(kind: type) -> str:
    return str(_name_of_class(kind))


def class_dict(kind: type) -> Any:
    """The attributes of the class itself, as a mapping to read."""
    return _dict_of_class(kind) or {}  # a class has none before it is complete


def bases(kind: type) -> Tuple[type, ...]:
    """`kind` and its base classes; no metaclass is asked, unlike by issubclass()."""
    return _mro(kind) or (kind,)


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
    if (sys.version_info < (3, 13) and frame.f_code.co_flags & OPTIMIZED and frame.f_trace is None
            and sys.getrefcount(read) <= 3):  # the frame's, ours, the argument
        read.clear()
    return values
