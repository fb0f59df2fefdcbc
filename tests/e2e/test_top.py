# SPDX-License-Identifier: Apache-2.0
"""memreel top and --openmetrics: what recorded processes hold, seen from outside, on the fake GPU."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import unittest
import urllib.request
from pathlib import Path

from attaching import AttachTest
from program import MEMREEL, REPOSITORY
from recorded import PROGRAM
from schema import defects

BOARD = REPOSITORY / "samples/grafana/memreel.json"


class WatchTest(AttachTest):
    def start_recording(self, *options, **variables):
        """`memreel record` of an endless program; returns the process and the program's PID."""
        self.truth_file.unlink(missing_ok=True)
        process = self.run_program(MEMREEL, "record", *options, "--", PROGRAM, "endless", 2, FAKE_CUDA_DELAY_US=200, **variables)
        self.wait_for_truth(20)
        children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        [program] = [pid for pid in children if "fake_program" in Path(f"/proc/{pid}/comm").read_text()]
        return process, program

    def top(self, *options):
        document = json.loads(self.memreel("top", "--json", "--interval", "0.2", *options).stdout)
        self.assertEqual(defects(document), [])
        return document["processes"]

    def start_metrics(self, *command, **variables):
        """A command that prints its metrics address, and that address."""
        process = self.run_program(MEMREEL, *command, **variables)
        return process, self.address_of(process)

    def address_of(self, process):
        for line in process.stderr:
            if found := re.search(r"http://\S+", line):
                return found[0]
        self.fail("says no address")

    def scrape(self, address):
        with urllib.request.urlopen(address, timeout=30) as answer:
            self.assertTrue(answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"))
            text = answer.read().decode()
        self.assertTrue(text.endswith("# EOF\n"))
        return text

    def scrape_until(self, address, pattern):
        """The metrics, once one of their lines matches."""
        text = ""

        def has_it():
            nonlocal text
            text = self.scrape(address)
            return re.search(pattern, text, re.M)
        self.wait_until(has_it, 60)
        return text


class Top(WatchTest):
    def test_every_recorded_process_is_shown(self):
        programs = [self.start_recording("-o", f"{i}.reel", RANK=i)[1] for i in range(2)]
        rows = {row["process"]: row for row in self.top() if row["process"] in programs}
        self.assertEqual(sorted(rows), sorted(programs))
        for rank, program in enumerate(programs):
            row = rows[program]
            self.assertEqual((row["name"], row["rank"], row["recording"]), ("fake_program", str(rank), True))
            self.assertEqual(row["trace"], str(self.directory / f"{rank}.reel"))
            self.assertIsNone(row["problem"])
            [heap] = row["heaps"]
            self.assertEqual((heap["heap"], heap["level"], heap["device"]), ("cuda.driver", "driver", 0))
            self.assertGreaterEqual(heap["peak_bytes"], heap["live_bytes"])
            self.assertIsNotNone(heap["growth_bytes_per_minute"])
            self.assertGreater(row["devices"][0]["free_bytes"], 0)
        text = self.memreel("top", programs[0], "--once", "--interval", "0.2").stdout
        self.assertIn("cuda.driver", text)
        self.assertIn(str(programs[0]), text)
        self.assertNotIn(str(programs[1]), text)

    def test_categories_when_asked(self):
        _, program = self.start_recording()
        def held():
            [row] = self.top(program, "--categories")
            return sum(use["bytes"] for use in row["findings"]["categories"])
        self.wait_until(held, 60)  # nothing may be in the file at first

    def test_a_dormant_process_is_shown_as_such(self):
        process = self.run_program(MEMREEL, "record", "--dormant", "--", PROGRAM, "endless", 1, FAKE_CUDA_DELAY_US=200)
        self.wait_for_truth(20)
        [program] = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
        [row] = self.top(program)
        self.assertFalse(row["recording"])
        self.assertIn("dormant", self.memreel("top", program, "--once", "--interval", "0.2").stdout)

    def test_without_a_terminal_it_goes_on_until_it_is_told(self):
        _, program = self.start_recording()
        process = self.run_program(MEMREEL, "top", program, "--interval", "0.1")
        lines = [process.stdout.readline() for _ in range(12)]
        self.assertGreater(sum("cuda.driver" in line for line in lines), 1)
        self.assertNotIn("\x1b", "".join(lines))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), 0)

    def test_a_process_that_does_not_answer_does_not_stop_it(self):
        _, program = self.start_recording()
        os.kill(program, signal.SIGSTOP)
        [row] = self.top(program)
        self.assertEqual(row["problem"], "does not answer")
        os.kill(program, signal.SIGCONT)

    def test_refusals(self):
        self.assert_refused(self.memreel("top", os.getpid(), "--once", code=2), os.getpid(), "not being recorded")
        self.assert_refused(self.memreel("top", "--sort", "colour", code=2), "--sort")
        # One prints a table and ends, the other exports until it is stopped.
        self.assert_refused(self.memreel("top", "--once", "--openmetrics", ":0", code=2), "--openmetrics", "--once")

    def test_a_recorded_process_can_be_detached_from(self):
        process, program = self.start_recording()
        self.assertIn("recording stopped", self.memreel("detach", program).stderr)
        self.assertIsNone(process.poll())
        [row] = self.top(program)
        self.assertFalse(row["recording"])


