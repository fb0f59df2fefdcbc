// SPDX-License-Identifier: Apache-2.0
// Writes pickles the way Python's and PyTorch's picklers do, for tests.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace memreel::test {

using Document = nlohmann::ordered_json;

/// Plain data as a pickle. Strings, and equal lists and dicts, are written once and referenced afterwards, as Python
/// does with identical objects.
class PickleEncoder {
 public:
  explicit PickleEncoder(int protocol) : protocol_(protocol) {}

  std::string encode(const Document& document) {
    out_ = {'\x80', static_cast<char>(protocol_)};
    value(document);
    out_ += '.';
    return std::move(out_);
  }

 private:
  template <class Number>
  void number(Number value) {
    for (std::size_t i = 0; i < sizeof value; ++i)
      out_ += static_cast<char>((static_cast<std::uint64_t>(value) >> (8 * i)) & 0xFFU);
  }

  void memoize(const std::string& key) {
    const auto index = static_cast<std::uint32_t>(memo_.size());
    memo_[key] = index;
    if (protocol_ >= 4) {
      out_ += '\x94';
    } else if (index < 256) {
      out_ += 'q';
      number(static_cast<std::uint8_t>(index));
    } else {
      out_ += 'r';
      number(index);
    }
  }

  bool recall(const std::string& key) {
    const auto known = memo_.find(key);
    if (known == memo_.end()) return false;
    if (known->second < 256) {
      out_ += 'h';
      number(static_cast<std::uint8_t>(known->second));
    } else {
      out_ += 'j';
      number(known->second);
    }
    return true;
  }

  void text(const std::string& value) {
    if (recall('"' + value)) return;
    if (protocol_ >= 4 && value.size() < 256) {
      out_ += '\x8c';
      number(static_cast<std::uint8_t>(value.size()));
    } else {
      out_ += 'X';
      number(static_cast<std::uint32_t>(value.size()));
    }
    out_ += value;
    memoize('"' + value);
  }

  void integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
      out_ += 'K';
      number(static_cast<std::uint8_t>(value));
    } else if (value >= 0 && value < 65536) {
      out_ += 'M';
      number(static_cast<std::uint16_t>(value));
    } else if (value == static_cast<std::int32_t>(value)) {
      out_ += 'J';
      number(static_cast<std::uint32_t>(value));
    } else {
      out_ += "\x8a\x08";
      number(value);
    }
  }

  void value(const Document& document) {
    switch (document.type()) {
      case Document::value_t::null:
        out_ += 'N';
        break;
      case Document::value_t::boolean:
        out_ += document.get<bool>() ? '\x88' : '\x89';
        break;
      case Document::value_t::number_integer:
      case Document::value_t::number_unsigned:
        if (document.is_number_unsigned() && document.get<std::uint64_t>() >> 63U != 0) {
          out_ += "\x8a\x09";
          number(document.get<std::uint64_t>());
          out_ += '\0';
        } else {
          integer(document.get<std::int64_t>());
        }
        break;
      case Document::value_t::number_float:
        out_ += 'G';
        number(__builtin_bswap64(std::bit_cast<std::uint64_t>(document.get<double>())));
        break;
      case Document::value_t::string:
        text(document.get<std::string>());
        break;
      case Document::value_t::array:
        list(document);
        break;
      case Document::value_t::object:
        dict(document);
        break;
      default:
        break;
    }
  }

  void list(const Document& document) {
    // Only frames are shared in snapshots, never entries and histories.
    const bool shared = !document.empty() && document[0].is_object() && document[0].contains("filename");
    const std::string key = shared ? document.dump() : std::string{};
    if (shared && recall(key)) return;
    // Pool ids are the only lists of numbers, and are tuples.
    if (document.size() == 2 && document[0].is_number()) {
      value(document[0]);
      value(document[1]);
      out_ += '\x86';
      memoize("tuple" + std::to_string(memo_.size()));
      return;
    }
    out_ += ']';
    memoize(shared ? key : "list" + std::to_string(memo_.size()));
    for (std::size_t begin = 0; begin < document.size(); begin += batch) {
      const std::size_t end = std::min(begin + batch, document.size());
      if (end - begin == 1) {
        value(document[begin]);
        out_ += 'a';
        continue;
      }
      out_ += '(';
      for (std::size_t i = begin; i < end; ++i) value(document[i]);
      out_ += 'e';
    }
  }

  void dict(const Document& document) {
    const bool shared = document.contains("filename");
    const std::string key = shared ? document.dump() : std::string{};
    if (shared && recall(key)) return;
    out_ += '}';
    memoize(shared ? key : "dict" + std::to_string(memo_.size()));
    if (document.empty()) return;
    if (document.size() > 1) out_ += '(';
    for (const auto& [name, item] : document.items()) {
      text(name);
      value(item);
    }
    out_ += document.size() > 1 ? 'u' : 's';
  }

  static constexpr std::size_t batch = 1000;
  int protocol_;
  std::string out_;
  std::map<std::string, std::uint32_t> memo_;
};

inline std::string pickled(const Document& document, int protocol = 4) {
  return PickleEncoder(protocol).encode(document);
}

}  // namespace memreel::test
