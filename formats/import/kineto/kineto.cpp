// SPDX-License-Identifier: Apache-2.0
#include "formats/import/kineto/kineto.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_set>

#include "formats/import/source/json_values.h"
#include "formats/model/files.h"
#include "formats/model/stack_text.h"
#include "formats/model/value_check.h"

namespace memreel::kineto {
namespace {

/// "torch/nn/modules/module.py(1739): _call_impl" has a file and a line. "nn.Module: GPT2MLP_3" is a call of GPT2MLP
/// number 3, counted from 0. Built-in functions and operators have only a name.
Frame frame_from(std::string_view name, ImportOutput& writer) {
  constexpr std::string_view module = "nn.Module: ";
  if (name.starts_with(module)) {
    const std::string_view called = name.substr(module.size());
    const std::size_t number = called.rfind('_');
    std::string instance(called);
    if (number != std::string_view::npos) instance[number] = ' ';
    return {.function = writer.intern(name), .instance = writer.intern(instance)};
  }
  const std::size_t end = name.find("): ");
  const std::size_t begin = end == std::string_view::npos ? end : name.rfind('(', end);
  if (begin == std::string_view::npos || begin == 0) return {.function = writer.intern(name)};
  std::uint32_t line = 0;
  const auto [after, error] = std::from_chars(name.data() + begin + 1, name.data() + end, line);
  if (error != std::errc{} || after != name.data() + end) return {.function = writer.intern(name)};
  return {.function = writer.intern(name.substr(end + 3)), .file = writer.intern(name.substr(0, begin)), .line = line};
}

}  // namespace

ThreadStacks::ThreadStacks(const std::vector<std::string>& names, ImportOutput& writer)
    : names_(names), writer_(writer), frames_(names.size()) {}

void ThreadStacks::enter(const Slice& slice) {
  std::vector<Open>& open = open_[slice.tid];
  while (!open.empty() && open.back().end_ns <= slice.begin_ns) open.pop_back();
  if (open.size() >= max_stack_depth) return;
  const std::int64_t end = open.empty() ? slice.end_ns : std::min(slice.end_ns, open.back().end_ns);
  open.push_back({.end_ns = end, .name = slice.name});
}

StackId ThreadStacks::at(std::uint64_t tid, std::int64_t time_ns) {
  const auto found = open_.find(tid);
  if (found == open_.end()) return StackId::none;
  std::vector<Open>& open = found->second;
  while (!open.empty() && open.back().end_ns < time_ns) open.pop_back();
  std::size_t made = open.size();
  while (made > 0 && open[made - 1].stack == StackId::none) --made;
  StackId stack = made == 0 ? StackId::none : open[made - 1].stack;
  for (; made < open.size(); ++made)
    stack = open[made].stack = writer_.intern(Stack{.frame = frame_of(open[made].name), .caller = stack});
  return stack;
}

FrameId ThreadStacks::frame_of(std::uint32_t name) {
  if (frames_[name] == FrameId::none) frames_[name] = writer_.intern(frame_from(names_[name], writer_));
  return frames_[name];
}

namespace {

constexpr std::uint64_t cuda = 1, hip = 6;  // c10::DeviceType
constexpr std::int64_t most_devices = 1'000;
constexpr std::string_view event_path = "traceEvents[]";

/// What is kept of an event's members until it ends.
struct RawEvent {
  std::string phase, category, name;
  std::optional<double> time_us, duration_us;
  std::optional<std::uint64_t> pid, tid, device_type, address, total, reserved;
  std::optional<std::int64_t> device, bytes;
};

/// None if the time is not a valid clock value.
std::optional<std::int64_t> nanoseconds(std::optional<double> us) {
  if (!us || !(std::abs(*us) * 1000 < static_cast<double>(max_time.count()) / 2)) return std::nullopt;
  double whole = 0;
  const double rest = std::modf(*us, &whole);  // split, since nanoseconds since the epoch need more than 53 bits
  return static_cast<std::int64_t>(whole) * 1000 + std::llround(rest * 1000);
}

class Reader final : public JsonVisitor {
 public:
  explicit Reader(const ByteCursor& bytes) : bytes_(bytes) {}

