#include "formats/import/kineto/profile.h"

#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "formats/import/source/json_scalars.h"
#include "formats/model/limits.h"
#include "formats/model/memory_limit.h"
#include "formats/model/total_bytes.h"

namespace memreel::kineto {
namespace {

constexpr std::uint64_t cuda = 1, hip = 6;  // c10::DeviceType
constexpr std::int64_t most_devices = 1'000;
constexpr std::string_view event_path = "traceEvents[]";

/// What is kept of an event's members until it ends.
struct RawEvent {
  std::string phase, category, name;
  std::optional<double> time_us, duration_us;
  std::optional<std::uint64_t> pid, tid, device_type, address, total;
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
                              .total = event_.total});
    const MemoryEvent& event = profile.memory.back();
    const Bytes size{event.bytes < 0 ? -static_cast<std::uint64_t>(event.bytes)
                                     : static_cast<std::uint64_t>(event.bytes)};
    if (!failed) total_ += size;
    if (!failed && (!is_possible(Address{event.address}, size) || event.total > max_allocation.count ||
                    total_.bytes() > max_total))
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

}  // namespace memreel::kineto
