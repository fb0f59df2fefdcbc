# SPDX-License-Identifier: Apache-2.0
"""memreel fleet --parquet, read by pyarrow and DuckDB: the queries of docs/fleet.md."""

import json
import re
import shutil
import subprocess

import peers
from program import REPOSITORY, SAMPLES, ProgramTest

READ = """
import json, sys, pyarrow.parquet as parquet
table = parquet.read_table(sys.argv[1])
print(json.dumps({"schema": [[f.name, str(f.type)] for f in table.schema], "rows": table.to_pylist()}))
"""
QUERY = """
import json, sys, duckdb
print(json.dumps(duckdb.sql(sys.stdin.read()).fetchall()))
"""


class Tables(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.python = peers.python_with("pyarrow", "duckdb")

    def setUp(self):
        super().setUp()
        self.job = self.directory / "job"
        self.job.mkdir()
        for rank, name in enumerate(("gpt_default", "gpt_default", "leak")):
            shutil.copy(SAMPLES / f"{name}.reel", self.job / f"rank{rank}.reel")
        (self.job / "rank4.reel").write_bytes(b"\xffnothing")
        self.tables = self.directory / "tables"
        self.fleet = self.document("fleet", self.job, "--parquet", self.tables, code=1)

    def table(self, name):
        return json.loads(subprocess.run([self.python, "-c", READ, self.tables / f"{name}.parquet"], check=True,
                                         capture_output=True, text=True).stdout)

    def query(self, sql):
        return json.loads(subprocess.run([self.python, "-c", QUERY], input=sql, cwd=self.tables, check=True,
                                         capture_output=True, text=True).stdout)

    def test_ranks_are_those_of_the_answer(self):
        ranks = self.table("ranks")
        self.assertEqual([[row["rank"], row["status"], row["peak_reserved_bytes"], row["class"]] for row in ranks["rows"]],
                         [[row["rank"], row["status"], row["peak_reserved_bytes"], row["class"]] for row in self.fleet["ranks"]])
        self.assertEqual(dict(ranks["schema"])["peak_reserved_bytes"], "int64")
        self.assertEqual(dict(ranks["schema"])["status"], "string")

    def test_settings_are_those_of_the_answer(self):
        rows = self.table("settings")["rows"]
        expected = [outcome["peak_reserved_bytes"] for c in self.fleet["setting"]["classes"]
                    for outcome in (c["recorded"], *c["outcomes"])]
        self.assertEqual([row["peak_reserved_bytes"] for row in rows], expected)
        self.assertTrue(all(isinstance(row["driver_seconds"], float) for row in rows))

    def test_sites_and_timeline(self):
        peaks = {row["rank"]: row["peak_reserved_bytes"] for row in self.fleet["ranks"]}
        highest = self.query("SELECT rank, max(reserved_bytes), count(*) FROM 'timeline.parquet' GROUP BY rank ORDER BY rank")
        self.assertEqual(highest, [[rank, peaks[rank], 256] for rank in (0, 1, 2)])
        stacks = self.query("SELECT count(*) FROM 'sites.parquet' WHERE stack IS NOT NULL AND peak_bytes >= 0")
        self.assertGreater(stacks[0][0], 3)

    def test_the_queries_of_the_documentation_have_answers(self):
        page = (REPOSITORY / "docs/fleet.md").read_text()
        queries = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
        self.assertEqual(len(queries), 3)
        for sql in queries:
            with self.subTest(sql):
                self.assertTrue(self.query(sql))
