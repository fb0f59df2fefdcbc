// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/tune/tune.h"

#include <algorithm>

#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/replay.h"

namespace memreel {
namespace {

Error not_a_question(std::string_view text) {
  return {
      .what = "unknown question '" + std::string(text) + "'",
      .where = "--what-if",
      .remedy =
          "available: empty_cache@step, empty_cache@every:10 (steps), empty_cache@every:5000events, empty_cache@oom, "
          "no-empty_cache, or a policy such as pool.exact"};
}

void copy_row(const Prepared& from, std::size_t row, Prepared& to) {
  to.op.push_back(from.op[row]);
  to.slot.push_back(from.slot[row]);
  to.pool_stream.push_back(from.pool_stream[row]);
  to.size.push_back(from.size[row]);
  to.event.push_back(from.event[row]);
}

void add_empty_cache(std::uint32_t event, Prepared& to) {
  to.op.push_back(Op::empty_cache);
  to.slot.push_back(0);
  to.pool_stream.push_back(0);
  to.size.emplace_back();
  to.event.push_back(event);
}

/// A heap without its operations.
Prepared frame_of(const Prepared& heap) {
  Prepared frame{.heap = heap.heap,
                 .device = heap.device,
                 .level = heap.level,
                 .pooled = heap.pooled,
                 .pool_streams = heap.pool_streams,
                 .slot_count = heap.slot_count,
                 .segments = heap.segments,
                 .settings = heap.settings,
                 .initial = heap.initial,
                 .implied_capacity = heap.implied_capacity};
  return frame;
}

}  // namespace

Result<WhatIf> parse_what_if(std::string_view text) {
  constexpr std::string_view call = "empty_cache@", every = "every:", events = "events";
  WhatIf question{.text = std::string(text)};
  if (text == "no-empty_cache") {
    question.kind = WhatIf::Kind::no_empty_cache;
    return question;
  }
  if (!text.starts_with(call)) {
    auto specs = parse_policies(text);
    if (!specs || specs->size() != 1) return not_a_question(text);
    const std::string& name = specs->front().name;  // with a slash: a shared library
    const auto is_named = [&](const PolicyInfo& policy) { return policy.name == name; };
    if (name.find('/') == std::string::npos && std::ranges::none_of(policies(), is_named)) return not_a_question(text);
    question.kind = WhatIf::Kind::policy;
    question.policy = std::move(specs->front());
    return question;
  }
  std::string_view where = text.substr(call.size());
  if (where == "step") return question;
  if (where == "oom") {
    question.kind = WhatIf::Kind::empty_cache_at_oom;
    return question;
  }
  if (!where.starts_with(every)) return not_a_question(text);
  where.remove_prefix(every.size());
  if (where.ends_with(events)) {
    where.remove_suffix(events.size());
    question.kind = WhatIf::Kind::empty_cache_at_events;
  }
  const auto count = parse_integer(where);
  if (!count || *count == 0) return not_a_question(text);
  question.every = *count;
  return question;
}

Prepared with_empty_cache(const Prepared& heap, std::span<const std::uint32_t> rows) {
  Prepared result = frame_of(heap);
  std::size_t next_call = 0, next_step = 0;
  for (std::size_t row = 0; row <= heap.count(); ++row) {
    for (; next_call < rows.size() && rows[next_call] == row; ++next_call)
      add_empty_cache(row < heap.count() ? heap.event[row] : heap.event.back(), result);
    for (; next_step < heap.step_ends.size() && heap.step_ends[next_step] == row; ++next_step)
      result.step_ends.push_back(static_cast<std::uint32_t>(result.count()));
    if (row < heap.count()) copy_row(heap, row, result);
  }
  return result;
}

Prepared without_empty_cache(const Prepared& heap) {
  Prepared result = frame_of(heap);
  std::size_t next_step = 0;
  for (std::size_t row = 0; row <= heap.count(); ++row) {
    for (; next_step < heap.step_ends.size() && heap.step_ends[next_step] == row; ++next_step)
      result.step_ends.push_back(static_cast<std::uint32_t>(result.count()));
    if (row < heap.count() && heap.op[row] != Op::empty_cache) copy_row(heap, row, result);
  }
  return result;
}

namespace {

/// Behind what is freed when a step ends: gradients are, by zero_grad(), after the optimizer.
std::uint32_t after_frees(const Prepared& heap, std::uint32_t row) {
  const auto goes_on = [](Op op) { return op == Op::alloc || op == Op::alloc_failed; };
  const auto next = std::find_if(heap.op.begin() + row, heap.op.end(), goes_on);
  return static_cast<std::uint32_t>(next - heap.op.begin());
}

}  // namespace

std::vector<std::uint32_t> rows_of_calls(const Prepared& heap, const WhatIf& question) {
  std::vector<std::uint32_t> rows;
  const std::size_t first = heap.initial ? heap.initial->rows : 0;  // the program ran before
  if (question.kind == WhatIf::Kind::empty_cache_at_steps) {
    for (std::size_t i = question.every; i <= heap.step_ends.size(); i += question.every)
      rows.push_back(after_frees(heap, heap.step_ends[i - 1]));
  } else if (question.kind == WhatIf::Kind::empty_cache_at_events) {
    for (std::uint64_t row = question.every; row <= heap.count(); row += question.every)
      rows.push_back(static_cast<std::uint32_t>(row));
  }
  std::erase_if(rows, [&](std::uint32_t row) { return row < first; });
  return rows;
}

std::size_t empty_cache_calls(const Prepared& heap) {
  return static_cast<std::size_t>(std::ranges::count(heap.op, Op::empty_cache));
}

}  // namespace memreel
