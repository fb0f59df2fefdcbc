# SPDX-License-Identifier: Apache-2.0
"""No file or name does harm: every command on recordings crafted, or damaged, to do harm."""

import gzip
import http.client
import itertools
import json
import lzma
import os
import pickle
import re
import resource
import shutil
import socket
import subprocess
import time
import unittest
from pathlib import Path

try:
    import zstandard
except ImportError:  # the user's own Python
    zstandard = None

from program import MEMREEL, REPOSITORY, SANITIZED, SAMPLES, ProgramTest, run
from test_view_page import PageTest

HOSTILE = sorted(path for path in (REPOSITORY / "tests/data/hostile").iterdir() if path.suffix in (".reel", ".pickle", ".json"))
GIB = 1 << 30
SECONDS = 10  # of CPU time
HANGS = 120  # seconds of wall time, on a busy machine
POLICIES = ("bound.live,bound.pages,cuda.malloc,cuda.async,torch.native,torch.expandable,tf.bfc,jax.default,jax.growth,"
            "ort.arena,rmm.pool,rmm.arena,rmm.binning,cupy.pool,pool.exact,fit.first,fit.best,fit.next,buddy,tlsf,slab,gmlake,vpmm,"
            "plan.size,plan.best")
EVERY_SECTION = ("--leaks", "--fragmentation", "--oom", "--allocations")
MISLEADING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def commands(trace, directory):
    """Every command, with each of its formats: arguments, and the file written."""
    yield ["info", trace], None
    yield ["info", trace, "--json"], None
    yield ["verify", trace], None
    yield ["report", trace], None
    yield ["report", trace, *EVERY_SECTION], None
    for by in ("stack", "function", "module", "thread", "stream", "pool"):
        yield ["report", trace, "--by", by], None
    for form in ("json", "markdown", "html"):
        yield ["report", trace, *EVERY_SECTION, "--format", form], None
    yield ["tune", trace], None
    yield ["tune", trace, "--json"], None
    yield ["check", trace, "--max-peak", "1GiB", "--max-leaked", "0", "--junit", directory / "junit.xml", "--markdown",
           directory / "check.md"], directory / "check.md"
    yield ["diff", trace, "@end"], None
    yield ["diff", trace, SAMPLES / "leak.reel"], None
    yield ["diff", SAMPLES / "leak.reel", trace, "--json"], None
    for form in ("csv", "jsonl", "speedscope", "minimalloc", "firefox", "dhat"):
        yield ["export", trace, "--format", form, "-o", directory / ("exported." + form)], directory / ("exported." + form)
    for form in ("perfetto", "pprof", "torch", "heaptrack"):  # not text
        yield ["export", trace, "--format", form, "-o", directory / ("exported." + form)], None
    yield ["import", trace, "-o", directory / "imported.reel"], None
    yield ["predict", f"batch=1:{trace}", f"batch=2:{trace}", "--to", "batch=8"], None
    yield ["predict", f"batch=1:{SAMPLES / 'graphs_default.reel'}", f"batch=2:{trace}", "--capacity", "24GiB", "--json"], None
    yield ["fleet", trace, SAMPLES / "leak.reel", "--html", directory / "fleet.html"], directory / "fleet.html"
    yield ["fleet", trace, trace, "--mesh", "dp=2", "--json"], None
    yield ["replay", trace, "--policy", POLICIES], None
    yield ["replay", trace, "--policy", "torch.native,cuda.async,tf.bfc,rmm.pool", "--capacity", "1GiB", "--json"], None


class HostileTest(ProgramTest):
    def assert_survives(self, *arguments):
        """Runs within a gibibyte and ten seconds, with one of the three exit codes, and no message from the C++ library."""
        process = run(*arguments, memory_limit=GIB, processor_limit=SECONDS, timeout=HANGS)
        line = "memreel " + " ".join(map(str, arguments))
        self.assertIn(process.returncode, (0, 1, 2), f"{line}\n{process.stderr}")
        self.assertNotIn("bad_alloc", process.stderr, line)
        self.assertNotIn("std::", process.stderr, line)
        return process


