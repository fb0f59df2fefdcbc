// SPDX-License-Identifier: Apache-2.0
// Many events: a block of them as columns, and all of a trace in little memory.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/model/chunked_column.h"
#include "formats/model/event.h"
#include "formats/model/packed_column.h"
#include "formats/model/values_of.h"

namespace memreel {

/// Leaves new elements uninitialised. Zeroing them, only for the trace reader to overwrite them, took a tenth of its
/// time.
template <class T>
class UnsetAllocator : public std::allocator<T> {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  template <class Other>
  struct rebind {                         // NOLINT(readability-identifier-naming): std::allocator_traits's name
    using other = UnsetAllocator<Other>;  // NOLINT(readability-identifier-naming)
  };

  UnsetAllocator() = default;
  template <class Other>
  explicit UnsetAllocator(const UnsetAllocator<Other>&) noexcept {}

  void construct(T* /*element*/) noexcept {}
  template <class... Arguments>
  void construct(T* element, Arguments&&... arguments) {
    std::construct_at(element, std::forward<Arguments>(arguments)...);
  }
};

/// A std::vector, except that resize(count) leaves new elements uninitialised.
template <class T>
using Column = std::vector<T, UnsetAllocator<T>>;

/// A block of events as columns of equal length, in recorded order: what a reader decodes at once.
struct EventColumns {
  Column<EventKind> kind;
  Column<OriginId> origin;
  Column<StackId> stack;
  Column<AllocationId> allocation;
  Column<Nanoseconds> time;
  Column<std::uint64_t> address_or_value;  // no kind has both; see has_address() and has_value()
  Column<Bytes> size;

  std::size_t count() const { return kind.size(); }
  Address address(std::size_t i) const { return {address_or_value[i]}; }
  void clear();  // keeps the storage
  void push_back(const Event& event);
  Event operator[](std::size_t i) const;

  friend bool operator==(const EventColumns&, const EventColumns&) = default;
};

/// Which fields of events are wanted. Each that is not saves time.
namespace event_field {
inline constexpr std::uint8_t origin = 1, stack = 2, allocation = 4, time = 8, address_or_value = 16, size = 32;
inline constexpr std::uint8_t kind = 64;  // always there in for_each()
inline constexpr std::uint8_t all = 127;
inline constexpr std::uint8_t packed = origin | stack | time | address_or_value | size;
}  // namespace event_field

/// The events of a trace, in recorded order, in at most 20 bytes each: numbers take as many bytes as their range needs
/// (packed_column.h), and what is repeated is there once. A free has the address and the size of its allocation.
///
/// A copy shares nearly all of the memory, and stays as it is while the original grows.
class Events {
 public:
  /// Events of a block: few enough to stay in the processor's cache.
  static constexpr std::size_t block_rows = 4096;
  /// The most that can be numbered.
  static constexpr std::uint64_t most = (std::uint64_t{1} << 31U) - 1;

  std::size_t count() const { return kind_.size(); }
  /// IDs of allocations are below it.
  std::size_t allocation_count() const { return begin_.size(); }
  /// The event that made an allocation, and where that came from.
  std::uint32_t begin_of(AllocationId id) const { return static_cast<std::uint32_t>(begin_[index(id)]); }
  OriginId origin_of(AllocationId id) const { return OriginId{static_cast<std::uint32_t>(origin_of_[index(id)])}; }
  Address address_of(AllocationId id) const { return {subjects_[allocations].address_or_value[index(id)]}; }
  Bytes size_of(AllocationId id) const { return {subjects_[allocations].size[index(id)]}; }

