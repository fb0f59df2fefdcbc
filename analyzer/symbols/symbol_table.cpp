#include "analyzer/symbols/symbol_table.h"

#include <gelf.h>

#include <algorithm>

#include "analyzer/symbols/demangle.h"

namespace memreel {

SymbolTable::SymbolTable(const ElfFile& file) {
  Elf_Scn* chosen = nullptr;
  GElf_Shdr header{};
  for (Elf_Scn* section = elf_nextscn(file.elf(), nullptr); section != nullptr;
       section = elf_nextscn(file.elf(), section)) {
    GElf_Shdr candidate;
    if (gelf_getshdr(section, &candidate) == nullptr) continue;
    const bool full = candidate.sh_type == SHT_SYMTAB;
    if (!full && (candidate.sh_type != SHT_DYNSYM || chosen != nullptr)) continue;
    chosen = section;
    header = candidate;
    is_full_ = full;
    if (full) break;
  }
  Elf_Data* const data = chosen != nullptr ? elf_getdata(chosen, nullptr) : nullptr;
  if (data == nullptr || header.sh_entsize == 0) return;
  const std::size_t count = header.sh_size / header.sh_entsize;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
    const auto type = GELF_ST_TYPE(symbol.st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF) continue;
    const char* const name = elf_strptr(file.elf(), header.sh_link, symbol.st_name);
    if (name == nullptr || *name == '\0') continue;
    std::uint64_t end = symbol.st_value + symbol.st_size;
    if (symbol.st_size == 0) {
      // Hand-written assembly often has no size: it extends to the next function, or to the end of its section.
      GElf_Shdr section;
      if (gelf_getshdr(elf_getscn(file.elf(), symbol.st_shndx), &section) != nullptr)
        end = section.sh_addr + section.sh_size;
    }
    symbols_.push_back({.begin = symbol.st_value, .end = end, .name = name});
  }
  std::sort(symbols_.begin(), symbols_.end(),
            [](const Symbol& a, const Symbol& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
}

std::string SymbolTable::at(std::uint64_t address) const {
  const auto after = std::upper_bound(symbols_.begin(), symbols_.end(), address,
                                      [](std::uint64_t a, const Symbol& symbol) { return a < symbol.begin; });
  if (after == symbols_.begin()) return {};
  const Symbol& symbol = *(after - 1);
  return address < symbol.end ? demangled(symbol.name) : std::string();
}

}  // namespace memreel
