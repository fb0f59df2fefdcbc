#include "formats/import/torch/words.h"

#include <algorithm>
#include <array>
#include <utility>

namespace memreel::torch {
namespace {

using Entry = std::pair<std::string_view, Word>;

constexpr auto sorted_words = [] {
  std::array words{
      Entry{"segments", Word::segments},
      Entry{"device_traces", Word::device_traces},
      Entry{"allocator_settings", Word::allocator_settings},
      Entry{"external_annotations", Word::external_annotations},
      Entry{"address", Word::address},
      Entry{"blocks", Word::blocks},
      Entry{"device", Word::device},
      Entry{"frames", Word::frames},
      Entry{"history", Word::history},
      Entry{"is_expandable", Word::is_expandable},
      Entry{"real_size", Word::real_size},
      Entry{"requested_size", Word::requested_size},
      Entry{"segment_pool_id", Word::segment_pool_id},
      Entry{"size", Word::size},
      Entry{"state", Word::state},
      Entry{"stream", Word::stream},
      Entry{"total_size", Word::total_size},
      Entry{"active_allocated", Word::active_allocated},
      Entry{"active_awaiting_free", Word::active_awaiting_free},
      Entry{"active_pending_free", Word::active_pending_free},
      Entry{"action", Word::action},
      Entry{"addr", Word::addr},
      Entry{"device_free", Word::device_free},
      Entry{"pool_id", Word::pool_id},
      Entry{"time_us", Word::time_us},
      Entry{"user_metadata", Word::user_metadata},
      Entry{"alloc", Word::alloc},
      Entry{"annotate", Word::annotate},
      Entry{"free_completed", Word::free_completed},
      Entry{"free_requested", Word::free_requested},
      Entry{"oom", Word::oom},
      Entry{"segment_alloc", Word::segment_alloc},
      Entry{"segment_free", Word::segment_free},
      Entry{"segment_map", Word::segment_map},
      Entry{"segment_unmap", Word::segment_unmap},
      Entry{"snapshot", Word::snapshot},
      Entry{"user_defined", Word::user_defined},
      Entry{"filename", Word::filename},
      Entry{"line", Word::line},
      Entry{"name", Word::name},
      Entry{"stage", Word::stage},
      Entry{"START", Word::start},
      Entry{"END", Word::end},
      Entry{"roundup_power2_divisions", Word::roundup_power2_divisions},
      Entry{"trace_alloc_max_entries", Word::trace_alloc_max_entries},
      Entry{"trace_alloc_overflowed", Word::trace_alloc_overflowed},
  };
  std::sort(words.begin(), words.end());
  return words;
}();

}  // namespace

Word word_of(std::string_view text) {
  const auto found = std::lower_bound(sorted_words.begin(), sorted_words.end(), text,
                                      [](const Entry& entry, std::string_view wanted) { return entry.first < wanted; });
  return found != sorted_words.end() && found->first == text ? found->second : Word::other;
}

}  // namespace memreel::torch
