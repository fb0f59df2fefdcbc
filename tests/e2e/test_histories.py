# SPDX-License-Identifier: Apache-2.0
"""What real allocators did, and memreel's results for it. One test per history, named after its file."""

import unittest

import histories
from program import ProgramTest

# Recorded under the default settings: without any parameters, the policy reserves what PyTorch did.
DEFAULT = ("decode_default", "gpt_default", "streams_default", "oom_default", "threads", "leak", "random_2m", "ddp_rank0",
           "ddp_rank1", "two_gpus")
# Every address reproduced under the settings that they were recorded with.
EXACT = DEFAULT + ("gpt_maxsplit", "gpt_pow2", "gpt_expandable", "resnet_expandable", "streams_expandable",
                   "oom_expandable", "mempool", "mempool_expandable", "graphs_default", "graphs_expandable", "oom_gc",
                   "oom_maxsplit", "random_pow2_split", "resnet_gc", "jax_oom_growth", "jax_oom_fraction", "jax_crowded",
                   "captures_s63_default", "captures_s64_expandable", "capture_streams_s71_default",
                   "mempools_s82_default", "mempools_s83_expandable", "borrow_s91_expandable", "pressure_s2_gc",
                   "pressure_s7_expandable_maxsplit", "oom_s12_expandable_gc", "oom_s14_nonsplit",
                   "streams_s32_expandable_pow2", "convnet_s2_default", "convnet_s2_pow2", "mempools_s93428_segment",
                   "mixed_s5952_maxsplit_gc", "mixed_s23877_maxsplit_gc", "mixed_s70637_expandable",
                   "mixed_s7792_expandable_gc", "peers_s80731_gc")
BYTES_PER_EVENT = {"decode_default": 4, "gpt_default": 4, "random_2m": 7}
# How truth.json and the trace name what PyTorch's recorder calls "oom".
RENAMED = {"oom": "alloc_failed"}


class Histories(ProgramTest):
    def check(self, name):
        history = histories.path(name)
        if history is None:
            self.skipTest(f"{name} is not in {histories.IN_USE}")
        truth = histories.TRUTH[name]["devices"]
        trace = self.directory / "trace.reel"
        if history.suffix == ".reel":
            trace.symlink_to(history)
        else:
            self.answer("import", history, "-o", trace)

        info = self.document("info", trace)
        for action in {action for device in truth.values() for action in device["actions"]}:
            recorded = sum(device["actions"].get(action, 0) for device in truth.values())
            self.assertEqual(info["kinds"][RENAMED.get(action, action)], recorded, action)
        # JAX profiles only record the number of failed requests.
        self.assertEqual(info["lost_events"], histories.TRUTH[name].get("failures", 0))
        if name in BYTES_PER_EVENT:
            self.assertLessEqual(info["bytes_per_event"], BYTES_PER_EVENT[name])

        if name in EXACT:
            self.check_exactness(trace, truth)
        if name in DEFAULT:
            self.check_replay(trace, truth)

    def check_exactness(self, trace, truth):
        verification = self.document("verify", trace)
        self.assertIs(verification["exact"], True)
        self.assertEqual({str(device["device"]) for device in verification["devices"]}, set(truth))
        for device in verification["devices"]:
            recorded = truth[str(device["device"])]
            self.assertEqual(device["allocations"], recorded["actions"]["alloc"])
            self.assertEqual(device["address_matches"], device["allocations"])
            segment_events = sum(count for action, count in recorded["actions"].items() if action.startswith("segment_"))
            self.assertEqual(device["segment_events"], segment_events)
            self.assertEqual(device["segment_matches"], segment_events)
            self.assertEqual(device["peak_reserved_bytes"], recorded["peak_reserved_bytes"])
            self.assertEqual(device["recorded_peak_reserved_bytes"], recorded["peak_reserved_bytes"])

    def check_replay(self, trace, truth):
        replay = self.document("replay", trace, "--policy", "torch.native,bound.live")
        peaks = {policy["policy"]: policy for policy in replay["policies"]}
        for policy in peaks.values():
            for device in policy["devices"]:
                recorded = truth[str(device["device"])]
                self.assertEqual(device["peak_live_bytes"], recorded["peak_requested_live_bytes"])
        for device in peaks["torch.native"]["devices"]:
            recorded = truth[str(device["device"])]
            self.assertEqual(device["peak_reserved_bytes"], recorded["peak_reserved_bytes"])
            self.assertEqual(device["end_reserved_bytes"], recorded["end_reserved_bytes"])


for history in histories.TRUTH:
    setattr(Histories, f"test_{history}", lambda self, name=history: self.check(name))

if __name__ == "__main__":
    unittest.main()
