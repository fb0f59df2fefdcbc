#include "formats/import/xplane/xplane.h"

#include <algorithm>
#include <new>
#include <optional>
#include <protozero/exception.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "formats/import/xplane/plane.h"
#include "formats/import/xplane/xplane_to_trace.h"

namespace memreel::xplane {
namespace {

constexpr std::uint64_t planes_field = 1;
constexpr std::uint64_t most_plane_bytes = std::uint64_t{1} << 31U;  // no protobuf message is larger

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// Removes a varint of at most ten bytes from the start of `text`.
std::optional<std::uint64_t> take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < 10 && i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
    if ((byte & 0x80U) != 0) continue;
    text.remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

/// Walks the fields of the XSpace.
class SpaceReader {
 public:
  SpaceReader(ByteCursor& bytes, TraceWriter& writer) : bytes_(bytes), writer_(writer) {}

  Result<Recording> run() {
    while (!bytes_.peek(1).empty()) {
      if (auto read = read_field(); !read) return std::move(read).error();
    }
    if (bytes_.failure()) return *bytes_.failure();
    if (recording_.events.empty())
      return Error{.what = "the profile holds no memory events (MemoryAllocation, MemoryDeallocation)",
                   .where = bytes_.where(),
                   .remedy = "profile a program that runs on a GPU with host_tracer_level=2 or more"};
    return std::move(recording_);
  }

 private:
  Result<void> read_field() {
    const std::uint64_t begin = bytes_.position();
    const auto tag = varint();
    if (!tag) return damaged(begin, "a field's number is cut off or malformed");
    switch (static_cast<WireType>(*tag & 7U)) {
      case WireType::varint:
        return varint() ? Result<void>{} : damaged(begin, "a number is cut off or malformed");
      case WireType::fixed64:
        return skip(8) ? Result<void>{} : damaged(begin, "a number is cut off");
      case WireType::fixed32:
        return skip(4) ? Result<void>{} : damaged(begin, "a number is cut off");
      case WireType::bytes:
        break;
      default:
        return damaged(begin, "is not a protobuf field");
    }
    const auto length = varint();
    if (!length || *length > most_plane_bytes) return damaged(begin, "the length of a field is malformed");
    if (*tag >> 3U == planes_field) return read_plane_of(*length);
    return skip(*length) ? Result<void>{} : damaged(begin, "a field is cut off");
  }

  Result<void> read_plane_of(std::uint64_t length) {
    const std::uint64_t begin = bytes_.position();
    plane_.clear();
    while (plane_.size() < length) {  // the declared size is not trusted: memory grows with the actual data
      const auto piece = bytes_.take(length - plane_.size());
      if (piece.empty()) return damaged(begin, "a plane is cut off");
      plane_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    try {
      read_plane(plane_, recording_, writer_);
    } catch (const protozero::exception&) {
      return damaged(begin, "a plane is damaged");
    }
    return {};
  }

  std::optional<std::uint64_t> varint() {
    std::string text;
    for (unsigned char byte = 0x80; (byte & 0x80U) != 0 && text.size() < 10;) {
      if (!bytes_.read(byte)) return std::nullopt;
      text.push_back(static_cast<char>(byte));
    }
    std::string_view rest = text;
    return take_varint(rest);
  }

  bool skip(std::uint64_t count) {
    while (count > 0) {
      const auto piece = bytes_.take(count);
      if (piece.empty()) return false;
      count -= piece.size();
    }
    return true;
  }

  Error damaged(std::uint64_t at, std::string what) const {
    if (bytes_.failure()) return *bytes_.failure();
    return {.what = std::move(what),
            .where = bytes_.where(),
            .offset = at,
            .remedy = "profile again, or copy the file again: it is incomplete or damaged"};
  }

  ByteCursor& bytes_;
  TraceWriter& writer_;
  std::string plane_;
  Recording recording_;
};

}  // namespace

/// A bytes field 1 that begins like a plane: its ID, if not 0, and a readable name.
bool looks_like_xspace(std::span<const std::byte> beginning) {
  std::string_view text(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  constexpr std::uint64_t planes_tag = planes_field << 3U | static_cast<unsigned>(WireType::bytes);
  constexpr std::uint64_t id_tag = 1U << 3U | static_cast<unsigned>(WireType::varint);
  constexpr std::uint64_t name_tag = 2U << 3U | static_cast<unsigned>(WireType::bytes);
  if (take_varint(text) != planes_tag || !take_varint(text)) return false;
  auto tag = take_varint(text);
  if (tag == id_tag) {
    if (!take_varint(text)) return false;
    tag = take_varint(text);
  }
  const auto length = tag == name_tag ? take_varint(text) : std::nullopt;
  if (!length || *length == 0 || *length > text.size()) return false;
  return std::ranges::all_of(text.substr(0, *length), [](char c) { return c >= ' ' && c <= '~'; });
}

Result<Recording> read_xspace(ByteCursor& bytes, TraceWriter& writer) {
  Result<Recording> recording = SpaceReader(bytes, writer).run();
  if (!recording) return recording;
  const auto time = [](const auto& entry) { return entry.time_ns; };
  std::ranges::stable_sort(recording->events, {}, time);  // stable: equal times stay in reading order
  std::ranges::stable_sort(recording->marks, {}, time);
  return recording;
}

Result<void> import_xspace(ByteCursor& bytes, Header header, std::unique_ptr<ByteSink> sink,
                           const WriterOptions& options) {
  header.source = "xplane";
  TraceWriter writer(std::move(sink), header, options);
  try {
    const Result<Recording> recording = read_xspace(bytes, writer);
    if (!recording) return recording.error();
    write_trace(*recording, writer);
  } catch (const std::bad_alloc&) {
    return Error{.what = "not enough memory for this profile",
                 .where = bytes.where(),
                 .remedy = "profile a shorter part of the program"};
  }
  return writer.finish();
}

}  // namespace memreel::xplane