  Result<void> scalar(std::string_view path, const JsonScalar& value) override {
    if (path.starts_with(event_path) && path.size() > event_path.size()) {
      member(path.substr(event_path.size() + 1), value);
      return {};
    }
    if (path == "baseTimeNanoseconds") {
      const auto base = as_signed(value);
      if (!base || *base > max_time.count() / 2 || *base < 0)
        return Error{.what = "'baseTimeNanoseconds' is out of range", .remedy = "the file is damaged: write it again"};
      profile.base_ns = *base;
    }
    if (path == "distributedInfo.rank") profile.rank = as_unsigned(value);
    if (path == "distributedInfo.world_size") profile.world_size = as_unsigned(value);
    return {};
  }

  Result<void> end_object(std::string_view path) override {
    if (path != event_path) return {};
    Result<void> taken = take();
    event_ = {};
    return taken;
  }

  Profile profile;

 private:
  void member(std::string_view key, const JsonScalar& value) {
    if (key == "ph") event_.phase = as_text(value);
    if (key == "cat") event_.category = as_text(value);
    if (key == "name") event_.name = as_text(value);
    if (key == "ts") event_.time_us = as_number(value);
    if (key == "dur") event_.duration_us = as_number(value);
    if (key == "pid") event_.pid = as_unsigned(value);
    if (key == "tid") event_.tid = as_unsigned(value);
    if (key == "args.Device Type") event_.device_type = as_unsigned(value);
    if (key == "args.Device Id") event_.device = as_signed(value);
    if (key == "args.Addr") event_.address = as_unsigned(value);
    if (key == "args.Bytes") event_.bytes = as_signed(value);
    if (key == "args.Total Allocated") event_.total = as_unsigned(value);
    if (key == "args.Total Reserved") event_.reserved = as_unsigned(value);
  }

  Result<void> take() {
    if (event_.phase == "X") return take_slice();
    const bool failed = event_.name == "[OutOfMemory]";
    if (failed || event_.name == "[memory]") return take_memory(failed);
    return {};
  }

  Result<void> take_slice() {
    SliceKind kind{};
    if (event_.category == "python_function")
      kind = SliceKind::python_function;
    else if (event_.category == "cpu_op")
      kind = SliceKind::cpu_op;
    else if (event_.category == "user_annotation")
      kind = SliceKind::annotation;
    else
      return {};
    const auto begin = nanoseconds(event_.time_us);
    const auto duration = nanoseconds(event_.duration_us.value_or(0));
    if (!begin || !duration || *duration < 0) {
      ++profile.incomplete;
      return {};
    }
    profile.slices.push_back({.begin_ns = *begin,
                              .end_ns = *begin + *duration,
                              .tid = event_.tid.value_or(0),
                              .name = number_of(event_.name),
                              .kind = kind});
    return within_limit(sizeof(Slice));
  }

  Result<void> take_memory(bool failed) {
    if (event_.device_type != cuda && event_.device_type != hip) {
      ++profile.host_events;
      return {};
    }
    const auto time = nanoseconds(event_.time_us);
    if (!time || !event_.device || *event_.device < 0 || *event_.device >= most_devices || !event_.bytes) {
      ++profile.incomplete;
      return {};
    }
    if (!failed && event_.address.value_or(0) == 0) {
      ++profile.without_address;
      return {};
    }
    if (event_.pid && profile.process == 0) profile.process = *event_.pid;
    profile.memory.push_back({.time_ns = *time,
                              .tid = event_.tid.value_or(0),
                              .device = static_cast<std::int32_t>(*event_.device),
                              .failed = failed,
                              .bytes = *event_.bytes,
                              .address = event_.address.value_or(0),
                              .total = event_.total,
                              .reserved = event_.reserved});
    const MemoryEvent& event = profile.memory.back();
    const Bytes size{event.bytes < 0 ? -static_cast<std::uint64_t>(event.bytes)
                                     : static_cast<std::uint64_t>(event.bytes)};
    if (!failed) total_ += size;
    if (!failed && (!is_possible(Address{event.address}, size) || event.total > max_allocation.count ||
                    event.reserved > max_allocation.count || total_.bytes() > max_total))
      return Error{.what = "an event [memory] has an address, a size or a total that no device has",
                   .remedy = "the file is damaged: write it again"};
    return within_limit(sizeof(MemoryEvent));
  }

