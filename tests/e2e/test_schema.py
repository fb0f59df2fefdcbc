# SPDX-License-Identifier: Apache-2.0
"""Every JSON document against its installed schema: documented and actual keys agree."""

import json
import pickle
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from program import MEMREEL, REPOSITORY, SAMPLES, SANITIZED, ProgramTest, run
from scaled_program import training
from schema import SCHEMAS, defects, problems, schema_of
from snapshot import snapshot

HOSTILE_NAMES = REPOSITORY / "tests/data/hostile/inj.pickle"
# Out of memory at both levels, leaks, streams, graphs, other allocators, and a trace without steps.
TRACES = ("gpt_default.reel", "leak.reel", "oom_default.reel", "oom_expandable.reel", "streams_default.reel", "graphs_expandable.reel",
          "decode_default.reel", "jax_oom_growth.xplane.pb.gz", "jax_crowded.xplane.pb.gz", "rmm_third_run.csv",
          "convnet_s2_default.pickle.xz", "oom_s14_nonsplit.pickle.xz", "mempools_s82_default.pickle.xz")
if SANITIZED:  # what a document consists of is checked in releases; one trace of a kind runs the code of all commands
    TRACES = ("oom_expandable.reel", "leak.reel", "graphs_expandable.reel", "jax_crowded.xplane.pb.gz", "rmm_third_run.csv",
              "mempools_s82_default.pickle.xz")
WITHOUT_HISTORY = json.dumps({
    "segments": [{"device": 0, "address": 1 << 40, "total_size": 2 << 20, "allocated_size": 512, "active_size": 512,
                  "requested_size": 100, "stream": 0, "segment_type": "small", "is_expandable": False,
                  "blocks": [{"size": 512, "requested_size": 100, "state": "active_allocated", "address": 1 << 40, "frames": []},
                             {"size": (2 << 20) - 512, "requested_size": 0, "state": "inactive", "address": (1 << 40) + 512,
                              "frames": []}]}],
    "device_traces": [[]]}).encode()


class SchemaTest(ProgramTest):
    def assert_valid(self, *arguments, codes=(0, 1)):
        """The document that a command prints, validated against its schema."""
        process = run(*arguments, "--json")
        line = "memreel " + " ".join(map(str, arguments))
        self.assertIn(process.returncode, codes, f"{line}\n{process.stderr}")
        document = json.loads(process.stdout)
        self.assertEqual(defects(document), [], line)
        return document


