"""Limits on GPU memory in pytest, in the words of pytest-memray.

    @pytest.mark.memreel_limit("2 GiB")        # the test fails when it has more at any time
    @pytest.mark.memreel_leaks("1 MiB")        # ... when it keeps more; without an argument, when it keeps anything
    def test_training_step(): ...

    memreel record -o tests-%p.reel -- python -m pytest -p memreel_pytest

What counts is what a test has beside what was there when it began: bytes as they were asked for, on every device alone. Where a
framework or a pool is recorded its allocations count, else the driver's; of several heaps on a device the one that grew
most. Fixtures run before and after, and are not counted.

Without a recorder in the process the tests run all the same; a warning says that nothing is checked, and with
--memreel-required pytest refuses to start. Every test is a range in the trace, named as pytest names it. Needs memreel.py,
the file beside this one, and pytest 6 or newer.
"""
import gc
import re

import memreel
import pytest

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", 1):
    _UNITS[_letter] = _UNITS[_letter + "IB"] = 1024**_power
    _UNITS[_letter + "B"] = 1000**_power


def parse_size(text):
    """Bytes of "2 GiB", "500MB", "64M" (binary) or a number."""
    if isinstance(text, int):
        return text
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]*)\s*", text)
    if not found or found[2].upper() not in _UNITS:
        raise ValueError(f"{text!r} is no amount of memory: write it as '2 GiB', '500MB' or plain bytes")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def _words(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count} B" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024


def _heaps(reset):
    """What each device's heaps hold: {device: {number of the heap: Usage}}, the frameworks' where there are any."""
    devices = {}
    for number, heap in enumerate(memreel.usage(reset)):
        if heap.device >= 0:
            devices.setdefault(heap.device, {})[number] = heap
    for device, heaps in devices.items():
        frameworks = {number: heap for number, heap in heaps.items() if heap.level == "framework"}
        devices[device] = frameworks or heaps
    return devices


def _complaints(before, after, limit, kept):
    """One sentence for each device on which the test had more than `limit` or kept more than `kept`; None: no limit."""
    for device, heaps in sorted(after.items()):
        live = {number: heap.live_bytes for number, heap in before.get(device, {}).items()}
        had = max(heap.peak_bytes - live.get(number, 0) for number, heap in heaps.items())
        left = max(heap.live_bytes - live.get(number, 0) for number, heap in heaps.items())
        if limit is not None and had > limit:
            yield f"the test had up to {_words(had)} on device {device}, {_words(had - limit)} more than its limit of {_words(limit)}"
        if kept is not None and left > kept:
            yield f"the test kept {_words(left)} on device {device}, and may keep {_words(kept) if kept else 'nothing'}"


class _Plugin:
    def __init__(self):
        self.complaints = {}  # nodeid -> sentences
        self.unchecked = 0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        limit, leaks = (pyfuncitem.get_closest_marker(name) for name in ("memreel_limit", "memreel_leaks"))
        if not memreel.recording() or not (limit or leaks):
            self.unchecked += bool(limit or leaks)
            with memreel.tag(pyfuncitem.nodeid):
                yield
            return
        most = parse_size(*limit.args) if limit else None
        kept = parse_size(*(leaks.args or (0,))) if leaks else None
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        for _ in range(leaks.kwargs.get("warmups", 0) if leaks else 0):
            pyfuncitem.obj(**arguments)
        gc.collect()
        before = _heaps(reset=True)
        with memreel.tag(pyfuncitem.nodeid):
            yield
            gc.collect()
            after = _heaps(reset=False)
        if before and not after:
            self.complaints[pyfuncitem.nodeid] = ["memreel's recorder does not answer any more"]
        else:
            self.complaints[pyfuncitem.nodeid] = list(_complaints(before, after, most, kept))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        complaints = self.complaints.pop(item.nodeid, None) if call.when == "call" else None
        if complaints and report.outcome == "passed":
            report.outcome = "failed"
            report.longrepr = "\n".join(complaints) + "\n(the trace has the test as a range of its name)"

    def pytest_terminal_summary(self, terminalreporter):
        if self.unchecked:
            tests = "1 test has" if self.unchecked == 1 else f"{self.unchecked} tests have"
            terminalreporter.write_line(f"memreel: {tests} limits on GPU memory that were not checked: there is no recorder in "
                                        "this process; run it as memreel record -- python -m pytest ...", yellow=True)


def pytest_addoption(parser):
    parser.getgroup("memreel").addoption("--memreel-required", action="store_true",
                                         help="refuse to start when limits on GPU memory could not be checked")


def pytest_configure(config):
    config.addinivalue_line("markers", "memreel_limit(size): the test fails when it has more GPU memory at any time")
    config.addinivalue_line("markers", "memreel_leaks(size=0, warmups=0): the test fails when it keeps more GPU memory; "
                                       "it is called `warmups` times before that is counted")
    if config.getoption("--memreel-required") and not memreel.recording():
        raise pytest.UsageError("--memreel-required: there is no recorder in this process; run it as "
                                "memreel record -- python -m pytest ...")
    config.pluginmanager.register(_Plugin(), "memreel")
