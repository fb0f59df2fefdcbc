// SPDX-License-Identifier: Apache-2.0
#include "formats/import/xplane/regions.h"

#include <protozero/exception.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <unordered_map>

#include "formats/import/source/log_lines.h"
#include "formats/model/units.h"
#include "formats/model/value_check.h"
#include "formats/wire/message.h"

namespace memreel::xplane {
namespace {

// profile.proto of pprof.
enum class ProfileField : std::uint32_t { sample_type = 1, sample = 2, location = 4, function = 5, string_table = 6 };
enum class TypeField : std::uint32_t { type = 1, unit = 2 };
enum class SampleField : std::uint32_t { location = 1, value = 2, label = 3 };
enum class LabelField : std::uint32_t { key = 1, text = 2 };
enum class LocationField : std::uint32_t { id = 1, line = 4 };
enum class SourceLineField : std::uint32_t { function = 1, line = 2 };
enum class FunctionField : std::uint32_t { id = 1, name = 2, file = 4 };

/// More buffers than this of one place are written as one allocation.
constexpr std::uint64_t most_buffers = 100'000;
/// Of all places.
constexpr std::uint64_t most_buffers_in_all = 10'000'000;

/// A repeated number, packed or not.
template <class Reader>
void add_numbers(Reader& reader, std::vector<std::uint64_t>& into) {
  if (reader.is_bytes()) {
    const auto numbers = reader.numbers();
    into.insert(into.end(), numbers.begin(), numbers.end());
  } else {
    into.push_back(reader.uint64());
  }
}

class ProfileReader {
 public:
  ProfileReader(std::string_view profile, ImportOutput& writer) : profile_(profile), writer_(writer) {}

  /// False if the samples are not counts and bytes of allocations.
  bool run() {
    read_tables();
    if (types_.size() != 2 || text(types_[0]) != "allocations" || text(types_[1]) != "space") return false;
    wire::MessageReader<ProfileField> reader(profile_);
    while (reader.next()) {
      if (reader.field() == ProfileField::sample)
        add_sample(reader.bytes());
      else
        reader.skip();
    }
    return true;
  }

  std::uint64_t left_out() const { return left_out_; }

 private:
  struct Function {
    std::uint64_t name = 0, file = 0;
  };
  struct SourceLine {
    std::uint64_t function = 0, line = 0;
  };

  std::string_view text(std::uint64_t index) const {
    return index < texts_.size() ? texts_[index] : std::string_view{};
  }

  /// They follow the samples that need them.
  void read_tables() {
    wire::MessageReader<ProfileField> reader(profile_);
    while (reader.next()) {
      switch (reader.field()) {
        case ProfileField::sample_type: {
          wire::MessageReader<TypeField> type(reader.bytes());
          std::uint64_t name = 0;
          while (type.next())
            if (type.field() == TypeField::type)
              name = type.uint64();
            else
              type.skip();
          types_.push_back(name);
          break;
        }
        case ProfileField::location: {
          wire::MessageReader<LocationField> location(reader.bytes());
          std::uint64_t id = 0;
          std::vector<SourceLine> lines;
          while (location.next())
            if (location.field() == LocationField::id)
              id = location.uint64();
            else if (location.field() == LocationField::line)
              lines.push_back(line_in(location.bytes()));
            else
              location.skip();
          locations_[id] = std::move(lines);
          break;
        }
        case ProfileField::function: {
          wire::MessageReader<FunctionField> function(reader.bytes());
          std::uint64_t id = 0;
          Function row;
          while (function.next())
            if (function.field() == FunctionField::id)
              id = function.uint64();
            else if (function.field() == FunctionField::name)
              row.name = function.uint64();
            else if (function.field() == FunctionField::file)
              row.file = function.uint64();
            else
              function.skip();
          functions_[id] = row;
          break;
        }
        case ProfileField::string_table:
          texts_.push_back(reader.bytes());
          break;
        default:
          reader.skip();
      }
    }
  }

  static SourceLine line_in(std::string_view message) {
    SourceLine row;
    wire::MessageReader<SourceLineField> line(message);
    while (line.next())
      if (line.field() == SourceLineField::function)
        row.function = line.uint64();
      else if (line.field() == SourceLineField::line)
        row.line = line.uint64();
      else
        line.skip();
    return row;
  }

