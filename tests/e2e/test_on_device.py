# SPDX-License-Identifier: Apache-2.0
"""Replays on a GPU that is simulated by tests/unit/device/fake_libcuda.cpp: no GPU is needed."""

import json
import os
import unittest

from program import REPOSITORY, SAMPLES, ProgramTest, run

SAMPLE = SAMPLES / "gpt_default.reel"
FAKE = os.environ.get("MEMREEL_FAKE_LIBCUDA", str(REPOSITORY / "build/release/lib/libfake_libcuda.so"))
COSTS = REPOSITORY / "samples/unit-costs-h200.json"
SPECS = "cuda.malloc,cuda.async{release_threshold=max},torch.native,fit.best"


class OnDevice(ProgramTest):
    def setUp(self):
        super().setUp()
        self.set("MEMREEL_LIBCUDA", FAKE)

    def set(self, name, value):
        before = os.environ.get(name)
        os.environ[name] = value
        self.addCleanup(lambda: os.environ.pop(name) if before is None else os.environ.__setitem__(name, before))

    def test_what_ran_stands_beside_the_model(self):
        replay = self.document("replay", SAMPLE, "--on-device", SPECS)
        self.assertEqual([p["policy"] for p in replay["policies"]], ["cuda.malloc", "cuda.async", "torch.native", "fit.best"])
        self.assertEqual([p["policy"] for p in replay["on_device"]], ["cuda.malloc", "cuda.async", "torch.native", "fit.best"])
        for model, real in zip(replay["policies"], replay["on_device"]):
            with self.subTest(real["policy"]):
                self.assertEqual(set(real), set(model["devices"][0]) | {
                    "gpu", "cuda_version", "device_peak_bytes", "measured_calls", "measured_driver_seconds",
                    "model_peak_reserved_bytes", "model_difference"})
                self.assertEqual(real["gpu"], "Fake GPU")
                self.assertEqual(real["model_peak_reserved_bytes"], model["peak_reserved_bytes"])
                self.assertEqual(real["peak_live_bytes"], model["peak_live_bytes"])
        torch = replay["on_device"][2]
        self.assertEqual(torch["model_difference"], 0)
        self.assertEqual(torch["measured_calls"]["malloc"]["calls"], torch["driver_calls"]["malloc"])

    def test_other_policies_are_only_modelled(self):
        replay = self.document("replay", SAMPLE, "--policy", "bound.live", "--on-device", "cuda.async")
        self.assertEqual([p["policy"] for p in replay["policies"]], ["bound.live", "cuda.async"])
        self.assertEqual(len(replay["on_device"]), 1)
        self.assertNotIn("on_device", self.document("replay", SAMPLE, "--policy", "bound.live"))

    def test_text(self):
        text = self.answer("replay", SAMPLE, "--on-device", SPECS, "--segments-by", "map").stdout
        self.assertIn("On Fake GPU, CUDA 12.4", text)
        for spec in SPECS.split(","):
            self.assertIn(spec, text)

    def test_unit_costs(self):
        file = self.directory / "costs.json"
        self.answer("replay", SAMPLE, "--policy", "bound.live", "--write-unit-costs", file)
        costs = json.loads(file.read_text())
        self.assertEqual(costs["schema"], "memreel.unit-costs/1")
        self.assertEqual(costs["measured_on"], "Fake GPU, CUDA 12.4")
        self.assertEqual(costs["calls"].keys(), json.loads(COSTS.read_text())["calls"].keys())
        for policy in self.document("replay", SAMPLE, "--unit-costs", file)["policies"]:
            self.assertGreaterEqual(policy["driver_seconds"], 0)

    def test_refusals(self):
        self.assert_refused(run("replay", SAMPLE, "--on-device", "cuda.malloc", "--gpu", "4"), "no GPU 4")
        self.assert_refused(run("replay", SAMPLE, "--on-device", "bound.live"), "bound.live")
        self.assert_refused(run("replay", SAMPLE, "--on-device", "cuda.async{size=1}"), "cuda.async", "release_threshold")
        self.assert_refused(run("replay", SAMPLE, "--on-device", "cuda.malloc", "--segments-by", "magic"), "magic")
        self.set("FAKE_CUDA_BROKEN", "cuMemAlloc_v2")
        self.assert_refused(run("replay", SAMPLE, "--on-device", "cuda.malloc"), "cuMemAlloc failed", "719")
        self.set("MEMREEL_LIBCUDA", str(self.directory / "libcuda.so.1"))
        self.assert_refused(run("replay", SAMPLE, "--on-device", "cuda.malloc"), "no GPU driver", "MEMREEL_LIBCUDA")


class UnitCosts(ProgramTest):
    def test_the_sample_prices_every_policy(self):
        replay = self.document("replay", SAMPLE, "--policy", "cuda.malloc,cuda.async,torch.native", "--unit-costs", COSTS)
        malloc, pool, torch = (p["driver_seconds"] for p in replay["policies"])
        self.assertGreater(malloc, pool)
        self.assertGreater(pool, torch)
        self.assertIn("driver time", self.answer("replay", SAMPLE, "--unit-costs", COSTS).stdout)

    def test_bad_files(self):
        for content in (b"", b"[]", b'{"schema":"memreel.unit-costs/1"}', b'{"schema":"memreel.replay/1","calls":{}}',
                        b'{"schema":"memreel.unit-costs/1","calls":{"teleport":{}}}',
                        b'{"schema":"memreel.unit-costs/1","calls":{"map":{"fixed_seconds":-1}}}',
                        b'{"schema":"memreel.unit-costs/1","calls":{"map":{"fixed_seconds":"much"}}}',
                        b'{"schema":"memreel.unit-costs/1","calls":{"map":3}}', b"\x00" * 100):
            with self.subTest(content):
                file = self.file("costs.json", content)
                self.assert_refused(run("replay", SAMPLE, "--unit-costs", file), file)
        self.assert_refused(run("replay", SAMPLE, "--unit-costs", self.directory / "absent.json"), "absent.json")


if __name__ == "__main__":
    unittest.main()