class Documents(SchemaTest):
    def check(self, trace):
        commands = [["info", trace], ["verify", trace], ["report", trace], ["report", trace, "--allocations", "--by", "stack"],
                    ["report", trace, "--by", "layer", "--at", "event:1"], ["report", trace, "--by", "phase"],
                    ["report", trace, "--leaks"], ["report", trace, "--fragmentation"], ["report", trace, "--oom"],
                    ["replay", trace, "--series"], ["replay", trace, "--policy", "bound.live,fit.best", "--capacity", "1GiB"],
                    ["tune", trace, "--what-if", "empty_cache@every:10"], ["diff", trace, "@end"],
                    ["diff", SAMPLES / "leak.reel", trace],
                    ["check", trace, "--max-peak", "1GiB", "--max-leaked", "0", "--allow-incomplete"],
                    ["import", trace, "-o", self.directory / "imported.reel"],
                    ["export", trace, "--format", "csv", "-o", self.directory / "exported.csv"],
                    ["export", trace, "--format", "pprof", "-o", "/dev/null"]]
        for command in commands:
            with self.subTest(command[0]):
                if command[0] in ("verify", "tune", "replay", "import"):
                    process = run(*command, "--json")
                    if process.returncode == 2:  # not PyTorch's, nothing to replay, or a trace already: refused with a reason
                        self.assert_refused_in_words(process)
                        continue
                self.assert_valid(*command)

    def assert_refused_in_words(self, process):
        self.assertEqual(process.stdout, "")
        self.assertIn("memreel: error: ", process.stderr)

    def test_hostile_names(self):
        self.check(HOSTILE_NAMES)

    def test_a_snapshot_without_history(self):
        self.check(self.file("snapshot.json", WITHOUT_HISTORY))

    def test_replay_with_costs_of_driver_calls(self):
        costs = REPOSITORY / "samples/unit-costs-h200.json"
        self.assertEqual(defects(json.loads(costs.read_text())), [])
        self.assert_valid("replay", SAMPLES / "gpt_default.reel", "--unit-costs", costs, "--series", "--capacity", "8GiB")
        self.assert_valid("replay", SAMPLES / "gpt_default.reel", "--stream")

    def test_tune_at_a_capacity(self):
        tune = self.assert_valid("tune", SAMPLES / "gpt_default.reel", "--capacity", "5GiB", "--allocators", "fit.best")
        self.assertTrue(tune["allocators"])

    def test_a_history_that_is_not_exact(self):
        impossible = self.file("impossible.pickle", pickle.dumps(snapshot(second_offset=4096)))
        self.assertFalse(self.assert_valid("verify", impossible, codes=(1,))["exact"])

    def test_checks_and_baselines(self):
        trace, baseline = SAMPLES / "leak.reel", self.directory / "baseline.json"
        self.assert_valid("check", trace, "--write-baseline", baseline)
        self.assertEqual(defects(json.loads(baseline.read_text())), [])
        failed = self.assert_valid("check", trace, "--baseline", baseline, "--max-leaked", "0", "--max-fragmentation", "0",
                                   "--capacity", "1MiB", codes=(1,))
        self.assertEqual({check["unit"] for check in failed["checks"]}, {"bytes", "share", "requests"})

    def test_fleet(self):
        for rank, name in enumerate(("gpt_default.reel", "gpt_default.reel", "leak.reel")):
            (self.directory / f"rank{rank}.reel").symlink_to(SAMPLES / name)
        self.file("rank3.reel", b"no trace")
        fleet = self.assert_valid("fleet", self.directory, "--mesh", "pp=5", "--capacity", "8GiB")
        self.assertEqual(fleet["missing_ranks"], [3, 4])
        self.assertEqual(len(fleet["setting"]["classes"]), 2)
        self.assertIsNone(self.assert_valid("fleet", self.directory, "--no-setting")["heap"])
        self.assertEqual(self.assert_valid("fleet", self.directory, "--heap", "torch.cuda")["heap"], "torch.cuda")
        baseline = self.directory / "baseline.json"
        self.answer("check", "--fleet", self.directory, "--heap", "torch.cuda", "--write-baseline", baseline, "--allow-incomplete", code=None)
        self.assertEqual(defects(json.loads(baseline.read_text())), [])
        baseline.unlink()
        self.assert_valid("check", "--fleet", self.directory, "--max-reserved", "1GiB", "--max-imbalance", "1.1",
                          "--min-headroom", "1GiB", "--capacity", "8GiB", codes=(1,))

    def test_predict(self):
        recordings = [f"batch={batch}:" + str(self.file(f"{batch}.pickle", training(batch=batch).pickle())) for batch in (2, 4, 8)]
        self.assert_valid("predict", *recordings, "--to", "batch=16,1000", "--capacity", "24GiB")
        self.assert_valid("predict", *recordings, "--to", "batch=16", "--capacity", "H100-80GB")


def add_test(name):
    def test(self):
        self.check(SAMPLES / name)
    setattr(Documents, "test_" + name.replace(".", "_"), test)


for sample in TRACES:
    add_test(sample)


class Conversions(SchemaTest):
    """The documents of import, export and symbols on the files that they write."""

    def test_numbers_are_those_of_the_files(self):
        trace, exported = self.directory / "run.reel", self.directory / "run.jsonl"
        imported = self.assert_valid("import", SAMPLES / "convnet_s2_default.pickle.xz", "-o", trace)
        info = self.document("info", trace)
        self.assertEqual([imported[key] for key in ("events", "bytes", "source", "losses")],
                         [info[key] for key in ("events", "bytes", "source", "losses")])
        export = self.assert_valid("export", trace, "--format", "jsonl", "-o", exported)
        self.assertEqual((export["events"], export["bytes"]), (info["events"], exported.stat().st_size))
        self.assertEqual(len(exported.read_text().splitlines()), info["events"])
        symbols = self.assert_valid("symbols", trace, "-o", self.directory / "named.reel")
        self.assertEqual((symbols["native_frames"], symbols["named_frames"]), (0, 0))

    def test_two_documents_never_share_standard_output(self):
        trace = SAMPLES / "leak.reel"
        for arguments in (["export", trace, "--format", "csv"], ["export", trace, "--format", "csv", "-o", "/dev/stdout"],
                          ["import", SAMPLES / "convnet_s2_default.pickle.xz", "-o", "/dev/stdout"],
                          ["symbols", trace, "-o", "/dev/stdout"]):
            self.assert_refused(run(*arguments, "--json"), "--json", "-o")


