#include "formats/import/torch/words.h"

#include <algorithm>
#include <array>
#include <utility>

namespace memreel::torch {
namespace {

using Spelling = std::pair<std::string_view, Word>;

constexpr auto sorted_words = [] {
  std::array words{
      Spelling{"segments", Word::segments},
      Spelling{"device_traces", Word::device_traces},
      Spelling{"allocator_settings", Word::allocator_settings},
      Spelling{"external_annotations", Word::external_annotations},
      Spelling{"host_segments", Word::host_segments},
      Spelling{"host_traces", Word::host_traces},
      Spelling{"device_type", Word::device_type},
      Spelling{"pytorch_release", Word::pytorch_release},
      Spelling{"address", Word::address},
      Spelling{"blocks", Word::blocks},
      Spelling{"device", Word::device},
      Spelling{"frames", Word::frames},
      Spelling{"history", Word::history},
      Spelling{"is_expandable", Word::is_expandable},
      Spelling{"real_size", Word::real_size},
      Spelling{"requested_size", Word::requested_size},
      Spelling{"segment_pool_id", Word::segment_pool_id},
      Spelling{"size", Word::size},
      Spelling{"state", Word::state},
      Spelling{"stream", Word::stream},
      Spelling{"total_size", Word::total_size},
      Spelling{"active_allocated", Word::active_allocated},
      Spelling{"active_awaiting_free", Word::active_awaiting_free},
      Spelling{"active_pending_free", Word::active_pending_free},
      Spelling{"action", Word::action},
      Spelling{"addr", Word::addr},
      Spelling{"compile_context", Word::compile_context},
      Spelling{"device_free", Word::device_free},
      Spelling{"pool_id", Word::pool_id},
      Spelling{"time_us", Word::time_us},
      Spelling{"user_metadata", Word::user_metadata},
      Spelling{"alloc", Word::alloc},
      Spelling{"annotate", Word::annotate},
      Spelling{"free_completed", Word::free_completed},
      Spelling{"free_requested", Word::free_requested},
      Spelling{"oom", Word::oom},
      Spelling{"segment_alloc", Word::segment_alloc},
      Spelling{"segment_free", Word::segment_free},
      Spelling{"segment_map", Word::segment_map},
      Spelling{"segment_unmap", Word::segment_unmap},
      Spelling{"snapshot", Word::snapshot},
      Spelling{"user_defined", Word::user_defined},
      Spelling{"filename", Word::filename},
      Spelling{"line", Word::line},
      Spelling{"name", Word::name},
      Spelling{"stage", Word::stage},
      Spelling{"START", Word::start},
      Spelling{"END", Word::end},
      Spelling{"roundup_power2_divisions", Word::roundup_power2_divisions},
      Spelling{"trace_alloc_max_entries", Word::trace_alloc_max_entries},
      Spelling{"trace_alloc_overflowed", Word::trace_alloc_overflowed},
  };
  std::sort(words.begin(), words.end());
  return words;
}();

}  // namespace

Word word_of(std::string_view text) {
  const auto found =
      std::lower_bound(sorted_words.begin(), sorted_words.end(), text,
                       [](const Spelling& entry, std::string_view wanted) { return entry.first < wanted; });
  return found != sorted_words.end() && found->first == text ? found->second : Word::other;
}

}  // namespace memreel::torch
