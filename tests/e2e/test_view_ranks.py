# SPDX-License-Identifier: Apache-2.0
"""A job's folder in the window: it opens on the answer that `memreel fleet` gives, and every rank is a click away."""

import json
import pickle
import shutil
import unittest

import fleet_job
from program import SAMPLES, SANITIZED, run
from viewing import ViewTest, ink, picture

MIB = fleet_job.MIB


class JobTest(fleet_job.JobFolder, ViewTest):
    def fleet(self):
        """What the command says of the same folder."""
        return json.loads(run("fleet", self.job, "--no-setting", "--json").stdout)

    def text(self):
        return " ".join(run("fleet", self.job, "--no-setting").stdout.split())

    def lines(self, shown, job=0):
        return {line["name"]: line for line in shown["job"]["jobs"][job]["lines"]}

    def lane_has_colour(self, view, file, colour):
        """Whether anything in the lane of a file is drawn in that colour."""
        shot = self.directory / "lane.png"
        self.assertIsNone(view.ask("screenshot", file=str(shot))["error"])
        _, _, rows = picture(shot)
        x, y, width, height = (int(v) for v in view.place(f"rank/{file}"))
        wanted = bytes(colour)
        return any(wanted in [row[3 * at:3 * at + 3] for at in range(x, x + width)] for row in rows[y:y + height])


