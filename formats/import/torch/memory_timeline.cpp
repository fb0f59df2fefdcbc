#include "formats/import/torch/memory_timeline.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/import/source/json_scalars.h"
#include "formats/import/source/log_lines.h"
#include "formats/model/limits.h"
#include "formats/model/stack_text.h"
#include "formats/model/total_bytes.h"

namespace memreel::torch {
namespace {

constexpr std::array<std::string_view, 8> category_names{
    "parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd_detail", "unknown"};
enum class TimelineAction : std::int64_t { existed = 1, created = 2, version = 3, destroyed = 4 };

class TimelineReader final : public JsonVisitor {
 public:
  explicit TimelineReader(TraceWriter& writer)
      : writer_(writer),
        heap_(writer.intern(Heap{.name = writer.intern("torch.cuda"),
                                 .level = Level::framework,
                                 .device = 0,
                                 .observes_completion = false})),
        preexisting_(
            writer.intern(Stack{.frame = writer.intern(Frame{.function = writer.intern(preexisting_frame)})})) {}

  Result<void> scalar(std::string_view path, const JsonScalar& value) override {
    if (path != "[][]") return refused();
    const std::optional<std::int64_t> number = as_signed(value);
    if (!number) return refused();
    row_[filled_++] = *number;
    if (filled_ < row_.size()) return {};
    filled_ = 0;
    return add();
  }
  Result<void> end_object(std::string_view) override { return refused(); }

  Losses losses;
  bool is_complete() const { return filled_ == 0 && any_; }

 private:
  /// The size and the category, by which allocations are told apart.
  using Key = std::pair<std::uint64_t, std::size_t>;

  static Error refused() {
    return {
        .what = "is not a list of [time, action, bytes, category]",
        .where = {},
        .remedy = "export_memory_timeline(\"x.raw.json.gz\") of torch.profiler writes one; \"x.json\" has only sums"};
  }

  Result<void> add() {
    const auto [time, action, bytes, category] = row_;
    const std::uint64_t size =
        bytes < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(bytes) : static_cast<std::uint64_t>(bytes);
    if (action < 1 || action > 4 || category < 0 || size > max_allocation.count || time < -1 ||
        !is_possible(Nanoseconds(time)))
      return refused();
    if (bytes > 0) total_ += Bytes{size};
    next_ += (size + 511) / 512 * 512 + 512;
    if (total_.bytes() > max_total || next_ > max_address.value) return refused();
    any_ = true;
    if (time >= 0) time_ = Nanoseconds(time);
    const Key key{size, std::min(static_cast<std::size_t>(category), category_names.size() - 1)};
    const auto what = static_cast<TimelineAction>(action);
    if (what == TimelineAction::version) return change_version(bytes < 0, key);
    if (bytes < 0 || what == TimelineAction::destroyed) {
      if (const AllocationId ended = take(key); ended != AllocationId::none) end(ended, key);
      return {};
    }
    begin(key, what == TimelineAction::existed);
    return {};
  }

  /// The next version of an allocation may have another category.
  Result<void> change_version(bool ends, const Key& key) {
    if (ends) {
      if (const AllocationId changing = take(key); changing != AllocationId::none)
        changing_[key.first].push_back(changing);
      return {};
    }
    std::vector<AllocationId>& changing = changing_[key.first];
    if (changing.empty()) {
      begin(key, false);
      return {};
    }
    live_[key].push_back(changing.back());
    changing.pop_back();
    return {};
  }

  void begin(const Key& key, bool existed) {
    if (existed) ++losses.preexisting_allocations;
    if (existed) losses.began_late = true;
    live_[key].push_back(writer_.append({.kind = EventKind::alloc,
                                         .origin = origin_of(key),
                                         .stack = existed ? preexisting_ : StackId::none,
                                         .time = time_,
                                         .address = Address{next_},
                                         .size = Bytes{key.first}}));
  }

  void end(AllocationId allocation, const Key& key) {
    writer_.append(
        {.kind = EventKind::free_requested, .origin = origin_of(key), .allocation = allocation, .time = time_});
  }

  AllocationId take(const Key& key) {
    const auto found = live_.find(key);
    if (found == live_.end() || found->second.empty()) {
      ++losses.unmatched_frees;
      return AllocationId::none;
    }
    const AllocationId latest = found->second.back();
    found->second.pop_back();
    return latest;
  }

  OriginId origin_of(const Key& key) {
    return writer_.intern(Origin{.heap = heap_, .metadata = writer_.intern(category_names[key.second])});
  }

  TraceWriter& writer_;
  HeapId heap_;
  StackId preexisting_;
  std::array<std::int64_t, 4> row_{};
  std::size_t filled_ = 0;
  bool any_ = false;
  Nanoseconds time_{};
  std::uint64_t next_ = 512;  // addresses are made up
  TotalBytes total_;
  std::map<Key, std::vector<AllocationId>> live_;
  std::map<std::uint64_t, std::vector<AllocationId>> changing_;  // by size
};

}  // namespace

bool looks_like_timeline(std::span<const std::byte> beginning) {
  std::string_view text = text_of(beginning);
  for (const char expected : std::string_view("[[")) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || text[first] != expected) return false;
    text.remove_prefix(first + 1);
  }
  const std::size_t number = text.find_first_not_of(" \t\r\n");
  return number != std::string_view::npos && (text[number] == '-' || (text[number] >= '0' && text[number] <= '9'));
}

Result<void> import_timeline(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                             const WriterOptions& options) {
  header.source = "torch.timeline";
  TraceWriter writer(std::move(sink), header, options);
  TimelineReader reader(writer);
  Result<void> read = visit_json(bytes, reader);
  if (read && !reader.is_complete())
    read = Error{.what = "the list is empty, or its last entry is not complete", .remedy = "export it again"};
  if (!read) {
    if (read.error().where.empty()) read.error().where = bytes.where();
    return read;
  }
  writer.set_losses(reader.losses);
  return writer.finish();
}

}  // namespace memreel::torch