  // Every analysis spends much of its time here, and the compiler would rather call some of these.
  EventKind kind(std::size_t i) const { return kind_[i]; }
  [[gnu::always_inline]] OriginId origin(std::size_t i) const {
    return OriginId{static_cast<std::uint32_t>(origin_[i])};
  }
  [[gnu::always_inline]] StackId stack(std::size_t i) const { return StackId{static_cast<std::uint32_t>(stack_[i])}; }
  [[gnu::always_inline]] Nanoseconds time(std::size_t i) const {
    return Nanoseconds{static_cast<std::int64_t>(time_[i] - time_bias)};
  }
  [[gnu::always_inline]] AllocationId allocation(std::size_t i) const { return allocation_in(subject_[i]); }
  [[gnu::always_inline]] Bytes size(std::size_t i) const {
    const std::uint32_t subject = subject_[i];
    return {subjects_[subject % 2].size[subject / 2]};
  }
  /// No kind has both; see has_address() and has_value().
  [[gnu::always_inline]] std::uint64_t address_or_value(std::size_t i) const {
    const std::uint32_t subject = subject_[i];
    return subjects_[subject % 2].address_or_value[subject / 2];
  }
  /// Only of kinds that have one.
  [[gnu::always_inline]] Address address(std::size_t i) const { return {address_or_value(i)}; }
  [[gnu::always_inline]] std::uint64_t value(std::size_t i) const { return address_or_value(i); }
  Event operator[](std::size_t i) const;
  /// Makes `into` the events `begin` .. `end` - 1, as a reader returns them; but all frees have address and size.
  /// Columns of other fields are left empty.
  void read(std::size_t begin, std::size_t end, unsigned fields, EventColumns& into) const;
  /// Calls `use(block, its first event)` for one block after the other of all events.
  template <class Use>
  void for_each_block(Use use, unsigned fields = event_field::all) const {
    EventColumns block;
    for (std::size_t begin = 0; begin < count(); begin += block_rows) {
      read(begin, std::min(count(), begin + block_rows), fields, block);
      use(std::as_const(block), static_cast<std::uint32_t>(begin));
    }
  }
  /// Calls `use(i, event)` for each event in order, of which only these fields are set: several times faster than
  /// asking for one after the other.
  template <std::uint8_t fields, class Use>
  void for_each(Use use) const {
    for_each_block(
        [&](const EventColumns& block, std::uint32_t first) {
          const std::span<const EventKind> kinds = kind_.run(first, std::min(count(), first + block_rows));
          const std::span<const std::uint32_t> subjects = subject_.run(first, first + kinds.size());
          for (std::uint32_t i = 0; i < kinds.size(); ++i) {
            Event event{.kind = kinds[i]};
            if constexpr ((fields & event_field::origin) != 0) event.origin = block.origin[i];
            if constexpr ((fields & event_field::stack) != 0) event.stack = block.stack[i];
            if constexpr ((fields & event_field::allocation) != 0) event.allocation = allocation_in(subjects[i]);
            if constexpr ((fields & event_field::time) != 0) event.time = block.time[i];
            if constexpr ((fields & event_field::address_or_value) != 0)
              (has_value(event.kind) ? event.value : event.address.value) = block.address_or_value[i];
            if constexpr ((fields & event_field::size) != 0) event.size = block.size[i];
            use(first + i, std::as_const(event));
          }
        },
        fields & event_field::packed);
  }

  // Columns, to go over: ranges of values with random access, valid as long as the events.
  auto kinds() const { return ValuesOf<&Events::kind>(*this, count()); }
  auto origins() const { return ValuesOf<&Events::origin>(*this, count()); }
  auto stacks() const { return ValuesOf<&Events::stack>(*this, count()); }
  auto times() const { return ValuesOf<&Events::time>(*this, count()); }
  auto sizes() const { return ValuesOf<&Events::size>(*this, count()); }
  /// begin_of() each allocation, in order.
  auto begins() const { return ValuesOf<&Events::begin_at>(*this, allocation_count()); }
  /// The latest time. Not always that of the last event: times may go back a little where threads meet.
  Nanoseconds latest() const;
  /// The first event of `kind` from `from` on; count() if there is none.
  std::size_t find(EventKind kind, std::size_t from) const;

