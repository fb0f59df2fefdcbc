# SPDX-License-Identifier: Apache-2.0
"""What memreel.holders() says of programs that keep memory in each of the ways that Python has.

usage: holders_test.py INTERPRETER [TEST...]; runs on every CPython since 3.9. Memory is made up, by classes with an array
interface; with PyTorch installed its tensors, graphs and hooks are tried as well.
"""
import collections
import contextlib
import functools
import gc
import importlib.util
import itertools
import queue
import sys
import threading
import unittest
import weakref
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "collector/python_module"))
import memreel  # noqa: E402

ADDRESSES = itertools.count(0x7F00_0000_0000, 1 << 20)
KEPT = []
LOCAL = threading.local()


class Buffer:
    """Memory of a device. Whatever could run code of its own says so."""

    def __init__(self, items=1024):
        self.__cuda_array_interface__ = {"data": (next(ADDRESSES), False), "shape": (items,), "typestr": "<f4", "version": 3}

    def fail(self, *_):
        raise AssertionError("code of the program ran")

    __repr__ = __eq__ = __getattr__ = __bool__ = __len__ = __iter__ = fail
    __hash__ = object.__hash__
    anything = property(fail)


class Node:
    pass


class Holding(unittest.TestCase):
    def setUp(self):
        gc.collect()
        self.addCleanup(KEPT.clear)

    def grown(self, step, warm_up=4):
        """What grows from walk to walk; `step` is called twice before each."""
        walks = []
        for _ in range(warm_up):
            step()
        for _ in range(2):
            step()
            step()
            walks.append(memreel.holders(seconds=60))
            self.assertTrue(walks[-1].complete, walks[-1].notes)
        return memreel.growing(*walks)

    def assert_grows(self, step, pattern, lengths=(6, 8)):
        grown = self.grown(step)
        self.assertEqual(len(grown), 1, grown)
        self.assertRegex(grown[0].text, pattern)
        self.assertEqual(grown[0].lengths, lengths)
        self.assertEqual(grown[0].bytes[1] - grown[0].bytes[0], 2 * 4096)

    def assert_kept(self, pattern, bytes=4096, **options):
        found = memreel.holders(seconds=60, **options)
        blocks = [block for block in found.blocks if block.bytes == bytes]
        self.assertEqual(len(blocks), 1, found)
        self.assertRegex(blocks[0].kept_by[0], pattern)
        return blocks[0]


HERE = r"\(holders_test\.py:\d+\)"