  std::uint32_t number_of(const std::string& name) {
    const auto [known, is_new] = numbers_.try_emplace(name, static_cast<std::uint32_t>(profile.names.size()));
    if (is_new) {
      profile.names.push_back(name);
      held_ += Bytes{2 * name.size() + 128};
    }
    return known->second;
  }

  Result<void> within_limit(std::size_t more) {
    held_ += Bytes{2 * more};  // twice: its vector may have just grown
    if (held_ <= bytes_.memory_limit()) return {};
    return over_memory_limit(bytes_.where(), "holds events that need more than", bytes_.memory_limit());
  }

  const ByteCursor& bytes_;
  RawEvent event_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // of names
  Bytes held_;
  TotalBytes total_;  // of all sizes
};

}  // namespace

Result<Profile> read_profile(ByteCursor& bytes) {
  Reader reader(bytes);
  if (Result<void> read = visit_json(bytes, reader); !read) return read.error();
  return std::move(reader.profile);
}

namespace {

constexpr Bytes size_of(const MemoryEvent& event) {
  const auto bytes = static_cast<std::uint64_t>(event.bytes);
  return {event.bytes < 0 ? -bytes : bytes};
}

/// The begin or end of a range of the program.
struct RangeEdge {
  std::int64_t time_ns = 0;
  std::uint64_t tid = 0;
  std::uint32_t name = 0;
  MarkPhase phase = MarkPhase::begin;
};

/// One device's memory. Events come in order.
class HeapWriter {
 public:
  HeapWriter(ImportOutput& writer, std::int32_t device)
      : writer_(writer),
        heap_(writer.intern(Heap{.name = writer.intern("torch.cuda"),
                                 .level = Level::framework,
                                 .device = device,
                                 .observes_completion = false})) {}

  /// Looks for memory older than the profile.
  void look_at(const MemoryEvent& event) {
    if (event.failed || event.bytes == 0) return;
    if (!first_ && event.total) {
      first_ = &event;
      // The first total minus the first bytes; earlier allocations without a total are included in it.
      const std::uint64_t total = *event.total;
      if (event.bytes < 0)
        before_ = Bytes{total} + size_of(event);
      else
        before_ = Bytes{total} - std::min(Bytes{total}, size_of(event));
    }
    end_ = std::max(end_, Address{event.address} + size_of(event));
    const bool is_new = seen_.insert(event.address).second;
    if (is_new && event.bytes < 0) older_.push_back(&event);
  }

  void write_older(Nanoseconds time, Losses& losses) {
    const StackId stack =
        older_.empty() && before_ == 0_B
            ? StackId::none
            : writer_.intern(Stack{.frame = writer_.intern(Frame{.function = writer_.intern(preexisting_frame)})});
    TotalBytes rest(before_);
    for (const MemoryEvent* event : older_) {
      rest -= size_of(*event);
      append({.kind = EventKind::alloc,
              .stack = stack,
              .time = time,
              .address = Address{event->address},
              .size = size_of(*event)});
    }
    losses.preexisting_allocations += older_.size();
    if (rest.bytes() > 0_B && is_possible(end_, rest.bytes())) {  // at an unknown address: after all others
      append({.kind = EventKind::alloc, .stack = stack, .time = time, .address = end_, .size = rest.bytes()});
      ++losses.preexisting_allocations;
    }
    losses.began_late |= stack != StackId::none;
  }

