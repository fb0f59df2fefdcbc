#include "analyzer/fleet/result_file.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <string_view>
#include <system_error>

#include "formats/model/flat_map.h"

namespace memreel {
namespace {

namespace fs = std::filesystem;

std::string hexadecimal(std::uint64_t number) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; number >>= 4U) text[i] = digits[number & 0xFU];
  return text;
}

}  // namespace

Result<void> write_whole(const fs::path& file, const std::string& bytes) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const fs::path partial = file.string() + "." + host.data() + "." + std::to_string(getpid()) + ".partial";
  std::ofstream stream(partial, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  std::error_code problem;
  if (stream) fs::rename(partial, file, problem);
  if (stream && !problem) return {};
  std::error_code ignored;
  fs::remove(partial, ignored);
  return Error{.what = problem ? problem.message() : "can't be written",
               .where = file.string(),
               .remedy = "is the disk full, or the directory read-only?"};
}

fs::path result_path(const fs::path& out, const fs::path& recording, const std::string& extension) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : recording.native()) hash = mix_bits(hash ^ static_cast<unsigned char>(c));
  const std::string name = recording.filename().string();
  return out / (name.substr(0, 100) + "-" + hexadecimal(hash) + extension);
}

}  // namespace memreel
