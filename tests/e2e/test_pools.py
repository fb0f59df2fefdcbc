# SPDX-License-Identifier: Apache-2.0
"""Pools other than PyTorch's: RMM 26.10 and CuPy 14.2, as they recorded themselves on an H200, and ONNX Runtime's arena, as
driven by tests/lab/run. Every address is reproduced."""

import json
import lzma
import subprocess
import sys
import unittest

from program import REPOSITORY, ProgramTest, run

POOLS = REPOSITORY / "tests/data/pools"
ONNX_RUNTIME = sorted(POOLS.glob("ort-*.jsonl.xz"))
BINNING = "rmm.binning{initial=64MiB,smallest=256,largest=1MiB}"  # not in the log


def lines_of(log):
    return [json.loads(line) for line in lzma.open(log, "rt")]


def lines(name):
    return lines_of(POOLS / f"{name}-s1.jsonl.xz")


def of(rows, op):
    return [row for row in rows if row["op"] == op]


class Pools(ProgramTest):
    def verified(self, name, *options):
        return self.verified_log(POOLS / f"{name}-s1.jsonl.xz", *options)

    def verified_log(self, log, *options):
        document = self.document("verify", log, *options)
        (device,) = document["devices"]
        rows = lines_of(log)
        self.assertIs(document["exact"], True)
        served = [row for row in of(rows, "alloc") if row["ptr"] is not None]
        self.assertEqual(device["address_matches"], len(served))
        self.assertEqual(device["allocations"], len(served))
        taken = [row for row in of(rows, "up") + of(rows, "down") if row["ptr"] is not None]
        self.assertEqual(device["segment_events"], len(taken))
        self.assertEqual(device["segment_matches"], len(taken))
        return device

    def test_rmm_pool(self):
        device = self.verified("rmm.pool")
        self.assertEqual(device["params"]["initial"], str(64 << 20))
        self.assertEqual(device["peak_reserved_bytes"], device["recorded_peak_reserved_bytes"])
        self.assertIn("order 0/3/", device["rules"])

    def test_rmm_pool_with_a_maximum(self):
        device = self.verified("rmm.pool.max")
        self.assertEqual(device["params"]["maximum"], "700MiB")  # not in the log, but deduced from its growth
        self.assertEqual(device["peak_reserved_bytes"], device["recorded_peak_reserved_bytes"])

    def test_rmm_arena(self):
        self.assertEqual(self.verified("rmm.arena")["params"]["size"], str(1 << 30))

    def test_rmm_binning(self):
        device = self.verified("rmm.binning")
        self.assertEqual((device["params"]["smallest"], device["params"]["largest"]), ("256", "1MiB"))
        self.assertEqual(device["peak_reserved_bytes"], device["recorded_peak_reserved_bytes"])
        self.assertIn("bins of 256 to 1MiB", device["rules"])
        self.assertNotIn("bins", self.verified("rmm.binning", "--policy", BINNING)["rules"])

    def test_bins_that_differ(self):
        for given in ("smallest=512", "largest=512KiB", "smallest=2MiB"):
            with self.subTest(given):
                ran = run("verify", POOLS / "rmm.binning-s1.jsonl.xz", "--json", "--policy", f"rmm.binning{{initial=64MiB,{given}}}")
                self.assertEqual(ran.returncode, 1)
                (device,) = json.loads(ran.stdout)["devices"]
                self.assertEqual(device["params"][given.split("=")[0]], given.split("=")[1])
                self.assertIn("--policy 'rmm.binning{smallest=SIZE,largest=SIZE}'", device["rules"])

    def test_cupy(self):
        self.assertEqual(self.verified("cupy")["policy"], "cupy.pool")

    def test_cupy_with_a_limit(self):
        self.assertEqual(self.verified("cupy.limit")["params"]["limit"], str(3000 << 20))

    def test_onnx_runtime(self):
        seen = set()
        for log in ONNX_RUNTIME:
            with self.subTest(log.name):
                device = self.verified_log(log)
                config, *rows = lines_of(log)
                self.assertEqual(device["policy"], "ort.arena")
                self.assertEqual(device["peak_reserved_bytes"], device["recorded_peak_reserved_bytes"])
                seen |= config.keys() | {row["op"] for row in rows} | {f"{row['op']} refused" for row in rows if row.get("ptr", 0) is None}
                for parameter in config.keys() & device["params"].keys():
                    self.assertEqual(device["params"][parameter], str(config[parameter]))
        self.assertLessEqual({"extend", "first", "largest", "largest_rest", "max_mem", "regrowth", "limit", "trim", "down",
                              "up refused", "alloc refused"}, seen)

    def test_what_onnx_runtime_was_told_matters(self):
        for parameter, other in (("extend", "same_as_requested"), ("first", "2MiB"), ("largest", "none"), ("largest_rest", "1GiB"),
                                 ("max_mem", "100MiB"), ("regrowth", "16MiB")):
            found = []
            for log in ONNX_RUNTIME:
                config = lines_of(log)[0]
                given = {key: config[key] for key in ("extend", "first", "largest", "largest_rest", "max_mem", "regrowth") if key in config}
                told = ",".join(f"{key}={value}" for key, value in {**given, parameter: other}.items())
                found.append(run("verify", log, "--policy", f"ort.arena{{{told}}}").returncode)
            self.assertIn(1, found, parameter)

    def test_peaks_and_refusals_with_the_defaults(self):
        for name, policy in (("rmm.pool", "rmm.pool{initial=64MiB}"), ("rmm.arena", "rmm.arena{size=1GiB}"),
                             ("rmm.pool.max", "rmm.pool{initial=256MiB,maximum=700MiB}"), ("rmm.binning", BINNING)):
            with self.subTest(name):
                document = self.document("replay", POOLS / f"{name}-s1.jsonl.xz", "--policy", policy,
                                         "--capacity", str(3000 << 20))
                (replayed,) = document["policies"]
                reserved = peak = 0
                for row in lines(name):
                    if row["op"] in ("up", "down") and row["ptr"] is not None:
                        reserved += row["size"] if row["op"] == "up" else -row["size"]
                        peak = max(peak, reserved)
                self.assertEqual(replayed["peak_reserved_bytes"], peak)
                refused = [row for row in of(lines(name), "alloc") if row["ptr"] is None and row["size"] > 0]
                self.assertEqual(replayed["failed_allocations"], len(refused))

    def test_streamed_or_loaded(self):
        for name in ("cupy", "rmm.pool"):
            trace = self.directory / f"{name}.reel"
            self.answer("import", POOLS / f"{name}-s1.jsonl.xz", "-o", trace)
            answers = []
            for options in ((), ("--stream",)):
                document = self.document("replay", trace, "--policy", "cupy.pool,rmm.pool", *options)
                answers.append([(p["policy"], p["peak_reserved_bytes"], p["driver_calls"]) for p in document["policies"]])
            self.assertEqual(*answers)

    def test_by_what_the_program_says(self):
        log = self.directory / "mine.jsonl"
        log.write_text("".join(json.dumps({"op": "alloc", "id": i, "size": size, "ptr": i << 20, "metadata": text}) + "\n"
                               for i, (size, text) in enumerate(((700, "weights"), (200, "cache"), (100, "weights")), 1)))
        report = self.document("report", log, "--by", "metadata")
        groups = [(group["label"], group["bytes"]) for group in report["live_at_peak"][0]["groups"]]
        self.assertEqual(groups, [("weights", 800), ("cache", 200)])

    def test_another_policy_is_not_exact(self):
        ran = run("verify", POOLS / "rmm.pool-s1.jsonl.xz", "--policy", "fit.best")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("first divergence", ran.stdout)

    def test_one_changed_address_is_found(self):
        rows = lines("rmm.pool")
        changed = next(row for row in of(rows, "alloc")[1000:] if row["ptr"] is not None)
        changed["ptr"] += 256
        log = self.directory / "changed.jsonl"
        log.write_text("".join(json.dumps(row) + "\n" for row in rows))
        ran = run("verify", log, "--json")
        self.assertEqual(ran.returncode, 1)
        (device,) = json.loads(ran.stdout)["devices"]
        self.assertEqual(device["address_matches"], device["allocations"] - 1)
        self.assertIn(hex(changed["ptr"]), device["first_divergence"]["expected"])

    def test_a_defect_in_the_first_line(self):
        for defect in ('"size": 1.5', '"size": -1', '"size": "0x1000"', '"id": "a"', '"device": "cuda:0"', '"size": 1,'):
            for first in [f'{{"op": "alloc", {defect}}}'] + [f'{{{defect}, "op": "alloc"}}'] * (not defect.endswith(",")):
                log = self.file("mine.jsonl", (first + '\n{"op": "alloc", "id": 1, "size": 5, "ptr": 512}\n').encode())
                for command in ("report", "import"):
                    with self.subTest(first, command=command):
                        self.assert_refused(run(command, log), "line 1", 'is not a JSON object with an "op"')

    def test_a_log_that_names_its_allocator_is_tuned_and_judged_as_that(self):
        for name in ("cupy", "rmm.pool"):
            tuned = self.document("tune", POOLS / f"{name}-s1.jsonl.xz", "--allocators", "fit.best")
            self.assertEqual(tuned["baseline"]["policy"], self.verified(name)["policy"])
        log = self.file("mine.jsonl", b'{"op": "config", "kind": "cupy"}\n{"op": "alloc", "id": 1, "size": 1000, "ptr": 512}\n')
        check, = self.document("check", log, "--max-reserved", "1MiB")["checks"]
        self.assertEqual((check["policy"], check["value"]), ("cupy.pool", 1024))

    def test_the_ten_lines_of_the_document(self):
        """What its class writes, with each command that its page names."""
        page = (REPOSITORY / "docs/pool-log.md").read_text()
        program = page.split("```python\n")[1].split("```")[0] + """
class Bump:
    end = 1 << 20
    def allocate(self, size):
        self.end += 512 * 2
        return self.end
    def free(self, address): pass
with open("mine.jsonl", "w") as file:
    pool = Logged(Bump(), file)
    for step in range(20):
        first, second = pool.allocate(1000 - step), pool.allocate(500)
        pool.free(first)
"""
        subprocess.run([sys.executable, "-c", program], cwd=self.directory, check=True)
        log = self.directory / "mine.jsonl"
        live = self.document("report", log)["live_at_peak"][0]
        self.assertEqual((live["bytes"], live["count"]), (19 * 500 + 981 + 500, 21))
        self.answer("replay", log, "--policy", "rmm.pool,cupy.pool,torch.native")
        self.answer("check", log, "--max-peak", "1MiB")
        for command in (["verify"], ["tune"], ["check", "--max-reserved", "1MiB"]):
            self.assert_refused(run(command[0], log, *command[1:]), "--policy")
            if command != ["verify"]:
                self.assertIn(run(command[0], log, *command[1:], "--policy", "rmm.pool").returncode, (0, 1))
        # It does not say what the pool got from its parent, so there is nothing to compare a policy's segments with.
        for policy in ("rmm.pool", "rmm.binning{initial=64MiB,smallest=256,largest=1MiB}"):
            self.assert_refused(run("verify", log, "--policy", policy), "up")

    def test_what_no_device_has_and_what_is_not_known(self):
        """A pool of 64 MiB, half of it free in pieces of 1 MiB, in which a request fails."""
        lines = [{"op": "up", "size": 64 << 20, "ptr": 1 << 30}]
        lines += [{"op": "alloc", "id": i, "size": 1 << 20, "ptr": (1 << 30) + (i << 20)} for i in range(64)]
        lines += [{"op": "free", "id": i} for i in range(0, 64, 2)]
        served = [{"op": "alloc", "id": i, "size": 1 << 20, "ptr": (1 << 30) + (i << 20)} for i in range(0, 64, 2)]
        for size, after, verdict in ((2 << 20, served, "fragmentation"), (2 << 20, [], "fragmentation"), (32 << 40, served, "larger than the device")):
            log = self.directory / "full.jsonl"
            log.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"op": "alloc", "id": 99, "size": size, "ptr": None}] + after))
            report = " ".join(self.answer("report", log).stdout.split())
            self.assertIn(verdict, report)
            self.assertNotIn("no request fails", report)
            if size == 2 << 20:
                self.assertIn("use nothing: what the pool could have is unknown (--capacity)", report)
                self.assertIn("No settings tried: the capacity is unknown (--capacity SIZE).", report)
                self.assertIn("not tried", report)
                self.assertNotIn("of those tried", report)
                self.assertIn("No settings tried: the capacity is unknown", " ".join(self.answer("report", log, "--oom").stdout.split()))
                self.assertIn("by replay", self.answer("report", log, "--capacity", "80MiB").stdout)
            else:
                replay = " ".join(self.answer("replay", log, "--policy", "fit.best").stdout.split())
                self.assertIn("device memory: unlimited", replay)
                self.assertIn("32.00 TiB requested, more than any device has", replay)
        # Reserved from its first moment on: judged when most of it is in use, not before anything is.
        self.answer("check", log, "--max-fragmentation", "1%", "--allow-incomplete")

    def test_a_limit_of_the_policy_is_not_the_device_s(self):
        log = self.directory / "limited.jsonl"
        rows = [{"op": "alloc", "id": i, "size": 5 << 20, "ptr": (1 << 30) + (i << 24)} for i in range(40)]
        log.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for policy in ("cupy.pool{limit=100MiB}", "tf.bfc{limit=100MiB}"):
            said = " ".join(self.answer("replay", log, "--policy", policy).stdout.split())
            self.assertIn("5.00 MiB requested, refused by the policy itself", said)
            self.assertNotIn("any device", said)

    def test_refusals(self):
        log = POOLS / "rmm.pool-s1.jsonl.xz"
        for policy, mention in (("nothing", "unknown policy"), ("bound.live", "without placing them"), ("fit.best,fit.first", "one policy"),
                                ("rmm.pool{stream_order=a/b}", "stream_order"), ("rmm.pool{release=new}", "release")):
            with self.subTest(policy):
                self.assert_refused(run("verify", log, "--policy", policy), mention)


if __name__ == "__main__":
    unittest.main()
