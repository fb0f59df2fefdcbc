// The keys and constants of PyTorch memory snapshots, so that each distinct text is compared only once.
#pragma once

#include <cstdint>
#include <string_view>

namespace memreel::torch {

enum class SnapshotKey : std::uint8_t {
  not_looked_up = 0,  // the initial note of a text, see ValueArena::text_note()
  other,
  // root
  segments,
  device_traces,
  allocator_settings,
  external_annotations,
  host_segments,
  host_traces,
  device_type,
  pytorch_release,
  // segments and blocks
  address,
  blocks,
  device,
  frames,
  history,
  is_expandable,
  real_size,
  requested_size,
  segment_pool_id,
  segment_type,
  size,
  state,
  stream,
  total_size,
  active_allocated,
  active_awaiting_free,
  active_pending_free,
  small,
  // trace entries
  action,
  addr,
  compile_context,
  device_free,
  pool_id,
  time_us,
  user_metadata,
  alloc,
  annotate,
  free_completed,
  free_requested,
  oom,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  user_defined,
  // frames
  filename,
  line,
  name,
  // annotations
  stage,
  start,
  end,
  // settings
  roundup_power2_divisions,
  trace_alloc_max_entries,
  trace_alloc_overflowed,
};

/// `other` when the text is none of the above.
SnapshotKey key_of(std::string_view text);

}  // namespace memreel::torch
