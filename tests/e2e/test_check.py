# SPDX-License-Identifier: Apache-2.0
"""memreel check in a pipeline: budgets, baselines, exit codes, and the files it writes for other tools."""

import json
import pickle
import re
import shutil
import subprocess
import unittest
import xml.etree.ElementTree as ElementTree

import histories
from program import MEMREEL, SAMPLES, ProgramTest, run
from snapshot import BASE, block, snapshot
from test_documents import LOSSES

SAMPLE = SAMPLES / "gpt_default.reel"
LEAK = SAMPLES / "leak.reel"


class Check(ProgramTest):
    def figures(self):
        """What the sample needs, according to replay."""
        return self.document("replay", SAMPLE, "--policy", "torch.native")["policies"][0]

    def test_keys(self):
        check = self.document("check", SAMPLE, "--max-peak", "1TiB")
        self.assertEqual(set(check), {"schema", "trace", "losses", "missing", "passed", "checks"})
        self.assertEqual(check["schema"], "memreel.check/1")
        self.assertEqual(set(check["losses"]), LOSSES)
        for entry in check["checks"]:
            self.assertEqual(set(entry), {"name", "policy", "device", "whole_device", "unit", "value", "limit", "late_start_range_bytes",
                                           "passed", "reason"})

    def test_each_budget_passes_at_its_figure_and_fails_below(self):
        figures = self.figures()
        fragmentation = figures["fragmentation_at_peak"]
        for option, figure, less in (("--max-peak", figures["peak_live_bytes"], figures["peak_live_bytes"] - 1),
                                     ("--max-reserved", figures["peak_reserved_bytes"], figures["peak_reserved_bytes"] - 1),
                                     ("--max-fragmentation", fragmentation + 1e-6, fragmentation / 2)):
            with self.subTest(option):
                self.assertTrue(self.document("check", SAMPLE, option, figure)["passed"])
                failed = self.document("check", SAMPLE, option, less, code=1)
                self.assertFalse(failed["passed"])
                self.assertIn("device 0", failed["checks"][0]["reason"])

    def test_categories(self):
        held = {entry["category"]: entry["bytes"]
                for entry in self.document("report", SAMPLE)["live_at_peak"][0]["categories"]}
        failed = self.document("check", SAMPLE, "--max-category", f"activation={held['activation'] // 2},parameter=1TiB",
                               code=1)
        checks = {entry["name"]: entry for entry in failed["checks"]}
        self.assertTrue(checks["max-category parameter"]["passed"])
        activations = checks["max-category activation"]
        self.assertGreaterEqual(activations["value"], held["activation"])  # at its own peak
        self.assertRegex(activations["reason"], r"peak of activations on device 0: .*; the largest part is made at forward \(")

    def test_memory_of_unknown_use_may_be_any_category(self):
        sample = SAMPLES / "streams_default.reel"  # allocates without a model
        peak = self.document("report", sample)["live_at_peak"][0]["bytes"]
        self.assert_refused(run("check", sample, "--max-category", f"activation={peak // 2}"), "may be activations",
                            "--allow-incomplete")
        self.answer("check", sample, "--max-category", f"activation={peak // 2}", "--allow-incomplete")
        self.answer("check", sample, "--max-category", f"activation={peak}")

    def test_unknown_categories_are_refused(self):
        self.assert_refused(run("check", SAMPLE, "--max-category", "heat=1GiB"), "unknown category 'heat'", "activation")
        self.assert_refused(run("check", SAMPLE, "--max-category", "activation"), "has no size")
        for twice in (("activation=1MiB,activation=1GiB",), ("activation=1MiB", "--max-category", "activation=1GiB")):
            self.assert_refused(run("check", SAMPLE, "--max-category", *twice), "'activation' is given twice")

    def test_leaked_memory(self):
        self.answer("check", SAMPLE, "--max-leaked", "0")
        text = self.answer("check", LEAK, "--max-leaked", "1MiB", code=1).stdout
        self.assertIn("leaked memory on device 0", text)
        self.answer("check", LEAK, "--max-leaked", "1GiB")

    def test_capacity(self):
        self.answer("check", SAMPLE, "--capacity", "80GiB")
        self.answer("check", SAMPLE, "--capacity", "1GiB", code=1)

    def test_several_policies_at_once(self):
        check = self.document("check", SAMPLE, "--policy", "torch.native,torch.expandable,rmm.pool", "--max-reserved", "1TiB")
        self.assertEqual([entry["policy"] for entry in check["checks"]], ["torch.native", "torch.expandable", "rmm.pool"])

    def test_a_failure_says_where_the_memory_is_held(self):
        text = self.answer("check", SAMPLE, "--max-peak", "1GiB", code=1).stdout
        self.assertRegex(text, r"(?m)^failed: peak of live memory on device 0: .* more than the 1\.00 GiB allowed; .*\.py\)")

    def test_a_baseline_accepts_its_own_run_and_refuses_a_worse_one(self):
        baseline = self.directory / "memory.json"
        self.answer("check", SAMPLE, "--write-baseline", baseline, "--policy", "torch.native,fit.best")
        text = self.answer("check", SAMPLE, "--baseline", baseline, "--tolerance", "0").stdout
        self.assertIn("fit.best", text)

        lower = json.loads(baseline.read_text())
        lower["policies"][0]["peak_reserved_bytes"] //= 2
        lower["devices"][0]["live_at_peak"][0]["bytes"] //= 2
        baseline.write_text(json.dumps(lower))
        failed = self.document("check", SAMPLE, "--baseline", baseline, code=1)
        reasons = [entry["reason"] for entry in failed["checks"] if not entry["passed"]]
        self.assertEqual(len(reasons), 1)
        self.assertIn(lower["devices"][0]["live_at_peak"][0]["function"] + " (", reasons[0])
        self.answer("check", SAMPLE, "--baseline", baseline, "--tolerance", "100%")

    def test_a_run_does_not_replace_the_baseline_that_it_exceeds(self):
        job = self.directory / "job"
        job.mkdir()
        shutil.copy(SAMPLE, job / "rank0.reel")
        for judged in ((SAMPLE,), ("--fleet", job)):
            baseline, link = self.directory / "memory.json", self.directory / "link.json"
            self.answer("check", *judged, "--write-baseline", baseline)
            lower = json.loads(baseline.read_text())
            lower.get("policies", lower.get("classes"))[0]["peak_reserved_bytes"] //= 2
            baseline.write_text(json.dumps(lower))
            link.unlink(missing_ok=True)
            link.symlink_to(baseline)
            for same in (baseline, link, job / "../memory.json"):
                for more in ((), ("--json",)):
                    process = self.answer("check", *judged, "--baseline", baseline, "--write-baseline", same, *more, code=1)
                    self.assertEqual(json.loads(baseline.read_text()), lower)
                    self.assertIn("stays as it was", process.stderr)
                    self.assertNotIn(".json (", process.stdout)
            other = self.directory / "other.json"
            self.answer("check", *judged, "--baseline", baseline, "--write-baseline", other, code=1)
            self.answer("check", *judged, "--baseline", other, "--write-baseline", other)
            self.answer("check", *judged, "--baseline", baseline, "--write-baseline", baseline, "--tolerance", "100%")
            self.answer("check", *judged, "--baseline", baseline)

    def test_a_baseline_is_of_a_device_that_is_large_enough(self):
        peak = self.figures()["peak_reserved_bytes"]
        plain, tight = self.directory / "plain.json", self.directory / "tight.json"
        self.answer("check", SAMPLE, "--write-baseline", plain)
        run("check", SAMPLE, "--capacity", peak * 9 // 10, "--write-baseline", tight)
        self.assertEqual(json.loads(tight.read_text()), json.loads(plain.read_text()))
        names = [check["name"] for check in self.document("check", SAMPLE, "--baseline", tight, "--tolerance", "0")["checks"]]
        checks = self.document("check", SAMPLE, "--baseline", plain, "--tolerance", "0", "--capacity", 2 * peak)["checks"]
        self.assertEqual([check["name"] for check in checks], ["capacity"] + names)

    def test_what_a_pool_without_segments_reserves_is_in_no_baseline(self):
        rows = b"".join(b'{"t":%d,"heap":"pool","op":"%s","address":%d,"size":%d}\n' % row
                        for row in ())
        log = self.file("rmm.csv", b"Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00:000001,allocate,0x100000000,1048576,0\n"
                        b"1,10:00:00:000002,free,0x100000000,1048576,0\n")
        self.assert_refused(run("check", log, "--max-reserved", "1TiB"), "--policy")
        baseline = self.directory / "memory.json"
        self.answer("check", log, "--write-baseline", baseline)
        written = json.loads(baseline.read_text())
        self.assertEqual((written["policies"], written["devices"][0]["peak_live_bytes"]), ([], 1048576))
        self.assertEqual([check["name"] for check in self.document("check", log, "--baseline", baseline)["checks"]],
                         ["baseline peak-live", "baseline leaked"])

    def test_a_snapshot_without_history_cannot_be_judged(self):
        document = snapshot()
        document["device_traces"] = [[]]
        late = self.file("late.pickle", pickle.dumps(document))
        for budget in ("--max-reserved", "--max-peak", "--max-leaked"):
            with self.subTest(budget):
                process = run("check", late, budget, "1GiB")
                self.assertEqual((process.returncode, process.stdout), (2, ""))
                refusal = process.stderr.splitlines()[-1]  # after the notes on any such trace
                for mention in ("late.pickle", "missing: the history", "--allow-incomplete"):
                    self.assertIn(mention, refusal)
        allowed = self.document("check", late, "--max-reserved", "1GiB", "--allow-incomplete")
        self.assertEqual(len(allowed["missing"]), 1)
        # The reserved bytes are known even then, and a replay from the middle may need less.
        failed = self.document("check", late, "--max-reserved", "1MiB", "--allow-incomplete", code=1)
        self.assertIn("recorded", [entry["policy"] for entry in failed["checks"] if not entry["passed"]])
        fragmentation, = self.document("report", late, "--fragmentation")["fragmentation"]["heaps"]
        # One small block is live in a segment of 2 MiB, so not 100 %, the value before that block.
        self.assertGreater(fragmentation["at_peak"]["allocated_bytes"], 0)

    def test_an_instant_is_not_replayed(self):
        document = snapshot()
        document["device_traces"] = [[]]
        instant = self.file("instant.pickle", pickle.dumps(document))
        allowed = ("check", instant, "--allow-incomplete")
        checks = self.document(*allowed, "--max-reserved", "1TiB", "--max-fragmentation", "100%")["checks"]
        self.assertEqual([check["policy"] for check in checks], ["recorded", "recorded"])
        refused = self.answer(*allowed, "--max-reserved", "1TiB", "--policy", "torch.native", code=2)
        self.assertIn("nothing to replay", refused.stderr.splitlines()[-1])
        self.assertRegex(self.answer(*allowed, "--capacity", "1TiB").stdout, "not judged +capacity +recorded +0\\n")
        self.assertIn("peak of reserved memory on device 0, as recorded: 2.00 MiB",
                      " ".join(self.answer(*allowed, "--capacity", "1MiB", code=1).stdout.split()))
        # A segment without a block in use is given back before a request fails.
        cached = 100 << 20
        document["segments"].append(dict(document["segments"][0], address=BASE + (1 << 30), total_size=cached, segment_type="large",
                                         allocated_size=0, active_size=0, requested_size=0,
                                         blocks=[block(BASE + (1 << 30), cached, 0, "inactive")]))
        instant.write_bytes(pickle.dumps(document))
        self.assertRegex(self.answer(*allowed, "--capacity", "50MiB").stdout, "not judged +capacity +recorded +0\\n")

    def test_what_is_not_judged_is_said_everywhere(self):
        steps = snapshot()  # too few to judge leaks
        trace = self.file("short.pickle", pickle.dumps(steps))
        junit, markdown = self.directory / "memreel.xml", self.directory / "memreel.md"
        self.assertEqual(run("check", trace, "--max-leaked", "0").returncode, 2)
        text = self.answer("check", trace, "--max-leaked", "0", "--allow-incomplete", "--junit", junit, "--markdown", markdown).stdout
        self.assertRegex(text, "not judged +max-leaked +0\\n")
        self.assertIn("leaks of device 0, not judged: ", text)
        self.assertNotRegex(text, r"ok +max-leaked|\b0 B")
        suites = ElementTree.parse(junit).getroot()
        self.assertEqual((suites.get("failures"), suites.get("errors")), ("0", "0"))
        cases = {case.get("name"): case.find("skipped") for case in suites.findall("./testsuite/testcase")}
        self.assertIn("leaks of device 0", cases["max-leaked device 0"].get("message"))
        self.assertIn("within its limits, as far as it could be judged", markdown.read_text())
        self.assertIn("leaks of device 0", markdown.read_text())
        document = self.document("check", trace, "--max-leaked", "0", "--allow-incomplete")
        self.assertEqual([reason for reason in document["missing"] if "leaks of device 0" in reason],
                         [check["reason"] for check in document["checks"]])

    def test_a_run_that_is_incomplete_is_within_limits_as_far_as_it_goes(self):
        markdown, junit = self.directory / "memreel.md", self.directory / "memreel.xml"
        text = self.answer("check", SAMPLES / "oom_default.reel", "--max-peak", "1TiB", "--allow-incomplete", "--markdown", markdown,
                           "--junit", junit).stdout
        self.assertRegex(text, "ok +max-peak")
        for said in (text, markdown.read_text(), junit.read_text()):
            self.assertIn("incomplete: how much memory 22 refused requests would have needed", said)

    def test_what_was_not_read_cannot_be_judged(self):
        document = snapshot()
        document["device_traces"][0] += [dict(document["device_traces"][0][1], action="alloc_async", size=60 << 30)]
        unknown = self.file("unknown.pickle", pickle.dumps(document))
        log = self.file("rmm.csv", b"Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00:000001,free,0x100000000,64424509440,0\n"
                        b"1,10:00:00:000002,allocate,0x200000000,512,0\n1,10:00:00:000003,free,0x200000000,512,0\n")
        for trace, mention in ((unknown, "1 record that was not read"), (log, "the allocations of 1 free")):
            with self.subTest(mention):
                process = run("check", trace, "--max-peak", "1GiB")
                self.assertEqual((process.returncode, process.stdout), (2, ""), process.stderr)
                self.assertIn(mention, process.stderr.splitlines()[-1])
                self.answer("check", trace, "--max-peak", "1GiB", "--allow-incomplete")

    def test_a_device_that_the_baseline_lacks_cannot_be_judged(self):
        baseline = self.directory / "memory.json"
        self.answer("check", SAMPLE, "--write-baseline", baseline)
        document = json.loads(baseline.read_text())
        document["devices"][0]["device"] = document["policies"][0]["device"] = 1
        baseline.write_text(json.dumps(document))
        self.assert_refused(run("check", SAMPLE, "--baseline", baseline), "memory.json", "missing: device 0")
        self.answer("check", SAMPLE, "--max-peak", "1TiB", "--policy", "fit.best", "--baseline", baseline, code=2)

    def test_a_run_is_judged_under_its_own_settings(self):
        baseline = self.directory / "memory.json"
        less, more = SAMPLES / "graphs_default.reel", SAMPLES / "graphs_expandable.reel"  # of one program
        self.answer("check", less, "--write-baseline", baseline)
        self.assertEqual(json.loads(baseline.read_text())["settings"], "torch.native")
        self.answer("check", less, "--baseline", baseline, "--tolerance", "0")
        process = self.answer("check", more, "--baseline", baseline, "--json", code=1)
        self.assertIn("settings changed: torch.native{expandable_segments=True}, in the baseline torch.native", process.stderr)
        failed = [check["name"] for check in json.loads(process.stdout)["checks"] if not check["passed"]]
        self.assertIn("baseline peak-reserved", failed)
        # A run that needs less with other settings says nothing about the program.
        self.answer("check", more, "--write-baseline", baseline)
        self.assert_refused(run("check", less, "--baseline", baseline), "missing: the baseline's settings")
        self.answer("check", less, "--baseline", baseline, "--allow-incomplete")

    def test_other_settings_are_seen_whatever_policies_the_baseline_has(self):
        baseline = self.directory / "memory.json"
        self.answer("check", SAMPLE, "--write-baseline", baseline)
        written = json.loads(baseline.read_text())
        for settings in ("torch.native{expandable_segments=True}", ""):
            edited = self.file("edited.json", json.dumps(written | {"settings": settings}).encode())
            self.assert_refused(run("check", SAMPLE, "--baseline", edited), "missing: the baseline's settings",
                                "settings changed: torch.native, in the baseline")
            self.answer("check", SAMPLE, "--baseline", edited, "--policy", "torch.native")  # asks for these, whatever it ran with
        written["policies"][0]["peak_reserved_bytes"] //= 2
        edited.write_text(json.dumps(written | {"settings": "torch.native{expandable_segments=True}"}))
        failed = self.answer("check", SAMPLE, "--baseline", edited, code=1)
        self.assertIn("settings changed: torch.native, in the baseline", failed.stderr)

    def test_a_baseline_edited_or_merged_by_accident_is_refused(self):
        baseline = self.directory / "memory.json"
        self.answer("check", SAMPLE, "--write-baseline", baseline)
        text = baseline.read_text()
        for change, mention in ((lambda b: b["policies"].append(b["policies"][0]), "torch.native on device 0 twice"),
                                (lambda b: b["devices"].append(b["devices"][0]), "device 0 twice"),
                                (lambda b: b["policies"][0].update(fragmentation_at_peak=7), "'fragmentation_at_peak'"),
                                (lambda b: b["policies"][0].update(fragmentation_at_peak=-0.5), "'fragmentation_at_peak'"),
                                (lambda b: b["devices"][0].update(heaps=[1]), "'heaps'"), (lambda b: b.update(version=""), "'version'")):
            with self.subTest(mention):
                changed = json.loads(text)
                change(changed)
                self.assert_refused(run("check", SAMPLE, "--baseline", self.file("edited.json", json.dumps(changed).encode())), "edited.json", mention)
        line = next(line for line in text.splitlines() if "peak_live_bytes" in line)
        merged = self.file("merged.json", text.replace(line, line + "\n" + line).encode())
        self.assert_refused(run("check", SAMPLE, "--baseline", merged), "has 'peak_live_bytes' twice")

    def test_a_baseline_of_a_job_merged_by_accident_is_refused(self):
        for classes, mention in (('[{"ranks": [0], "peak_reserved_bytes": 9}, {"ranks": [0], "peak_reserved_bytes": 5}]', "rank 0 twice"),
                                 ('[{"ranks": [0], "peak_reserved_bytes": -1}]', "'peak_reserved_bytes'"), ('[{"ranks": [-1], "peak_reserved_bytes": 1}]', "'ranks'"),
                                 ('[{"ranks": [0], "peak_reserved_bytes": 9, "peak_reserved_bytes": 5}]', "'peak_reserved_bytes' twice")):
            with self.subTest(mention):
                baseline = self.file("job.json", b'{"schema": "memreel.fleet-baseline/1", "classes": %s}' % classes.encode())
                self.assert_refused(run("check", "--fleet", SAMPLE, "--baseline", baseline), "job.json", mention)

    def test_a_line_has_no_more_than_the_report_says(self):
        for trace, budget in ((SAMPLE, "--max-peak"), (LEAK, "--max-leaked")):
            failed = self.document("check", trace, budget, "1MiB", code=1)["checks"][0]["reason"]
            said = re.search(r": ([\d.]+ \w+), of which ([\d.]+ \w+) at \w+ \((\w+\.py:\d+)\)", failed)
            self.assertTrue(said, failed)
            self.assertNotEqual(said[1], said[2])
        leaks = [leak for leak in self.document("report", LEAK, "--leaks")["leaks"] if leak["verdict"] in ("leak", "suspected")]
        there = sum(leak["bytes"] for leak in leaks
                    if any(f"{frame['file'].split('/')[-1]}:{frame['line']}" == said[3] for frame in leak["stack"]))
        self.assertEqual((said[1], said[2]), ("80.00 MiB", f"{there / 2**20:.2f} MiB"))

    def test_a_leak_is_named_by_its_stack(self):
        text = self.answer("check", LEAK, "--max-leaked", "1MiB", code=1).stdout
        self.assertRegex(text, r"most is leaked by \w+ \(.*\.py\): .* at \w+ \(.*:\d+\)")

    def test_junit_and_markdown(self):
        junit, markdown = self.directory / "memreel.xml", self.directory / "memreel.md"
        self.answer("check", SAMPLE, "--max-peak", "1GiB", "--max-leaked", "0", "--junit", junit, "--markdown", markdown,
                    code=1)
        suites = ElementTree.parse(junit).getroot()
        self.assertEqual((suites.tag, suites.get("tests"), suites.get("failures")), ("testsuites", "2", "1"))
        self.assertEqual(len(suites.findall("./testsuite/testcase")), 2)
        self.assertIn("1.00 GiB allowed", suites.find("./testsuite/testcase/failure").get("message"))
        self.assertIn("| ❌ | max-peak |", markdown.read_text())
        self.assertLess(len(markdown.read_text()), 65536)

    def test_what_can_not_be_judged_leaves_no_older_outcome(self):
        """A build server shows what it finds: the outcome of an earlier run is not that of this one."""
        cut = self.file("cut.reel", SAMPLE.read_bytes()[:-5000])
        junit, markdown, baseline = (self.directory / name for name in ("memreel.xml", "memreel.md", "baseline.json"))
        outputs = ("--junit", junit, "--markdown", markdown)
        for unjudged, mention in (((cut, "--max-peak", "1TiB", "--write-baseline", baseline), "cut.reel"),
                                  ((self.directory / "none.reel", "--max-peak", "1TiB"), "none.reel"),
                                  ((SAMPLE, "--baseline", self.directory / "none.json"), "none.json"),
                                  ((SAMPLE, "--max-peak", "a lot"), "--max-peak"),
                                  (("--fleet", self.directory / "none", "--max-reserved", "1TiB"), "none"),
                                  (("--fleet", SAMPLE, "--max-reserved", "a lot"), "--max-reserved")):
            with self.subTest(mention):
                self.answer("check", SAMPLE, "--max-peak", "1TiB", "--write-baseline", baseline, *outputs)
                kept = baseline.read_bytes()
                process = run("check", *unjudged, *outputs)
                self.assertEqual(process.returncode, 2, process.stderr)
                self.assertIn(mention, process.stderr.splitlines()[-1])
                suites = ElementTree.parse(junit).getroot()
                self.assertEqual((suites.get("tests"), suites.get("failures"), suites.get("errors")), ("1", "0", "1"))
                self.assertIn(mention, suites.find("./testsuite/testcase/error").get("message"))
                self.assertIn("could not be judged", markdown.read_text())
                self.assertIn(mention, markdown.read_text().replace("\\", ""))
                self.assertEqual(baseline.read_bytes(), kept)

    def test_no_input_is_replaced_by_an_error(self):
        job = self.directory / "job"
        job.mkdir()
        rank = job / "rank0.reel"
        rank.write_bytes(SAMPLE.read_bytes())
        for arguments in ((rank, "--max-peak", "a lot"), ("--fleet", job, self.directory / "none", "--max-reserved", "1TiB")):
            self.assert_refused(run("check", *arguments, "--junit", rank), "overwrite the input")
        self.assertEqual(rank.read_bytes(), SAMPLE.read_bytes())

    def test_a_script_stops_where_it_should(self):
        script = f"set -e; '{MEMREEL}' check '{SAMPLE}' --max-peak {{}} > /dev/null; echo passed"
        for budget, output in (("1TiB", "passed\n"), ("1MiB", "")):
            process = subprocess.run(["bash", "-c", script.format(budget)], text=True, capture_output=True)
            self.assertEqual(process.stdout, output)

    def test_wrong_usage_and_unreadable_input_are_refused_in_one_line(self):
        damaged = self.file("damaged.reel", b"not a trace")
        other = self.file("other.json", b'{"schema": "memreel.check/1"}')
        for arguments, mention in ((("check", SAMPLE), "nothing to check"),
                                   (("check", SAMPLE, "--max-peak", "a lot"), "--max-peak"),
                                   (("check", SAMPLE, "--max-fragmentation", "150%"), "--max-fragmentation"),
                                   (("check", damaged, "--max-peak", "1GiB"), "damaged.reel"),
                                   (("check", SAMPLE, "--baseline", other), "other.json"),
                                   (("check", SAMPLE, "--baseline", self.directory / "none.json"), "none.json"),
                                   (("check", SAMPLE, "--policy", "no.such", "--max-peak", "1GiB"), "no.such"),
                                   (("check", SAMPLE, "--max-peak", "1TiB", "--junit", "/no/such/place.xml"), "place.xml")):
            with self.subTest(mention):
                self.assert_refused(run(*arguments), mention)

    def test_a_baseline_runs_no_code(self):
        """A policy may be the user's own library (docs/own-policy.md), and loading one runs its code."""
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("there is no C compiler here")
        proof = self.directory / "proof"
        source = self.file("evil.c", f"""
            #include <fcntl.h>
            __attribute__((constructor)) static void begin(void) {{ open("{proof}", O_WRONLY | O_CREAT, 0600); }}
        """.encode())
        library = self.directory / "evil.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        baseline = self.directory / "memory.json"
        self.answer("check", SAMPLE, "--write-baseline", baseline)
        written = json.loads(baseline.read_text())
        for policy in (str(library), f"torch.native,{library}", f"{library}{{a=1}}"):
            written["policies"][0]["policy"] = policy
            baseline.write_text(json.dumps(written))
            for more in ([], ["--policy", "torch.native"]):
                self.assert_refused(run("check", SAMPLE, "--baseline", baseline, *more), baseline, "only the command line")
        self.assertFalse(proof.exists())

    def test_a_baseline_nested_without_end(self):
        for key in ("schema", "policies", "devices"):
            deep = self.file("deep.json", b'{"%s": ' % key.encode() + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}")
            self.assert_refused(run("check", SAMPLE, "--baseline", deep), "deep.json", "is not a baseline")

    def test_a_baseline_that_cannot_be_written_leaves_nothing_behind(self):
        self.assert_refused(run("check", damaged := self.file("x.reel", b"x"), "--write-baseline", self.directory / "b.json"),
                            damaged)
        self.assertEqual(sorted(path.name for path in self.directory.iterdir()), ["x.reel"])


@unittest.skipUnless((histories.SHARED / "fleet16/rank0.reel").exists(), "the recordings of 16 ranks are not here")
class RecordedDevice(ProgramTest):
    """A rank of a job on an H200: 1.14 GiB at the driver, of which PyTorch has 1.02 GiB, cuBLAS 128.30 MiB."""

    RANK = histories.SHARED / "fleet16/rank0.reel"

    def test_what_is_beside_the_framework_counts_everywhere(self):
        for budget, least in (("--capacity", "1154MiB"), ("--max-reserved", "1171MiB")):
            self.answer("check", self.RANK, budget, "1050MiB", code=1)
            self.answer("check", self.RANK, budget, least)
        check, = self.document("check", self.RANK, "--max-reserved", "1050MiB", code=1)["checks"]
        self.assertEqual((check["value"], check["whole_device"]), (1_227_148_808, True))
        total, = self.document("replay", self.RANK, "--policy", "torch.native", "--capacity", "1050MiB")["policies"][0]["device_totals"]
        self.assertGreater(total["failed_allocations"], 0)
        self.assertEqual(round(total["beside_bytes"] / 2**20, 2), 128.30)
        tuned = self.answer("tune", self.RANK, "--capacity", "1050MiB", "--seconds", "1")
        self.assertIn("device memory 1.03 GiB, with up to 128.30 MiB in use beside what is tuned", tuned.stdout)
        rank, = self.document("fleet", self.RANK, "--capacity", "1150MiB")["ranks"]
        self.assertEqual(round(rank["headroom_bytes"] / 2**20, 2), -20.30)


class SampledPool(ProgramTest):
    """A profile of PyTorch's says what was reserved, but has no segments."""

    def profile(self, device):
        events = [{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1000 + 10 * i,
                   "args": {"Device Type": 1, "Device Id": device, "Addr": (1 << 40) + (i << 30), "Bytes": 1 << 30,
                            "Total Allocated": (i + 1) << 30, "Total Reserved": (i + 1) << 31}} for i in range(8)]
        return self.file("run.json", json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}).encode())

    def test_what_it_reserved_is_judged_not_a_replay_that_reserves_half(self):
        for device in (0, 1):
            profile = self.profile(device)
            for arguments, passes in (("--max-reserved 15GiB", False), ("--max-reserved 16GiB", True),
                                      ("--max-reserved 15GiB --heap torch.cuda", False),
                                      ("--max-fragmentation 40%", False), ("--max-fragmentation 50%", True),
                                      ("--capacity 7GiB", False), ("--capacity 16GiB", True)):
                with self.subTest(arguments, device=device):
                    check = self.document("check", profile, *arguments.split(), code=0 if passes else 1)
                    self.assertEqual([(c["policy"], c["device"]) for c in check["checks"]], [("recorded", device)])

    def test_what_nothing_tells_is_not_judged(self):
        profile = self.profile(0)
        # PyTorch gives back what is free before a request fails, and how much that is, is not recorded.
        self.assert_refused(run("check", profile, "--capacity", "12GiB"),
                            "capacity of device 0, not judged: 16.00 GiB were reserved")
        self.assert_refused(run("check", profile, "--max-reserved", "20GiB", "--policy", "torch.native{expandable_segments=True}"),
                            "the program reserved 16.00 GiB, and a replay of what it ran with 8.00 GiB")
        other = self.document("check", profile, "--max-reserved", "20GiB", "--policy", "fit.best")
        self.assertEqual([c["policy"] for c in other["checks"]], ["fit.best"])

    def test_fleet_names_no_setting_by_such_a_replay(self):
        setting = self.document("fleet", self.profile(0), code=None)["setting"]
        self.assertEqual((setting["recommended"], setting["candidates"], setting["ranks_not_replayed"]), (None, [], 1))
        self.assertIn("a replay of the one it ran with reserves 8.00 GiB, the program reserved 16.00 GiB", setting["why"])

    def test_a_baseline_has_what_was_reserved(self):
        baseline = self.directory / "baseline.json"
        self.document("check", self.profile(0), "--max-reserved", "16GiB", "--write-baseline", baseline)
        figures = json.loads(baseline.read_text())["policies"]
        self.assertEqual([(f["policy"], f["peak_reserved_bytes"], f["fragmentation_at_peak"]) for f in figures],
                         [("recorded", 16 << 30, 0.5)])


    def test_a_baseline_has_nothing_of_a_replay_that_is_not_judged(self):
        profile, baseline = self.profile(0), self.directory / "baseline.json"
        policy = ("--policy", "torch.native{expandable_segments=True}")
        self.document("check", profile, "--max-peak", "9GiB", *policy, "--write-baseline", baseline)
        written = json.loads(baseline.read_text())
        self.assertEqual(written["policies"], [])
        metrics = {"device": 0, "peak_reserved_bytes": 9 << 30, "fragmentation_at_peak": 0.0, "failed_allocations": 0}
        old = {**written, "policies": [{"policy": policy[1], **metrics}]}
        baseline.write_text(json.dumps(old))
        self.assert_refused(run("check", profile, *policy, "--baseline", baseline), "the program reserved 16.00 GiB")


class RefusedAndReset(ProgramTest):
    def test_what_22_requests_would_have_needed_is_not_known(self):
        refused = run("check", SAMPLES / "oom_default.reel", "--max-reserved", "3GiB", "--max-peak", "3GiB")
        self.assert_refused(refused, "how much memory 22 refused requests would have needed")

    @unittest.skipUnless(histories.path("gpt_expandable"), "the history with expandable segments is not here")
    def test_a_setting_that_was_lost_is_a_regression(self):
        baseline = self.directory / "memory.json"
        self.answer("check", histories.path("gpt_expandable"), "--write-baseline", baseline)
        failed = self.answer("check", histories.path("gpt_default"), "--baseline", baseline, code=1)
        self.assertIn("settings changed", failed.stderr)
        self.assertRegex(failed.stdout, r"FAILED +baseline peak-reserved +torch\.native +0 +6\.02 GiB +5\.\d+ GiB")


if __name__ == "__main__":
    unittest.main()