class Leaks(Holding):
    def test_list(self):
        history = []
        self.assert_grows(lambda: history.append(Buffer()), rf"^`history` in `\S*test_list` {HERE}, list of 8$")

    def test_global(self):
        self.assert_grows(lambda: KEPT.append({"loss": Buffer()}), r"^`__main__\.KEPT`, list of 8$")

    def test_dictionary_in_an_attribute(self):
        model = Node()
        model.layers = [Node(), Node()]
        model.layers[1].cache = {}
        self.assert_grows(lambda: model.layers[1].cache.setdefault(len(model.layers[1].cache), Buffer()),
                          r"^`model\.layers\[1\]\.cache` in .*, dict of 8$")

    def test_deque_and_set(self):
        for kind, add in ((collections.deque, "append"), (set, "add")):
            kept = kind()
            with self.subTest(kind):
                self.assert_grows(lambda: getattr(kept, add)(Buffer()), rf"^`kept` in .*, {kind.__name__} of 8$")

    def test_lru_cache(self):
        for most in None, 100:
            with self.subTest(most):
                table = functools.lru_cache(maxsize=most)(lambda key: Buffer())
                keys = itertools.count()
                self.assert_grows(lambda: table(next(keys)), r"^`table` in .*, lru_cache of 8$")

    def test_closures(self):
        def bound():
            scale = Buffer()
            return lambda: scale

        kept = []
        self.assert_grows(lambda: kept.append(bound()), r"^`kept` in .*, list of 8$")
        del kept[1:]
        self.assert_kept(r"^`kept\[0\]` in .*, list of 1, closure variable `scale` of `.*bound.*<lambda>`$")

    def test_hook(self):
        def hooks():
            seen = []
            return collections.OrderedDict({3: lambda output: seen.append(output)})

        module = Node()
        module._forward_hooks = hooks()
        self.assert_grows(lambda: module._forward_hooks[3](Buffer()),
                          r"^`module\._forward_hooks\[3\]` in .*, closure variable `seen` of `.*lambda>`, list of 8$")

    def test_traceback(self):
        kept = []

        def fails():
            hidden = Buffer()
            raise ValueError(id(hidden))

        def step():
            try:
                fails()
            except ValueError as error:
                kept.append(error)

        self.assert_grows(step, r"^`kept` in .*, list of 8$")
        del kept[1:]
        self.assert_kept(rf"^`kept\[0\]\.__traceback__` in .*, list of 1, local `hidden` of `fails` {HERE}$")

    def test_generators(self):
        def batches():
            batch = Buffer()
            yield
            yield batch

        waiting = []

        def step():
            waiting.append(batches())
            next(waiting[-1])

        self.assert_grows(step, r"^`waiting` in .*, list of 8$")
        del waiting[1:]
        self.assert_kept(r"^`waiting\[0\]` in .*, local `batch` of generator `batches`")

    def test_thread_local(self):
        LOCAL.kept = []
        self.addCleanup(LOCAL.__dict__.clear)
        self.assert_grows(lambda: LOCAL.kept.append(Buffer()), r"^`__main__\.LOCAL\.kept` \(thread-local\), list of 8$")

    def test_replaced_optimizers(self):
        registry = []

        def step():
            optimizer = Node()
            optimizer.state = {"exp_avg": Buffer()}
            registry.append(weakref.ref(optimizer))
            KEPT.append(optimizer)

        self.assert_grows(step, r"^`__main__\.KEPT`, list of 8$")

    def test_chain(self):
        """Of objects each of which references the next."""
        last = [Node()]
        first = last[0]  # noqa: F841

        def step():
            last[0].next = Node()
            last[0] = last[0].next
            last[0].buffer = Buffer()

        for _ in range(3):
            step()
        grown = self.grown(step)
        self.assertTrue(any(one.text.startswith("`first.next") for one in grown), grown)

    def test_cycles_that_wait(self):
        gc.disable()
        self.addCleanup(gc.enable)
        for _ in range(3):
            node = Node()
            node.self, node.buffer = node, Buffer()
        del node
        found = memreel.holders(seconds=60)
        if found.notes and "free-threaded" in found.notes[0]:
            self.skipTest(found.notes[0])
        self.assertEqual([(cycle.count, cycle.blocks, cycle.bytes, cycle.classes[0]) for cycle in found.cycles], [(3, 3, 3 * 4096, "Node")])
        self.assertEqual(len(memreel.holders(leaked=True, seconds=60).blocks), 3)
        gc.collect()
        self.assertEqual(memreel.holders(seconds=60).all_blocks, 0)

    def test_leaked_are_those_of_what_grew(self):
        steady, history = [Buffer() for _ in range(5)], []
        memreel.holders(seconds=60)
        history.append(Buffer())
        memreel.holders(seconds=60)
        history.append(Buffer())
        found = memreel.holders(leaked=True, seconds=60)
        self.assertEqual(len(found.blocks), 2, found)
        self.assertTrue(all("`history[" in block.kept_by[0] for block in found.blocks), found)
        self.assertEqual(len(steady), 5)


class Clean(Holding):
    """Nothing grows."""

    def test_bounded_containers(self):
        ring = collections.deque(maxlen=4)
        table = functools.lru_cache(maxsize=3)(lambda key: Buffer())
        best, keys = {}, itertools.count()

        def step():
            ring.append(Buffer())
            table(next(keys))
            best["weights"] = [Buffer() for _ in range(3)]
            Buffer()

        self.assertEqual(self.grown(step, warm_up=4), ())

    def test_what_grows_without_memory(self):
        log, kept = [], {"weights": Buffer()}
        self.assertEqual(self.grown(lambda: log.append(("step", [0.5]))), ())
        self.assertEqual(len(kept), 1)