  void add_sample(std::string_view message) {
    std::vector<std::uint64_t> places, values;
    std::string_view device;
    bool is_program = false;
    wire::MessageReader<SampleField> sample(message);
    while (sample.next()) {
      if (sample.field() == SampleField::location)
        add_numbers(sample, places);
      else if (sample.field() == SampleField::value)
        add_numbers(sample, values);
      else if (sample.field() == SampleField::label) {
        std::uint64_t key = 0, value = 0;
        wire::MessageReader<LabelField> label(sample.bytes());
        while (label.next())
          if (label.field() == LabelField::key)
            key = label.uint64();
          else if (label.field() == LabelField::text)
            value = label.uint64();
          else
            label.skip();
        if (text(key) == "device") device = text(value);
        if (text(key) == "kind") is_program = text(value) == "executable";
      } else {
        sample.skip();
      }
    }
    if (values.size() != 2) {
      ++left_out_;
      return;
    }
    add_buffers(values[0], values[1], is_program, device, stack_of(places));
  }

  void add_buffers(std::uint64_t count, std::uint64_t bytes, bool is_program, std::string_view device, StackId stack) {
    if (bytes == 0) return;
    if (count == 0 || count > most_buffers || written_ + count > most_buffers_in_all) count = 1;
    const std::uint64_t each = bytes / count;
    if (each + bytes % count > max_allocation.count || total_.bytes() + Bytes{bytes} > max_total) {
      ++left_out_;
      return;
    }
    total_ += Bytes{bytes};
    written_ += count;
    const HeapId heap = writer_.intern(Heap{.name = writer_.intern(is_program ? "jax.executables" : "jax.buffers"),
                                            .level = Level::framework,
                                            .device = device_of(device),
                                            .observes_completion = false});
    const OriginId origin = writer_.intern(Origin{.heap = heap});
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t size = each + (i == 0 ? bytes % count : 0);
      writer_.append(
          {.kind = EventKind::alloc, .origin = origin, .stack = stack, .address = Address{next_}, .size = Bytes{size}});
      next_ += (size + 255) / 256 * 256 + 256;
    }
  }

  /// Leaf first; a location's inlined callers follow it.
  StackId stack_of(const std::vector<std::uint64_t>& places) {
    std::vector<FrameId> frames;
    for (const std::uint64_t place : places) {
      const auto location = locations_.find(place);
      if (location == locations_.end()) continue;
      for (const SourceLine& line : location->second) {
        const auto function = functions_.find(line.function);
        if (function == functions_.end() || frames.size() >= max_stack_depth) continue;
        constexpr std::uint64_t most_lines = std::uint64_t{1} << 31U;
        frames.push_back(
            writer_.intern(Frame{.function = writer_.intern(text(function->second.name)),
                                 .file = writer_.intern(text(function->second.file)),
                                 .line = static_cast<std::uint32_t>(line.line < most_lines ? line.line : 0)}));
      }
    }
    StackId stack = StackId::none;
    for (; !frames.empty(); frames.pop_back()) stack = writer_.intern(Stack{.frame = frames.back(), .caller = stack});
    return stack;
  }

  static std::int32_t device_of(std::string_view name) {
    if (name.find("CPU") != std::string_view::npos || name.find("cpu") != std::string_view::npos) return -1;
    std::int32_t device = 0;
    const std::size_t first = name.find_first_of("0123456789");
    for (std::size_t at = first; at < name.size() && name[at] >= '0' && name[at] <= '9' && device < 1000; ++at)
      device = device * 10 + (name[at] - '0');
    return device;
  }

  std::string_view profile_;
  ImportOutput& writer_;
  std::vector<std::uint64_t> types_;  // names
  std::vector<std::string_view> texts_;
  std::unordered_map<std::uint64_t, std::vector<SourceLine>> locations_;
  std::unordered_map<std::uint64_t, Function> functions_;
  TotalBytes total_;
  std::uint64_t written_ = 0, left_out_ = 0;
  std::uint64_t next_ = 256;
};

}  // namespace

