# SPDX-License-Identifier: Apache-2.0
"""The viewer's page for browsers as served and written by memreel, with a stand-in for the page itself; test_view_browser.py
covers the real one."""

import base64
import http.client
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL, SAMPLES, ProgramTest
from snapshot import snapshot

TRACE = SAMPLES / "leak.reel"
STAND_IN = "<!doctype html><title>viewer</title><!--trace--><p>program"


class PageTest(ProgramTest):
    """memreel as installed, with the stand-in in place of the page."""

    def setUp(self):
        super().setUp()
        self.program = self.directory / "bin/memreel"
        self.program.parent.mkdir()
        shutil.copy(MEMREEL, self.program)
        self.page = self.directory / "share/memreel/memreel-view.html"
        self.page.parent.mkdir(parents=True)
        self.page.write_text(STAND_IN)

    def memreel(self, *arguments):
        return subprocess.run([self.program, *map(str, arguments)], text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)

    def serve(self, *arguments):
        """The output, and (host, port, root) of the address in it."""
        process = subprocess.Popen([self.program, "view", *map(str, arguments)], text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.process = process
        said = ""
        while "Ctrl+C" not in said:
            line = process.stdout.readline()
            if not line:
                self.fail(process.stderr.read())
            said += line
        host, port, root = re.search(r"http://([\d.]+):(\d+)(/[0-9a-f]{32}/)\n", said).groups()
        return said, host, int(port), root

    @staticmethod
    def ask(host, port, target, method="GET"):
        connection = http.client.HTTPConnection(host, port, timeout=60)
        connection.request(method, target)
        response = connection.getresponse()
        answer = response.status, response.headers, response.read()
        connection.close()
        return answer


class Written(PageTest):
    def test_the_page_holds_the_trace(self):
        output = self.directory / "run.html"
        done = self.memreel("report", TRACE, "-o", output, "--interactive")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        before, name, trace, after = re.fullmatch(r'(.*)<script type="application/octet-stream" id="trace" data-name="(.*?)">(.*?)</script>(.*)',
                                                  output.read_text()).groups()
        self.assertEqual((before + "<!--trace-->" + after, name), (STAND_IN, "leak.reel"))
        self.assertEqual(base64.b64decode(trace, validate=True), TRACE.read_bytes())

    def test_names_are_no_markup_and_other_formats_are_imported(self):
        named = self.file('a"><b>.pickle', pickle.dumps(snapshot()))
        output = self.directory / "run.html"
        done = self.memreel("report", named, "-o", output, "--interactive")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = output.read_text()
        self.assertNotIn("<b>", text)
        trace = self.file("imported.reel", base64.b64decode(re.search(r'id="trace"[^>]*>(.*?)</script>', text)[1]))
        self.assertEqual(self.document("info", trace)["events"], self.document("info", named)["events"])

    def test_refusals(self):
        output = self.directory / "run.html"
        for arguments, mentions in (
                ((TRACE, "--interactive"), ("--interactive", "-o FILE.html")),
                ((TRACE, "--interactive", "-o", self.directory / "run.md"), ("--interactive", "-o FILE.html")),
                ((self.directory / "none.reel", "--interactive", "-o", output), ("none.reel",)),
                ((self.file("text.reel", b"no trace at all"), "--interactive", "-o", output), ("text.reel",))):
            self.assert_refused(self.memreel("report", *arguments), *mentions)
        self.assertFalse(output.exists())

    def test_without_a_page(self):
        self.page.unlink()
        for arguments in (("report", TRACE, "-o", self.directory / "run.html", "--interactive"), ("view", "--serve", TRACE)):
            self.assert_refused(self.memreel(*arguments), "is not installed", "./dev web")
        self.page.write_text("something else")
        self.assert_refused(self.memreel("view", "--serve", TRACE), "is not the viewer's page", self.page)


class Served(PageTest):
    def test_page_and_trace_are_served_to_who_knows_the_address(self):
        said, host, port, root = self.serve("--serve", TRACE)
        self.assertEqual(host, "127.0.0.1")
        self.assertIn("leak.reel is shown at", said)
        self.assertRegex(said, rf"ssh -N -L {port}:127\.0\.0\.1:{port} \S+\n")
        status, headers, page = self.ask(host, port, root)
        self.assertEqual(status, 200)
        self.assertIn("text/html", headers["Content-Type"])
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertEqual(headers["Cache-Control"], "no-store")
        address = re.search(r'data-name="leak.reel" data-address="(.*?)"></script>', page.decode())[1]
        self.assertEqual(self.ask(host, port, root + address)[2], TRACE.read_bytes())
        status, headers, content = self.ask(host, port, root + address, "HEAD")
        self.assertEqual((status, int(headers["Content-Length"]), content), (200, TRACE.stat().st_size, b""))
        for target in ("/", "/" + "0" * 32 + "/", root[:-1], root + "../" + address, root + "/etc/passwd", root.upper() + "x", "/../../etc/passwd"):
            self.assertEqual(self.ask(host, port, target)[0], 404, target)
        self.assertEqual(self.ask(host, port, root, "POST")[0], 405)
        # The next run has another address.
        self.assertNotEqual(self.serve("--serve", TRACE)[3], root)

    def test_a_connection_that_says_nothing_or_nonsense_stops_nobody(self):
        _, host, port, root = self.serve("--serve", TRACE)
        with socket.create_connection((host, port)), socket.create_connection((host, port)) as nonsense:
            nonsense.sendall(b"\0\1\2 nonsense\r\n\r\n")
            self.assertIn(b"400", nonsense.recv(100))
            self.assertEqual(self.ask(host, port, root)[0], 200)
        with socket.create_connection((host, port)) as gone:
            gone.sendall(f"GET {root}trace.reel HTTP/1.1\r\n\r\n".encode())
        self.assertEqual(self.ask(host, port, root)[0], 200)
        self.assertIsNone(self.process.poll())

    def test_ports_and_hosts(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            free = probe.getsockname()[1]
        self.assertEqual(self.serve("--serve", free, TRACE)[2], free)
        self.assert_refused(self.memreel("view", "--serve", free, TRACE), f"127.0.0.1:{free}", "name another port")
        for arguments in (("--serve", TRACE, "--host", "example"), ("--serve=http", TRACE), ("--serve",), ("--serve", TRACE, "--tour")):
            self.assert_refused(self.memreel("view", *arguments))
        said = self.serve("--serve", TRACE, "--host", "127.0.0.2")
        self.assertEqual(said[1], "127.0.0.2")

    def test_only_loopback_is_listened_to(self):
        _, _, port, _ = self.serve("--serve", TRACE)
        listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        mine = [row[1] for row in listening if row[3] == "0A" and row[1].endswith(f":{port:04X}")]
        self.assertEqual(mine, [f"0100007F:{port:04X}"])
        six = [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]] if os.path.exists("/proc/net/tcp6") else []
        self.assertEqual([row[1] for row in six if row[3] == "0A" and row[1].endswith(f":{port:04X}")], [])

    def test_ends_by_ctrl_c(self):
        self.serve("--serve", TRACE)
        self.process.send_signal(signal.SIGINT)
        self.assertEqual(self.process.wait(timeout=60), -signal.SIGINT)

    def test_help(self):
        helped = self.memreel("view", "--serve", "--help")
        self.assertEqual(helped.returncode, 0)
        for word in ("--host", "--port", "127.0.0.1", "Usage: memreel view --serve"):
            self.assertIn(word, helped.stdout)


if __name__ == "__main__":
    unittest.main()