@unittest.skipIf(SANITIZED, "the corpora are replayed in one process instead: tests/fuzz")
class Files(HostileTest):
    def check(self, name):
        directory = self.directory
        for arguments, _ in commands(name, directory):
            self.assert_survives(*arguments)


def add_test(path):
    def test(self):
        self.check(path)
    setattr(Files, "test_" + path.stem.replace(".", "_") + "_" + path.suffix[1:], test)


for hostile in HOSTILE:
    add_test(hostile)


def deep_pickle(frames):
    """A snapshot with one stack of this many frames."""
    entry = {"action": "alloc", "addr": 1 << 40, "size": 512, "stream": 0, "time_us": 1,
             "frames": [{"name": f"f{i}", "filename": "f.py", "line": i} for i in range(frames)]}
    return pickle.dumps({"segments": [], "device_traces": [[entry]]}, protocol=4)


def entry(action, address, size, time=1):
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, "frames": []}


class Bounds(HostileTest):
    def snapshot(self, entries, **more):
        return self.file("snapshot.json", json.dumps({"segments": [], "device_traces": [entries], **more}).encode())

    def test_bombs_end_with_one_line(self):
        # A sanitized program needs minutes for 256 MiB, the smallest default limit.
        allowed, options = (16, ("--max-memory", "16MiB")) if SANITIZED else (256, ())
        bomb = b'{"device_traces": [[' + b" " * ((allowed + 4) << 20)
        bombs = [("gz", gzip.compress(bomb, 1)), ("xz", lzma.compress(bomb, preset=0))]
        if zstandard:
            bombs.append(("zst", zstandard.ZstdCompressor(level=1).compress(bomb)))
        for name, compressed in bombs:
            file = self.file("bomb.json." + name, compressed)
            process = run("info", file, *options, memory_limit=GIB, processor_limit=SECONDS, timeout=HANGS)
            self.assert_refused(process, file, f"decompresses to more than {allowed}.00 MiB", "--max-memory")

    def test_names_of_files_are_text(self):
        for name in ("a\x1b[31m.reel", "b\nc.reel", "\u202ed.reel"):
            trace = self.file(name, (SAMPLES / "leak.reel").read_bytes())
            (self.directory / (name + ".log")).write_text("no recording")
            for arguments in (["diff", trace, trace], ["diff", SAMPLES / "leak.reel", trace], ["fleet", self.directory]):
                process = run(*arguments)
                self.assertNotRegex(process.stdout + process.stderr, MISLEADING)
                self.assertNotIn("\nc.reel", process.stdout + process.stderr)
            page = self.directory / "page.html"
            self.answer("report", trace, "-o", page)
            self.assertNotRegex(page.read_text().replace("\n", " "), MISLEADING)

    def test_max_memory_allows_more_and_less(self):
        document = json.dumps({"segments": [], "device_traces": [[entry("alloc", 1 << 40, 512)]]}).encode()
        size = 20 if SANITIZED else 300
        packed = self.file("large.json.gz", gzip.compress(document + b" " * (size << 20), 1))
        if not SANITIZED:
            self.assert_refused(run("info", packed), "decompresses to more than")
        self.answer("info", packed, "--max-memory", f"{4 * size}MiB")
        self.assert_refused(run("info", packed, "--max-memory", "1MiB"), "1.00 MiB")
        self.assert_refused(run("info", packed, "--max-memory", "much"), "--max-memory")

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory can't be bounded")
    def test_max_memory_bounds_what_replays_build(self):
        """Ten million live allocations in a small file that is streamed: replays hold all of them."""
        document = {"segments": [], "device_traces": [[entry("alloc", (1 << 40) + i * 512, 512) for i in range(50_000)]]}
        part = self.directory / "part.reel"
        self.answer("import", self.file("many.json", json.dumps(document).encode()), "-o", part)
        bomb = self.file("bomb.reel", part.read_bytes() * 200)
        self.assertLess(bomb.stat().st_size, 32 << 20)
        process = run("replay", "--stream", "--max-memory", "64MiB", bomb, memory_limit=GIB, timeout=HANGS)
        self.assert_refused(process, "not enough memory", "limit is 64.00 MiB", "--max-memory")

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory can't be bounded")
    def test_a_comparison_that_runs_out_of_memory_says_so(self):
        """Wherever it does: its two sides are read beside each other."""
        document = {"segments": [], "device_traces": [[{**entry("alloc", (1 << 40) + i * 512, 512),
                                                       "frames": [{"filename": "train.py", "line": i, "name": f"f{i}"}]}
                                                      for i in range(150_000)]]}
        trace = self.directory / "many.reel"
        self.answer("import", self.file("many.json", json.dumps(document).encode()), "-o", trace)
        codes = set()
        for limit in (*range(64, 160, 8), 1024):
            with self.subTest(limit=limit):
                process = run("diff", trace, f"{trace}@end", memory_limit=limit << 20, timeout=HANGS)
                codes.add(process.returncode)
                if process.returncode != 0:
                    self.assert_refused(process, "not enough memory")
        self.assertEqual(codes, {0, 2})

    def test_what_no_device_has_is_refused(self):
        for action, address, size, mentions in (
                ("alloc", 1 << 40, 1 << 50, "'size' is more than 32.00 TiB"),
                ("segment_alloc", (1 << 64) - 4096, 8192, "'addr' is not an address"),
                ("free_requested", (1 << 63), 512, "'addr' is not an address")):
            trace = self.snapshot([entry(action, address, size)])
            self.assert_refused(run("report", trace), "device_traces[0][0]", mentions)

    def test_a_request_that_failed_may_be_of_any_size(self):
        trace = self.snapshot([entry("alloc", 1 << 40, 512), dict(entry("oom", 0, (1 << 64) - 1), device_free=1 << 63)])
        self.answer("report", trace, "--oom")
        self.answer("replay", trace, "--policy", "torch.native,rmm.pool,buddy")

    def test_times_out_of_range_are_refused(self):
        self.assert_refused(run("info", self.snapshot([entry("alloc", 1 << 40, 512, (1 << 63) - 1)])), "'time_us'")

    def test_settings_out_of_range_keep_their_defaults(self):
        for key, value in itertools.product(
                ("max_split_size", "max_non_split_rounding_size", "large_segment_size", "garbage_collection_threshold",
                 "roundup_power2_divisions"), (1, 3, 1 << 20, 1 << 50, 1 << 63, 1e-5, 1e300, "x")):
            trace = self.snapshot([entry("segment_alloc", 1 << 40, 20 << 20), entry("alloc", 1 << 40, 5 << 20),
                                   dict(entry("oom", 0, 30 << 20), device_free=0)], allocator_settings={key: value})
            self.assert_survives("report", trace, *EVERY_SECTION)
            self.assert_survives("tune", trace)

    def test_deep_stacks_are_cut_and_counted(self):
        deep = self.file("deep.pickle", deep_pickle(20_000))
        process = self.answer("report", deep, "--by", "stack")
        self.assertIn("1 event lost its stack, or its frames beyond the 4,096th", process.stderr)
        self.assertIn("f0", process.stdout)
        self.assertNotIn("beyond", self.answer("report", self.file("shallow.pickle", deep_pickle(4096))).stderr)

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory can't be bounded")
    def test_many_deep_stacks_fit_into_a_document(self):
        document = json.loads(self.answer("report", "--leaks", "--format", "json", "--max-memory", "1GiB",
                                          REPOSITORY / "tests/data/hostile/deep1m.reel").stdout)
        self.assertEqual(max(len(leak["stack"]) for leak in document["leaks"]), 4096)

    def test_deep_json_is_refused(self):
        nested = self.file("nested.json", b'{"device_traces": ' + b"[" * 100_000)
        self.assert_refused(run("info", nested), "nest more than 256 deep")

    @unittest.skipIf(SANITIZED, "a sanitizer ends the program where memory ends")
    def test_the_end_of_memory_is_said(self):
        numbers = self.file("numbers.json", b'{"x": [' + b"0," * 12_000_000 + b"0]}")
        process = run("report", numbers, memory_limit=120 << 20)
        self.assert_refused(process, "not enough memory", f"'memreel report {numbers}'")