class Installed(ProgramTest):
    def test_schemas_are_installed(self):
        build = Path(MEMREEL).parents[1]
        if not shutil.which("cmake") or not (build / "cmake_install.cmake").exists():
            self.skipTest("not run from a build")
        subprocess.run(["cmake", "--install", build, "--component", "schema", "--prefix", self.directory], check=True,
                       stdout=subprocess.DEVNULL)
        installed = self.directory / "share/memreel/schema"
        self.assertEqual({file.name: file.read_text() for file in installed.iterdir()},
                         {file.name: file.read_text() for file in SCHEMAS.glob("*.json")})


class Schemas(unittest.TestCase):
    """The schema files themselves."""

    def each_schema(self):
        for file in sorted(SCHEMAS.glob("*.json")):
            yield file.name, json.loads(file.read_text())

    def subschemas(self, schema):
        yield schema
        for key in ("properties", "$defs"):
            for child in schema.get(key, {}).values():
                yield from self.subschemas(child)
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                yield from self.subschemas(schema[key])
        for child in schema.get("anyOf", ()):
            yield from self.subschemas(child)

    def test_objects_are_closed_and_keys_are_described(self):
        for name, schema in self.each_schema():
            for part in self.subschemas(schema):
                if "properties" not in part:
                    continue
                self.assertIs(part["additionalProperties"], False, name)
                self.assertLessEqual(set(part["required"]), set(part["properties"]), name)
                for key, value in part["properties"].items():
                    with self.subTest(f"{name}: {key}"):
                        self.assertTrue("description" in value or value.get("$ref", "").endswith(key))
                        if "description" not in value:
                            continue
                        self.assertRegex(value["description"], r"^\S.*\.$")
                        if key.endswith(("_bytes", "_ns", "_s", "_ms")) and "[" not in value["description"] and "$ref" not in value:
                            self.fail("says no unit")

    def test_keys_are_in_the_documentation(self):
        pages = "".join(page.read_text() for page in (REPOSITORY / "docs").glob("*.md"))
        for name, schema in self.each_schema():
            keys = {key for part in self.subschemas(schema) for key in part.get("properties", ())}
            if name == "view-bench.json":  # for the viewer's developers
                continue
            for key in sorted(keys):
                with self.subTest(f"{name}: {key}"):
                    self.assertIsNotNone(re.search(rf"`[^`]*(?<![a-z_]){key}(?![a-z_])[^`]*`", pages), "is nowhere in docs/*.md")

    def test_each_schema_is_linked(self):
        page = (REPOSITORY / "docs/command-line.md").read_text()
        for name, _ in self.each_schema():
            self.assertIn(f"(schema/{name})", page)

    def test_the_validator_finds_what_is_wrong(self):
        run_schema = {"type": "object", "properties": {"a": {"type": ["integer", "null"], "minimum": 0},
                                                       "b": {"anyOf": [{"$ref": "common.json#/$defs/frame"}, {"type": "null"}]},
                                                       "c": {"type": "array", "items": {"enum": ["x"]}}},
                      "required": ["a"], "additionalProperties": False}
        frame = {"function": "f", "file": "", "line": 1}

        def found(value):
            return list(problems(value, run_schema, "info.json"))
        for right in ({"a": 1}, {"a": None, "b": frame, "c": ["x"]}, {"a": 0, "b": None, "c": []}):
            self.assertEqual(found(right), [])
        for wrong in ([], {}, {"a": -1}, {"a": True}, {"a": 1.5}, {"a": 1, "d": 1}, {"a": 1, "b": {**frame, "column": 2}},
                      {"a": 1, "b": {**frame, "line": "1"}}, {"a": 1, "c": ["y"]}, {"a": "1"}):
            self.assertEqual(len(found(wrong)), 1, wrong)
        with self.assertRaises(ValueError):
            list(problems(1, {"type": "integer", "multipleOf": 2}, "info.json"))
        self.assertEqual(schema_of("info.json")["title"], "memreel info --json")


if __name__ == "__main__":
    unittest.main()