class Keys(WatchTest):
    """`memreel top` on a terminal."""

    def setUp(self):
        super().setUp()
        self.programs = sorted(self.start_recording("-o", f"{i}.reel")[1] for i in range(2))
        self.master, self.slave = pty.openpty()
        for file in (self.master, self.slave):
            self.addCleanup(os.close, file)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen([MEMREEL, "top", *map(str, self.programs), "--interval", "0.2"], env=self.environment(),
                                        stdin=self.slave, stdout=self.slave, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(self.end, self.process)
        self.shown = ""

    def screen(self):
        """The next screen: what is drawn from one clearing to the next."""
        while self.shown.count("\x1b[H\x1b[2J") < 2:
            readable, _, _ = select.select([self.master], [], [], 60)
            self.assertTrue(readable, f"nothing more is drawn after {self.shown!r}")
            self.shown += os.read(self.master, 65536).decode()
        _, screen, self.shown = self.shown.split("\x1b[H\x1b[2J", 2)
        self.shown = "\x1b[H\x1b[2J" + self.shown
        return screen

    def screen_that(self, holds):
        screen = ""
        def found():
            nonlocal screen
            screen = self.screen()
            return holds(screen)
        self.wait_until(found, 60)
        return screen

    def order(self, screen):
        return [int(found) for found in re.findall(r"(?m)^ *(\d+) +\S+ +fake_program", screen)]

    def live(self, screen):
        units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
        return [float(number) * units[unit] for number, unit in re.findall(r"cuda\.driver +([\d.]+) (\w+)", screen)]

    def test_order_and_end(self):
        first = self.screen()
        self.assertIn("q quits; sort by l(ive), r(eserved), g(rowth), p(id)", first)
        self.assertLessEqual(max(map(len, first.splitlines())), 100)
        os.write(self.master, b"p")
        self.screen_that(lambda screen: self.order(screen) == self.programs)
        os.write(self.master, b"l")
        for _ in range(10):
            live = self.live(self.screen())
        self.assertEqual(live, sorted(live, reverse=True))
        os.write(self.master, b"x")  # an unassigned key
        self.screen()
        self.assertIsNone(self.process.poll())
        os.write(self.master, b"Q")
        self.assertEqual(self.process.wait(30), 0)
        self.assertEqual(termios.tcgetattr(self.slave), self.before, "the terminal is as it was")

    def test_signals_end_it_too(self):
        self.screen()
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(30), 0)
        self.assertEqual(termios.tcgetattr(self.slave), self.before)

    def test_a_narrow_terminal(self):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
        self.screen_that(lambda screen: max(map(len, screen.split("\r\n\r\n")[0].splitlines())) <= 50)