bool looks_like_device_memory(std::span<const std::byte> beginning) {
  // Two sample types of two small numbers each, and then neither a third one nor text.
  std::string_view text = text_of(beginning);
  for (int i = 0; i < 2; ++i) {
    if (text.size() < 6 || text[0] != '\x0a' || text[1] != '\x04' || text[2] != '\x08' || text[4] != '\x10')
      return false;
    text.remove_prefix(6);
  }
  return !text.empty() && text[0] == '\x12';
}

Result<void> import_device_memory(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  header.source = "jax.memory";
  std::string profile;
  if (const std::string_view first = text_of(bytes.peek(1)); !first.starts_with('\x0a'))
    return Error{.what = "is not a profile of pprof",
                 .where = bytes.where(),
                 .offset = 0,
                 .remedy = "save one with jax.profiler.save_device_memory_profile()"};
  for (;;) {
    const auto piece = bytes.take(std::uint64_t{1} << 18U);
    if (piece.empty()) break;
    profile.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    if (profile.size() > bytes.memory_limit().count)
      return Error{.what = "is larger than the memory limit", .where = bytes.where(), .remedy = "raise --max-memory"};
  }
  if (bytes.failure()) return *bytes.failure();
  ImportOutput& writer = begin(header);
  ProfileReader reader(profile, writer);
  try {
    if (!reader.run())
      return Error{.what = "is a profile of pprof, but not of a device's memory",
                   .where = bytes.where(),
                   .remedy = "save one with jax.profiler.save_device_memory_profile()"};
  } catch (const protozero::exception&) {
    return Error{.what = "the profile is damaged or cut off",
                 .where = bytes.where(),
                 .remedy = "save it again, or copy it again"};
  }
  writer.set_losses({.unknown_actions = reader.left_out(), .skipped = all_of_a_history()});
  return writer.finish();
}

namespace {

constexpr Bytes unit = 256_B;
constexpr Bytes most_memory{std::uint64_t{1} << 45U};

/// The free memory inside known regions.
class FreeSpace {
 public:
  bool add_region(Address address, Bytes size) {
    const auto next = regions_.lower_bound(address.value);
    if (next != regions_.end() && next->first - address.value < size.count) return false;
    if (next != regions_.begin() && std::prev(next)->first + std::prev(next)->second > address.value) return false;
    regions_.emplace(address.value, size.count);
    total_ += size;
    insert(address.value, size.count);
    return true;
  }

  bool contains(Address address) const {
    const auto next = regions_.upper_bound(address.value);
    return next != regions_.begin() && address.value - std::prev(next)->first < std::prev(next)->second;
  }

  /// False if part of it is not free.
  bool take(Address address, Bytes size) {
    const auto next = free_.upper_bound(address.value);
    if (next == free_.begin()) return false;
    const auto [begin, length] = *std::prev(next);
    const std::uint64_t before = address.value - begin;
    if (before > length || size.count > length - before) return false;
    erase(std::prev(next));
    if (before > 0) insert(begin, before);
    if (length - before > size.count) insert(address.value + size.count, length - before - size.count);
    return true;
  }

  /// Frees taken memory. Neighbours merge within a region.
  void give_back(Address address, Bytes size) {
    std::uint64_t begin = address.value, length = size.count;
    const auto next = free_.lower_bound(begin);
    if (next != free_.end() && next->first == begin + length && !regions_.contains(next->first)) {
      length += next->second;
      erase(next);
    }
    const auto after = free_.lower_bound(begin);
    if (after != free_.begin() && std::prev(after)->first + std::prev(after)->second == begin &&
        !regions_.contains(begin)) {
      length += std::prev(after)->second;
      begin = std::prev(after)->first;
      erase(std::prev(after));
    }
    insert(begin, length);
  }

  Bytes total() const { return total_; }
  Bytes largest() const { return {sizes_.empty() ? 0 : sizes_.rbegin()->first}; }

 private:
  using Pieces = std::map<std::uint64_t, std::uint64_t>;  // lengths by start address

  void insert(std::uint64_t begin, std::uint64_t length) {
    free_.emplace(begin, length);
    ++sizes_[length];
  }
  void erase(Pieces::const_iterator piece) {
    const auto size = sizes_.find(piece->second);
    if (--size->second == 0) sizes_.erase(size);
    free_.erase(piece);
  }

