// SPDX-License-Identifier: Apache-2.0
#include "formats/import/xplane/plane.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "formats/wire/message.h"

namespace memreel::xplane {

Stat stat_of(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, Stat>, 13> names{{
      {"allocator_name", Stat::allocator_name},
      {"addr", Stat::address},
      {"requested_bytes", Stat::requested_bytes},
      {"allocation_bytes", Stat::allocation_bytes},
      {"bytes_allocated", Stat::bytes_allocated},
      {"bytes_available", Stat::bytes_available},
      {"fragmentation", Stat::fragmentation},
      {"tf_op", Stat::operation},
      {"region_type", Stat::region_type},
      {"data_type", Stat::data_type},
      {"shape", Stat::shape},
      {"step_num", Stat::step_number},
      {"profile_start_time", Stat::profile_start_time},
  }};
  const auto found = std::ranges::find(names, name, &std::pair<std::string_view, Stat>::first);
  return found == names.end() ? Stat::other : found->second;
}

Kind kind_of(std::string_view name) {
  if (name == "MemoryAllocation") return Kind::allocation;
  if (name == "MemoryDeallocation") return Kind::deallocation;
  if (name == "AllocatorRetry::AllocateRaw") return Kind::retry;  // a request failed and waits for memory to be freed
  return Kind::other;
}

Frame frame_of(std::string_view name, ImportOutput& writer) {
  const std::size_t blank = name.find(' ');
  const std::size_t colon = name.rfind(':', blank);
  if (name.starts_with('$') && blank != std::string_view::npos && colon < blank) {
    std::uint32_t line = 0;
    const char* const end = name.data() + blank;
    if (std::from_chars(name.data() + colon + 1, end, line).ptr == end && line > 0)
      return {.function = writer.intern(name.substr(blank + 1)),
              .file = writer.intern(name.substr(1, colon - 1)),
              .line = line};
  }
  return {.function = writer.intern(name)};
}

namespace {

enum class PlaneField : std::uint32_t { lines = 3, event_metadata = 4, stat_metadata = 5, stats = 6 };
enum class EntryField : std::uint32_t { key = 1, value = 2 };
enum class MetadataField : std::uint32_t { name = 2 };
enum class LineField : std::uint32_t { id = 1, name = 2, timestamp_ns = 3, events = 4 };
enum class EventField : std::uint32_t { metadata = 1, offset_ps = 2, duration_ps = 3, stats = 4 };
enum class StatField : std::uint32_t {
  metadata = 1,
  real = 2,
  natural = 3,
  integer = 4,
  text = 5,
  bytes = 6,
  name = 7
};

/// Timelines are nested less deeply than this; deeper spans are left out of stacks.
constexpr std::size_t most_nested = 1024;

/// A statistic's value in each of its forms.
struct Value {
  std::uint64_t number = 0;
  double real = 0;
  std::string_view text;
};

struct Span {
  std::uint64_t begin_ps = 0, end_ps = 0;
  std::uint64_t metadata = 0;
  std::string_view message;
};

/// The spans that enclose the current position on a timeline.
class OpenSpans {
 public:
  void close_until(std::uint64_t time_ps) {
    while (!spans_.empty() && spans_.back().end_ps <= time_ps) spans_.pop_back();
  }
  void open(const Span& span) {
    if (spans_.size() < most_nested) spans_.push_back({.end_ps = span.end_ps, .metadata = span.metadata});
  }
  /// The stack of all open spans. `frame_of` maps a metadata number to its frame.
  StackId stack(auto frame_of, ImportOutput& writer) {
    StackId caller = StackId::none;
    for (Open& span : spans_) {
      if (span.stack == StackId::none)
        span.stack = writer.intern(Stack{.frame = frame_of(span.metadata), .caller = caller});
      caller = span.stack;
    }
    return caller;
  }