class OpenMetrics(WatchTest):
    def test_of_a_recording(self):
        process, program = self.start_recording("--openmetrics", ":0")
        address = self.address_of(process)
        self.assertTrue(address.startswith("http://127.0.0.1:"))
        text = self.scrape_until(address, r"^memreel_category_bytes\{.*\} [1-9]")
        labels = f'rank="",pid="{program}",process="fake_program"'
        self.assertRegex(text, rf'(?m)^memreel_heap_live_bytes\{{{labels},device="0",heap="cuda.driver",level="driver"\}} \d+$')
        self.assertRegex(text, rf'(?m)^DCGM_FI_DEV_FB_FREE\{{{labels},device="0"\}} \d+$')
        self.assertIn("memreel_recorded_processes 1\n", text)
        os.kill(program, signal.SIGTERM)
        self.assertEqual(process.wait(30), -signal.SIGTERM, "as the program")
        with self.assertRaises(OSError):
            self.scrape(address)

    def test_of_a_running_program(self):
        self.run_program(MEMREEL, "record", "--dormant", "--", PROGRAM, "endless", 1, FAKE_CUDA_DELAY_US=200)
        self.wait_for_truth(20)
        [program] = [row["process"] for row in self.top() if not row["recording"] and row["name"] == "fake_program"
                     and os.readlink(f"/proc/{row['process']}/cwd") == str(self.directory)]
        process, address = self.start_metrics("attach", program, "--openmetrics", "127.0.0.1:0")
        self.scrape_until(address, r"^memreel_heap_live_bytes\{.*\} \d+$")
        process.send_signal(signal.SIGINT)
        self.assertIn("recording stopped", process.communicate(timeout=30)[1])
        self.assertEqual(process.returncode, 0)
        self.assertFalse(self.top(program)[0]["recording"])

    def test_of_all_processes(self):
        _, program = self.start_recording()
        process, address = self.start_metrics("top", "--openmetrics", ":0")
        self.scrape_until(address, rf'^memreel_up\{{.*pid="{program}".*\}} 1$')
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)

    def test_into_a_file(self):
        metrics = self.directory / "memreel-3.prom"
        process, program = self.start_recording("--openmetrics", "memreel-%r.prom", RANK=3)
        self.wait_until(lambda: metrics.exists() and f'pid="{program}"' in metrics.read_text(), 30)
        for _ in range(200):  # never a partial file
            self.assertTrue(metrics.read_text().endswith("# EOF\n"))
        self.assertEqual(metrics.stat().st_mode & 0o777, 0o644)
        os.kill(program, signal.SIGTERM)
        process.wait(30)
        self.assertIn("memreel_recorded_processes 0\n", metrics.read_text())
        self.assertNotIn("pid=", metrics.read_text())
        self.assertEqual([file.name for file in self.directory.glob("*prom*")], [metrics.name])

    def test_nothing_is_left_of_a_recorder_that_is_killed(self):
        process, _ = self.start_recording("--openmetrics", ":0")
        address = self.address_of(process)
        self.scrape(address)
        process.kill()

        def is_gone():
            try:
                self.scrape(address)
            except OSError:
                return True
        self.wait_until(is_gone, 30)

    def test_hostile_scrapers(self):
        process, program = self.start_recording("--openmetrics", ":0")
        address = self.address_of(process)
        self.scrape_until(address, r"^memreel_heap_live_bytes")
        [exporter] = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                      if int(pid) != program]

        def memory():
            return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{exporter}/status").read_text())[1])
        before, port = memory(), int(address.split(":")[2].split("/")[0])
        held = []
        self.addCleanup(lambda: [connection.close() for connection in held])
        for i in range(600):  # slow, endless, or silent, and none of them reads
            connection = socket.create_connection(("127.0.0.1", port), timeout=30)
            held.append(connection)
            try:
                connection.sendall((b"", b"G", b"GET /metrics HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\r\n\r\n", b"x" * 20000)[i % 5])
            except OSError:
                pass
        self.assertIn("memreel_up", self.scrape(address))
        self.assertLess(len(os.listdir(f"/proc/{exporter}/fd")), 100)
        self.assertLess(memory() - before, 20 << 10, "KiB")

        def events():
            return int(re.search(r"memreel_events_total\{.*\} (\d+)", self.scrape(address))[1])
        first = events()
        self.wait_until(lambda: events() > first, 30)  # the program continues, visibly

    def taken_port(self):
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        return taken, taken.getsockname()[1]

    def test_a_port_in_use_stops_no_program(self):
        taken, port = self.taken_port()
        for options in ((), ("--quiet",)):
            process = self.record("touch", "ran", options=(*options, "--openmetrics", f":{port}"))
            (self.directory / "ran").unlink()
            self.assertRegex(process.stderr, rf"memreel: note: 127.0.0.1:{port}: the port is in use, by \S+ \(process {os.getpid()}\) "
                                             r"\(choose another, or :0 .*; metrics follow once it is free")
        self.assert_refused(self.memreel("top", "--openmetrics", f":{port}", code=2), "in use", str(os.getpid()))

    def test_metrics_follow_once_the_port_is_free(self):
        taken, port = self.taken_port()
        process, program = self.start_recording("--openmetrics", f":{port}")
        taken.close()

        def is_served():
            try:
                return f'pid="{program}"' in self.scrape(f"http://127.0.0.1:{port}/metrics")
            except OSError:
                return False
        self.wait_until(is_served, 60)
        os.kill(program, signal.SIGTERM)
        self.assertEqual(process.wait(30), -signal.SIGTERM)

    def test_attach_and_a_port_in_use(self):
        taken, port = self.taken_port()
        self.run_program(MEMREEL, "record", "--dormant", "--", PROGRAM, "endless", 1, FAKE_CUDA_DELAY_US=200)
        self.wait_for_truth(20)
        [program] = [row["process"] for row in self.top() if not row["recording"] and row["name"] == "fake_program"
                     and os.readlink(f"/proc/{row['process']}/cwd") == str(self.directory)]
        process = self.run_program(MEMREEL, "attach", program, "--openmetrics", f":{port}")
        self.wait_until(lambda: self.top(program)[0]["recording"], 30)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
        self.assertIn("the port is in use", said)
        self.assertIn("recording stopped", said)
        self.assertEqual(process.returncode, 0)

    def test_refusals(self):
        for target, words in (("9400", [":9400"]), ("example.org:1", ["numeric address"]), (":70000", ["65535"]),
                              ("/no/such/directory/x.prom", ["/no/such/directory"])):
            with self.subTest(target):
                process = self.record("touch", "ran", options=("--openmetrics", target), code=2)
                self.assert_refused(process, *words)
                self.assert_refused(self.memreel("top", "--openmetrics", target, code=2), *words)
        self.assertFalse((self.directory / "ran").exists())


