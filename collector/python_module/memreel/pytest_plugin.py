# SPDX-License-Identifier: Apache-2.0
"""GPU memory limits in pytest, with the same terms as pytest-memray.

    @pytest.mark.memreel_limit("2 GiB")        # fails if the test uses more at any time
    @pytest.mark.memreel_leaks("1 MiB")        # fails if it keeps more; without an argument, if it keeps anything
    def test_training_step(): ...

    memreel record -o tests-%p.reel -- python -m pytest

pytest finds it automatically if memreel is installed with pip; otherwise use -p memreel.pytest_plugin.

A test is charged for the memory it allocates beyond what was live when it started: requested bytes, per device, over all its heaps. A
pool's memory is its allocations; what the driver gave to no pool counts, too, but not below PyTorch, whose segments are not known while it runs.
Fixtures run before and after, and are not charged; setUp and tearDown of a unittest.TestCase are.

Where a test fails for want of memory, its report has a section that explains the error's text (memreel explain).

If the process is not recorded, the tests still run and a warning says that nothing was checked; with
--memreel-required, pytest fails at startup. Every test is a range in the trace, under the name pytest gives it. pytest 6 or
newer, also with pytest-xdist.
"""
from __future__ import annotations

import gc
import unittest
from typing import Any, Dict, Iterator, List, Optional

import pytest

from . import annotate as memreel
from .quantity import parse_size, size_text


def _devices(reset: bool) -> Dict[int, memreel.Usage]:
    """What each device holds, over all its heaps: {device: Usage}."""
    return {usage.device: usage for usage in memreel.device_usage(reset) if usage.device >= 0}


def _complaints(before: Dict[int, memreel.Usage], after: Dict[int, memreel.Usage], limit: Optional[int],
                kept: Optional[int]) -> Iterator[str]:
    """One sentence for each device on which the test exceeded `limit` or kept more than `kept`; None: no limit."""
    for device, usage in sorted(after.items()):
        live = before[device].live_bytes if device in before else 0
        had, left = usage.peak_bytes - live, usage.live_bytes - live
        if limit is not None and had > limit:
            yield f"the test used up to {size_text(had)} on device {device}, {size_text(had - limit)} more than its limit of {size_text(limit)}"
        if kept is not None and left > kept:
            yield f"the test kept {size_text(left)} on device {device}; it may keep {size_text(kept) if kept else 'nothing'}"


def _explained(error: BaseException) -> str:
    """What memreel says of an out-of-memory error; empty if it is none, or the program memreel is not installed."""
    import subprocess

    from .launch import program
    text = f"{type(error).__name__}: {error}"
    if "memory" not in text.lower():
        return ""
    try:
        done = subprocess.run([program(), "explain", "-"], input=text.encode(errors="replace"), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 1 else ""


def _call(item: Any) -> None:
    """Calls the test once, without a result. A unittest.TestCase comes with its setUp and tearDown."""
    if item.cls is not None and issubclass(item.cls, unittest.TestCase):
        item.cls(item.name).run(unittest.TestResult())
    else:
        item.obj(**{name: item.funcargs[name] for name in item._fixtureinfo.argnames})


class _Plugin:
    def __init__(self) -> None:
        self.complaints: Dict[str, List[str]] = {}  # nodeid -> sentences
        self.unchecked = 0

    # Not pytest_pyfunc_call, which pytest does not call for unittest.TestCase.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        limit, leaks = (item.get_closest_marker(name) for name in ("memreel_limit", "memreel_leaks"))
        if not memreel.recording() or not (limit or leaks):
            self.unchecked += bool(limit or leaks)
            with memreel.tag(item.nodeid):
                yield
            return
        try:
            most = parse_size(*limit.args) if limit else None
            kept = parse_size(*(leaks.args or (0,))) if leaks else None
        except ValueError as error:
            self.complaints[item.nodeid] = [str(error)]
            yield
            return
        for _ in range(leaks.kwargs.get("warmups", 0) if leaks else 0):
            _call(item)
        gc.collect()
        before = _devices(reset=True)
        with memreel.tag(item.nodeid):
            yield
            gc.collect()
            after = _devices(reset=False)
        if before and not after:
            self.complaints[item.nodeid] = ["memreel's recorder stopped responding"]
        else:
            self.complaints[item.nodeid] = list(_complaints(before, after, most, kept))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[Any]:
        outcome: Any = yield
        report = outcome.get_result()
        complaints = self.complaints.pop(item.nodeid, None) if call.when == "call" else None
        if complaints and report.outcome == "passed":
            report.outcome = "failed"
            report.longrepr = "\n".join(complaints) + "\n(the trace has a range with the test's name)"
        if report.outcome == "failed" and call.excinfo is not None:
            if explained := _explained(call.excinfo.value):
                report.sections.append(("memreel explain", explained))

    # With pytest-xdist, tests run in other processes, which report to this one at their end.
    def pytest_sessionfinish(self, session: Any) -> None:
        told = getattr(session.config, "workeroutput", None)
        if told is not None:
            told["memreel_unchecked"] = self.unchecked

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        self.unchecked += getattr(node, "workeroutput", {}).get("memreel_unchecked", 0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.unchecked:
            tests = "1 test has" if self.unchecked == 1 else f"{self.unchecked} tests have"
            terminalreporter.write_line(f"memreel: {tests} limits on GPU memory that were not checked, because this process is "
                                        "not recorded; run memreel record -- python -m pytest ...", yellow=True)


def pytest_addoption(parser: Any) -> None:
    parser.getgroup("memreel").addoption("--memreel-required", action="store_true",
                                         help="fail at startup if limits on GPU memory can't be checked")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "memreel_limit(size): fail the test if it uses more GPU memory at any time")
    config.addinivalue_line("markers", "memreel_leaks(size=0, warmups=0): fail the test if it keeps more GPU memory; "
                                       "it is called `warmups` times before counting starts")
    if config.getoption("--memreel-required") and not memreel.recording():
        raise pytest.UsageError("--memreel-required: this process is not recorded; "
                                "run memreel record -- python -m pytest ...")
    config.pluginmanager.register(_Plugin(), "memreel_limits")  # differs from every entry point's name
