#include "formats/writer/flight_generation.h"

#include <utility>

namespace memreel {
namespace {

/// Passes on what fits in the budget. From the first packet that does not fit, nothing is passed on.
class BudgetSink final : public ByteSink {
 public:
  BudgetSink(std::unique_ptr<LiveFile> file, DiskBudget& budget, bool& overflowed)
      : file_(std::move(file)), budget_(budget), overflowed_(overflowed) {}

  Result<void> write(std::span<const std::byte> bytes) override {
    overflowed_ = overflowed_ || !budget_.take(bytes.size());
    if (overflowed_) return {};
    auto written = file_->write(bytes);
    if (!written) budget_.give_back(bytes.size());
    return written;
  }
  Result<void> close() override { return file_->close(); }

 private:
  std::unique_ptr<LiveFile> file_;
  DiskBudget& budget_;
  bool& overflowed_;
};

std::unique_ptr<ByteSink> within(DiskBudget& budget, std::unique_ptr<LiveFile> file, bool& overflowed) {
  return std::make_unique<BudgetSink>(std::move(file), budget, overflowed);
}

}  // namespace

FlightGeneration::FlightGeneration(const Tables& all, std::unique_ptr<LiveFile> file, DiskBudget& budget,
                                   const Header& header, const WriterOptions& options)
    : all_(all),
      budget_(budget),
      file_(file.get()),
      writer_(within(budget, std::move(file), overflowed_), header, options) {}

FlightGeneration::~FlightGeneration() { budget_.give_back(file_->size()); }

AllocationId FlightGeneration::append(Event event) {
  event.origin = here(event.origin);
  event.stack = here(event.stack);
  switch (event.kind) {
    case EventKind::mark:
      event.value = index(here(MarkId{static_cast<std::uint32_t>(event.value)}));
      break;
    case EventKind::settings:
      event.value = index(here(SettingsId{static_cast<std::uint32_t>(event.value)}));
      break;
    case EventKind::sync:
      if (event.value >= sync_edge)
        event.value = sync_edge + index(here(StreamId{static_cast<std::uint32_t>(event.value - sync_edge)}));
      break;
    default:
      break;
  }
  return writer_.append(event);
}

void FlightGeneration::set_folded(FoldedHistory folded) {
  for (FoldedRow& row : folded.rows) {
    row.heap = here(row.heap);
    row.stack = here(row.stack);
  }
  writer_.set_folded(std::move(folded));
}

std::vector<LiveSegment> FlightGeneration::segments() const {
  std::vector<LiveSegment> segments = writer_.snapshot().segments;
  for (LiveSegment& segment : segments)
    if (segment.origin != OriginId::none) segment.origin = origins_of_all_[index(segment.origin)];
  return segments;
}

StringId FlightGeneration::here(StringId id) {
  StringId& known = strings_[id];
  if (known == StringId::none && id != StringId::none) known = writer_.intern(all_[id]);
  return known;
}

ModuleId FlightGeneration::here(ModuleId id) {
  if (id == ModuleId::none) return id;
  ModuleId& known = modules_[id];
  if (known == ModuleId::none) {
    Module row = all_[id];
    row.path = here(row.path);
    known = writer_.intern(row);
  }
  return known;
}

FrameId FlightGeneration::here(FrameId id) {
  if (id == FrameId::none) return id;
  FrameId& known = frames_[id];
  if (known == FrameId::none) {
    Frame row = all_[id];
    row.function = here(row.function);
    row.file = here(row.file);
    row.module = here(row.module);
    row.instance = here(row.instance);
    known = writer_.intern(row);
  }
  return known;
}

/// Callers first; iterative, since stacks are deep.
StackId FlightGeneration::here(StackId id) {
  StackId caller = StackId::none;
  for (; id != StackId::none; id = all_[id].caller) {
    caller = stacks_[id];
    if (caller != StackId::none) break;
    callees_.push_back(id);
  }
  for (; !callees_.empty(); callees_.pop_back()) {
    caller = writer_.intern(Stack{.frame = here(all_[callees_.back()].frame), .caller = caller});
    stacks_[callees_.back()] = caller;
  }
  return caller;
}

HeapId FlightGeneration::here(HeapId id) {
  if (id == HeapId::none) return id;
  if (heaps_[id] == HeapId::none) {
    Heap row = all_[id];
    row.name = here(row.name);
    row.parent = here(row.parent);
    heaps_[id] = writer_.intern(row);
  }
  return heaps_[id];
}

PoolId FlightGeneration::here(PoolId id) {
  if (id == PoolId::default_pool) return id;
  PoolId& known = pools_[id];
  if (known == PoolId::default_pool) {
    Pool row = all_[id];
    row.name = here(row.name);
    known = writer_.intern(row);
  }
  return known;
}

StreamId FlightGeneration::here(StreamId id) {
  StreamId& known = streams_[id];
  if (known == StreamId::default_stream && id != StreamId::default_stream) known = writer_.intern(all_[id]);
  return known;
}

ThreadId FlightGeneration::here(ThreadId id) {
  if (id == ThreadId::unknown) return id;
  ThreadId& known = threads_[id];
  if (known == ThreadId::unknown) {
    Thread row = all_[id];
    row.name = here(row.name);
    known = writer_.intern(row);
  }
  return known;
}

OriginId FlightGeneration::here(OriginId id) {
  if (id == OriginId::none) return id;
  OriginId& known = origins_[id];
  if (known == OriginId::none) {
    Origin row = all_[id];
    row.heap = here(row.heap);
    row.pool = here(row.pool);
    row.stream = here(row.stream);
    row.thread = here(row.thread);
    row.metadata = here(row.metadata);
    known = writer_.intern(row);
    if (index(known) >= origins_of_all_.size()) origins_of_all_.resize(index(known) + std::size_t{1});
    origins_of_all_[index(known)] = id;
  }
  return known;
}

MarkId FlightGeneration::here(MarkId id) {
  if (id == MarkId::none) return id;
  MarkId& known = marks_[id];
  if (known == MarkId::none) {
    Mark row = all_[id];
    row.name = here(row.name);
    known = writer_.intern(row);
  }
  return known;
}

SettingsId FlightGeneration::here(SettingsId id) {
  if (id == SettingsId::none) return id;
  SettingsId& known = settings_[id];
  if (known == SettingsId::none) {
    Settings row = all_[id];
    for (auto& [key, value] : row.entries) {
      key = here(key);
      value = here(value);
    }
    known = writer_.intern(row);
  }
  return known;
}

}  // namespace memreel
