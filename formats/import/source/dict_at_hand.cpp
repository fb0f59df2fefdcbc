// SPDX-License-Identifier: Apache-2.0
#include "formats/import/source/dict_at_hand.h"

#include <cstring>

namespace memreel {
namespace {

using Text = RecentTexts::Text;

PickleOpcode opcode_at(const std::byte* at) { return static_cast<PickleOpcode>(*at); }

template <class Number>
Number number_at(const std::byte* at) {
  Number number;
  std::memcpy(&number, at, sizeof number);
  return number;
}

bool is_integer(PickleOpcode opcode) {
  return opcode == PickleOpcode::long1 || opcode == PickleOpcode::binint || opcode == PickleOpcode::binint1 ||
         opcode == PickleOpcode::binint2;
}

/// Behind a hint for readers that buffer, which picklers write between any two values.
const std::byte* behind_frame(const std::byte* at) {
  return opcode_at(at) == PickleOpcode::frame ? at + 1 + sizeof(std::uint64_t) : at;
}

}  // namespace

std::size_t DictAtHand::read(std::span<const std::byte> bytes, Value stand_in) {
  // The most that is read between two looks at last_ is less: two hints, a key and a text.
  constexpr std::size_t most_at_once = 64, most_memoized = most_keys + 1;
  if (bytes.size() < longest || memo_.capacity() - memo_.size() < most_memoized) return 0;
  extent_ = arena_.extent();
  memoized_ = memo_.size();
  last_ = bytes.data() + (longest - most_at_once);
  const At end = read_dict(bytes.data(), stand_in);
  if (end != nullptr && !arena_.full()) return static_cast<std::size_t>(end - bytes.data());
  undo();
  return 0;
}

void DictAtHand::undo() {
  arena_.truncate(extent_);
  memo_.resize(memoized_);
}

inline DictAtHand::At DictAtHand::read_dict(At at, Value stand_in) {
  at = behind_frame(at);
  if (opcode_at(at++) != PickleOpcode::empty_dict) return nullptr;
  at = memoize(at, stand_in);
  if (at == nullptr || opcode_at(at++) != PickleOpcode::mark) return nullptr;
  has_same_keys_ = true;
  std::size_t key = 0;
  for (; opcode_at(at) != PickleOpcode::setitems; ++key) {
    if (key == most_keys || at > last_) return nullptr;
    if (const KnownKey& known = keys_[key];
        known.length > 0 && (number_at<std::uint64_t>(at) & known.mask) == known.bytes)
      at += known.length;
    else if (at = read_key(at, key); at == nullptr)
      return nullptr;
    at = read_value(behind_frame(at), items_[2 * key + 1]);
    if (at == nullptr) return nullptr;
  }
  has_same_keys_ = has_same_keys_ && count_ == 2 * key;
  count_ = 2 * key;
  return at + 1;
}

DictAtHand::At DictAtHand::read_key(At at, std::size_t which) {
  KnownKey& known = keys_[which] = {};
  has_same_keys_ = false;
  at = behind_frame(at);
  const At end = read_reference(at, items_[2 * which]);
  if (end == nullptr || !arena_.is(items_[2 * which], ValueKind::text)) return nullptr;
  known.length = static_cast<std::size_t>(end - at);
  known.mask = (std::uint64_t{1} << (8 * known.length)) - 1;
  known.bytes = number_at<std::uint64_t>(at) & known.mask;
  return end;
}

inline DictAtHand::At DictAtHand::read_value(At at, Value& into) {
  const PickleOpcode opcode = opcode_at(at);
  if (is_integer(opcode)) {
    at = read_integer(at, into);
    return at == nullptr || !is_integer(opcode_at(at)) ? at : read_pair(at, into, into);
  }
  if (opcode == PickleOpcode::short_binunicode) return read_text(at + 1, into);
  if (opcode == PickleOpcode::empty_list) return read_list(at + 1, into);
  if (opcode != PickleOpcode::none) return read_reference(at, into);
  into = {};
  return at + 1;
}

inline DictAtHand::At DictAtHand::read_reference(At at, Value& into) const {
  std::size_t i = 0;
  if (opcode_at(at) == PickleOpcode::long_binget) {
    i = number_at<std::uint32_t>(at + 1);
    at += 1 + sizeof(std::uint32_t);
  } else if (opcode_at(at) == PickleOpcode::binget) {
    i = number_at<std::uint8_t>(at + 1);
    at += 1 + sizeof(std::uint8_t);
  } else {
    return nullptr;
  }
  if (i >= memo_.size()) return nullptr;
  into = memo_[i];
  return at;
}

inline DictAtHand::At DictAtHand::read_integer(At at, Value& into) {
  const auto as_is = [&]<class Number>(Number number) {
    into = arena_.integer(std::int64_t{number});
    return at + 1 + sizeof number;
  };
  switch (opcode_at(at)) {
    case PickleOpcode::binint1:
      return as_is(number_at<std::uint8_t>(at + 1));
    case PickleOpcode::binint2:
      return as_is(number_at<std::uint16_t>(at + 1));
    case PickleOpcode::binint:
      return as_is(number_at<std::int32_t>(at + 1));
    default:
      break;
  }
  const std::uint32_t length = number_at<std::uint8_t>(at + 1);
  if (length == 0 || length > sizeof(std::uint64_t)) return nullptr;
  into = arena_.integer(sign_extended(number_at<std::uint64_t>(at + 2), length));
  return at + 2 + length;
}

DictAtHand::At DictAtHand::read_pair(At at, Value first, Value& into) {
  std::array<Value, 2> both{first, {}};
  at = read_integer(at, both[1]);
  if (at == nullptr || opcode_at(at) != PickleOpcode::tuple2) return nullptr;
  into = arena_.make(ValueKind::tuple);
  return !arena_.full() && arena_.append(into, both) ? memoize(at + 1, into) : nullptr;
}

inline DictAtHand::At DictAtHand::read_text(At at, Value& into) {
  const auto length = number_at<std::uint8_t>(at++);
  if (length > Text::most) return nullptr;
  const Value* known = texts_.find(Text::of({at, Text::most}, length));
  if (known == nullptr) return nullptr;
  into = *known;
  return memoize(at + length, into);
}

DictAtHand::At DictAtHand::read_list(At at, Value& into) {
  into = arena_.make(ValueKind::list);
  at = memoize(at, into);
  if (arena_.full() || at == nullptr) return nullptr;
  std::size_t count = 0;
  if (opcode_at(at) != PickleOpcode::mark) {
    // A reference is the only item of the list, or else the dict's next key.
    const At end = read_reference(behind_frame(at), listed_[0]);
    if (end == nullptr || opcode_at(end) != PickleOpcode::append) return at;
    at = end;
    count = 1;
  } else {
    for (++at; opcode_at(at) != PickleOpcode::appends; ++count) {
      if (count == most_listed || at > last_) return nullptr;
      at = read_reference(behind_frame(at), listed_[count]);
      if (at == nullptr) return nullptr;
    }
  }
  return count == 0 || arena_.append(into, std::span(listed_).first(count)) ? at + 1 : nullptr;
}

inline DictAtHand::At DictAtHand::memoize(At at, Value value) {
  if (opcode_at(at) != PickleOpcode::memoize) return nullptr;
  memo_.push_back(value);
  return at + 1;
}

}  // namespace memreel