class Names(HostileTest):
    trace = REPOSITORY / "tests/data/hostile/inj.pickle"

    def assert_clean(self, text, what):
        found = MISLEADING.search(text)
        context = "" if found is None else repr(text[max(0, found.start() - 60):found.end() + 20])
        self.assertIsNone(found, f"{what}: {context}")
        for line in text.splitlines():
            self.assertFalse(line.startswith("memreel: note: forged"), what)

    def test_nothing_a_name_says_reaches_the_terminal_raw(self):
        for arguments, output in commands(self.trace, self.directory):
            process = run(*arguments)
            what = " ".join(map(str, arguments[:4]))
            self.assertIn(process.returncode, (0, 1, 2), what + process.stderr)
            self.assert_clean(process.stdout, what)
            self.assert_clean(process.stderr, what)
            if output is not None and output.exists():
                self.assert_clean(output.read_bytes().decode("utf-8"), what)

    def test_names_can_still_be_told_apart(self):
        shown = self.answer("report", self.trace, "--by", "stack", "--top", "50").stdout
        self.assertIn("\\x1b]0;OWNED", shown)
        self.assertIn("\\u202egnp.exe", shown)
        self.assertIn("a\\nmemreel: note: forged line", shown)

    def test_names_of_files_are_names(self):
        hostile = self.directory / "e\x1b[31m\nvil\u202e.reel"
        hostile.write_bytes(b"no trace")
        process = run("info", hostile)
        self.assert_clean(process.stderr, "an error")
        self.assertEqual(len(process.stderr.splitlines()), 1)

    def test_no_spreadsheet_computes_a_name(self):
        rows = self.answer("export", self.trace, "--format", "csv").stdout.splitlines()
        self.assertTrue(any("\"'=HYPERLINK" in row for row in rows))
        for row in rows[1:]:
            self.assertIsNone(re.search(r'(^|,)"?[=+@]', row), row)

    def test_markdown_of_check_mentions_nobody(self):
        hostile = self.directory / "@octocat <b> www.evil.example.pickle"
        hostile.write_bytes(self.trace.read_bytes())
        markdown = self.directory / "check.md"
        self.answer("check", hostile, "--max-peak", "1GiB", "--markdown", markdown)
        text = markdown.read_text()
        self.assertNotIn("@octocat", text)
        self.assertNotIn("<b>", text)
        self.assertNotIn("www.evil", text)