class Walk(Holding):
    def test_a_local_by_function_line_and_thread(self):
        ready, done = threading.Event(), threading.Event()

        def load():
            batch = Buffer()
            ready.set()
            done.wait(60)
            return batch

        loader = threading.Thread(target=load, name="loader")
        loader.start()
        self.addCleanup(loader.join)
        self.addCleanup(done.set)
        ready.wait(60)
        found = memreel.holders(seconds=60)
        if found.notes and "free-threaded" in found.notes[0]:
            self.skipTest(found.notes[0])
        block = self.assert_kept(rf"^`batch` in `\S*load` {HERE} of thread loader$")
        self.assertEqual((block.shape, block.dtype, block.kind, block.device), ((1024,), "<f4", "device", 0))

    def test_all_ways_are_told(self):
        first, second = [Buffer()], {"key": None}
        second["key"] = first[0]
        found = memreel.holders(seconds=60).blocks[0].kept_by
        self.assertEqual(len(found), 2, found)
        self.assertTrue(any("`first[0]`" in way for way in found) and any("`second['key']`" in way for way in found), found)

    def test_slots_and_default_arguments(self):
        class Slots:
            __slots__ = ("buffer", "other")

        thing = Slots()
        thing.buffer = Buffer(10)

        def function(a=Buffer(20), *, b=Buffer(30)):
            return a, b

        self.assert_kept(r"^`thing\.buffer` in", bytes=40)
        self.assert_kept(r"^`function\.__defaults__\[0\]` in", bytes=80)
        self.assert_kept(r"^`function\.__kwdefaults__\['b'\]` in", bytes=120)

    def test_by_address(self):
        kept = [Buffer() for _ in range(3)]
        address = object.__getattribute__(kept[1], "__dict__")["__cuda_array_interface__"]["data"][0]
        found = memreel.holders(address=address + 100, seconds=60)
        self.assertEqual([block.address for block in found.blocks], [address])
        self.assertIn("`kept[1]`", found.blocks[0].kept_by[0])
        self.assertEqual(found.all_blocks, 3)

    def test_nothing_stays_alive_and_nothing_changes(self):
        class Counted(Buffer):
            pass

        enabled, profile = gc.isenabled(), sys.getprofile()
        kept = Counted()
        seen = weakref.ref(kept)
        gone = []
        weakref.finalize(kept, gone.append, True)
        found = [memreel.holders(seconds=60) for _ in range(3)]
        self.assertEqual((gc.isenabled(), sys.getprofile()), (enabled, profile))
        del kept
        self.assertIsNone(seen())
        self.assertEqual(gone, [True])
        self.assertEqual([walk.all_blocks for walk in found], [1, 1, 1])

    def test_held_by_a_running_expression(self):
        for thing in [Buffer(), None]:
            if thing is None:
                found, count = self.held(), gc.collect()
                self.assertEqual((len(found.cycles), count), (0, 0), found)
                self.assertRegex(found.blocks[0].kept_by[0], r"^`(tuple|list)_?iterator` held by a running expression or C code")

    def held(self):
        found = memreel.holders(seconds=60)
        if found.notes and "free-threaded" in found.notes[0]:
            self.skipTest(found.notes[0])
        return found

    def test_frozen_objects_are_seen(self):
        kept = [Node()]
        kept[0].cache = {"key": [Buffer()]}
        gc.freeze()
        self.addCleanup(gc.unfreeze)
        self.assert_kept(r"^`kept\[0\]\.cache\['key'\]\[0\]` in .*, list of 1$")

    def test_an_attribute_of_a_class(self):
        class Layer:
            cache = [Buffer(10)]

        layers = [Layer() for _ in range(1000)]
        self.assert_kept(r"^`Layer\.cache\[0\]` in .*, list of 1$", bytes=40)
        del Layer
        self.assert_kept(r"^`layers\[\d+\]\.cache\[0\]` in ", bytes=40)
        gc.collect()
        layers = [layers[0]]
        self.assertEqual(memreel.holders(seconds=60).cycles, ())
        layers[0].cache.clear()  # CPython 3.13t never frees classes once there was a second thread

    def test_classes_that_wait(self):
        self.held()
        gc.disable()
        self.addCleanup(gc.enable)

        class Layer:
            cache = [Buffer(10)]

        layers = [Layer() for _ in range(10)]
        layers[0].own = layers
        del Layer, layers
        self.assertEqual([(cycle.blocks, cycle.bytes) for cycle in self.held().cycles], [(1, 40)])

    def test_a_walk_is_bounded(self):
        kept = [[i] for i in range(300_000)]
        for bound in {"seconds": 0.0}, {"objects": 100_000}:
            found = memreel.holders(**bound)
            self.assertFalse(found.complete)
            self.assertRegex(found.notes[0], "^the walk ended after ")
        self.assertEqual(len(kept), 300_000)

    def test_as_text(self):
        history = [Buffer() for _ in range(2)]
        found = memreel.holders(top=1, seconds=60)
        self.assertRegex(repr(found), r"^<8\.00 KiB in 2 blocks, most by `history` in .*, list of 2>$")
        self.assertRegex(str(found), r"^   bytes  blocks  kept by\n8\.00 KiB       2  `history` in .*\n4\.00 KiB <f4\[1024\] kept by `history\[")
        self.assertRegex(repr(found.blocks[0]), r"^<4\.00 KiB <f4\[1024\] kept by `history")
        self.assertEqual(len(history), 2)

    def test_bad_arguments(self):
        with self.assertRaisesRegex(ValueError, "kind 'gpu' is unknown; it is one of device, pinned, host, all"):
            memreel.holders(kind="gpu")
        if "torch" not in sys.modules:
            with self.assertRaisesRegex(ValueError, "no allocation sites are recorded"):
                memreel.holders(site="train.py:12")

    def test_under_a_profiler(self):
        import cProfile
        kept = [Buffer()]
        with contextlib.ExitStack() as stack:
            profile = cProfile.Profile()
            profile.enable()
            stack.callback(profile.disable)
            self.assertEqual(memreel.holders(seconds=60).all_blocks, len(kept))


