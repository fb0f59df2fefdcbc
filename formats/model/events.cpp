// SPDX-License-Identifier: Apache-2.0
#include "formats/model/events.h"

#include <algorithm>
#include <functional>

namespace memreel {

void EventColumns::clear() {
  kind.clear();
  origin.clear();
  stack.clear();
  allocation.clear();
  time.clear();
  address_or_value.clear();
  size.clear();
}

void EventColumns::push_back(const Event& event) {
  kind.push_back(event.kind);
  origin.push_back(event.origin);
  stack.push_back(event.stack);
  allocation.push_back(event.allocation);
  time.push_back(event.time);
  address_or_value.push_back(has_value(event.kind) ? event.value : event.address.value);
  size.push_back(event.size);
}

std::size_t Events::find(EventKind kind, std::size_t from) const {
  while (from < count()) {
    const std::span<const EventKind> run = kind_.run(from, count());
    const auto found = std::ranges::find(run, kind);
    from += static_cast<std::size_t>(found - run.begin());
    if (found != run.end()) break;
  }
  return from;
}

Nanoseconds Events::latest() const {
  std::uint64_t latest = 0;
  time_.for_each(0, count(), [&](std::uint64_t time) { latest = std::max(latest, time); });
  return Nanoseconds{static_cast<std::int64_t>(latest - time_bias)};
}

void Events::read(std::size_t begin, std::size_t end, unsigned fields, EventColumns& into) const {
  const auto wants = [&](std::uint8_t field, auto& column) {
    column.resize((fields & field) != 0 ? end - begin : 0);
    return (fields & field) != 0;
  };
  const auto fill = [&](std::uint8_t field, auto& column, const PackedColumn& from, auto value_of) {
    if (wants(field, column))
      from.for_each(begin, end, [&, to = column.data()](std::uint64_t row) mutable { *to++ = value_of(row); });
  };
  const auto copy = [&](std::uint8_t field, auto& column, const auto& from, auto value_of) {
    if (!wants(field, column)) return;
    for (std::size_t at = begin; at < end;) {
      const auto run = from.run(at, end);
      std::ranges::transform(run, column.begin() + static_cast<std::ptrdiff_t>(at - begin), value_of);
      at += run.size();
    }
  };
  copy(event_field::kind, into.kind, kind_, std::identity());
  copy(event_field::allocation, into.allocation, subject_, allocation_in);
  fill(event_field::stack, into.stack, stack_,
       [](std::uint64_t row) { return StackId{static_cast<std::uint32_t>(row)}; });
  fill(event_field::origin, into.origin, origin_,
       [](std::uint64_t row) { return OriginId{static_cast<std::uint32_t>(row)}; });
  fill(event_field::time, into.time, time_,
       [](std::uint64_t row) { return Nanoseconds{static_cast<std::int64_t>(row - time_bias)}; });
  const auto look_up = [&](std::uint8_t field, auto& column, PackedColumn Subjects::*part) {
    PackedColumn::Nearby of_allocation(subjects_[allocations].*part), of_other(subjects_[others].*part);
    copy(field, column, subject_, [&](std::uint32_t subject) -> std::remove_reference_t<decltype(column[0])> {
      return {subject % 2 == allocations ? of_allocation(subject / 2) : of_other(subject / 2)};
    });
  };
  look_up(event_field::address_or_value, into.address_or_value, &Subjects::address_or_value);
  look_up(event_field::size, into.size, &Subjects::size);
}

void Events::append(const EventColumns& block) {
  const std::size_t events = block.count(), first = count();
  // Which kind comes next can't be predicted, so these loops have no branches.
  std::vector<std::uint32_t> made(events + 1), other(events + 1);
  std::size_t made_count = 0, other_count = 0;
  const std::size_t before = allocation_count(), others_before = subjects_[others].size.size();
  subject_.append(events, [&](std::size_t i) {
    made[made_count] = other[other_count] = static_cast<std::uint32_t>(i);
    made_count += block.kind[i] == EventKind::alloc ? 1U : 0U;
    const std::uint32_t id = index(block.allocation[i]);
    const bool known = id < before + made_count;
    const auto row = static_cast<std::uint32_t>(known ? id : others_before + other_count);
    other_count += known ? 0U : 1U;
    return row * 2 + (known ? allocations : others);
  });
  const auto add = [&](Subjects& to, const std::vector<std::uint32_t>& rows, std::size_t count) {
    to.address_or_value.append(count, [&](std::size_t i) { return block.address_or_value[rows[i]]; });
    to.size.append(count, [&](std::size_t i) { return block.size[rows[i]].count; });
  };
  add(subjects_[allocations], made, made_count);
  add(subjects_[others], other, other_count);
  begin_.append(made_count, [&](std::size_t i) { return first + made[i]; });
  origin_of_.append(made_count, [&](std::size_t i) { return index(block.origin[made[i]]); });
  kind_.append(events, [kind = block.kind.data()](std::size_t i) { return kind[i]; });
  origin_.append(events, [origin = block.origin.data()](std::size_t i) { return index(origin[i]); });
  stack_.append(events, [stack = block.stack.data()](std::size_t i) { return index(stack[i]); });
  time_.append(events, [time = block.time.data()](std::size_t i) {
    return static_cast<std::uint64_t>(time[i].count()) + time_bias;
  });
}

void Events::set(std::size_t i, const Event& event) {
  const std::uint32_t old = subject_[i];
  const std::uint64_t number = has_value(event.kind) ? event.value : event.address.value;
  std::uint32_t subject = old;
  Event other = event;
  other.allocation = AllocationId::none;
  if ((event.kind == EventKind::alloc || is_free(event.kind)) && index(event.allocation) < allocation_count())
    subject = index(event.allocation) * 2 + allocations;
  else if (old % 2 == allocations)
    subject = add_subject(other, i);
  subjects_[subject % 2].address_or_value.set(subject / 2, number);
  subjects_[subject % 2].size.set(subject / 2, event.size.count);
  subject_.set(i, subject);
  if (event.kind == EventKind::alloc && subject % 2 == allocations) origin_of_.set(subject / 2, index(event.origin));
  kind_.set(i, event.kind);
  origin_.set(i, index(event.origin));
  stack_.set(i, index(event.stack));
  time_.set(i, static_cast<std::uint64_t>(event.time.count()) + time_bias);
}

void Events::renumber_stacks(const std::vector<StackId>& now) {
  std::size_t same = 0;
  while (same < now.size() && index(now[same]) == same) ++same;
  if (same < now.size()) renumber_stacks([&](StackId stack) { return now[index(stack)]; });
}

void Events::set_size_and_value(std::size_t i, Bytes size, std::uint64_t value) {
  const std::uint32_t row = subject_[i] / 2;
  subjects_[others].address_or_value.set(row, value);
  subjects_[others].size.set(row, size.count);
}

void Events::pack() {
  kind_.shrink();
  subject_.shrink();
  for (PackedColumn* column : {&origin_, &stack_, &time_, &begin_, &origin_of_}) column->pack();
  for (Subjects& subjects : subjects_) {
    subjects.address_or_value.pack();
    subjects.size.pack();
  }
}

Bytes Events::memory() const {
  Bytes bytes = kind_.memory() + subject_.memory();
  for (const PackedColumn* column : {&origin_, &stack_, &time_, &begin_, &origin_of_}) bytes += column->memory();
  for (const Subjects& subjects : subjects_) bytes += subjects.address_or_value.memory() + subjects.size.memory();
  return bytes;
}

bool Events::all_below(Nanoseconds time, std::uint64_t address_or_value, Bytes size) const {
  const PackedColumn::Bounds times = time_.bounds();
  const auto limit = static_cast<std::uint64_t>(time.count());
  if (count() != 0 && (times.most >= time_bias + limit || times.least <= time_bias - limit)) return false;
  return std::ranges::all_of(subjects_, [&](const Subjects& subjects) {
    return subjects.address_or_value.bounds().most < address_or_value && subjects.size.bounds().most < size.count;
  });
}

bool operator==(const Events& a, const Events& b) {
  if (a.kind_ != b.kind_ || a.origin_ != b.origin_ || a.stack_ != b.stack_ || a.time_ != b.time_) return false;
  for (std::size_t i = 0; i < a.count(); ++i)
    if (a.allocation(i) != b.allocation(i) || a.address_or_value(i) != b.address_or_value(i) || a.size(i) != b.size(i))
      return false;
  return true;
}

bool has_times(const Events& events) {
  constexpr std::int64_t least_per_event = 10;  // nanoseconds
  if (events.count() == 0) return false;
  const auto [first, last] = std::ranges::minmax(events.times());
  return (last - first).count() / least_per_event >= static_cast<std::int64_t>(events.count());
}

}  // namespace memreel
