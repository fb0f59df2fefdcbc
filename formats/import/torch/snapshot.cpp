// SPDX-License-Identifier: Apache-2.0
#include "formats/import/torch/snapshot.h"

#include <algorithm>

namespace memreel::torch {

PoolStreamId PoolStreams::look_up(const PoolStream& pool_stream) {
  const auto [found, is_new] = ids_.try_emplace(pool_stream, static_cast<PoolStreamId>(pool_streams_.size()));
  if (is_new) pool_streams_.push_back(pool_stream);
  return found->second;
}

std::size_t PoolStreams::Hash::operator()(const PoolStream& pool_stream) const {
  constexpr std::uint64_t odd = 0x9E37'79B9'7F4A'7C15;  // 2^64 / golden ratio
  std::uint64_t hash = pool_stream.stream * odd;
  if (pool_stream.pool) hash = ((hash ^ pool_stream.pool->high) * odd ^ (pool_stream.pool->low + 1)) * odd;
  return hash ^ hash >> 32U;
}

namespace {

using Spelling = std::pair<std::string_view, SnapshotKey>;

constexpr auto sorted_words = [] {
  std::array words{
      Spelling{"segments", SnapshotKey::segments},
      Spelling{"device_traces", SnapshotKey::device_traces},
      Spelling{"allocator_settings", SnapshotKey::allocator_settings},
      Spelling{"external_annotations", SnapshotKey::external_annotations},
      Spelling{"host_segments", SnapshotKey::host_segments},
      Spelling{"host_traces", SnapshotKey::host_traces},
      Spelling{"device_type", SnapshotKey::device_type},
      Spelling{"pytorch_release", SnapshotKey::pytorch_release},
      Spelling{"memreel_holders", SnapshotKey::memreel_holders},
      Spelling{"address", SnapshotKey::address},
      Spelling{"blocks", SnapshotKey::blocks},
      Spelling{"device", SnapshotKey::device},
      Spelling{"frames", SnapshotKey::frames},
      Spelling{"history", SnapshotKey::history},
      Spelling{"is_expandable", SnapshotKey::is_expandable},
      Spelling{"real_size", SnapshotKey::real_size},
      Spelling{"requested_size", SnapshotKey::requested_size},
      Spelling{"segment_pool_id", SnapshotKey::segment_pool_id},
      Spelling{"segment_type", SnapshotKey::segment_type},
      Spelling{"size", SnapshotKey::size},
      Spelling{"state", SnapshotKey::state},
      Spelling{"stream", SnapshotKey::stream},
      Spelling{"total_size", SnapshotKey::total_size},
      Spelling{"active_allocated", SnapshotKey::active_allocated},
      Spelling{"active_awaiting_free", SnapshotKey::active_awaiting_free},
      Spelling{"active_pending_free", SnapshotKey::active_pending_free},
      Spelling{"small", SnapshotKey::small},
      Spelling{"action", SnapshotKey::action},
      Spelling{"addr", SnapshotKey::addr},
      Spelling{"compile_context", SnapshotKey::compile_context},
      Spelling{"device_free", SnapshotKey::device_free},
      Spelling{"memreel_free_unknown", SnapshotKey::memreel_free_unknown},
      Spelling{"pool_id", SnapshotKey::pool_id},
      Spelling{"time_us", SnapshotKey::time_us},
      Spelling{"user_metadata", SnapshotKey::user_metadata},
      Spelling{"alloc", SnapshotKey::alloc},
      Spelling{"annotate", SnapshotKey::annotate},
      Spelling{"free_completed", SnapshotKey::free_completed},
      Spelling{"free_requested", SnapshotKey::free_requested},
      Spelling{"oom", SnapshotKey::oom},
      Spelling{"segment_alloc", SnapshotKey::segment_alloc},
      Spelling{"segment_free", SnapshotKey::segment_free},
      Spelling{"segment_map", SnapshotKey::segment_map},
      Spelling{"segment_unmap", SnapshotKey::segment_unmap},
      Spelling{"snapshot", SnapshotKey::snapshot},
      Spelling{"user_defined", SnapshotKey::user_defined},
      Spelling{"filename", SnapshotKey::filename},
      Spelling{"line", SnapshotKey::line},
      Spelling{"name", SnapshotKey::name},
      Spelling{"stage", SnapshotKey::stage},
      Spelling{"START", SnapshotKey::start},
      Spelling{"END", SnapshotKey::end},
      Spelling{"roundup_power2_divisions", SnapshotKey::roundup_power2_divisions},
      Spelling{"trace_alloc_max_entries", SnapshotKey::trace_alloc_max_entries},
      Spelling{"trace_alloc_overflowed", SnapshotKey::trace_alloc_overflowed},
  };
  std::sort(words.begin(), words.end());
  return words;
}();

}  // namespace

SnapshotKey key_of(std::string_view text) {
  const auto found =
      std::lower_bound(sorted_words.begin(), sorted_words.end(), text,
                       [](const Spelling& entry, std::string_view wanted) { return entry.first < wanted; });
  return found != sorted_words.end() && found->first == text ? found->second : SnapshotKey::other;
}

}  // namespace memreel::torch
