#include "collector/torch/local_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <span>

namespace memreel::torch {
namespace {

/// No relevant library is larger.
constexpr std::uint64_t largest = std::uint64_t{1} << 30U;

/// Parts of a file. Anything outside it is empty.
class File {
 public:
  explicit File(const char* path) : stream_(path, std::ios::binary | std::ios::ate) {
    if (stream_) size_ = static_cast<std::uint64_t>(stream_.tellg());
  }

  template <class T>
  std::vector<T> read(std::uint64_t offset, std::uint64_t count) {
    if (size_ > largest || offset > size_ || count > (size_ - offset) / sizeof(T)) return {};
    std::vector<T> items(count);
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(static_cast<char*>(static_cast<void*>(items.data())), static_cast<std::streamsize>(count * sizeof(T)));
    if (!stream_) items.clear();
    return items;
  }

 private:
  std::ifstream stream_;
  std::uint64_t size_ = 0;
};

bool begins_with_any(std::string_view name, const std::vector<std::string_view>& beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return name.starts_with(beginning); });
}

}  // namespace

std::vector<LocalSymbol> local_symbols(const link_map& library, const std::vector<std::string_view>& beginnings) {
  File file(library.l_name);
  const auto header = file.read<Elf64_Ehdr>(0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      header[0].e_ident[EI_CLASS] != ELFCLASS64 || header[0].e_shentsize != sizeof(Elf64_Shdr))
    return {};
  const auto sections = file.read<Elf64_Shdr>(header[0].e_shoff, header[0].e_shnum);
  const auto table = std::ranges::find(sections, Elf64_Word{SHT_SYMTAB}, &Elf64_Shdr::sh_type);
  if (table == sections.end() || table->sh_link >= sections.size()) return {};
  const Elf64_Shdr& texts = sections[table->sh_link];
  std::vector<char> names = file.read<char>(texts.sh_offset, texts.sh_size);
  if (names.empty()) return {};
  names.back() = '\0';

  std::vector<LocalSymbol> found;
  for (const Elf64_Sym& symbol : file.read<Elf64_Sym>(table->sh_offset, table->sh_size / sizeof(Elf64_Sym))) {
    if (symbol.st_value == 0 || symbol.st_name >= names.size()) continue;
    const std::string_view name = names.data() + symbol.st_name;
    if (begins_with_any(name, beginnings))
      found.push_back({std::string(name), library.l_addr + symbol.st_value, symbol.st_size});
  }
  return found;
}

}  // namespace memreel::torch