 private:
  struct Open {
    std::uint64_t end_ps = 0;
    std::uint64_t metadata = 0;
    StackId stack = StackId::none;
  };
  std::vector<Open> spans_;
};

class PlaneReader {
 public:
  PlaneReader(std::string_view plane, Recording& recording, ImportOutput& writer)
      : plane_(plane), recording_(recording), writer_(writer) {}

  void run() {
    read_names();  // they follow the lines that need them
    wire::MessageReader<PlaneField> reader(plane_);
    while (reader.next()) {
      if (reader.field() == PlaneField::lines && interesting_)
        read_line(reader.bytes());
      else if (reader.field() == PlaneField::stats)
        read_plane_stat(reader.bytes());
      else
        reader.skip();
    }
  }

 private:
  using Names = std::unordered_map<std::uint64_t, std::string_view>;

  void read_names() {
    wire::MessageReader<PlaneField> reader(plane_);
    while (reader.next()) {
      if (reader.field() == PlaneField::event_metadata)
        read_name(reader.bytes(), event_names_);
      else if (reader.field() == PlaneField::stat_metadata)
        read_name(reader.bytes(), stat_names_);
      else
        reader.skip();
    }
    for (const auto& [id, name] : event_names_)
      if (const Kind kind = kind_of(name); kind != Kind::other) kinds_.emplace(id, kind);
    for (const auto& [id, name] : stat_names_) {
      const Stat stat = stat_of(name);
      if (stat != Stat::other) stats_.emplace(id, stat);
      has_steps_ |= stat == Stat::step_number;
    }
    interesting_ = !kinds_.empty();  // steps are repeated in the devices' planes
  }

  static void read_name(std::string_view entry, Names& names) {
    std::uint64_t key = 0;
    std::string_view name;
    wire::MessageReader<EntryField> reader(entry);
    while (reader.next()) {
      if (reader.field() == EntryField::key) {
        key = reader.uint64();
      } else if (reader.field() == EntryField::value) {
        wire::MessageReader<MetadataField> metadata(reader.bytes());
        while (metadata.next()) {
          if (metadata.field() == MetadataField::name)
            name = metadata.bytes();
          else
            metadata.skip();
        }
      } else {
        reader.skip();
      }
    }
    names[key] = name;
  }

  void read_plane_stat(std::string_view message) {
    const auto [stat, value] = read_stat(message);
    if (stat == Stat::profile_start_time && value.number <= std::numeric_limits<std::int64_t>::max())
      recording_.start_ns = static_cast<std::int64_t>(value.number);
  }

  std::pair<Stat, Value> read_stat(std::string_view message) const {
    std::uint64_t metadata = 0;
    Value value;
    wire::MessageReader<StatField> reader(message);
    while (reader.next()) {
      switch (reader.field()) {
        case StatField::metadata:
          metadata = reader.uint64();
          break;
        case StatField::real:
          value.real = std::bit_cast<double>(reader.fixed64());
          break;
        case StatField::natural:
        case StatField::integer:
          value.number = reader.uint64();
          value.real = static_cast<double>(value.number);
          break;
        case StatField::text:
          value.text = reader.bytes();
          break;
        case StatField::name:
          if (const auto found = stat_names_.find(reader.uint64()); found != stat_names_.end())
            value.text = found->second;
          break;
        default:
          reader.skip();
      }
    }
    const auto known = stats_.find(metadata);
    return {known == stats_.end() ? Stat::other : known->second, value};
  }

