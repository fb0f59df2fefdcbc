#include "analyzer/fleet/result_file.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "formats/model/flat_map.h"
#include "formats/writer/trace_writer.h"

namespace memreel {
namespace {

namespace fs = std::filesystem;

std::string sixteen_digits(std::uint64_t number) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; number >>= 4U) text[i] = digits[number & 0xFU];
  return text;
}

}  // namespace

Result<void> write_whole(const fs::path& file, const std::string& bytes) {
  Result<std::unique_ptr<ByteSink>> sink = atomic_file_sink(file);
  if (!sink) return std::move(sink).error();
  if (Result<void> written = (*sink)->write(std::as_bytes(std::span(bytes))); !written) return written;
  return (*sink)->close();
}

fs::path result_path(const fs::path& out, const fs::path& recording, const std::string& extension) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : recording.native()) hash = mix_bits(hash ^ static_cast<unsigned char>(c));
  const std::string name = recording.filename().string();
  return out / (name.substr(0, 100) + "-" + sixteen_digits(hash) + extension);
}

}  // namespace memreel