class Answer(JobTest):
    """Eight ranks on eight GPUs in two stages; rank 2 keeps 1 GiB more."""

    def setUp(self):
        super().setUp()
        for rank in range(8):
            self.put(f"rank{rank}", fleet_job.history(rank // 4, device=rank, more=1024 if rank == 2 else 0))

    def test_the_first_picture_is_what_fleet_says(self):
        view = self.open(self.job)
        shown = view.settled()
        said = self.fleet()
        self.assertTrue(shown["job"]["shown"])
        [job] = shown["job"]["jobs"]
        self.assertTrue(self.text().startswith(job["headline"]), job["headline"])
        self.assertIn(job["decides"], self.text())
        self.assertEqual(said["decides"]["rank"], 2)
        first = job["lines"][0]
        self.assertEqual((first["name"], first["marks"]), ("rank 2", ["decides", "outlier"]))
        self.assertIn(said["outliers"][0]["why"], first["note"])
        self.assertEqual([line["name"] for line in job["lines"][1:]], [f"rank {r}" for r in range(8) if r != 2])
        self.assertEqual([line["peak_reserved_bytes"] for line in sorted(job["lines"], key=lambda line: line["file"])],
                         [row["peak_reserved_bytes"] for row in said["ranks"]])
        self.assertTrue(job["one_clock"], job["clock"])
        self.assertIn("UTC", job["clock"])
        # The lines stand below each other, at one place on the clock, and the outlier alone is outlined.
        lefts = {round(place[0]) for name, place in shown["places"].items() if name.startswith("rank/")}
        self.assertEqual(len(lefts), 1)
        view.hands("mousemove", 5, 5)
        orange = (0xE6, 0x9F, 0x00)
        self.assertTrue(self.lane_has_colour(view, 2, orange))
        self.assertFalse(self.lane_has_colour(view, 3, orange))
        self.end(view)

    def test_a_click_opens_a_rank_and_there_is_a_way_back(self):
        view = self.open(self.job)
        opened = view.click_on("rank/5")
        self.assertFalse(opened["job"]["shown"])
        self.assertEqual(opened["file"], str(self.job / "rank5.pickle"))
        self.assertGreater(opened["events"], 0)
        self.assertTrue(view.click_on("all ranks")["job"]["shown"])
        back = view.click_on("back to rank")
        self.assertEqual((back["job"]["shown"], back["file"]), (False, opened["file"]))
        self.assertTrue(view.key("j")["job"]["shown"])
        compared = view.click(*[place[0] + place[2] / 2 if i == 0 else place[1] + place[3] / 2 for i in range(2)
                                for place in [view.place("rank/1")]], button=3)
        self.assertEqual((compared["tab"], compared["other"]), ("compare", str(self.job / "rank1.pickle")))
        self.end(view)

    def test_by_keys_alone(self):
        view = self.open(self.job)
        view.settled()
        self.assertEqual(view.key("Down")["focus"], "rank/2")  # the first line
        self.assertEqual(view.key("Down")["focus"], "rank/0")
        opened = view.key("Return")
        self.assertEqual((opened["job"]["shown"], opened["file"]), (False, str(self.job / "rank0.pickle")))
        view.key("j")
        view.key("ctrl+shift+p")
        view.type("Show rank rank 7")
        self.assertEqual(view.key("Return")["file"], str(self.job / "rank7.pickle"))
        names = [command["name"] for command in view.ask("commands")["commands"]]
        self.assertIn("Show the answer about the job", names)
        # The file is closed, then the job.
        self.assertTrue(view.key("ctrl+w")["job"]["shown"])
        closed = view.key("ctrl+w")
        self.assertIsNone(closed["file"])
        self.assertNotIn("job", closed)
        self.end(view)

    def test_a_picture_without_a_window(self):
        shot = self.directory / "job.png"
        done = self.screen.view(self.job, "--screenshot", shot, "--size", "900x500", "--light")
        self.assertEqual(done.returncode, 0, done.stderr)
        width, _, rows = picture(shot)
        self.assertGreater(ink(rows, width)[0], 0.05)

    def test_another_pane_is_of_the_rank_that_decides(self):
        view = self.open(self.job, "--pane", "timeline")
        shown = view.settled()
        self.assertEqual((shown["maximised"], shown["file"]), ("timeline", str(self.job / "rank2.pickle")))
        self.end(view)


class Doubts(JobTest):
    def test_a_rank_that_ran_out_of_memory_comes_first_with_its_failure_marked(self):
        for rank in range(3):
            shutil.copy(SAMPLES / "gpt_default.reel", self.job / f"rank{rank}.reel")
        shutil.copy(SAMPLES / "oom_default.reel", self.job / "rank3.reel")
        view = self.open(self.job)
        shown = view.settled()
        [job] = shown["job"]["jobs"]
        self.assertIn("rank 3 ran out of memory", job["headline"])
        self.assertIn("rank 3 first", job["fails"])
        self.assertEqual((job["lines"][0]["name"], job["lines"][0]["marks"]), ("rank 3", ["failed", "decides"][::-1]))
        self.assertIn("refused", job["lines"][0]["note"])
        self.assertIn("rank/3/failure", shown["places"])
        self.assertNotIn("rank/0/failure", shown["places"])
        self.end(view)

    def test_what_is_known_in_part_is_a_bound(self):
        for rank in range(5):
            self.put(f"rank{rank}", fleet_job.history(0, rank), skip=12 if rank == 3 else 0)
        whole = self.job / "rank4.pickle"
        whole.write_bytes(whole.read_bytes()[:-2000])
        view = self.open(self.job)
        shown = view.settled()
        [job] = shown["job"]["jobs"]
        lines = self.lines(shown)
        self.assertIn("rank 3 is known in part and may decide instead", job["headline"])
        self.assertEqual([name for name, line in lines.items() if line["at_least"]], ["rank 3"])
        self.assertIn("began late", lines["rank 3"]["note"])
        # One that can't be read is there, with the reason; a click says so and changes nothing.
        self.assertFalse(lines["rank 4"]["judged"])
        self.assertTrue(lines["rank 4"]["note"])
        self.assertIn("1 of 5 ranks missing: 4", job["headline"])
        clicked = view.click_on("rank/4")
        self.assertTrue(clicked["job"]["shown"])
        self.assertIn("rank4.pickle", clicked["notice"])
        self.end(view)

    def test_two_jobs_are_two_answers(self):
        for job, ranks in (("100", (0, 1)), ("200", (0, 1, 3))):
            for rank in ranks:
                source = self.file("source.pickle", pickle.dumps(fleet_job.history(0, rank).snapshot()))
                out = self.directory / "source.reel"
                self.answer("import", source, "-o", out)
                header = {"RANK": rank, "WORLD_SIZE": 2 if job == "100" else 4, "SLURM_JOB_ID": job}
                (self.job / f"{job}_rank{rank}.reel").write_bytes(
                    fleet_job.with_header(out.read_bytes(), "node7", int(job) + rank, fleet_job.START * 1000, header))
        view = self.open(self.job)
        shown = view.settled()
        heads = [job["headline"] for job in shown["job"]["jobs"]]
        self.assertEqual([head.split(":")[0] for head in heads], ["job 200", "job 100"])
        self.assertIn("1 of 4 ranks missing: 2", heads[0])
        self.assertEqual([len(job["lines"]) for job in shown["job"]["jobs"]], [3, 2])
        self.assertEqual([rank["name"] for rank in shown["ranks"]],
                         ["100: rank 0", "100: rank 1", "200: rank 0", "200: rank 1", "200: rank 3"])
        self.end(view)

    def test_clocks_that_are_not_comparable_are_said(self):
        day = 24 * 3600 * 1_000_000
        for rank in range(3):
            self.put(f"rank{rank}", fleet_job.history(0, rank, start=fleet_job.START + (day if rank == 2 else 0)))
        view = self.open(self.job)
        [job] = view.settled()["job"]["jobs"]
        self.assertFalse(job["one_clock"])
        self.assertIn("no common clock", job["clock"])
        self.end(view)

    def test_one_recording_is_opened_itself(self):
        self.put("rank0", fleet_job.history(0, 0))
        view = self.open(self.job)
        shown = view.settled()
        self.assertNotIn("job", shown)
        self.assertEqual(shown["file"], str(self.job / "rank0.pickle"))
        self.end(view)

    def test_of_a_job_with_one_recording_it_says_which_ranks_are_missing(self):
        """As `memreel fleet` says it, over the open recording; not of a program that ran alone."""
        for environment, said in (({"RANK": 1, "WORLD_SIZE": 4}, True), ({}, False)):
            (self.job / "run.reel").write_bytes(
                fleet_job.with_header((SAMPLES / "gpt_default.reel").read_bytes(), "node7", 4711, 0, environment))
            view = self.open(self.job)
            shown = view.settled()
            self.assertEqual(shown["file"], str(self.job / "run.reel"))
            self.assertEqual("3 of 4 ranks missing: 0, 2, 3" in (shown["notice"] or ""), said, shown["notice"])
            self.assertEqual("job" in shown, said)
            if said:
                self.assertTrue(self.text().startswith(shown["notice"]), shown["notice"])
                self.assertFalse(shown["job"]["shown"])
                answer = view.key("Escape", "j")
                self.assertIsNone(answer["notice"])
                self.assertTrue(answer["job"]["shown"])
                self.assertIn("rank/0", answer["places"])
                self.assertEqual(view.click_on("rank/0")["file"], str(self.job / "run.reel"))
            self.end(view)

    def test_nothing_that_can_be_read(self):
        for rank in range(2):
            (self.job / f"rank{rank}.reel").write_bytes(b"nothing of the kind")
        view = self.open(self.job)
        shown = view.settled()
        self.assertTrue(shown["job"]["shown"])
        self.assertIn("2 of 2 ranks missing", shown["job"]["jobs"][0]["headline"])
        self.assertIsNone(view.key("Escape")["file"])
        self.end(view)


class Many(JobTest):
    """A job of many hosts, with everything that operators find in such a folder."""

    RANKS = 64 if SANITIZED else 256

    def test_ranks_that_are_alike_are_one_line(self):
        job = fleet_job.Job(self.job, ranks=self.RANKS, seed=5)
        truth = job.truth()
        view = self.open(self.job)
        shown = view.settled()
        first, other = shown["job"]["jobs"]
        self.assertIn("job 4711", first["headline"])
        self.assertIn("job 4712", other["headline"])
        lines = first["lines"]
        self.assertLess(len(lines), 24)
        self.assertEqual(sum(1 + len(line["alike"]) for line in lines), self.RANKS + 2)
        self.assertEqual([line["name"] for line in lines if "outlier" in line["marks"]], [f"rank {truth['outlier']}"])
        self.assertLessEqual({f"rank {rank}" for rank in truth["in_part"]}, {line["name"] for line in lines})
        unreadable = [line for line in lines if not line["judged"] and not line["alike"]]
        self.assertLessEqual({f"rank {rank}" for rank in truth["missing_ranks"]}, {line["name"] for line in unreadable})
        self.assertIn(f"as far as the clocks of {self.RANKS // 8} hosts agree", first["clock"])
        # A class lists its ranks when asked; each opens like any other.
        group = next(line for line in lines if len(line["alike"]) > 2)
        self.assertNotIn(f"rank/{group['alike'][0]}", shown["places"])
        opened = view.click_on(f"alike/{group['file']}")
        self.assertLessEqual({f"rank/{file}" for file in group["alike"]}, opened["places"].keys())
        folded = view.click_on(f"alike/{group['file']}")
        self.assertNotIn(f"rank/{group['alike'][0]}", folded["places"])
        self.end(view)


if __name__ == "__main__":
    unittest.main()
