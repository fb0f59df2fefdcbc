// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/whole_trace.h"

#include "formats/model/files.h"

namespace memreel::viewer {

std::shared_ptr<const Result<Trace>> WholeTrace::known() {
  const std::lock_guard lock(mutex_);
  auto trace = held_ ? held_ : lent_.lock();
  lent_ = trace;
  return trace;
}

std::shared_ptr<const Result<Trace>> WholeTrace::get() {
  const std::lock_guard loading(loading_);
  if (auto trace = known()) return trace;
  const auto trace = std::make_shared<const Result<Trace>>(load_());
  const std::lock_guard lock(mutex_);
  held_ = trace;
  lent_ = trace;
  return trace;
}

std::shared_ptr<const Categories> WholeTrace::categories(const Trace& trace, const std::function<bool()>& cancelled) {
  const std::lock_guard classifying(classifying_);
  if (cancelled()) return nullptr;
  // A file that has grown may have been loaded again.
  if (auto known = lent_categories_.lock(); known && known->evidence.size() == trace.events.allocation_count())
    return known;
  auto categories = std::make_shared<const Categories>(classify(trace, cancelled));
  if (cancelled()) return nullptr;  // they are incomplete
  lent_categories_ = categories;
  return categories;
}

Result<void> WholeTrace::check_memory(const Trace& trace) const {
  /// The most that classifying takes for an event, besides the trace itself.
  constexpr std::uint64_t bytes_per_event = 64;
  if (Bytes{trace.events.count() * bytes_per_event} <= memory_limit_) return {};
  return over_memory_limit("the trace", "has categories that need more than", memory_limit_);
}

void WholeTrace::release() {
  std::shared_ptr<const Result<Trace>> released;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  released.swap(held_);
}

}  // namespace memreel::viewer