class Grafana(WatchTest):
    def test_every_query_of_the_board_is_of_what_is_exported(self):
        board = json.loads(BOARD.read_text())
        self.assertTrue(board["title"] and board["schemaVersion"] and board["templating"]["list"])
        process, _ = self.start_recording("--openmetrics", ":0")
        text = self.scrape_until(self.address_of(process), r"^memreel_category_bytes\{")
        exported = {re.match(r"[A-Za-z_:]+", line)[0]: set(re.findall(r'(\w+)="', line))
                    for line in text.splitlines() if not line.startswith("#")}
        # No pool is here whose reserved memory is known.
        self.assertIn("\n# TYPE memreel_heap_reserved_bytes gauge\n", text)
        exported.setdefault("memreel_heap_reserved_bytes", exported["memreel_heap_live_bytes"])
        queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
        queries += [variable["query"]["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
        self.assertGreater(len(queries), 6)
        asked = set()
        for query in queries:
            with self.subTest(query):
                names = re.findall(r"(?:memreel|DCGM)_\w+", query)
                self.assertTrue(names)
                self.assertLessEqual(set(names), set(exported))
                asked |= set(names)
                labels = set(re.findall(r"(\w+)=~?\"", query)) | {label for group in re.findall(r"by \(([^)]*)\)", query)
                                                                  for label in re.split(r",\s*", group)}
                for label in labels - {"instance", "job"}:
                    self.assertTrue(any(label in exported[name] for name in names), label)
        self.assertIn("memreel_leaked_bytes", asked)


@unittest.skipUnless(shutil.which("prometheus"), "needs Prometheus")
class Prometheus(WatchTest):
    """Debian's Prometheus scrapes a recording and gets its figures."""

    def free_port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def query(self, port, expression):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={expression}", timeout=30) as answer:
                return json.load(answer)["data"]["result"]
        except OSError:
            return []

    def test_scrape(self):
        process, program = self.start_recording("--openmetrics", ":0", RANK=5)
        target = self.address_of(process).split("/")[2]
        config = self.file("prometheus.yml", "\n".join((
            "global: {scrape_interval: 1s}", "scrape_configs:", "- job_name: memreel",
            f"  static_configs: [{{targets: ['{target}']}}]")).encode())
        port = self.free_port()
        self.run_program(shutil.which("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={self.directory}/data",
                         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error")
        self.wait_until(lambda: self.query(port, "memreel_category_bytes"), 120)
        [heap] = self.query(port, "memreel_heap_live_bytes")
        self.assertLessEqual({"rank": "5", "pid": str(program), "device": "0", "heap": "cuda.driver"}.items(), heap["metric"].items())
        self.assertGreater(int(heap["value"][1]), 0)
        self.assertEqual(self.query(port, "up")[0]["value"][1], "1", "it could be read to its end")
        self.assertGreater(int(self.query(port, "DCGM_FI_DEV_FB_FREE")[0]["value"][1]), 1000)
        self.wait_until(lambda: [row for row in self.query(port, "rate(memreel_events_total[30s])") if float(row["value"][1]) > 0], 60)


if __name__ == "__main__":
    unittest.main()
