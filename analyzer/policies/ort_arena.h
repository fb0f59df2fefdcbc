// ort.arena{extend=power_of_two}: the arena of ONNX Runtime, a descendant of TensorFlow's allocator.
//
// Source: onnxruntime/core/framework/bfc_arena.{h,cc}; tested against ONNX Runtime 1.20 to 1.32 (docs/policies.md). The
// rules are those of bfc.h, except for how regions are sized. ONNX Runtime's names of parameters are in parentheses.
// - power_of_two (arena_extend_strategy): the first region has `first` bytes (initial_chunk_size_bytes); then as in
//   tf.bfc, but the size doubles before the device is asked, whatever it answers. Once half of `largest`
//   (max_power_of_two_extend_bytes; none: before 1.16) is reached, the size becomes `largest`, also after a larger
//   request. A device that refuses is not asked for less than 8 KiB.
// - same_as_requested: a region as large as the request.
// - `largest_rest` (max_dead_bytes_per_chunk): a remainder of this size is always split off.
// - `max_mem`: total of all regions, whatever the device has.
// - empty_cache stands for the arena's shrinkage, which programs request at the end of a run: unused regions are
//   released, except the first one under power_of_two, and sizes restart at `regrowth`
//   (initial_growth_chunk_size_bytes).
//
// Not modelled: free chunks that belong to a stream, and reservations outside the arena.
#pragma once

#include "analyzer/engine/policy_entry.h"

namespace memreel {

PolicyEntry ort_arena_entry();

}  // namespace memreel
