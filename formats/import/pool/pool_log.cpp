// SPDX-License-Identifier: Apache-2.0
#include "formats/import/pool/pool_log.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "formats/import/source/log_lines.h"
#include "formats/model/units.h"
#include "formats/model/value_check.h"

namespace memreel::pool_log {
namespace {

using Number = std::optional<std::uint64_t> Line::*;

constexpr std::array<std::pair<std::string_view, Number>, 7> numbers{{{"id", &Line::id},
                                                                      {"size", &Line::size},
                                                                      {"ptr", &Line::ptr},
                                                                      {"stream", &Line::stream},
                                                                      {"thread", &Line::thread},
                                                                      {"device", &Line::device},
                                                                      {"time", &Line::time}}};

/// Handles the parser's events: keys of the object itself, and of the frames in its "stack".
class Handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Handler(Line& line) : line_(line) {}

  bool null() override { return true; }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return !is_number() && other(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (in_frame()) {
      if (key_ == "line") line_.stack.back().line = value;
      return true;
    }
    if (depth_ != 1) return true;
    for (const auto& [key, member] : numbers)
      if (key == key_) {
        line_.*member = value;
        return true;
      }
    return other(std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override { return !is_number() && other(text); }
  bool string(string_t& text) override {
    if (in_frame()) {
      if (key_ == "function") line_.stack.back().function = text;
      if (key_ == "file") line_.stack.back().file = text;
      return true;
    }
    if (is_number()) return false;
    if (depth_ == 1 && key_ == "op") line_.op = text;
    if (depth_ == 1 && key_ == "name") line_.name = text;
    if (depth_ == 1 && key_ == "metadata") line_.metadata = text;
    return key_ == "op" || other(text);
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override {
    ++depth_;
    if (in_frame()) line_.stack.emplace_back();
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 1 || in_frame()) key_ = text;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return false;
    ++depth_;
    if (depth_ == 2) in_stack_ = key_ == "stack";
    return true;
  }
  bool end_array() override {
    if (--depth_ == 1) in_stack_ = false;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool in_frame() const { return in_stack_ && depth_ == 3; }
  bool is_number() const {
    return depth_ == 1 && std::ranges::any_of(numbers, [&](const auto& number) { return number.first == key_; });
  }
  bool other(std::string text) {
    if (depth_ == 1) line_.others.emplace_back(key_, std::move(text));
    return depth_ > 0;
  }

  Line& line_;
  std::size_t depth_ = 0;
  bool in_stack_ = false;
  std::string key_;  // of the object itself or of a frame
};

}  // namespace

bool parse(std::string_view text, Line& into) {
  into.op.clear();
  into.name.clear();
  into.metadata.clear();
  into.stack.clear();
  into.others.clear();
  for (const auto& [key, member] : numbers) into.*member = std::nullopt;
  Handler handler(into);
  return nlohmann::json::sax_parse(text.begin(), text.end(), &handler) && !into.op.empty();
}

namespace {

constexpr auto most_time = static_cast<std::uint64_t>(max_time.count());

/// What is wrong with a line; null if nothing.
using Complaint = const char*;

/// CUDA's handles 1 and 2 are aliases of the default stream; in a log they are ordinary streams.
constexpr std::uint64_t handle_of(std::uint64_t stream) { return stream == 1 || stream == 2 ? 256 + stream : stream; }

/// Writes lines as events.
class Recorder {
 public:
  explicit Recorder(ImportOutput& writer) : writer_(writer) {}

  Complaint add(const Line& line, std::uint64_t number) {
    if (line.time > most_time) return "has a time that is out of range";
    if (line.op == "config") return configure(line);
    if (heap_ == HeapId::none) make_heap("pool", 0);
    event_ = {.origin = origin_of(line), .time = Nanoseconds{static_cast<std::int64_t>(line.time.value_or(number))}};
    if (line.op == "alloc") return allocate(line);
    if (line.op == "free") return free(line);
    if (line.op == "up" || line.op == "down") return add_segment(line);
    if (line.op == "sync") return append(EventKind::sync, line.stream ? sync_stream : sync_device);
    if (line.op == "trim") return append(EventKind::empty_cache);
    if (line.op == "begin" || line.op == "end" || line.op == "mark") return add_mark(line);
    ++losses.unknown_actions;
    return nullptr;
  }

  Losses losses;

 private:
  struct Live {
    AllocationId id = AllocationId::none;  // none: the request failed
    std::optional<std::uint64_t> stream;
  };

  void make_heap(std::string_view name, std::int32_t device) {
    heap_ = writer_.intern(
        Heap{.name = writer_.intern(name), .level = Level::framework, .device = device, .observes_completion = false});
  }

  Complaint configure(const Line& line) {
    if (heap_ != HeapId::none) return "is a config, which only the first line may be";
    constexpr std::uint64_t most_devices = 1'000;
    if (line.device.value_or(0) >= most_devices) return "has a device number that is out of range";
    const auto kind = std::ranges::find(line.others, "kind", [](const auto& entry) { return entry.first; });
    make_heap(kind == line.others.end() ? "pool" : kind->second, static_cast<std::int32_t>(line.device.value_or(0)));
    Settings settings;
    for (const auto& [key, value] : line.others)
      settings.entries.emplace_back(writer_.intern(key), writer_.intern(value));
    event_ = {.origin = origin_of({}), .time = Nanoseconds{static_cast<std::int64_t>(line.time.value_or(0))}};
    return append(EventKind::settings, index(writer_.intern(settings)));
  }

  Complaint allocate(const Line& line) {
    if (!line.id) return "is an alloc without an id";
    if (!line.size) return "is an alloc without a size";
    if (!line.ptr) live_.try_emplace(*line.id);
    if (!line.ptr && *line.size == 0) return nullptr;  // nothing was requested, and nothing allocated
    event_.size = Bytes{line.ptr ? *line.size : as_request(*line.size)};
    add_stack(line);
    if (!line.ptr) return append(EventKind::alloc_failed);
    event_.address = Address{*line.ptr};
    if (const Complaint complaint = check_extent()) return complaint;
    if (const auto live = live_.find(*line.id); live != live_.end() && live->second.id != AllocationId::none)
      return "allocates an id that is live";
    if (writer_.live_at(heap_, event_.address) != AllocationId::none) return "allocates at an address that is live";
    if (!line.metadata.empty()) {
      Origin origin = writer_.tables()[event_.origin];
      origin.metadata = writer_.intern(line.metadata);
      event_.origin = writer_.intern(origin);
    }
    event_.kind = EventKind::alloc;
    live_[*line.id] = {writer_.append(event_), line.stream};
    return nullptr;
  }

  Complaint free(const Line& line) {
    if (!line.id) return "is a free without an id";
    const auto live = live_.find(*line.id);
    if (live == live_.end()) {
      ++losses.unmatched_frees;
      return nullptr;
    }
    event_.allocation = live->second.id;
    if (!line.stream) event_.origin = origin_of(live->second.stream.value_or(0), line.thread.value_or(0));
    live_.erase(live);
    if (event_.allocation == AllocationId::none) return nullptr;
    add_stack(line);
    return append(EventKind::free_requested);
  }

  Complaint add_segment(const Line& line) {
    if (!line.size) return "has no size";
    if (!line.ptr) return nullptr;  // refused
    event_.address = Address{*line.ptr};
    event_.size = Bytes{*line.size};
    if (const Complaint complaint = check_extent()) return complaint;
    return append(line.op == "up" ? EventKind::segment_alloc : EventKind::segment_free);
  }

  Complaint add_mark(const Line& line) {
    const MarkPhase phase = line.op == "begin" ? MarkPhase::begin
                            : line.op == "end" ? MarkPhase::end
                                               : MarkPhase::instant;
    return append(EventKind::mark, index(writer_.intern(Mark{.name = writer_.intern(line.name), .phase = phase})));
  }

  Complaint append(EventKind kind, std::uint64_t value = 0) {
    event_.kind = kind;
    event_.value = value;
    writer_.append(event_);
    return nullptr;
  }

  Complaint check_extent() {
    if (!is_possible(event_.address, event_.size)) return "has a ptr or a size that no device has";
    total_ += event_.size;
    return total_.bytes() > max_total ? "is where the sizes add up to more than 2^62 bytes" : nullptr;
  }

  OriginId origin_of(const Line& line) { return origin_of(line.stream.value_or(0), line.thread.value_or(0)); }

  OriginId origin_of(std::uint64_t stream, std::uint64_t thread) {
    if (origin_ != OriginId::none && stream == last_stream_ && thread == last_thread_) return origin_;
    last_stream_ = stream;
    last_thread_ = thread;
    Origin origin{.heap = heap_};
    if (stream != 0) origin.stream = writer_.intern(Stream{.handle = handle_of(stream)});
    if (thread != 0) origin.thread = writer_.intern(Thread{.tid = thread});
    return origin_ = writer_.intern(origin);
  }

  void add_stack(const Line& line) {
    StackId stack = StackId::none;
    for (auto frame = line.stack.rbegin(); frame != line.stack.rend(); ++frame)
      stack = writer_.intern(Stack{.frame = writer_.intern(Frame{.function = writer_.intern(frame->function),
                                                                 .file = writer_.intern(frame->file),
                                                                 .line = static_cast<std::uint32_t>(
                                                                     std::min<std::uint64_t>(frame->line, 1U << 30U))}),
                                   .caller = stack});
    event_.stack = stack;
  }

  ImportOutput& writer_;
  HeapId heap_ = HeapId::none;
  OriginId origin_ = OriginId::none;  // of the last line
  std::uint64_t last_stream_ = 0, last_thread_ = 0;
  std::unordered_map<std::uint64_t, Live> live_;  // by id
  TotalBytes total_;
  Event event_;
};

Error error_at(const Lines& lines, const ByteCursor& bytes, std::string_view what) {
  return {.what = "line " + std::to_string(lines.number()) + " " + std::string(what),
          .where = bytes.where(),
          .offset = std::nullopt,
          .remedy =
              "a pool's log has lines such as {\"op\": \"alloc\", \"id\": 1, \"size\": 905, \"ptr\": 140489856647168}"};
}

}  // namespace

bool looks_like_pool_log(std::span<const std::byte> beginning) {
  const std::string_view text(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  const std::size_t end = text.find('\n');
  // A defect in the first line does not make it another format.
  if (end != std::string_view::npos) {
    const auto first = nlohmann::json::parse(text.substr(0, end), nullptr, false);
    if (!first.is_discarded()) return first.is_object() && first.contains("op");
  }
  // A long line, the only one, or no JSON: detect it by its first key.
  const std::size_t brace = text.find_first_not_of(" \t");
  if (brace == std::string_view::npos || text[brace] != '{') return false;
  const std::size_t key = text.find_first_not_of(" \t", brace + 1);
  return key != std::string_view::npos && text.substr(key).starts_with("\"op\"");
}

Result<void> import_pool_log(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "pool.jsonl";
  ImportOutput& writer = begin(header);
  Recorder recorder(writer);
  Lines lines(bytes);
  Line line;
  while (lines.next()) {
    if (lines.text().find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (!parse(lines.text(), line)) {
      if (lines.ended()) return error_at(lines, bytes, "is not a JSON object with an \"op\" and whole numbers");
      ++recorder.losses.unknown_actions;  // cut off
      break;
    }
    if (const Complaint complaint = recorder.add(line, lines.number())) return error_at(lines, bytes, complaint);
  }
  if (bytes.failure()) return *bytes.failure();
  if (lines.too_long()) return error_at(lines, bytes, "is longer than 64 KiB");
  writer.set_losses(recorder.losses);
  return writer.finish();
}

}  // namespace memreel::pool_log
