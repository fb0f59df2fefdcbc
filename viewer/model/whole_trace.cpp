// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/whole_trace.h"

#include "formats/model/files.h"

namespace memreel::viewer {

std::shared_ptr<const Activity> WholeTrace::activity() {
  const std::lock_guard following(following_);
  if (auto known = lent_activity_.lock()) return known;
  auto activity = std::make_shared<const Activity>(find_activity(*trace_));
  lent_activity_ = activity;
  return activity;
}

std::shared_ptr<const Categories> WholeTrace::categories(const std::function<bool()>& cancelled) {
  const std::lock_guard classifying(classifying_);
  if (cancelled()) return nullptr;
  if (auto known = lent_categories_.lock()) return known;
  auto categories = std::make_shared<const Categories>(classify(*trace_, lifetimes(*trace_), activity(), cancelled));
  if (cancelled()) return nullptr;  // they are incomplete
  lent_categories_ = categories;
  return categories;
}

Result<void> WholeTrace::check_memory() const {
  /// The most that classifying takes for an event, besides the trace itself.
  constexpr std::uint64_t bytes_per_event = 64;
  if (Bytes{trace_->events.count() * bytes_per_event} <= memory_limit_) return {};
  return over_memory_limit("the trace", "has categories that need more than", memory_limit_);
}

}  // namespace memreel::viewer
