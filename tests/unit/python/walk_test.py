# SPDX-License-Identifier: Apache-2.0
"""Frames as walked by memreel's probe, compared with those that Python itself reports.

usage: walk_test.py PROBE_LIBRARY [TEST...]; runs on every CPython since 3.9.
"""
import asyncio
import contextlib
import ctypes
import functools
import gc
import os
import platform
import struct
import sys
import threading
import time
import traceback
import types
import unittest

TRUST = ["absent", "unproved", "plausible", "agreed", "refused"]


def load(path):
    with_gil, without_gil = ctypes.PyDLL(path), ctypes.CDLL(path)
    for library in with_gil, without_gil:
        library.probe_walk.restype = ctypes.c_size_t
        library.probe_walk.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
        library.probe_reason.restype = ctypes.c_char_p
        library.probe_refused.restype = ctypes.c_ulonglong
        library.probe_walk_only.argtypes = [ctypes.c_size_t]
        library.probe_name_module.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        library.probe_name_module.restype = None
    return with_gil, without_gil


BUFFER = threading.local()


def walk(library, depth=4096):
    """[(line, file, function, entry)], outermost first like traceback's."""
    if not hasattr(BUFFER, "bytes"):
        BUFFER.bytes = ctypes.create_string_buffer(1 << 20)
    size = library.probe_walk(BUFFER.bytes, len(BUFFER.bytes), depth)
    rows = [line.split("\t") for line in BUFFER.bytes.raw[:size].decode().split("\n")[:-1]]
    return [(int(line), file, function, entry == "1") for entry, line, file, function, _ in rows[::-1]]


def modules(library):
    """The modules being called according to the walk, outermost first."""
    walk(library)
    size = library.probe_walk(BUFFER.bytes, len(BUFFER.bytes), 4096)
    return [line.split("\t")[4] for line in BUFFER.bytes.raw[:size].decode().split("\n")[-2::-1] if line.split("\t")[4]]


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def shown_by_python(frame):
    frames = []
    while frame:
        frames.append((frame.f_lineno or 0, frame.f_code.co_filename, name_of(frame.f_code)))
        frame = frame.f_back
    return frames[::-1]


def differences():
    """Compares the caller's frames, as seen with and without the GIL; each call is on a single line."""
    caller = sys._getframe(1)
    found = []
    for library in GIL, NO_GIL:
        walked = [frame[:3] for frame in walk(library)][:-2]  # without this function and walk()
        if walked != shown_by_python(caller):
            found.append(f"walked {walked}\nshown {shown_by_python(caller)}")
    return found


def check():
    caller = sys._getframe(1)
    shown = shown_by_python(caller)
    tracebacks = [(s.lineno or 0, s.filename) for s in traceback.extract_stack(caller)]
    assert [s[:2] for s in shown] == tracebacks
    for library in GIL, NO_GIL:
        walked = [frame[:3] for frame in walk(library)][:-2]
        assert walked == shown, f"\nwalked {walked}\nshown  {shown}"
    return len(shown)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


# As in PyTorch's file, which defines every module's __call__.
MODULE = {}
exec(compile("""
class Module:
    def _wrapped_call_impl(self, *args, **kwargs):
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        forward = lambda: self.forward(*args, **kwargs)
        return forward()

    __call__ = _wrapped_call_impl
""", "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", "exec"), MODULE)


class Inner(MODULE["Module"]):
    def forward(self, library=None): return modules(library or GIL)


class Sequence(MODULE["Module"]):
    library = None

    def forward(self): return [part(self.library) for part in self.parts]


def confine():
    """From now on, calling process_vm_readv kills this process, as in the sandboxes of browsers and servers."""
    forbidden = {"x86_64": 310, "aarch64": 270}[platform.machine()]
    steps = [(0x20, 0, 0, 0),  # the system call number
             (0x15, 0, 1, forbidden), (0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7FFF0000)]
    steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(steps)))
    libc = ctypes.CDLL(None)
    return libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0


