// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/completed_trace.h"

#include <algorithm>
#include <utility>

#include "analyzer/replay/restated_heaps.h"
#include "analyzer/replay/torch_rules.h"

namespace memreel {

std::size_t complete_trace(Trace& trace) {
  if (trace.initial_heaps.empty()) trace.initial_heaps = restated_heaps(trace);
  const std::size_t tied = tie_levels(trace);
  return tied + infer_torch_calls(trace);
}

bool may_be_completed(const Header& header, const Tables& tables) {
  return std::ranges::any_of(tables.heaps, [&](const Heap& framework) {
    if (framework.level != Level::framework) return false;
    if (is_recording(header) && framework.observes_completion) return true;
    return std::ranges::any_of(tables.heaps, [&](const Heap& driver) {
      return driver.level == Level::driver && driver.device == framework.device && driver.device >= 0;
    });
  });
}

void CompletedStream::see(const EventColumns& events) {
  ties_.see(events, seen_);
  seen_ += static_cast<std::uint32_t>(events.count());
}

bool CompletedStream::end_first_pass(const Header& header, const Tables& tables) {
  tied_levels_ = std::move(ties_).finish();
  if (!may_be_completed(header, tables)) return false;
  tables_ = tables;
  if (is_recording(header)) finder_.emplace(tables_);
  seen_ = 0;
  return tied_levels_.count() > 0 || (finder_ && finder_->possible());
}

void CompletedStream::see_again(const EventColumns& events) {
  for (std::size_t i = 0; i < events.count(); ++i) {
    Event event = events[i];
    if (!tied_levels_.rewrite(event, seen_++, tables_)) continue;
    if (finder_) finder_->see(event, tied_);
    ++tied_;
  }
}

void CompletedStream::end_second_pass() {
  if (finder_) calls_ = std::move(*finder_).find();
  finder_.reset();
}

const EventColumns& CompletedStream::Pass::next(const EventColumns& events) {
  out_.clear();
  const std::vector<TorchCall>& calls = subject_->calls_;
  for (std::size_t i = 0; i < events.count(); ++i) {
    Event event = events[i];
    if (!subject_->tied_levels_.rewrite_again(event, seen_++)) continue;
    for (; call_ < calls.size() && calls[call_].before == tied_; ++call_)
      out_.push_back(
          {.kind = calls[call_].kind, .origin = calls[call_].origin, .stack = event.stack, .time = event.time});
    out_.push_back(event);
    ++tied_;
  }
  return out_;
}

}  // namespace memreel
