// SPDX-License-Identifier: Apache-2.0
#include "formats/import/source/value_arena.h"

#include <algorithm>

#include "formats/model/files.h"

namespace memreel {
namespace {

// Snapshots have an object for every 30 bytes, and hardly more text than object headers. Reserved but unused memory is
// never touched.
constexpr std::uint64_t bytes_per_object = 24;
constexpr std::uint64_t max_expected_objects = std::uint64_t{1} << 26U;

// Containers reserve the next power of two, so their capacity follows from their count.
constexpr std::size_t room_for(std::size_t count) { return count == 0 ? 0 : std::bit_ceil(count); }

}  // namespace

std::string_view described(ValueKind kind) {
  switch (kind) {
    case ValueKind::none:
      return "None";
    case ValueKind::boolean:
      return "a boolean";
    case ValueKind::integer:
      return "an integer";
    case ValueKind::huge_integer:
      return "an integer of more than 64 bits";
    case ValueKind::number:
      return "a floating-point number";
    case ValueKind::text:
      return "a string";
    case ValueKind::list:
      return "a list";
    case ValueKind::tuple:
      return "a tuple";
    case ValueKind::dict:
      return "a dict";
  }
  return "a value";
}

ValueArena::ValueArena(std::uint64_t document_size, Bytes memory_limit)
    : memory_limit_(memory_limit), most_(std::min<std::uint64_t>(max_index, memory_limit.count / bytes_for_each)) {
  const std::uint64_t objects =
      std::min({document_size / bytes_per_object, max_expected_objects, std::uint64_t{most_}});
  objects_.reserve(objects);
  texts_.reserve(objects);
}

Error ValueArena::too_large(const std::string& where, std::uint64_t offset) const {
  if (most_ == max_index)
    return {.what = "the document holds more than memreel can address",
            .where = where,
            .offset = offset,
            .remedy = "record fewer events per snapshot (max_entries)"};
  Error error = over_memory_limit(where, "holds values that need more than", memory_limit_);
  error.offset = offset;
  return error;
}

Value ValueArena::number(double value) { return boxed(ValueKind::number, std::bit_cast<Value>(value)); }

Value ValueArena::boxed(ValueKind kind, Value content) {
  const Value value = make(kind);
  if (full_) return value;
  objects_.back().first = static_cast<std::uint32_t>(items_.size());
  objects_.back().count = 1;
  items_.push_back(content);
  full_ = items_.size() > most_;
  return value;
}

bool ValueArena::append(Value container, std::span<const Value> items) {
  Object& object = objects_[container.object()];
  if (object.used != 0) return false;
  const std::size_t old_count = object.count;
  const std::size_t count = old_count + items.size();
  if (count > max_count || items_.size() + 2 * count > most_) {
    full_ = true;
    return false;
  }
  const std::size_t room = room_for(old_count);
  if (count > room) {
    if (object.first + room != items_.size() || old_count == 0) {
      const std::size_t first = items_.size();
      items_.resize(first + room_for(count));
      std::copy_n(items_.begin() + object.first, old_count, items_.begin() + static_cast<std::ptrdiff_t>(first));
      object.first = static_cast<std::uint32_t>(first);
    } else {
      items_.resize(object.first + room_for(count));
    }
  }
  std::copy(items.begin(), items.end(), items_.begin() + static_cast<std::ptrdiff_t>(object.first + old_count));
  object.count = count & max_count;
  grew_old_ = grew_old_ || container.object() < recycled_.objects;
  return true;
}

std::optional<bool> ValueArena::as_boolean(Value value) const {
  if (value.tag() == Value::Tag::yes) return true;
  if (value.tag() == Value::Tag::no) return false;
  return std::nullopt;
}

std::optional<std::int64_t> ValueArena::as_signed_boxed(Value value) const {
  const std::optional<std::uint64_t> large = as_unsigned(value);
  if (!large || *large > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return static_cast<std::int64_t>(*large);
}

std::optional<double> ValueArena::as_number(Value value) const {
  if (is(value, ValueKind::number)) return std::bit_cast<double>(items_[objects_[value.object()].first]);
  if (value.tag() == Value::Tag::integer) return static_cast<double>(value.integer());
  const std::optional<std::uint64_t> large = as_unsigned(value);
  if (!large) return std::nullopt;
  return static_cast<double>(*large);
}

void ValueArena::recycle() {
  // An older object that grew has items among the new ones. No pickler does that; it then stays unchanged.
  if (!grew_old_) {
    std::vector<Value> kept;
    for (std::size_t i = recycled_.objects; i < objects_.size(); ++i) {
      Object& object = objects_[i];
      if (object.count == 0 || !holds_items(object)) continue;
      const auto from = items_.begin() + object.first;
      object.first = static_cast<std::uint32_t>(recycled_.items + kept.size());
      kept.insert(kept.end(), from, from + object.count);
      kept.resize(object.first - recycled_.items + room_for(object.count));
    }
    items_.resize(recycled_.items);
    items_.insert(items_.end(), kept.begin(), kept.end());
  }
  recycled_ = extent();
  grew_old_ = false;
}

void ValueArena::truncate(Extent extent) {
  objects_.resize(extent.objects);
  items_.resize(extent.items);
  texts_.resize(extent.texts);
  recycled_.objects = std::min(recycled_.objects, extent.objects);
  recycled_.items = std::min(recycled_.items, extent.items);
}

}  // namespace memreel