  Pieces regions_, free_;
  std::map<std::uint64_t, std::uint64_t> sizes_;  // number of pieces by size
  Bytes total_;
};

/// Whether the recorded metric, which has six digits, matches these sizes.
bool agrees(double recorded, Bytes total, Bytes in_use, Bytes largest_free) {
  if (in_use > total) return false;
  const auto free = static_cast<double>((total - in_use).count);
  if (free == 0) return std::isnan(recorded) || recorded == 0;
  const double exact = (free - static_cast<double>(largest_free.count)) / free;
  return std::abs(exact - recorded) <= 5.1e-6 * exact;
}

/// One interpretation of the events: the pool grows, or existed from the start.
class Reading {
 public:
  Reading(bool growing, Bytes page, Bytes limit) : limit_(limit), next_(growing ? std::min(limit, 2_MiB) : limit) {
    result_.growing = growing;
    result_.page = page;
  }

  std::optional<Regions> run(std::span<const MemoryEvent* const> events) && {
    for (std::size_t i = 0; i < events.size(); ++i) {
      const MemoryEvent& event = *events[i];
      const bool sound = event.is_free ? give_back(event) : take(event, i);
      if (!sound || !agrees(event.fragmentation, space_.total(), event.in_use, space_.largest())) return std::nullopt;
    }
    return std::move(result_);
  }

 private:
  bool take(const MemoryEvent& event, std::size_t i) {
    if (event.allocated.count == 0 || event.allocated.count % unit.count != 0 || event.allocated > most_memory)
      return false;
    if (event.address.value > std::uint64_t{1} << 62U) return false;
    if (!space_.contains(event.address) && !extend(event, i)) return false;
    return space_.take(event.address, event.allocated) && live_.emplace(event.address.value, event.allocated).second;
  }

  bool give_back(const MemoryEvent& event) {
    const auto found = live_.find(event.address.value);
    if (found == live_.end() || found->second != event.allocated) return false;
    space_.give_back(event.address, event.allocated);
    live_.erase(found);
    return true;
  }

  /// The region allocated for a request; if the device refused the first size, the largest of the retries that matches
  /// the metric.
  bool extend(const MemoryEvent& event, std::size_t i) {
    const Bytes available{(limit_ - std::min(limit_, space_.total())).count / unit.count * unit.count};
    const Bytes request = round_up(event.requested, unit);
    if (request > available) return false;
    const bool doubles_for_it = request > next_;
    while (request > next_) next_ = next_ * 2;
    for (Bytes wanted = std::min(next_, available); wanted >= request; wanted = backed_off(wanted)) {
      const Bytes size = round_up(wanted, result_.page);
      if (size < event.allocated) break;
      const Bytes rest = size - event.allocated;
      if (agrees(event.fragmentation, space_.total() + size, event.in_use, std::max(space_.largest(), rest))) {
        if (!doubles_for_it) next_ = std::min(next_ * 2, most_memory * 2);
        result_.regions.push_back({.event = i, .address = event.address, .size = size});
        return space_.add_region(event.address, size);
      }
    }
    return false;
  }

  static Bytes backed_off(Bytes refused) {
    const Bytes less = round_up(Bytes{static_cast<std::uint64_t>(static_cast<float>(refused.count) * 0.9F)}, unit);
    return less < refused ? less : refused - std::min(refused, unit);
  }

  Bytes limit_;
  Bytes next_;  // the size of the next region
  FreeSpace space_;
  std::unordered_map<std::uint64_t, Bytes> live_;  // chunks by address
  Regions result_;
};

}  // namespace

std::optional<Regions> infer_regions(std::span<const MemoryEvent* const> events) {
  if (events.empty() || events[0]->in_use_before().count != 0) return std::nullopt;
  const Bytes limit = events[0]->in_use + events[0]->available;
  if (limit.count == 0 || limit > most_memory) return std::nullopt;
  for (const bool growing : {true, false})
    for (const Bytes page : {unit, 2_MiB})
      if (auto regions = Reading(growing, page, limit).run(events)) return regions;
  return std::nullopt;
}

}  // namespace memreel::xplane