  void write(const MemoryEvent& event, Nanoseconds time, StackId stack, ThreadId thread, Losses& losses) {
    const Bytes size = size_of(event);
    if (event.failed) {
      append({.kind = EventKind::alloc_failed, .stack = stack, .time = time, .size = Bytes{as_request(size.count)}},
             thread);
      return;
    }
    check_total(event, losses);
    if (event.bytes != 0) write_block(event, time, stack, thread, losses);
    sample_reserved(event, time);
  }

 private:
  void write_block(const MemoryEvent& event, Nanoseconds time, StackId stack, ThreadId thread, Losses& losses) {
    const Bytes size = size_of(event);
    const Address address{event.address};
    if (event.bytes > 0) {
      if (const AllocationId before = writer_.live_at(heap_, address); before != AllocationId::none) {
        ++losses.hook_refused;
        append({.kind = EventKind::free_requested, .allocation = before, .time = time}, thread);
      }
    }
    append({.kind = event.bytes > 0 ? EventKind::alloc : EventKind::free_requested,
            .stack = stack,
            .time = time,
            .address = address,
            .size = size},
           thread);
  }

  /// Where it changed. PyTorch's other allocators state zero.
  void sample_reserved(const MemoryEvent& event, Nanoseconds time) {
    if (!event.total || !event.reserved || *event.reserved < *event.total || event.reserved == reserved_) return;
    if (*event.reserved == 0 && !reserved_) return;
    reserved_ = event.reserved;
    append({.kind = EventKind::memory_info,
            .time = time,
            .size = Bytes{*event.total},
            .value = *event.reserved - *event.total});
  }

  void check_total(const MemoryEvent& event, Losses& losses) {
    if (!event.total) {
      total_.reset();
      return;
    }
    if (total_ && *total_ + static_cast<std::uint64_t>(event.bytes) != *event.total) ++losses.ring_full;
    total_ = event.total;
  }

  void append(Event event, ThreadId thread = ThreadId::unknown) {
    event.origin = writer_.intern(Origin{.heap = heap_, .thread = thread});
    writer_.append(event);
  }

  ImportOutput& writer_;
  HeapId heap_;
  const MemoryEvent* first_ = nullptr;  // that has a total
  Bytes before_;                        // before the profile
  Address end_;                         // of the highest allocation
  std::unordered_set<std::uint64_t> seen_;
  std::vector<const MemoryEvent*> older_;  // frees of older memory
  std::optional<std::uint64_t> total_;     // after the last event, if it had one
  std::optional<std::uint64_t> reserved_;  // as sampled last
};

std::vector<RangeEdge> edges_of_ranges(const Profile& profile) {
  std::vector<RangeEdge> edges;
  for (const Slice& slice : profile.slices) {
    if (slice.kind != SliceKind::annotation) continue;
    edges.push_back({slice.begin_ns, slice.tid, slice.name, MarkPhase::begin});
    edges.push_back({slice.end_ns, slice.tid, slice.name, MarkPhase::end});
  }
  std::ranges::stable_sort(edges, {}, &RangeEdge::time_ns);
  return edges;
}

class ProfileWriter {
 public:
  ProfileWriter(const Profile& profile, ImportOutput& writer)
      : profile_(profile), writer_(writer), stacks_(profile.names, writer), edges_(edges_of_ranges(profile)) {}

  Losses write() {
    Losses losses{.unknown_actions = profile_.host_events + profile_.without_address + profile_.incomplete};
    std::set<std::int32_t> devices;
    for (const MemoryEvent& event : profile_.memory) devices.insert(event.device);
    std::map<std::int32_t, HeapWriter> heaps;
    for (const std::int32_t device : devices) heaps.try_emplace(device, writer_, device);
    for (const MemoryEvent& event : profile_.memory) heaps.at(event.device).look_at(event);
    std::int64_t start_ns = profile_.memory[0].time_ns;
    if (!edges_.empty()) start_ns = std::min(start_ns, edges_[0].time_ns);
    for (auto& [device, heap] : heaps) heap.write_older(absolute(start_ns), losses);

    auto slice = profile_.slices.begin();
    for (const MemoryEvent& event : profile_.memory) {
      write_marks(event.time_ns);
      for (; slice != profile_.slices.end() && slice->begin_ns <= event.time_ns; ++slice)
        if (slice->kind != SliceKind::annotation) stacks_.enter(*slice);
      heaps.at(event.device)
          .write(event, absolute(event.time_ns), stacks_.at(event.tid, event.time_ns), thread_of(event.tid), losses);
    }
    write_marks(std::numeric_limits<std::int64_t>::max());
    return losses;
  }