  void read_line(std::string_view line) {
    std::uint64_t id = 0, start_ns = 0;
    std::string_view name;
    std::vector<Span> spans;
    bool has_memory = false;
    wire::MessageReader<LineField> reader(line);
    while (reader.next()) {
      switch (reader.field()) {
        case LineField::id:
          id = reader.uint64();
          break;
        case LineField::name:
          name = reader.bytes();
          break;
        case LineField::timestamp_ns:
          start_ns = reader.uint64();
          break;
        case LineField::events:
          spans.push_back(read_span(reader.bytes()));
          has_memory |= kinds_.contains(spans.back().metadata);
          break;
        default:
          reader.skip();
      }
    }
    if (!has_memory && !has_steps_) return;
    start_ns_ = start_ns;
    thread_ = writer_.intern(Thread{.tid = id, .name = writer_.intern(name)});
    const auto outer_first = [](const Span& a, const Span& b) {
      return a.begin_ps != b.begin_ps ? a.begin_ps < b.begin_ps : a.end_ps > b.end_ps;
    };
    if (!std::ranges::is_sorted(spans, outer_first)) std::ranges::stable_sort(spans, outer_first);
    walk(spans);
  }

  static Span read_span(std::string_view message) {
    Span span{.message = message};
    std::uint64_t duration_ps = 0;
    wire::MessageReader<EventField> reader(message);
    while (reader.next()) {
      if (reader.field() == EventField::metadata)
        span.metadata = reader.uint64();
      else if (reader.field() == EventField::offset_ps)
        span.begin_ps = reader.uint64();
      else if (reader.field() == EventField::duration_ps)
        duration_ps = reader.uint64();
      else
        reader.skip();
    }
    span.end_ps = span.begin_ps + std::min(duration_ps, ~std::uint64_t{0} - span.begin_ps);
    return span;
  }

  void walk(const std::vector<Span>& spans) {
    OpenSpans open;
    std::uint64_t waiting_until_ps = 0;  // of a failed request
    for (const Span& span : spans) {
      open.close_until(span.begin_ps);
      const auto found = kinds_.find(span.metadata);
      const Kind kind = found == kinds_.end() ? Kind::other : found->second;
      if (kind == Kind::allocation || kind == Kind::deallocation) {
        if (kind == Kind::allocation && span.begin_ps <= waiting_until_ps && waiting_until_ps > 0) {
          --recording_.failures;  // it was eventually served
          waiting_until_ps = 0;
        }
        read_memory_event(span, kind, open);
        continue;
      }
      if (kind == Kind::retry) {
        ++recording_.failures;
        waiting_until_ps = span.end_ps;
        mark(span, "waiting for memory");
      } else if (has_steps_ && is_step(span)) {
        mark(span, event_names_[span.metadata]);
      }
      if (span.end_ps > span.begin_ps && event_names_.contains(span.metadata)) open.open(span);
    }
  }

  void read_memory_event(const Span& span, Kind kind, OpenSpans& open) {
    MemoryEvent event{.time_ns = time_of(span.begin_ps), .is_free = kind == Kind::deallocation, .thread = thread_};
    std::string_view allocator, operation, region_type, shape;
    std::uint64_t data_type = 0;
    bool has_address = false;
    for_each_stat(span, [&](Stat stat, const Value& value) {
      has_address |= stat == Stat::address;
      if (stat == Stat::allocator_name) allocator = value.text;
      if (stat == Stat::address) event.address = {value.number};
      if (stat == Stat::requested_bytes) event.requested = {value.number};
      if (stat == Stat::allocation_bytes) event.allocated = {value.number};
      if (stat == Stat::bytes_allocated) event.in_use = {value.number};
      if (stat == Stat::bytes_available) event.available = {value.number};
      if (stat == Stat::fragmentation) event.fragmentation = value.real;
      if (stat == Stat::operation) operation = value.text;
      if (stat == Stat::region_type) region_type = value.text;
      if (stat == Stat::data_type) data_type = value.number;
      if (stat == Stat::shape) shape = value.text;
    });
    if (!has_address || allocator.empty()) {
      ++recording_.incomplete;
      return;
    }
    event.allocator = allocator_number(allocator);
    event.stack = open.stack([&](std::uint64_t metadata) { return frame(metadata); }, writer_);
    push_frame(event.stack, std::string(operation));
    // TensorFlow describes copies to the device as an empty tensor of floats, whatever they are.
    const bool is_unset = shape == "[0]" && event.requested.count > 0;
    if (!is_unset) push_frame(event.stack, tensor_text(region_type, data_type, shape));
    recording_.events.push_back(event);
  }