@unittest.skipUnless(importlib.util.find_spec("numpy"), "needs NumPy")
class NumPy(Holding):
    def test_arrays_and_views(self):
        import numpy
        history = [numpy.zeros(1 << 18) for _ in range(3)]
        row = numpy.ones((1 << 10, 1 << 10))[3]
        found = memreel.holders(kind="host", seconds=60).blocks[:4]
        self.assertEqual([(block.bytes, block.shape, block.dtype) for block in found],
                         [(8 << 20, (1 << 10,), "<f8"), *[(8 << 18, (1 << 18,), "<f8")] * 3])
        self.assertRegex(found[0].kept_by[0], "^`row` in")
        self.assertRegex(found[1].kept_by[0], r"^`history\[\d\]` in .*, list of 3$")
        self.assertEqual((len(history), len(row)), (3, 1 << 10))

    def test_arrays_in_what_the_collector_does_not_track(self):
        import numpy
        model = {"layers": {"first": (numpy.zeros(1 << 18), )}}
        gc.collect()
        found = memreel.holders(kind="host", seconds=60).blocks[0]
        self.assertEqual(found.bytes, 8 << 18)
        self.assertRegex(found.kept_by[0], r"^`model\['layers'\]\['first'\]\[0\]` in")
        self.assertEqual(len(model), 1)


@unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
class Torch(Holding):
    def setUp(self):
        super().setUp()
        import torch
        self.torch = torch
        self.model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 32))
        self.before = memreel.holders(kind="host", seconds=60)

    def losses(self):
        return self.model(self.torch.randn(8, 32)).square().mean()

    def grown(self, step):
        walks = []
        for _ in range(3):
            step()
            step()
            walks.append(memreel.holders(kind="host", seconds=60))
        return [one.text for one in memreel.growing(*walks)]

    def test_graph_kept_by_losses(self):
        history = []
        grown = self.grown(lambda: history.append(self.losses()))
        self.assertEqual(len(grown), 1, grown)
        self.assertRegex(grown[0], r"^`history` in .*, list of 6$")
        kept = [block for block in memreel.holders(kind="host", seconds=60, top=1000).blocks if any("autograd graph" in way for way in block.kept_by)]
        self.assertTrue(any("saved by GeluBackward0 as self" in way for block in kept for way in block.kept_by), kept)

    def test_running_total(self):
        total = [0.0]

        def step():
            total[0] = total[0] + self.losses()

        grown = self.grown(step)
        self.assertTrue(any(text.startswith("autograd graph of `total[0]`") for text in grown), grown)

    def test_model_and_optimizer(self):
        optimizer = self.torch.optim.Adam(self.model.parameters())
        self.losses().backward()
        optimizer.step()
        ways = [way for block in memreel.holders(kind="host", seconds=60, top=1000).blocks for way in block.kept_by]
        for text in ("`self.model[2].weight` in", "gradient of `self.model[0].weight` in", "`optimizer.state[<Parameter>]['exp_avg']` in"):
            self.assertTrue(any(way.startswith(text) for way in ways), (text, ways))

    def test_names_of_dtypes_are_not_taken_for_classes_of_tensors(self):
        # The collector would not track their instances, so that the walk would have to look for untracked objects.
        self.assertEqual(list(memreel.blocks.Reader([self.torch.FloatTensor, self.torch.Tensor])._of), [self.torch.Tensor])

    def test_a_view_keeps_the_whole_block(self):
        row = self.torch.empty(1 << 16)[7]
        block = next(block for block in memreel.holders(kind="host", seconds=60).blocks if block.bytes == 4 << 16)
        self.assertRegex(block.kept_by[0], "^`row` in ")
        self.assertEqual((block.shape, row.shape), ((), ()))

    def test_hooks_of_saved_tensors_are_not_called(self):
        called = []

        def unpack(tensor):
            called.append(True)
            return tensor

        with self.torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
            loss = self.losses()
        found = memreel.holders(kind="host", seconds=60)
        self.assertEqual(called, [])
        self.assertTrue(any("hooks of the program unpack them" in note for note in found.notes), found.notes)
        loss.backward()
        self.assertTrue(called)

    def test_graph_that_is_retained(self):
        losses = []

        def step():
            losses.append(self.losses())
            losses[-1].backward(retain_graph=True)

        grown = self.grown(step)
        self.assertEqual(len(grown), 1, grown)
        self.assertRegex(grown[0], r"^`losses` in .*, list of 6$")

    def test_batches_fetched_ahead(self):
        """By a thread of the program's own, faster than they are taken."""
        batches = queue.Queue()
        loader = iter(self.torch.utils.data.DataLoader(self.torch.randn(64, 512), batch_size=4))

        def step():
            thread = threading.Thread(target=lambda: batches.put(next(loader)))
            thread.start()
            thread.join()

        grown = self.grown(step)
        self.assertEqual(len(grown), 1, grown)
        self.assertRegex(grown[0], r"^`batches\.queue` in .*, deque of 6$")

    def test_nothing_grows_in_a_clean_loop(self):
        optimizer = self.torch.optim.Adam(self.model.parameters())
        loader = self.torch.utils.data.DataLoader(self.torch.randn(64, 32), batch_size=4)
        recent = collections.deque(maxlen=3)
        total = 0.0

        def step():
            nonlocal total
            for batch in loader:
                loss = self.model(batch).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                recent.append(loss.detach())
                total += loss.item()

        for _ in range(3):
            step()
        self.assertEqual(self.grown(step), [])


@unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
class TorchOnDevice(Holding):
    def setUp(self):
        super().setUp()
        import torch
        if not torch.cuda.is_available():
            self.skipTest("needs a GPU")
        self.torch = torch
        torch.cuda.init()

    def test_device_and_pinned_memory_are_told_apart(self):
        torch = self.torch
        batches = [torch.empty(1 << 18, pin_memory=True) for _ in range(2)]
        cache = {"last": torch.empty(1 << 20, device="cuda"), "plain": torch.empty(1 << 16)}
        pinned = memreel.holders(kind="pinned", seconds=60)
        self.assertEqual([(block.bytes, block.kind, block.device) for block in pinned.blocks], [(4 << 18, "pinned", -1)] * 2)
        self.assertRegex(pinned.holders[0].text, r"^`batches` in .*, list of 2$")
        device = memreel.holders(seconds=60)
        self.assertEqual([(block.bytes, block.kind, block.device) for block in device.blocks], [(4 << 20, "device", 0)])
        self.assertRegex(device.blocks[0].kept_by[0], r"^`cache\['last'\]` in ")
        self.assertNotIn(4 << 18, [block.bytes for block in memreel.holders(kind="host", seconds=60, top=1000).blocks])
        text = memreel.holding.table()  # what a dump gets has both
        self.assertIn("`batches`", text)
        self.assertIn("`cache", text)
        self.assertNotIn("plain", text)
        self.assertEqual((len(batches), len(cache)), (2, 2))

    def test_sites_that_pytorch_knows(self):
        torch = self.torch
        torch.cuda.memory._record_memory_history()
        self.addCleanup(torch.cuda.memory._record_memory_history, enabled=None)
        kept = [torch.empty(1 << 18, device="cuda") for _ in range(3)]  # here
        line = next(number for number, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith("# here"))
        text = memreel.holding.table_of_site(f"holders_test.py:{line} ", "")
        rows = [row for row in text.splitlines() if row.startswith("holder ")]
        self.assertEqual(len(rows), 1, text)
        self.assertRegex(rows[0], rf"^holder {3 << 20} 3 3 0 list\t`kept` in ")
        self.assertEqual(memreel.holding.table_of_site("nowhere.py:1", ""),
                         "note no live memory is known to have been allocated at nowhere.py:1\n")
        self.assertEqual(len(kept), 3)



