// ort.arena{extend=power_of_two}: the arena of ONNX Runtime, a descendant of TensorFlow's allocator.
//
// Source: onnxruntime/core/framework/bfc_arena.{h,cc}. The rules are those of bfc.h, but for how regions are sized:
// - power_of_two: the first region has `first` bytes (1 MiB); afterwards as tf.bfc, but the size doubles before the
// device
//   is asked, whatever it answers, and where it has `largest` bytes (1 GiB, since 1.16) or more, after a larger
//   request, it becomes `largest`. A device that refuses is not asked for less than 8 KiB.
// - same_as_requested: a region as large as the request.
// - `largest_rest` (max_dead_bytes_per_chunk): a rest of this size is always split off.
// - empty_cache stands for the arena's shrinkage, which programs ask for at the end of a run: regions of which nothing
//   is used are given back, but not the first one under power_of_two, and sizes begin again at 2 MiB.
//
// Not modelled: free chunks that belong to a stream, and reservations outside the arena.
#pragma once

#include "analyzer/engine/policy_entry.h"

namespace memreel {

PolicyEntry ort_arena_entry();

}  // namespace memreel