  /// TensorFlow's DataType (tensorflow/core/framework/types.proto).
  static std::string data_type_name(std::uint64_t type) {
    constexpr std::array<std::string_view, 24> names{
        "",          "float32", "float64",    "int32",   "uint8",    "int16",   "int8",     "string",
        "complex64", "int64",   "bool",       "qint8",   "quint8",   "qint32",  "bfloat16", "qint16",
        "quint16",   "uint16",  "complex128", "float16", "resource", "variant", "uint32",   "uint64"};
    return type < names.size() ? std::string(names[type]) : "data type " + std::to_string(type);
  }

  /// "output, float32, [8,128]": TensorFlow's description of the tensor.
  static std::string tensor_text(std::string_view region_type, std::uint64_t data_type, std::string_view shape) {
    std::string text(region_type);
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
    if (data_type != 0) add(data_type_name(data_type));
    if (!shape.empty()) add(std::string(shape));
    return text;
  }

  void push_frame(StackId& stack, const std::string& function) {
    if (function.empty()) return;
    const FrameId frame = writer_.intern(Frame{.function = writer_.intern(function)});
    stack = writer_.intern(Stack{.frame = frame, .caller = stack});
  }

  bool is_step(const Span& span) const {
    bool found = false;
    for_each_stat(span, [&](Stat stat, const Value&) { found |= stat == Stat::step_number; });
    return found;
  }

  void for_each_stat(const Span& span, auto visit) const {
    wire::MessageReader<EventField> reader(span.message);
    while (reader.next()) {
      if (reader.field() == EventField::stats) {
        const auto [stat, value] = read_stat(reader.bytes());
        visit(stat, value);
      } else {
        reader.skip();
      }
    }
  }

  void mark(const Span& span, std::string_view name) {
    const StringId text = writer_.intern(name);
    const auto add = [&](std::uint64_t time_ps, MarkPhase phase) {
      recording_.marks.push_back(
          {.time_ns = time_of(time_ps), .thread = thread_, .mark = writer_.intern(Mark{.name = text, .phase = phase})});
    };
    add(span.begin_ps, MarkPhase::begin);
    add(span.end_ps, MarkPhase::end);
  }

  std::int64_t time_of(std::uint64_t offset_ps) const {
    return static_cast<std::int64_t>((start_ns_ + offset_ps / 1000) & std::numeric_limits<std::int64_t>::max());
  }

  FrameId frame(std::uint64_t metadata) {
    const auto [found, is_new] = frames_.try_emplace(metadata);
    if (is_new) found->second = writer_.intern(frame_of(event_names_[metadata], writer_));
    return found->second;
  }

  std::uint32_t allocator_number(std::string_view name) {
    auto& numbers = recording_.allocators;
    if (const auto found = numbers.find(name); found != numbers.end()) return found->second;
    return numbers.emplace(name, static_cast<std::uint32_t>(numbers.size())).first->second;
  }

  std::string_view plane_;
  Recording& recording_;
  ImportOutput& writer_;
  Names event_names_, stat_names_;
  std::unordered_map<std::uint64_t, Kind> kinds_;
  std::unordered_map<std::uint64_t, Stat> stats_;
  std::unordered_map<std::uint64_t, FrameId> frames_;
  bool has_steps_ = false;
  bool interesting_ = false;
  std::uint64_t start_ns_ = 0;  // of the line
  ThreadId thread_ = ThreadId::unknown;
};

}  // namespace

void read_plane(std::string_view plane, Recording& recording, ImportOutput& writer) {
  PlaneReader(plane, recording, writer).run();
}

}  // namespace memreel::xplane