 private:
  Nanoseconds absolute(std::int64_t time_ns) const { return Nanoseconds{profile_.base_ns + time_ns}; }

  ThreadId thread_of(std::uint64_t tid) { return tid == 0 ? ThreadId::unknown : writer_.intern(Thread{.tid = tid}); }

  void write_marks(std::int64_t until_ns) {
    for (; next_edge_ < edges_.size() && edges_[next_edge_].time_ns <= until_ns; ++next_edge_) {
      const RangeEdge& edge = edges_[next_edge_];
      const Mark mark{.name = writer_.intern(profile_.names[edge.name]), .phase = edge.phase};
      writer_.append({.kind = EventKind::mark,
                      .origin = writer_.intern(Origin{.thread = thread_of(edge.tid)}),
                      .time = absolute(edge.time_ns),
                      .value = index(writer_.intern(mark))});
    }
  }

  const Profile& profile_;
  ImportOutput& writer_;
  ThreadStacks stacks_;
  std::vector<RangeEdge> edges_;  // by time
  std::size_t next_edge_ = 0;
};

/// By time; enclosing slices first.
void sort(Profile& profile) {
  std::ranges::stable_sort(profile.memory, {}, &MemoryEvent::time_ns);
  std::ranges::stable_sort(profile.slices, [](const Slice& a, const Slice& b) {
    if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
    return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.kind < b.kind;
  });
}

Result<void> must_have_memory(const Profile& profile, const std::string& where) {
  if (!profile.memory.empty()) return {};
  if (profile.without_address > 0)
    return Error{.what = "its memory events have no addresses, like those of PyTorch 1.9 and older",
                 .where = where,
                 .remedy = "profile with PyTorch 1.10 or newer"};
  if (profile.incomplete > 0)
    return Error{.what = "none of its memory events has a time, a device and a size",
                 .where = where,
                 .remedy = "profile with torch.profiler.profile(profile_memory=True, with_stack=True)"};
  if (profile.host_events > 0)
    return Error{.what = "all its memory events are of host memory",
                 .where = where,
                 .remedy = "profile a program that uses a GPU, with ProfilerActivity.CUDA among the activities"};
  return Error{.what = "the profile has no memory events",
               .where = where,
               .remedy = "profile with torch.profiler.profile(profile_memory=True, with_stack=True)"};
}

}  // namespace

bool looks_like_profile(std::span<const std::byte> beginning) {
  const std::string_view text(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return false;
  return std::ranges::any_of(
      std::array<std::string_view, 3>{"\"traceEvents\"", "\"deviceProperties\"", "\"baseTimeNanoseconds\""},
      [&](std::string_view key) { return text.find(key) != std::string_view::npos; });
}

Result<void> import_profile(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  Result<Profile> profile = read_profile(bytes);
  if (!profile) return std::move(profile).error();
  if (Result<void> has = must_have_memory(*profile, bytes.where()); !has) return has;
  sort(*profile);
  header.source = "torch.profiler";
  header.process = profile->process;
  if (profile->rank) header.environment["RANK"] = std::to_string(*profile->rank);
  if (profile->world_size) header.environment["WORLD_SIZE"] = std::to_string(*profile->world_size);
  ImportOutput& writer = begin(header);
  writer.set_losses(ProfileWriter(*profile, writer).write());
  return writer.finish();
}

}  // namespace memreel::kineto
