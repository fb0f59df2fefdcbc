# SPDX-License-Identifier: Apache-2.0
"""memreel predict: predictions of a larger run, compared with that larger run."""

import collections
import json
import pickle
import re
import unittest
from pathlib import Path

import histories
from program import ProgramTest, run
from scaled_program import convolutions, embedding, generation, pinned, ragged, training, vision
from test_documents import FAILURE

PREDICTION = {"value", "peak_live_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "peak_reserved_low_bytes",
              "peak_reserved_high_bytes", "beside_bytes", "fits", "verdict", "first_failure", "growth", "categories", "uncertain", "settings_tried",
              "setting"}


class Predicting(ProgramTest):
    def record(self, program, **parameters):
        name = "-".join(f"{key}{value}" for key, value in parameters.items())
        file = self.file(f"{program.__name__}-{name}.pickle", program(**parameters).pickle())
        return ",".join(f"{key}={value}" for key, value in parameters.items()) + f":{file}"

    def truth(self, recording):
        return self.document("replay", recording.split(":", 1)[1], "--policy", "torch.native")["policies"][0]

    def requests(self, trace):
        rows = self.answer("export", trace, "--format", "csv").stdout.splitlines()[1:]
        return [row.split(",")[10] for row in rows if row.split(",")[2] == "alloc"]

    def predict(self, program, recorded, target, **fixed):
        """The document for predicting `target` from `recorded`, lists of the parameters of runs of `program`."""
        recordings = [self.record(program, **at) for at in recorded]
        to = ",".join(f"{key}={value}" for key, value in target.items())
        return self.document("predict", *recordings, "--to", to, **fixed)

    def late(self, batch, kept=()):
        """A run recorded from its first step on: what is older lies in an order that says nothing."""
        program = training(batch=batch)
        snapshot = program.snapshot()
        begin = next(i for i, entry in enumerate(program.entries)
                     if entry["time_us"] >= snapshot["external_annotations"][0]["time_us"])
        older = {}
        for entry in program.entries[:begin]:
            if entry["action"] == "alloc":
                older[entry["addr"]] = entry["size"]
            elif entry["action"] == "free_completed":
                older.pop(entry["addr"], None)
        freed = {entry["addr"] for entry in program.entries[begin:] if entry["action"] == "free_completed"}
        sizes = [*older.values(), *kept] if batch % 2 else [*reversed(list(older.values())), *kept]
        snapshot["device_traces"] = [program.entries[begin:]]
        address, segments = 0x7E0000000000, []
        for size in sizes if not freed & set(older) else []:
            total = -(-size // 512) * 512
            segments.append({"device": 0, "address": address, "total_size": total, "allocated_size": total, "active_size": total,
                             "requested_size": size, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
                             "is_expandable": False, "frames": [],
                             "blocks": [{"address": address, "size": total, "requested_size": size, "state": "active_allocated", "frames": []}]})
            address += total + (64 << 20)
        snapshot["segments"] = segments
        return f"batch={batch}:" + str(self.file(f"late{batch}-{len(kept)}.pickle", pickle.dumps(snapshot)))

    def assert_exact(self, program, recorded, target):
        prediction = self.predict(program, recorded, target)["predictions"][0]
        truth = self.truth(self.record(program, **target))
        for key in ("peak_live_bytes", "peak_allocated_bytes", "peak_reserved_bytes"):
            self.assertEqual(prediction[key], truth[key], key)
        self.assertLessEqual(prediction["peak_reserved_low_bytes"], truth["peak_reserved_bytes"])
        self.assertGreaterEqual(prediction["peak_reserved_high_bytes"], truth["peak_reserved_bytes"])


class Bounds(Predicting):
    def test_it_stops_after_the_seconds_given(self):
        recordings = [self.record(training, batch=batch) for batch in (1, 2, 4)]
        values = ("--to", "batch=8,16", "--capacity", "1GiB")
        whole = self.document("predict", *recordings, *values)
        self.assertEqual((len(whole["predictions"]), whole["not_predicted"], whole["stopped_by"]), (2, [], None))
        self.assertGreaterEqual(whole["largest_whole_number_that_fits"], 1)
        stopped = self.document("predict", *recordings, *values, "--seconds", "0.000001")
        self.assertEqual((stopped["predictions"], stopped["not_predicted"], stopped["stopped_by"]), ([], [8, 16], "seconds"))
        self.assertIsNone(stopped["largest_that_fits"])
        said = self.answer("predict", *recordings, *values, "--seconds", "0.000001").stdout
        self.assertRegex(" ".join(said.split()), r"no batch that fits was found.*\(--seconds\): not predicted: batch 8; batch 16")
        self.assert_refused(run("predict", *recordings, "--to", "batch=8", "--seconds", "0.000001", "-o", self.directory / "x.reel"),
                            "no time for a prediction", "--seconds")


class Sizes(Predicting):
    def test_a_batch_makes_lines(self):
        self.assert_exact(training, [{"batch": 1}, {"batch": 2}, {"batch": 4}], {"batch": 24})

    def test_two_recordings_are_enough_for_lines(self):
        self.assert_exact(training, [{"batch": 1}, {"batch": 3}], {"batch": 12})

    def test_a_sequence_makes_squares(self):
        self.assert_exact(training, [{"seq": 64}, {"seq": 128}, {"seq": 192}], {"seq": 1024})

    def test_a_width_makes_squares(self):
        self.assert_exact(training, [{"width": 128}, {"width": 256}, {"width": 384}], {"width": 1536})

    def test_an_image_side_makes_squares_of_squares(self):
        self.assert_exact(vision, [{"side": 64}, {"side": 96}, {"side": 128}], {"side": 384})

    def test_two_parameters_make_products(self):
        recorded = [{"batch": b, "seq": s} for b, s in ((1, 64), (2, 64), (1, 128), (2, 192))]
        self.assert_exact(training, recorded, {"batch": 6, "seq": 512})


class Counts(Predicting):
    def test_more_layers(self):
        self.assert_exact(training, [{"layers": 2}, {"layers": 3}, {"layers": 4}], {"layers": 12})

    def test_more_layers_than_one(self):
        """What precedes a single layer's state, made by the same line, says nothing about the next layer's."""
        self.assert_exact(training, [{"layers": 1}, {"layers": 2}, {"layers": 3}], {"layers": 12})

    def test_layers_in_uneven_strides(self):
        prediction = self.predict(training, [{"layers": 2}, {"layers": 4}, {"layers": 7}], {"layers": 24})["predictions"][0]
        truth = self.truth(self.record(training, layers=24))
        self.assertEqual(prediction["peak_live_bytes"], truth["peak_live_bytes"])
        self.assertLessEqual(prediction["peak_reserved_low_bytes"], truth["peak_reserved_bytes"])
        self.assertGreaterEqual(prediction["peak_reserved_high_bytes"], truth["peak_reserved_bytes"])

    def test_more_micro_batches(self):
        """Only the first keeps its gradients: copies are made of another."""
        self.assert_exact(training, [{"micro": 1}, {"micro": 2}, {"micro": 3}], {"micro": 16})

    def test_more_tokens(self):
        self.assert_exact(generation, [{"tokens": 8}, {"tokens": 16}, {"tokens": 24}], {"tokens": 100})

    def test_as_many_requests_as_were_recorded(self):
        trace = self.directory / "large.reel"
        recordings = [self.record(training, layers=n) for n in (2, 3, 5)]
        self.answer("predict", *recordings, "--to", "layers=16", "-o", trace)
        recorded = self.record(training, layers=16).split(":", 1)[1]
        kinds = [self.document("info", file)["kinds"] for file in (trace, recorded)]
        self.assertEqual(kinds[0]["alloc"], kinds[1]["alloc"])
        self.assertEqual(kinds[0]["free_requested"], kinds[1]["free_requested"])


class Kernels(Predicting):
    """A kernel's scratch requests when a larger run takes another path."""

    def test_the_gradient_of_words_is_sorted_in_larger_runs(self):
        trace = self.directory / "large.reel"
        for recorded in ((1, 2, 4), (2, 4, 8)):  # below the threshold, and across it
            recordings = [self.record(embedding, batch=n) for n in recorded]
            for batch in (8, 16):
                self.answer("predict", *recordings, "--to", f"batch={batch}", "-o", trace)
                truth = self.record(embedding, batch=batch).split(":", 1)[1]
                self.assertEqual(self.requests(trace), self.requests(truth), (recorded, batch))

    def test_on_the_gpu_of_the_card(self):
        recordings = [self.record(training, batch=n) for n in (1, 2, 4)]
        gpu = self.document("predict", *recordings, "--to", "batch=8")["gpu"]
        self.assertEqual(gpu, {"multiprocessors": 132, "threads_per_multiprocessor": 2048, "compute_capability": 90, "assumed": True})
        gpu = self.document("predict", *recordings, "--to", "batch=8", "--capacity", "L4")["gpu"]
        self.assertEqual(gpu, {"multiprocessors": 58, "threads_per_multiprocessor": 1536, "compute_capability": 89, "assumed": False})
        self.assertIn("58 multiprocessors and compute capability 8.9 (L4)",
                      " ".join(self.answer("predict", *recordings, "--to", "batch=8", "--capacity", "L4").stdout.split()))


class Uncertain(Predicting):
    def test_jumps_are_bounded_not_fitted(self):
        """Workspaces of another algorithm follow no function: they widen the range, and the truth is in it."""
        for target in (8, 12, 24):
            document = self.predict(convolutions, [{"batch": 2}, {"batch": 4}, {"batch": 5}], {"batch": target})
            prediction = document["predictions"][0]
            truth = self.truth(self.record(convolutions, batch=target))
            self.assertLess(document["exact_share"], 1)
            self.assertLessEqual(prediction["peak_reserved_low_bytes"], truth["peak_reserved_bytes"])
            self.assertGreaterEqual(prediction["peak_reserved_high_bytes"], truth["peak_reserved_bytes"])

    def test_a_recorded_size_is_predicted_as_it_was_recorded(self):
        """Also sizes that follow no function, and the smallest recording, which can't tell what repeats."""
        for program, runs in ((convolutions, [{"batch": n} for n in (2, 4, 5)]), (training, [{"layers": n} for n in (2, 3, 5)])):
            recordings = [self.record(program, **run_) for run_ in runs]
            for run_, recording in zip(runs, recordings):
                (name, value), = run_.items()
                trace = self.directory / "again.reel"
                document = self.document("predict", *recordings, "--to", f"{name}={value}", "-o", trace)
                truth = self.truth(recording)
                for key in ("peak_live_bytes", "peak_reserved_bytes"):
                    self.assertEqual(document["predictions"][0][key], truth[key], (program.__name__, run_))
                self.assertEqual(self.requests(trace), self.requests(recording.split(":", 1)[1]))

    def test_what_has_no_counterpart_widens_the_range(self):
        document = self.predict(ragged, [{"batch": 1}, {"batch": 2}, {"batch": 4}], {"batch": 8})
        prediction = document["predictions"][0]
        self.assertLess(document["aligned_share"], 0.99)
        for bound in ("low", "high"):
            beyond = abs(prediction[f"peak_reserved_{bound}_bytes"] / prediction["peak_reserved_bytes"] - 1)
            self.assertGreater(beyond, 2 * (1 - document["aligned_share"]))

    def test_another_program_is_refused(self):
        other = "batch=4:" + self.record(generation, tokens=8).split(":", 1)[1]
        process = run("predict", self.record(training, batch=1), self.record(training, batch=2), other, "--to", "batch=8")
        self.assert_refused(process, "can't be aligned")


class Capacity(Predicting):
    def setUp(self):
        super().setUp()
        self.recordings = [self.record(training, batch=n) for n in (1, 2, 4)]

    def test_the_largest_that_fits(self):
        document = self.document("predict", *self.recordings, "--capacity", "256MiB")
        largest = document["largest_that_fits"]
        for batch, fits in ((largest, True), (largest + 1, False)):
            recorded = self.record(training, batch=batch).split(":", 1)[1]
            truth = self.document("replay", recorded, "--policy", "torch.native", "--capacity", "256MiB")["policies"][0]
            self.assertEqual(truth["first_failure"] is None, fits, batch)

    def test_of_those_that_were_asked_for(self):
        document = self.document("predict", *self.recordings, "--capacity", "256MiB", "--to", "batch=8,16,32,512")
        fitting = [p["value"] for p in document["predictions"] if p["fits"]]
        self.assertEqual(document["largest_that_fits"], max(fitting))
        self.assertGreaterEqual(document["largest_whole_number_that_fits"], max(fitting))
        for prediction in document["predictions"]:
            self.assertEqual(set(prediction), PREDICTION)
            if not prediction["fits"]:
                self.assertEqual(set(prediction["first_failure"]), FAILURE)

    def test_a_card(self):
        document = self.document("predict", *self.recordings, "--capacity", "nvidia h100-80gb", "--to", "batch=8")
        self.assertEqual(document["card"], "H100-80GB")
        self.assertTrue(document["other_bytes_assumed"])
        self.assertLess(document["capacity_bytes"], 80 << 30)
        self.assertTrue(document["predictions"][0]["fits"])


    def test_a_range_beyond_the_capacity_fits_likely_in_every_output(self):
        """The replay in the middle of the range fits, and its upper end does not."""
        recordings = [self.late(1, kept=[8 << 20]), self.late(2)]
        prediction = self.document("predict", *recordings, "--to", "batch=16")["predictions"][0]
        self.assertIsNone(prediction["verdict"])
        self.assertGreater(prediction["peak_reserved_high_bytes"], prediction["peak_reserved_bytes"])
        page = self.directory / "page.html"
        for capacity, fits, verdict in ((prediction["peak_reserved_bytes"], True, "likely"),
                                        (prediction["peak_reserved_high_bytes"], True, "yes"),
                                        (prediction["peak_live_bytes"] // 2, False, "no")):
            command = ("predict", *recordings, "--to", "batch=16", "--capacity", str(capacity))
            answer = self.document(*command, "--html", page)["predictions"][0]
            self.assertEqual((answer["fits"], answer["verdict"]), (fits, verdict))
            self.assertRegex(self.answer(*command).stdout, f"batch 16 .* {verdict}")
            self.assertRegex(re.sub("<[^>]*>", " ", page.read_text()), rf"batch 16\s+{verdict}")


class Setting(Predicting):
    def setUp(self):
        super().setUp()
        self.recordings = [self.record(pinned, batch=n) for n in (1, 2, 4)]

    def test_the_setting_that_lets_it_fit(self):
        trace = self.directory / "large.reel"
        document = self.document("predict", *self.recordings, "--to", "batch=24", "--capacity", "400MiB", "-o", trace)
        prediction = document["predictions"][0]
        self.assertFalse(prediction["fits"])
        self.assertGreater(prediction["settings_tried"], 0)
        self.assertEqual(prediction["setting"]["setting"], "expandable_segments:True")
        self.assertTrue(prediction["setting"]["fits"])
        tuned = self.document("tune", trace, "--capacity", "400MiB")
        self.assertEqual(tuned["recommended"], "expandable_segments:True")
        self.assertEqual(tuned["candidates"][0]["peak_reserved_bytes"], prediction["setting"]["peak_reserved_bytes"])
        text = self.answer("predict", *self.recordings, "--to", "batch=24", "--capacity", "400MiB").stdout
        self.assertIn("batch 24 fits with expandable_segments:True", text)

    def test_only_the_smallest_that_does_not_fit_unless_all_are_asked_for(self):
        arguments = ("predict", *self.recordings, "--to", "batch=32,24,2", "--capacity", "450MiB")
        tried = [p["settings_tried"] > 0 for p in self.document(*arguments)["predictions"]]
        self.assertEqual(tried, [False, True, False])
        tried = [p["settings_tried"] > 0 for p in self.document(*arguments, "--tune")["predictions"]]
        self.assertEqual(tried, [True, True, True])

    def test_none_when_what_is_live_is_too_much(self):
        document = self.document("predict", *self.recordings, "--to", "batch=24", "--capacity", "200MiB")
        self.assertIsNone(document["predictions"][0]["setting"])


class Page(Predicting):
    """The chart has the document's numbers."""

    def test_chart(self):
        recordings = [self.record(training, batch=n) for n in (1, 2, 4)]
        page = self.directory / "page.html"
        document = self.document("predict", *recordings, "--to", "batch=8,16", "--capacity", "64MiB", "--html", page)
        html = page.read_text()
        highest, furthest = (int(re.search(f'data-{name}="([0-9]+)"', html)[1]) for name in ("max", "to"))
        self.assertEqual(furthest, 16)

        def dots(kind):
            return [tuple(map(float, at)) for at in re.findall(rf'class="dot-{kind}"[^>]* d="M([0-9.]+) ([0-9.]+)h0"', html)]

        def expected(points):
            return [(960 * 0.98 * p["value"] / furthest, 320 * (1 - p[key] / highest))
                    for p in points for key in ("peak_reserved_bytes", "peak_live_bytes")]

        for kind, key in (("recorded", "recordings"), ("predicted", "predictions")):
            drawn, wanted = dots(kind), expected(document[key])
            self.assertEqual(len(drawn), len(wanted))
            for got, want in zip(drawn, wanted):
                self.assertAlmostEqual(got[0], want[0], delta=0.1)
                self.assertAlmostEqual(got[1], want[1], delta=0.1)
        limit = float(re.search(r'class=limit [^>]* d="M0 ([0-9.]+)H', html)[1])
        self.assertAlmostEqual(limit, 320 * (1 - (64 << 20) / highest), delta=0.1)
        self.assertIn(f"is {document['largest_whole_number_that_fits']}", html)
        self.assertIn("not recorded", html)

    def test_a_limit_far_above_is_said_not_drawn(self):
        recordings = [self.record(training, batch=n) for n in (1, 2, 4)]
        page = self.directory / "page.html"
        self.answer("predict", *recordings, "--to", "batch=8", "--capacity", "T4", "--html", page)
        self.assertNotIn("class=limit", page.read_text())
        self.assertRegex(page.read_text(), "T4, [0-9.]+ GiB, lies far above the chart")

    def test_names_are_text(self):
        file = self.record(training, batch=1).split(":", 1)[1], self.record(training, batch=2).split(":", 1)[1]
        page = self.directory / "page.html"
        self.answer("predict", f"<b>=1:{file[0]}", f"<b>=2:{file[1]}", "--to", "<b>=4", "--html", page)
        self.assertNotIn("<b>", page.read_text().replace("<b>needs", ""))


class Document(Predicting):
    def test_keys(self):
        document = self.predict(training, [{"batch": 1}, {"batch": 2}, {"batch": 4}], {"batch": 8})
        self.assertEqual(set(document), {
            "schema", "parameter", "recordings", "aligned_share", "exact_share", "leave_one_out", "device_bytes", "driver_recorded", "capacity_bytes", "card",
            "other_bytes", "other_bytes_assumed", "doubts", "gpu", "predictions", "not_predicted", "stopped_by", "largest_that_fits",
            "largest_whole_number_that_fits", "policy", "params"})
        self.assertEqual(document["schema"], "memreel.predict/1")
        self.assertEqual(document["parameter"], "batch")
        self.assertEqual(document["aligned_share"], 1)
        self.assertEqual([r["value"] for r in document["recordings"]], [1, 2, 4])
        self.assertEqual([r["value"] for r in document["leave_one_out"]], [1, 2, 4])
        for left_out in document["leave_one_out"]:
            self.assertEqual(left_out["reserved_error"], 0)
            self.assertEqual(left_out["live_error"], 0)
        self.assertIsNone(document["predictions"][0]["fits"])
        growth = document["predictions"][0]["growth"]
        self.assertEqual(growth[0]["stack"][0]["file"], "train.py")
        self.assertGreater(growth[0]["predicted_bytes"], growth[0]["recorded_bytes"])
        categories = document["predictions"][0]["categories"]
        self.assertEqual(sum(c["predicted_bytes"] for c in categories), document["predictions"][0]["peak_live_bytes"])
        for category in categories:
            self.assertEqual(category["bytes_per_unit"], (category["predicted_bytes"] - category["recorded_bytes"]) / 4)

    def test_text(self):
        recordings = [self.record(training, batch=n) for n in (1, 2, 4)]
        text = self.answer("predict", *recordings, "--to", "batch=8,16", "--capacity", "A100-40GB").stdout
        self.assertIn("batch 16", text)
        self.assertIn("exact", text)
        self.assertIn("the largest batch that fits is", text)
        self.assertIn("which is assumed: the recordings lack the driver's calls, so what else is on the device is unknown", " ".join(text.split()))
        sized = self.answer("predict", *recordings, "--to", "batch=8", "--capacity", "40GiB").stdout
        self.assertIn("capacity 40.00 GiB, all of it for torch.cuda: the recordings lack the driver's calls, so what else is on the device "
                      "is unknown", " ".join(sized.split()))
        document = self.document("predict", *recordings, "--to", "batch=8", "--capacity", "40GiB")
        self.assertEqual((document["device_bytes"], document["capacity_bytes"], document["driver_recorded"], document["other_bytes"]),
                         (40 << 30, 40 << 30, False, 0))


class Synthetic(Predicting):
    """The written trace is a trace like any other."""

    def setUp(self):
        super().setUp()
        recordings = [self.record(training, batch=n) for n in (1, 2, 4)]
        self.trace = self.directory / "large.reel"
        self.prediction = self.document("predict", *recordings, "--to", "batch=16", "-o", self.trace)["predictions"][0]

    def test_it_replays_to_what_was_predicted(self):
        replayed = self.document("replay", self.trace, "--policy", "torch.native")["policies"][0]
        for key in ("peak_live_bytes", "peak_allocated_bytes", "peak_reserved_bytes"):
            self.assertEqual(replayed[key], self.prediction[key], key)

    def test_its_addresses_are_the_allocators(self):
        self.assertTrue(self.document("verify", self.trace)["exact"])

    def test_nothing_overlaps_and_all_that_is_freed_was_live(self):
        live, kept = {}, 0
        for line in self.answer("export", self.trace, "--format", "jsonl").stdout.splitlines():
            event = json.loads(line)
            if event["kind"] == "alloc":
                begin = int(str(event["address"]), 0)
                live[begin] = begin + event["size"]
            elif event["kind"] == "free_completed":
                del live[int(str(event["address"]), 0)]
        ends = sorted(live.items())
        for (_, end), (begin, _) in zip(ends, ends[1:]):
            self.assertLessEqual(end, begin)
        self.assertGreater(len(live), kept)

    def test_it_says_that_it_is_synthetic(self):
        self.assertIn("synthetic", self.answer("info", self.trace).stderr)
        for output in ("text", "markdown", "html"):
            self.assertIn("synthetic: predicted from recordings", self.answer("report", self.trace, "--format", output).stdout)
        for command in ("info", "replay", "verify", "tune", "check"):
            arguments = ("--max-peak", "100GiB") if command == "check" else ()
            self.assertIs(self.document(command, self.trace, *arguments)["losses"]["synthetic"], True, command)
        self.assertIs(self.document("report", self.trace)["summary"]["losses"]["synthetic"], True)


class Doubts(Predicting):
    """What the recordings can't support is refused or named."""

    def doubts(self, recordings, *arguments):
        document = self.document("predict", *recordings, "--to", "batch=16", *arguments)
        text = self.answer("predict", *recordings, "--to", "batch=16", *arguments).stdout
        for doubt in document["doubts"]:
            self.assertIn(f"doubt: {doubt}", " ".join(text.split()))
        return document

    def test_recordings_that_differ_as_they_should_raise_none(self):
        self.assertEqual(self.doubts([self.record(training, batch=batch) for batch in (1, 2, 4)])["doubts"], [])

    def test_one_file_at_two_values_is_refused(self):
        file = self.record(training, batch=2).split(":", 1)[1]
        self.assert_refused(run("predict", f"batch=1:{file}", f"batch=2:{file}", "--to", "batch=16"), "same requests", "same file")

    def test_swapped_values_are_named(self):
        small, large = (self.record(training, batch=batch).split(":", 1)[1] for batch in (2, 8))
        self.assertIn("falls from", self.doubts([f"batch=8:{small}", f"batch=2:{large}"])["doubts"][0])

    def test_other_settings_than_the_largest_recording_had_are_named(self):
        recordings = [self.record(training, batch=batch) for batch in (1, 2, 4)]
        file = Path(recordings[0].split(":", 1)[1])
        document = pickle.loads(file.read_bytes())
        document["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "expandable_segments": True}
        file.write_bytes(pickle.dumps(document))
        self.assertIn("the recording at batch=1 ran with expandable_segments:True, and is replayed with PyTorch's defaults, "
                      "the settings of the one at batch=4", self.doubts(recordings)["doubts"])

    def test_one_step_lacks_the_optimizers_state(self):
        recordings = [self.record(training, batch=batch, steps=1).replace(",steps=1", "") for batch in (1, 2, 4)]
        self.assertTrue(any("one step at most" in doubt for doubt in self.doubts(recordings)["doubts"]))

    def test_the_range_is_as_wide_as_a_recording_is_missed(self):
        document = self.doubts([self.record(convolutions, batch=batch) for batch in (2, 4, 5)])
        missed = max(abs(row["peak_reserved_bytes"] / row["recorded_peak_reserved_bytes"] - 1) for row in document["leave_one_out"])
        self.assertGreater(missed, 0.5)
        self.assertTrue(any("a recording is missed by up to" in doubt for doubt in document["doubts"]), document["doubts"])
        prediction = document["predictions"][0]
        for bound in ("low", "high"):
            beyond = abs(prediction[f"peak_reserved_{bound}_bytes"] / prediction["peak_reserved_bytes"] - 1)
            self.assertGreaterEqual(beyond, missed, bound)

    def test_what_is_older_is_known_by_its_sizes(self):
        document = self.doubts([self.late(1), self.late(2)])
        self.assertTrue(any("began late" in doubt for doubt in document["doubts"]))
        self.assertEqual(document["predictions"][0]["peak_live_bytes"],
                         self.truth(self.late(16))["peak_live_bytes"])

    def test_what_one_recording_lacks_widens_the_range(self):
        gradients = 8 << 20
        prediction = self.doubts([self.late(1, kept=[gradients]), self.late(2)])["predictions"][0]
        self.assertGreaterEqual(prediction["peak_reserved_high_bytes"] - prediction["peak_reserved_bytes"], gradients)


class Refusals(Predicting):
    def test_what_is_wrong_is_said(self):
        one, two = self.record(training, batch=1), self.record(training, batch=2)
        for arguments, mention in ((["x.pickle", two, "--to", "batch=4"], "NAME=VALUE:FILE"),
                                   ([one, "--to", "batch=4"], "two or more"),
                                   ([one, one, "--to", "batch=4"], "batch=1"),
                                   ([one, two.replace("batch", "seq"), "--to", "batch=4"], "other parameters"),
                                   ([one, two, "--to", "seq=4"], "'seq'"),
                                   ([one, two, "--to", "batch=0"], "--to"),
                                   ([one, two, "--to", "batch=4,x"], "--to"),
                                   ([one, two], "--capacity"),
                                   ([one, two, "--capacity", "H101"], "H100-80GB"),
                                   ([one, two, "--to", "batch=4,8", "-o", self.directory / "x.reel"], "-o"),
                                   ([one, two, "--to", "batch=4", "--policy", "no.such"], "no.such"),
                                   ([one, "batch=2:" + str(self.directory / "missing"), "--to", "batch=4"], "missing")):
            self.assert_refused(run("predict", *arguments), mention)


SCALE = histories.SHARED / "scale"


@unittest.skipUnless((SCALE / "truth.jsonl").exists(), "no recordings at growing sizes")
class Recorded(Predicting):
    """Real programs at growing sizes: predictions from the three smallest for every larger one."""

    def test_predictions(self):
        truth = {}
        for line in (SCALE / "truth.jsonl").read_text().splitlines():
            run_ = json.loads(line)
            if run_["limit_gib"] is None and not run_["conf"]:
                truth.setdefault(run_["program"], {})[run_["x"]] = run_
        live, reserved, covered = [], [], []
        for program, sizes in truth.items():
            small, large = sorted(sizes)[:3], sorted(sizes)[3:]
            recordings = [f"x={x}:{SCALE / f'{program}-{x}.pickle.xz'}" for x in small]
            document = self.document("predict", *recordings, "--to", "x=" + ",".join(map(str, large)))
            for prediction in document["predictions"]:
                real = sizes[prediction["value"]]
                live.append(abs(prediction["peak_live_bytes"] / real["peak_requested"] - 1))
                reserved.append(abs(prediction["peak_reserved_bytes"] / real["peak_reserved"] - 1))
                covered.append(prediction["peak_reserved_low_bytes"] <= real["peak_reserved"]
                               <= prediction["peak_reserved_high_bytes"])
        self.assertLessEqual(sorted(live)[len(live) // 2], 0.005)
        self.assertLessEqual(sorted(reserved)[len(reserved) // 2], 0.01)
        self.assertLessEqual(sorted(reserved)[int(len(reserved) * 0.9)], 0.03)
        self.assertGreaterEqual(sum(covered) / len(covered), 0.95)

    def test_recordings_on_both_sides_of_a_choice_of_algorithms(self):
        """ResNet: cuDNN's choices between recordings are bounded by those on both sides, and the lines that make them are named."""
        for given, asked in (((4, 8, 48), (12, 16, 24, 32)), ((4, 12, 64), (8, 24, 48)), ((8, 16, 32), (12, 24))):
            document = self.document("predict", *(f"batch={x}:{SCALE / f'resnet_batch-{x}.pickle.xz'}" for x in given),
                                     "--to", "batch=" + ",".join(map(str, asked)))
            for prediction in document["predictions"]:
                with self.subTest(given=given, batch=prediction["value"]):
                    real = self.document("info", SCALE / f"resnet_batch-{prediction['value']}.pickle.xz")["devices"][0]["peak_reserved_bytes"]
                    low, high = prediction["peak_reserved_low_bytes"], prediction["peak_reserved_high_bytes"]
                    self.assertTrue(low <= real <= high)
                    self.assertLess(high - low, 0.8 * real, "not a range that holds anything")
                    lines = [frame["file"] for site in prediction["uncertain"] for frame in site["stack"]]
                    self.assertTrue(any(line.endswith("torchvision/models/resnet.py") for line in lines))
                    for site in prediction["uncertain"]:
                        self.assertLess(site["least_bytes"], site["most_bytes"])
        exact = self.document("predict", *(f"batch={x}:{SCALE / f'gpt_batch-{x}.pickle.xz'}" for x in (1, 2, 3)), "--to", "batch=6")
        self.assertEqual(exact["predictions"][0]["uncertain"], [])

    def test_what_grows_by_category(self):
        recordings = [f"batch={n}:{SCALE / f'gpt_batch-{n}.pickle.xz'}" for n in (1, 2, 3)]
        document = self.document("predict", *recordings, "--to", "batch=16")
        per_sample = {c["category"]: c["bytes_per_unit"] for c in document["predictions"][0]["categories"]}
        for constant in ("parameter", "optimizer_state"):
            self.assertEqual(per_sample[constant], 0)
        self.assertGreater(per_sample["activation"], 300 << 20)

    def test_the_trace_of_a_size_that_was_recorded(self):
        """Every step has as many requests, with 99 % of their bytes in requests of the same sizes. For ResNet, whose workspaces
        follow no function, this is true of a size that is one of those given."""
        for program, small, large in (("gpt_batch", (1, 2, 3), 6), ("gpt_batch", (1, 2, 3), 32), ("decode_batch", (1, 2, 4), 32),
                                      ("resnet_batch", (4, 8, 12), 8)):
            with self.subTest(program, large=large):
                trace = self.directory / "large.reel"
                self.answer("predict", *(f"x={x}:{SCALE / f'{program}-{x}.pickle.xz'}" for x in small), "--to", f"x={large}",
                            "-o", trace)
                made, real = (self.steps(file) for file in (trace, SCALE / f"{program}-{large}.pickle.xz"))
                self.assertEqual([len(step) for step in made], [len(step) for step in real])
                for ours, theirs in zip(made, real):
                    equal = collections.Counter(ours) & collections.Counter(theirs)
                    self.assertGreaterEqual(sum(size * count for size, count in equal.items()), 0.99 * sum(theirs))

    def steps(self, file):
        """Sizes of the requests of each step, including those before the first and after the last."""
        steps = [[]]
        for line in self.answer("export", file, "--format", "jsonl").stdout.splitlines():
            event = json.loads(line)
            if event["kind"] == "alloc":
                steps[-1].append(event["size"])
            elif event["kind"] == "mark" and event.get("mark") == "step":
                steps.append([])
        return steps


if __name__ == "__main__":
    unittest.main()