  /// The next event. The allocation of an `alloc` is the next one, allocation_count(). A free of an allocation that is
  /// not there is kept as one that has none.
  void push_back(const Event& event);
  void append(const EventColumns& block);
  /// Replaces an event. If it belongs to an allocation, its address and size become those of all events of it.
  void set(std::size_t i, const Event& event);
  void set_stack(std::size_t i, StackId stack) { stack_.set(i, index(stack)); }
  /// Of an event that has no allocation.
  void set_size_and_value(std::size_t i, Bytes size, std::uint64_t value);
  /// Moves an allocation, as all of its events say.
  void set_address(AllocationId allocation, Address address) {
    subjects_[allocations].address_or_value.set(index(allocation), address.value);
  }
  /// Every event gets the stack `to(its stack)`.
  template <class To>
  void renumber_stacks(To to) {
    PackedColumn renumbered;
    renumbered.append(count(), [&](std::size_t i) { return index(to(stack(i))); });
    stack_ = std::move(renumbered);
  }
  /// The same, by stack: often all keep theirs, and then nothing is done.
  void renumber_stacks(const std::vector<StackId>& now);
  /// Takes the least memory that it can. Worth it once nothing follows.
  void pack();

  /// What the events take.
  Bytes memory() const;
  /// Whether all times, addresses, values and sizes are below these, without a look at each. False if that is unknown.
  bool all_below(Nanoseconds time, std::uint64_t address_or_value, Bytes size) const;

  friend bool operator==(const Events& a, const Events& b);

 private:
  /// What events have an address or a value and a size of: allocations, by ID, or each of the other events itself.
  struct Subjects {
    PackedColumn address_or_value, size;

    void push_back(std::uint64_t number, Bytes bytes) {
      address_or_value.push_back(number);
      size.push_back(bytes.count);
    }
  };
  enum : std::uint8_t { allocations = 0, others = 1 };
  static AllocationId allocation_in(std::uint32_t subject) {
    return subject % 2 == allocations ? AllocationId{subject / 2} : AllocationId::none;
  }
  std::uint32_t begin_at(std::size_t id) const { return static_cast<std::uint32_t>(begin_[id]); }
  /// Makes the order of times that of unsigned numbers.
  static constexpr std::uint64_t time_bias = std::uint64_t{1} << 63U;

  /// The subject of an event that is about to be added: where its address or value and size are, as row * 2 + which.
  std::uint32_t add_subject(const Event& event, std::size_t i);

  // What nearly every analysis asks for is not packed.
  ChunkedColumn<EventKind> kind_;
  ChunkedColumn<std::uint32_t> subject_;
  PackedColumn origin_, stack_, time_;
  PackedColumn begin_, origin_of_;  // by allocation
  std::array<Subjects, 2> subjects_;
};

[[gnu::always_inline]] inline Event EventColumns::operator[](std::size_t i) const {
  Event event{.kind = kind[i],
              .origin = origin[i],
              .stack = stack[i],
              .allocation = allocation[i],
              .time = time[i],
              .size = size[i]};
  (has_value(event.kind) ? event.value : event.address.value) = address_or_value[i];
  return event;
}

[[gnu::always_inline]] inline Event Events::operator[](std::size_t i) const {
  Event event{.kind = kind(i),
              .origin = origin(i),
              .stack = stack(i),
              .allocation = allocation(i),
              .time = time(i),
              .size = size(i)};
  (has_value(event.kind) ? event.value : event.address.value) = address_or_value(i);
  return event;
}

inline std::uint32_t Events::add_subject(const Event& event, std::size_t i) {
  if (event.kind == EventKind::alloc) {
    subjects_[allocations].push_back(event.address.value, event.size);
    begin_.push_back(i);
    origin_of_.push_back(index(event.origin));
    return static_cast<std::uint32_t>((allocation_count() - 1) * 2 + allocations);
  }
  if (is_free(event.kind) && index(event.allocation) < allocation_count())
    return index(event.allocation) * 2 + allocations;
  subjects_[others].push_back(has_value(event.kind) ? event.value : event.address.value, event.size);
  return static_cast<std::uint32_t>((subjects_[others].size.size() - 1) * 2 + others);
}

inline void Events::push_back(const Event& event) {
  subject_.push_back(add_subject(event, count()));
  kind_.push_back(event.kind);
  origin_.push_back(index(event.origin));
  stack_.push_back(index(event.stack));
  time_.push_back(static_cast<std::uint64_t>(event.time.count()) + time_bias);
}

/// Whether the times are a clock's. Importers number the events of files without times, a nanosecond each, and nothing
/// records events that quickly.
bool has_times(const Events& events);

}  // namespace memreel
