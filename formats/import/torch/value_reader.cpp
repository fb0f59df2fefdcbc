#include "formats/import/torch/value_reader.h"

#include <algorithm>
#include <limits>

#include "formats/model/quantity.h"

namespace memreel::torch {
namespace {

constexpr std::int64_t max_time_us = max_time.count() / 1000;

}  // namespace

bool ValueReader::read_time(Value value, std::int64_t& into) {
  const std::optional<std::int64_t> time = arena_.as_signed(value);
  if (!time) return fail("'time_us' is " + std::string(described(arena_.kind(value))) + ", expected an integer");
  if (*time > max_time_us || *time < -max_time_us) return fail("'time_us' is out of range");
  into = *time;
  return true;
}

bool ValueReader::read_device(Value value, std::int32_t& into) {
  const std::optional<std::int64_t> device = arena_.as_signed(value);
  if (!device || *device < -1 || *device >= most_devices) return fail("'device' is not a device's ordinal");
  into = static_cast<std::int32_t>(*device);
  return true;
}

bool ValueReader::read_device_type(Value value, std::string& into) {
  constexpr std::size_t longest = 32;
  if (!expect(value, ValueKind::text, "device_type")) return false;
  const std::string_view text = arena_.text(value);
  const bool good = !text.empty() && text.size() <= longest &&
                    std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
  if (!good) return fail("'device_type' is not the name of a device type, such as xpu");
  into = text;
  return true;
}

bool ValueReader::read_pool(Value value, std::optional<PoolKey>& into) {
  const ValueKind kind = arena_.kind(value);
  if (kind != ValueKind::tuple && kind != ValueKind::list)
    return fail("a pool id is " + std::string(described(kind)) + ", expected two integers");
  const auto items = arena_.items(value);
  if (items.size() != 2) return fail("a pool id has " + std::to_string(items.size()) + " items, expected two integers");
  PoolKey key;
  if (!read_unsigned(items[0], "pool_id", key.high) || !read_unsigned(items[1], "pool_id", key.low)) return false;
  into = key;
  return true;
}

bool ValueReader::fail_kind(Value value, ValueKind wanted, std::string_view key) {
  return fail(std::string(key) + " is " + std::string(described(arena_.kind(value))) + ", expected " +
              std::string(described(wanted)));
}

bool ValueReader::fail_number(Value value, std::string_view key) {
  const std::string_view kind = arena_.is(value, ValueKind::integer) ? "negative" : described(arena_.kind(value));
  return fail("'" + std::string(key) + "' is " + std::string(kind) + ", expected a non-negative integer");
}

bool ValueReader::fail_size(std::string_view key) {
  return fail("'" + std::string(key) + "' is more than " + text_of(max_allocation) + ", which no device has");
}

bool ValueReader::fail_address(std::string_view key) {
  return fail("'" + std::string(key) + "' is not an address: 2^62 is the highest");
}

bool ValueReader::fail_used(std::string_view key) { return fail(std::string(key) + " was read before"); }

bool ValueReader::fail(const std::string& what) {
  std::string place;
  if (!location_.list.empty()) {
    place = location_.list;
    if (location_.device) place += '[' + std::to_string(*location_.device) + ']';
    place += '[' + std::to_string(location_.item) + "]: ";
  }
  failed_ = Error{.what = place + what, .remedy = "memreel reads what torch.cuda.memory._dump_snapshot writes"};
  return false;
}

SnapshotKey ValueReader::look_up(Value value) {
  const SnapshotKey found = key_of(arena_.text(value));
  arena_.set_text_note(value, static_cast<std::uint8_t>(found));
  return found;
}

}  // namespace memreel::torch
