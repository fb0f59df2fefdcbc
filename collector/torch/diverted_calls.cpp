// SPDX-License-Identifier: Apache-2.0
#include "collector/torch/diverted_calls.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <span>

#include "collector/stacks/module_table.h"
#include "collector/torch/reporters.h"

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

namespace {

/// A function called through a slot.
struct Call {
  std::string_view symbol;
  void* ours;
  std::atomic<void*>* slot = nullptr;
  void* before = nullptr;
  bool is_protected = false;  // the page is read-only
};

/// Only divert_calls() and restore_calls() use them.
std::array<Call, 2>& calls() {
  static std::array<Call, 2> both{Call{report_symbol, report_function()},
                                  Call{out_of_memory_symbol, out_of_memory_function()}};
  return both;
}

// The loader gives addresses as numbers. NOLINTBEGIN(performance-no-int-to-ptr)

struct Module {
  ElfW(Addr) base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  ElfW(Addr) protected_begin = 0, protected_end = 0;  // made read-only by the loader once the slots are filled in
};

/// Matches by file name only: "libc10_cuda.so", in any directory.
int take_module(dl_phdr_info* info, std::size_t, void* found) {
  std::string_view name = info->dlpi_name;
  name.remove_prefix(name.rfind('/') + 1);
  if (name != "libc10_cuda.so") return 0;
  Module& module = *static_cast<Module*>(found);
  module.base = info->dlpi_addr;
  for (const ElfW(Phdr) & segment : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
    const ElfW(Addr) begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_DYNAMIC) module.dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    if (segment.p_type == PT_GNU_RELRO) {
      module.protected_begin = begin;
      module.protected_end = begin + segment.p_memsz;
    }
  }
  return 1;
}

/// The parts of a library's dynamic section about its calls.
struct Relocations {
  const ElfW(Sym) * symbols = nullptr;
  const char* texts = nullptr;
  std::span<const ElfW(Rela)> called, others;
};

Relocations relocations_of(const Module& module) {
  const auto at = [&](ElfW(Addr) address) { return address < module.base ? module.base + address : address; };
  Relocations found;
  std::size_t called_bytes = 0, other_bytes = 0;
  for (const ElfW(Dyn)* entry = module.dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_PLTRELSZ) called_bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_RELASZ) other_bytes = entry->d_un.d_val;
  }
  for (const ElfW(Dyn)* entry = module.dynamic; entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) address = at(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) found.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
    if (entry->d_tag == DT_STRTAB) found.texts = reinterpret_cast<const char*>(address);
    if (entry->d_tag == DT_JMPREL)
      found.called = {reinterpret_cast<const ElfW(Rela)*>(address), called_bytes / sizeof(ElfW(Rela))};
    if (entry->d_tag == DT_RELA)
      found.others = {reinterpret_cast<const ElfW(Rela)*>(address), other_bytes / sizeof(ElfW(Rela))};
  }
  return found;
}

/// Finds the slots of the functions that we define.
void find_slots(const Module& module) {
  const Relocations found = relocations_of(module);
  if (found.symbols == nullptr || found.texts == nullptr) return;
  for (const auto& relocations : {found.called, found.others}) {
    for (const ElfW(Rela) & relocation : relocations) {
      const auto symbol = ELF64_R_SYM(relocation.r_info);
      if (symbol == 0) continue;
      const std::string_view name = found.texts + found.symbols[symbol].st_name;
      for (Call& call : calls()) {
        if (call.slot != nullptr || name != call.symbol) continue;
        const ElfW(Addr) place = module.base + relocation.r_offset;
        call.slot = reinterpret_cast<std::atomic<void*>*>(place);
        call.is_protected = module.protected_begin <= place && place < module.protected_end;
      }
    }
  }
}

/// Other threads may call through the slot meanwhile: they get either function.
void set(const Call& call, void* function) {
  const auto page_size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  void* const page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(call.slot) & ~(page_size - 1));
  if (call.is_protected && ::mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0) return;
  call.slot->store(function, std::memory_order_release);
  if (call.is_protected) ::mprotect(page, page_size, PROT_READ);
}

// NOLINTEND(performance-no-int-to-ptr)

}  // namespace

void divert_calls() {
  if (calls()[0].slot == nullptr) {
    Module module;
    stacks::walk_loaded_modules(take_module, &module);
    if (module.dynamic != nullptr) find_slots(module);
  }
  for (Call& call : calls()) {
    if (call.slot == nullptr || call.slot->load(std::memory_order_relaxed) == call.ours) continue;
    call.before = call.slot->load(std::memory_order_relaxed);
    set(call, call.ours);
  }
}

void restore_calls() {
  for (Call& call : calls()) {
    if (call.before == nullptr) continue;
    set(call, call.before);
    call.before = nullptr;
  }
}

}  // namespace memreel::torch