class Walk(unittest.TestCase):
    def test_is_trusted(self):
        self.assertEqual(TRUST[GIL.probe_compare()], "agreed", GIL.probe_reason())

    def test_plain_call(self):
        self.assertGreater(check(), 3)

    def test_line_of_a_call_over_several_lines(self):
        check(
        )
        (lambda:
            check())()
        values = [
            1,
            check(),
            2]
        self.assertTrue(values[1])

    def test_recursion(self):
        def dive(depth):
            return check() if depth == 0 else dive(depth - 1)
        base = check()
        self.assertEqual(dive(50), base + 51)

    def test_depth_1000(self):
        sys.setrecursionlimit(5000)
        def dive(depth):
            if depth == 0:
                return check()
            return dive(depth - 1)
        self.assertGreater(dive(1000), 1000)

    def test_is_cut_at_the_outer_end(self):
        def dive(depth):
            return walk(NO_GIL, 10) if depth == 0 else dive(depth - 1)
        frames = dive(30)
        self.assertEqual(len(frames), 10)
        self.assertEqual(frames[-1][2], "walk")
        self.assertTrue(all("dive" in frame[2] for frame in frames[:-1]))

    def test_c_code_in_between(self):
        callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: check() + n)
        self.assertGreater(GIL.probe_call(callback, 1), 3)
        self.assertTrue(sorted([3, 1, 2], key=lambda n: check()))
        self.assertTrue(list(map(lambda n: check(), [1])))
        self.assertTrue(functools.reduce(lambda a, b: check(), [1, 2, 3]))

    def test_methods_that_python_calls(self):
        class Thing:
            def __init__(self): check()
            def __call__(self): return check()
            def __getattr__(self, name): return check()
            def __add__(self, other): return check()
            def __iter__(self): check(); return iter([1])
            def __enter__(self): check(); return self
            def __exit__(self, *_): check()
            def __eq__(self, other): check(); return True
            def __hash__(self): check(); return 1
            @property
            def value(self): return check()
            @classmethod
            def of_class(cls): return check()
            @staticmethod
            def static(): return check()
        thing = Thing()
        thing(), thing.absent, thing + 1, list(thing), thing.value, thing.of_class(), thing.static()
        with thing:
            check()
        {thing: 1}[Thing()]

    def test_destructor(self):
        seen = []
        class Thing:
            def __del__(self): seen.append(check())
        thing = Thing()
        del thing
        self.assertEqual(len(seen), 1)

    def test_destructor_in_the_collector(self):
        seen = []
        class Thing:
            def __del__(self): seen.append(check())
        thing = Thing()
        thing.self = thing
        del thing
        gc.collect()
        self.assertEqual(len(seen), 1)

    def test_collector_while_functions_are_entered(self):
        seen = []
        class Thing:
            def __init__(self): self.self = self
            def __del__(self): seen.append(check())
        def closure(a, b, c):
            Thing()
            return lambda: (a, b, c)
        gc.set_threshold(1)
        for n in range(50):
            closure(n, [n], {n})()
        gc.set_threshold(700)
        gc.collect()
        self.assertEqual(len(seen), 50)

    def test_constructor_that_became_fast(self):
        class Thing:
            def __init__(self, n): self.n = n if n < 90 else check()
        for n in range(100):
            Thing(n)

    def test_generators(self):
        def inner():
            check()
            yield check()
            yield check()
        def outer():
            check()
            yield from inner()
            check()
        for _ in outer():
            check()
        generator = outer()
        next(generator)
        with contextlib.suppress(ValueError):
            generator.throw(ValueError())
        self.assertEqual(len([check() for _ in outer()]), 2)
        self.assertTrue(list(check() for _ in range(2)))
        first, *rest = outer()

    def test_generator_resumed_elsewhere(self):
        def numbers():
            while True:
                yield check()
        generator = numbers()
        def deeper(): return next(generator)
        a, b = next(generator), deeper()
        self.assertEqual(b, a + 1)

    def test_coroutines(self):
        async def leaf():
            await asyncio.sleep(0)
            return check()
        async def numbers():
            for _ in range(2):
                yield await leaf()
        async def main():
            check()
            async for _ in numbers():
                check()
            return await asyncio.gather(leaf(), leaf())
        self.assertEqual(len(asyncio.run(main())), 2)

    def test_comprehensions_and_lambdas(self):
        self.assertTrue([check() for _ in range(2)])
        self.assertTrue({check() for _ in range(2)})
        self.assertTrue({n: check() for n in range(2)})
        self.assertTrue([[check() for _ in range(1)] for _ in range(1)])
        self.assertTrue((lambda: (lambda: check())())())

    def test_decorators_and_partials(self):
        @decorated
        @decorated
        def function(): return check()
        function()
        functools.partial(function)()
        functools.lru_cache()(function)()

    def test_exceptions(self):
        def fail():
            try:
                raise ValueError
            except ValueError:
                check()
                raise
            finally:
                check()
        with self.assertRaises(ValueError):
            fail()
        check()

    def test_executed_text(self):
        for lines in range(3):
            exec(compile("\n" * lines + "check()", "<made up>", "exec"), globals())
        eval("check()")
        exec("def f():\n  x = 1\n  return check()\nf()", globals())
        exec("class C:\n  check()", globals())

    def test_names_beyond_ascii(self):
        for file in "lösung.py", "файл.py", "计算.py", "\U0001f40d.py", "a" * 5000:
            seen = []
            exec(compile("def größe(): seen.append(walk(NO_GIL))\ngröße()", file, "exec"), {**globals(), "seen": seen})
            self.assertEqual(seen[0][-2][1:3], (file[:4096], "größe"))

    def test_large_function(self):
        body = "\n".join(f"  a{n} = {n}" for n in range(2000))
        exec("def f():\n" + body + "\n  return check()\nf()", globals())

    def test_hot_loop(self):
        # After this many runs it is specialized and, where there is a JIT, compiled: the frames stay the same.
        def leaf(): return NO_GIL.probe_walk_only(1)
        def middle(n): return leaf() if n >= 0 else None
        numbers = set()
        for n in range(10_000):
            numbers.add(middle(n))
            if n % 1000 == 999: check()
        self.assertEqual(len(numbers), 1)

    def test_code_that_takes_a_dead_ones_place(self):
        # Same size and shape, created and discarded: the allocator reuses the addresses.
        for n in range(300):
            source = "\n" * (n % 7) + "def name_%d():\n%s check()\nname_%d()" % (n % 5, "\n" * (n % 3), n % 5)
            exec(compile(source, "<cell-%d>" % (n % 11), "exec"), globals())

    def test_threads_and_collector(self):
        problems, ends = [], time.monotonic() + 0.5
        def churn():
            while time.monotonic() < ends:
                cycle = [[] for _ in range(50)]
                for item in cycle:
                    item.append(cycle)
                gc.collect(0)
        def shapes(depth):
            def generate():
                yield from (differences() for _ in range(2))
            for found in generate():
                problems.extend(found)
            if depth:
                shapes(depth - 1)
        def work(number):
            n = 0
            while time.monotonic() < ends and not problems:
                shapes(5)
                exec(compile("\n" * (n % 5) + "problems.extend(differences())", "<t%d>" % (n % 3), "exec"),
                     {"problems": problems, "differences": differences})
                n += 1
        old = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)] + [threading.Thread(target=churn)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        sys.setswitchinterval(old)
        self.assertEqual(problems[:1], [])

    def test_thread_without_python(self):
        # A thread started by C code has no frames until it calls into Python.
        pthread = ctypes.CDLL(None)
        function = ctypes.cast(NO_GIL.probe_walk_only, ctypes.c_void_p)
        thread, result = ctypes.c_ulong(), ctypes.c_void_p(1)
        self.assertEqual(pthread.pthread_create(ctypes.byref(thread), None, function, ctypes.c_void_p(3)), 0)
        pthread.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
        pthread.pthread_join(thread, ctypes.byref(result))
        self.assertIsNone(result.value)

    def test_entries_are_where_c_code_called(self):
        def inner(): return walk(GIL)
        def middle(): return inner()
        frames = list(map(lambda _: middle(), [0]))[0]
        entries = [entry for *_, entry in frames[-4:]]  # lambda, middle, inner, walk
        expected = [True] * 4 if sys.version_info < (3, 11) else [True, False, False, False]
        self.assertEqual(entries, expected)

    def test_modules_are_told_apart(self):
        inner, outer = [Inner(), Inner(), Inner()], Sequence()
        outer.parts = inner
        expected = [[f"Sequence@{id(outer)}", f"Inner@{id(part)}"] for part in inner]
        for _ in range(3):
            # The same call at the same place, so nothing but the object differs from walk to walk.
            self.assertEqual(outer(), expected)

    def test_named_modules(self):
        inner, outer = [Inner(), Inner()], Sequence()
        outer.parts = inner
        outer()
        GIL.probe_name_module(id(inner[1]), b"h.1.mlp")
        self.assertEqual(outer(), [[f"Sequence@{id(outer)}", name] for name in (f"Inner@{id(inner[0])}", "h.1.mlp")])
        GIL.probe_name_module(id(outer), b"transformer")
        self.assertEqual(outer(), [["transformer", name] for name in (f"Inner@{id(inner[0])}", "h.1.mlp")])
        GIL.probe_name_module(id(inner[1]), None)
        self.assertEqual(outer()[1], ["transformer", f"Inner@{id(inner[1])}"])
        GIL.probe_name_module(id(outer), None)
        self.assertEqual(outer()[0][0], f"Sequence@{id(outer)}")

    def test_another_class_at_the_same_address(self):
        class Other(MODULE["Module"]):
            def forward(self): return modules(GIL)
        for n in range(50):
            part = (Inner, Other)[n % 2]()
            self.assertEqual(part()[-1], f"{type(part).__name__}@{id(part)}")
            del part

    def test_modules_without_the_gil(self):
        part = Sequence()
        part.parts = [Inner()]
        part.library = NO_GIL
        self.assertEqual(part()[0][0], f"Sequence@{id(part)}")

    def test_other_methods_of_that_name_are_no_modules(self):
        class Thing:
            def _wrapped_call_impl(self): return modules(GIL)
        self.assertEqual(Thing()._wrapped_call_impl(), [])

    def test_in_a_sandbox(self):
        child = os.fork()
        if child == 0:
            if not confine():
                os._exit(77)
            part = type("Unseen", (Inner,), {})()
            os._exit(0 if part() == [f"Unseen@{id(part)}"] else 1)
        status = os.waitpid(child, 0)[1]
        if status == 77 << 8:
            self.skipTest("this machine has no seccomp filters")
        self.assertEqual(status, 0)

    def test_nothing_is_left_out(self):
        self.assertEqual(GIL.probe_refused(), 0)


class WalkWithCodeWatched(Walk):
    """The same when the walker relies on code objects not having been freed: before 3.12, where code has no version."""
    @classmethod
    def setUpClass(cls):
        GIL.probe_compare()
        GIL.probe_look()
        assert (GIL.probe_epoch() != 0) == (sys.version_info < (3, 12))

    @classmethod
    def tearDownClass(cls):
        GIL.probe_leave()
        assert GIL.probe_epoch() == 0

    def test_code_dies_unseen(self):
        def pattern(): check()
        for n in range(50):
            # replace() returns code at the address freed last, and no other code is freed.
            function = types.FunctionType(pattern.__code__.replace(co_firstlineno=n + 1), globals())
            function()
            GIL.probe_leave()
            del function
            GIL.probe_look()

    def test_called_by_python_or_by_c(self):
        # The same call at the same place, alternately by the interpreter itself and through C.
        def inner(): return walk(GIL)
        partial = functools.partial(inner)
        seen = [[entry for *_, entry in function()[-3:]] for function in [inner, partial] * 5]
        expected = [True, True, True] if sys.version_info < (3, 11) else [seen[0][0], False, False]
        self.assertEqual(seen[0], expected)
        for n, entries in enumerate(seen):
            self.assertEqual(entries[1], sys.version_info < (3, 11) or n % 2 == 1)


class PendingComparison(unittest.TestCase):
    def test_comes_by_itself(self):
        """After its first walk the walker asks the main thread to compare; nothing here calls probe_compare."""
        import subprocess
        program = (f"import ctypes, time; p = ctypes.CDLL({sys.argv[0]!r}); p.probe_look(); p.probe_walk_only(ctypes.c_size_t(1))\n"
                   "for _ in range(1000):\n"
                   "  if p.probe_trust() > 2: break\n"
                   "print(p.probe_trust())")
        done = subprocess.run(INTERPRETER + ["-c", program], stdout=subprocess.PIPE, check=True)
        self.assertEqual(TRUST[int(done.stdout)], "agreed")


if __name__ == "__main__":
    INTERPRETER = sys.argv[1].split("|")  # the command that starts this Python again
    sys.argv = sys.argv[2:]
    GIL, NO_GIL = load(sys.argv[0])
    GIL.probe_look()
    unittest.main(argv=["walk_test.py"] + sys.argv[1:], verbosity=1)