class Served(PageTest):
    """memreel view --serve: any file, any client."""

    def test_traces_are_served_as_they_are_or_refused_in_one_line(self):
        for trace in HOSTILE:
            with self.subTest(trace.name):
                try:
                    said, host, port, root = self.serve("--serve", trace)
                except self.failureException as refused:
                    self.assertEqual((self.process.wait(60), str(refused).count("\n")), (2, 1), refused)
                    self.assertIsNone(MISLEADING.search(str(refused)), refused)
                    continue
                self.assertIsNone(MISLEADING.search(said), said)
                self.assertEqual(self.ask(host, port, root)[0], 200)
                self.assertEqual(self.ask(host, port, root + "trace.reel")[0], 200)
                self.process.kill()

    def test_requests(self):
        _, host, port, root = self.serve("--serve", SAMPLES / "leak.reel")
        known = root.encode()
        for request in (b"", b"\r\n\r\n", b"GET\r\n\r\n", b"GET " + known + b"\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n",
                        b"GET " + known + b"%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n\r\n", b"GET //etc/passwd HTTP/1.1\r\n\r\n",
                        b"GET " + known + b"\0trace.reel HTTP/1.1\r\n\r\n", b"GET " + known[:-1] + b" HTTP/1.1\r\n\r\n",
                        b"PUT " + known + b" HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
                        b"GET " + known + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 100_000,
                        b"GET http://elsewhere" + known + b" HTTP/1.1\r\n\r\n", bytes(range(256)) * 100):
            with self.subTest(request[:60]), socket.create_connection((host, port), timeout=60) as connection:
                try:
                    connection.sendall(request)
                    connection.shutdown(socket.SHUT_WR)
                    answer = connection.recv(1 << 16)
                except OSError:  # it was cut off while still sending
                    answer = b""
                self.assertRegex(answer, rb"^$|^HTTP/1\.1 (400|404|405) ")
                self.assertNotIn(b"root:", answer)
        self.assertEqual(self.ask(host, port, root)[0], 200)

    def test_who_is_silent_keeps_nobody_out(self):
        _, host, port, root = self.serve("--serve", SAMPLES / "leak.reel")
        silent = [socket.create_connection((host, port), timeout=60) for _ in range(40)]
        with socket.create_connection((host, port), timeout=15) as connection:  # half of what the server waits for each
            connection.sendall(b"GET " + root.encode() + b" HTTP/1.1\r\n\r\n")
            self.assertEqual(connection.recv(12), b"HTTP/1.1 200")
        for connection in silent:
            connection.close()

    def limit(self, which, more):
        """Lets the server have only so much more than it has."""
        has = {resource.RLIMIT_NOFILE: len(list(Path(f"/proc/{self.process.pid}/fd").iterdir())),
               resource.RLIMIT_AS: int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[0]) * resource.getpagesize()}[which]
        before = resource.prlimit(self.process.pid, which)
        resource.prlimit(self.process.pid, which, (has + more, before[1]))
        return before

    @unittest.skipIf(SANITIZED, "UndefinedBehaviorSanitizer looks at memory through a pipe, for which there are no descriptors")
    def test_without_descriptors_it_waits(self):
        _, host, port, root = self.serve("--serve", SAMPLES / "leak.reel")
        before = self.limit(resource.RLIMIT_NOFILE, 2)
        silent = [socket.create_connection((host, port), timeout=60) for _ in range(8)]

        def ticks():
            return sum(map(int, Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        time.sleep(0.5)
        spent = ticks()
        time.sleep(0.5)
        self.assertLess(ticks() - spent, os.sysconf("SC_CLK_TCK") / 4)
        for connection in silent:
            connection.close()
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, before)
        self.assertEqual(self.ask(host, port, root)[0], 200)

    @unittest.skipIf(SANITIZED, "a sanitizer's own memory can't be bounded")
    def test_without_threads_it_goes_on(self):
        _, host, port, root = self.serve("--serve", SAMPLES / "leak.reel")
        before = self.limit(resource.RLIMIT_AS, 1 << 20)  # a thread's stack takes more
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.ask(host, port, root)
        resource.prlimit(self.process.pid, resource.RLIMIT_AS, before)
        self.assertEqual(self.ask(host, port, root)[0], 200)

    def test_a_crowd(self):
        _, host, port, root = self.serve("--serve", SAMPLES / "leak.reel")

        def status(key):
            return int(re.search(rf"{key}:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())[1])
        before = status("VmRSS")
        for _ in range(10):
            crowd = []
            for i in range(60):  # silent ones, slow ones, and ones that never read
                connection = socket.create_connection((host, port), timeout=60)
                crowd.append(connection)
                try:
                    connection.sendall((b"", b"G", b"GET " + root.encode() + b"trace.reel HTTP/1.1\r\n\r\n")[i % 3])
                except OSError:
                    pass
            self.assertLess(status("Threads"), 40)
            for connection in crowd:
                connection.close()
        for _ in range(600):  # until the last of them is gone
            try:
                if self.ask(host, port, root)[0] == 200:
                    break
            except OSError:
                time.sleep(0.1)
        else:
            self.fail("nobody is answered any more")
        if not SANITIZED:
            self.assertLess(status("VmRSS") - before, 20 << 10, "KiB")


@unittest.skipIf(SANITIZED or shutil.which("readelf") is None, "sanitized programs are for tests; readelf looks at others")
class Hardening(unittest.TestCase):
    def test_programs_can_not_be_bent_after_they_start(self):
        directory = Path(MEMREEL).parent
        programs = [directory / name for name in ("memreel", "memreel-attach", "memreel-record", "memreel-view")]
        for program in filter(Path.exists, programs):
            dynamic = subprocess.run(["readelf", "-dlW", program], text=True, stdout=subprocess.PIPE, check=True).stdout
            self.assertRegex(dynamic, r"FLAGS_1.*\bNOW\b", program)
            self.assertIn("GNU_RELRO", dynamic, program)
            self.assertRegex(dynamic, r"GNU_STACK.* RW ", program)


if __name__ == "__main__":
    unittest.main()
