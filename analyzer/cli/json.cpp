// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/json.h"

#include <iostream>

#include "formats/model/folded_peak.h"
#include "formats/model/stack_text.h"
#include "formats/model/trace.h"

namespace memreel::cli {

void print_json(const Json& document) { print_json(document, std::cout); }

void print_json(const Json& document, std::ostream& out) {
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

std::string one_line(const Json& part) { return part.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json json_of_stack(const Tables& tables, StackId stack) {
  Json frames = Json::array();
  for (const FrameText& frame : frames_of(tables, stack)) {
    frames.push_back({{"function", frame.function}, {"file", frame.file}, {"line", frame.line}});
  }
  return frames;
}

Json json_of_losses(const Trace& trace) { return json_of_losses(trace.header, trace.losses, trace.read); }

Json json_of_losses(const Header& header, const Losses& losses, const ReadReport& read) {
  Json skipped = Json::array();
  for (std::size_t i = 0; i < event_kind_count; ++i)
    if (const auto kind = static_cast<EventKind>(i); losses.skipped.contains(kind)) skipped.push_back(name_of(kind));
  return {{"ring_full", losses.ring_full},
          {"stack_table_full", losses.stack_table_full},
          {"hook_refused", losses.hook_refused},
          {"unknown_actions", losses.unknown_actions},
          {"unmatched_frees", losses.unmatched_frees},
          {"preexisting_allocations", losses.preexisting_allocations},
          {"began_late", losses.began_late},
          {"history_overflowed", losses.history_overflowed},
          {"skipped", std::move(skipped)},
          {"folded_events", losses.folded_events},
          {"folded_until_ns", losses.folded_until.count()},
          {"folded_left_out", losses.folded_left_out},
          {"damaged_packets", read.damaged_packets},
          {"damaged_bytes", read.damaged_bytes},
          {"truncated_bytes", read.truncated_bytes},
          {"unknown_packets", read.unknown_packets},
          {"unknown_events", read.unknown_events},
          {"synthetic", is_synthetic(header)}};
}

Json json_of_failure(const ReplayFailure* failure) {
  if (failure == nullptr) return nullptr;
  return {{"event", failure->event},
          {"requested_bytes", failure->requested.count},
          {"live_bytes", failure->live.count},
          {"reserved_bytes", failure->reserved.count},
          {"capacity_bytes", failure->capacity.count},
          {"free_bytes", failure->free.count},
          {"largest_free_bytes", failure->largest_free.count}};
}

Json json_of(const Cell& cell) {
  return std::visit(
      [](const auto& value) -> Json {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::monostate>)
          return nullptr;
        else if constexpr (std::is_same_v<Value, Bytes>)
          return value.count;
        else
          return value;
      },
      cell);
}

Json json_of_folded_peak(const Trace& trace, HeapId heap) {
  const Bytes peak = folded_peak(trace.folded, heap);
  return peak > 0_B ? Json(peak.count) : Json(nullptr);
}

Json json_of_calls(const DriverCalls& calls) {
  return {{"malloc", calls.malloc},
          {"free", calls.free},
          {"map", calls.map},
          {"unmap", calls.unmap},
          {"sync", calls.sync},
          {"malloc_async", calls.malloc_async},
          {"free_async", calls.free_async},
          {"malloc_shared", calls.malloc_shared},
          {"free_shared", calls.free_shared}};
}

}  // namespace memreel::cli
