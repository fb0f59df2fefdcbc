#include "formats/model/origin_text.h"

#include <string_view>

namespace memreel {

std::string stream_label(const Tables& tables, StreamId id) {
  return id == StreamId::default_stream ? "default" : hexadecimal(tables[id].handle);
}

std::string pool_label(const Tables& tables, PoolId id) {
  if (id == PoolId::default_pool) return "default";
  const Pool& pool = tables[id];
  std::string label = tables[pool.name];
  if (label.empty()) label = "(" + std::to_string(pool.key_high) + ", " + std::to_string(pool.key_low) + ")";
  return label + (pool.inferred ? " inferred" : "");
}

std::string hexadecimal(std::uint64_t value) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), digits[value & 15U]);
    value >>= 4U;
  } while (value != 0);
  return "0x" + text;
}

}  // namespace memreel