class Table(unittest.TestCase):
    """What a dump gets; formats/model/python_holders.h reads it."""

    def setUp(self):
        gc.collect()
        self.addCleanup(KEPT.clear)

    def test_the_frames_of_the_error_that_ends_the_program(self):
        def train():
            history = [Buffer() for _ in range(3)]
            keep = lambda: history  # noqa: E731: the variable is in a cell
            raise KeyError(len(keep()))

        try:
            train()
        except KeyError as problem:
            sys.last_traceback = problem.__traceback__
        self.addCleanup(vars(sys).pop, "last_traceback")
        found = memreel.holders(seconds=60)
        self.assertRegex(found.holders[0].text, r"^`history` in `.*train` \(holders_test\.py:\d+\), list of 3$")

    def table(self):
        from memreel import holding
        rows = [line.split(" ", 1) for line in holding.table(seconds=60).splitlines()]
        holders = [rest.partition("\t") for word, rest in rows if word == "holder"]
        self.assertEqual(rows[0][0], "walk")
        return ([(list(map(int, numbers.split()[:4])), text) for numbers, _, text in holders],
                [tuple(map(int, rest.split())) for word, rest in rows if word == "block"])

    def test_each_block_has_the_holder_that_says_most(self):
        history = [Buffer() for _ in range(5)]
        KEPT.append(Buffer(1 << 20))
        holders, blocks = self.table()
        self.assertEqual(len(blocks), 6)
        self.assertEqual(blocks, sorted(blocks))
        addresses = {one.__cuda_array_interface__["data"][0] for one in history}
        texts = {holders[row][1] for address, row in blocks if address in addresses}
        self.assertEqual(len(texts), 1, texts)
        self.assertRegex(texts.pop(), r"^`history` in `.*test_each_block_has_the_holder_that_says_most` \(holders_test\.py:\d+\), list of 5$")
        numbers = next(numbers for numbers, text in holders if "history" in text)
        self.assertEqual(numbers[1:3], [5, 5])
        self.assertEqual(holders[0][0][0], 4 << 20, "the largest is first")

    def test_growth_since_the_walk_before_is_told(self):
        history = [Buffer() for _ in range(3)]
        self.table()
        history += [Buffer() for _ in range(4)]
        holders, _ = self.table()
        self.assertEqual([numbers[2:4] for numbers, text in holders if "`history`" in text], [[7, 3]])

    def test_garbage_names_its_classes(self):
        gc.disable()
        self.addCleanup(gc.enable)
        for _ in range(3):
            node = Node()
            node.itself, node.buffer = node, Buffer()
        del node
        holders, blocks = self.table()
        row = next(i for i, (_, text) in enumerate(holders) if text.startswith("reference cycle of Node"))
        self.assertTrue(holders[row][1].endswith(", waiting for gc.collect()"))
        self.assertEqual(sum(1 for _, number in blocks if number == row), 3)

    def test_the_table_is_bounded_and_of_single_lines(self):
        KEPT.append({f"line\nbreak\t{i} \udcff": [Buffer()] for i in range(12_000)})
        holders, blocks = self.table()
        self.assertLessEqual(len(holders), 64)
        self.assertLessEqual(len(blocks), 16_384)
        self.assertGreater(len(blocks), 5_000)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
