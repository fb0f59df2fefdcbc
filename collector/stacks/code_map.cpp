// SPDX-License-Identifier: Apache-2.0
#include "collector/stacks/code_map.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

#include "collector/stacks/module_table.h"
#include "collector/stacks/stack_memory.h"

namespace memreel::stacks {

/// `struct dl_find_object` of glibc 2.35, for compilers with older headers.
struct CodeMap::LoaderAnswer {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  link_map* map;
  void* eh_frame;
  std::array<unsigned long long, 7> reserved;
};

namespace {

/// Program headers are only looked for in a module's first page.
constexpr std::size_t elf_page_size = 4096;

MappedBytes mapped(std::uintptr_t begin, std::size_t size) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): where the loader put it
  return {begin, {reinterpret_cast<const std::byte*>(begin), size}};
}

/// The tables of the module mapped at `module`, found like the loader does: by the headers at its start, which can be
/// read.
std::optional<CodeModule> tables_of(AddressRange module) {
  if (module.end - module.begin < elf_page_size) return std::nullopt;
  const MappedBytes head = mapped(module.begin, elf_page_size);
  ByteReader reader(head);
  const auto elf = reader.fixed<ElfW(Ehdr)>();
  if (std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_phentsize != sizeof(ElfW(Phdr))) return std::nullopt;
  if (elf.e_phoff > elf_page_size) return std::nullopt;
  const auto segment = [&](std::size_t i) {
    ByteReader at(head.from(module.begin + elf.e_phoff));
    at.take(i * sizeof(ElfW(Phdr)));
    const auto result = at.fixed<ElfW(Phdr)>();
    return at.failed() ? ElfW(Phdr){} : result;
  };
  std::optional<std::uintptr_t> lowest;
  ElfW(Phdr) header{};
  for (std::size_t i = 0; i < elf.e_phnum; ++i) {
    const ElfW(Phdr) s = segment(i);
    if (s.p_type == PT_LOAD && !lowest) lowest = s.p_vaddr & ~(elf_page_size - 1);
    if (s.p_type == PT_GNU_EH_FRAME) header = s;
  }
  if (!lowest || header.p_type != PT_GNU_EH_FRAME || header.p_memsz == 0) return std::nullopt;
  for (std::size_t i = 0; i < elf.e_phnum; ++i) {
    const ElfW(Phdr) s = segment(i);
    if (s.p_type != PT_LOAD || (s.p_flags & PF_R) == 0) continue;
    const std::uintptr_t size = std::min(s.p_filesz, s.p_memsz);
    if (header.p_vaddr - s.p_vaddr >= size || header.p_memsz > size - (header.p_vaddr - s.p_vaddr)) continue;
    const std::uintptr_t begin = module.begin + (s.p_vaddr - *lowest);
    if (begin < module.begin || size > module.end - begin) return std::nullopt;
    return CodeModule{.module = module,
                      .tables = {.header = mapped(module.begin + (header.p_vaddr - *lowest), header.p_memsz),
                                 .frames = mapped(begin, size)}};
  }
  return std::nullopt;
}

/// Where the module's first segment is mapped. `l_addr` is what the loader adds to addresses in the file: 0 for a
/// program that is not position-independent, whose headers the kernel points to.
std::uintptr_t start_of(const link_map& module) {
  return module.l_addr != 0 ? module.l_addr : ::getauxval(AT_PHDR) & ~(elf_page_size - 1);
}

int add_range(dl_phdr_info* info, std::size_t /*size*/, void* argument) {
  AddressRange range{.begin = UINTPTR_MAX, .end = 0};
  for (std::size_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    range.begin = std::min(range.begin, (info->dlpi_addr + segment.p_vaddr) & ~(elf_page_size - 1));
    range.end = std::max(range.end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  if (range.begin < range.end) static_cast<std::vector<AddressRange>*>(argument)->push_back(range);
  return 0;
}

}  // namespace

CodeMap::CodeMap(Source source) {
  if (source == Source::loader) find_object_ = reinterpret_cast<FindObject>(dlsym(RTLD_DEFAULT, "_dl_find_object"));
  refresh();
}

std::optional<CodeModule> CodeMap::find(std::uintptr_t address) const {
  if (find_object_ == nullptr) {
    const AddressRange module = module_in_copy(address);
    return is_readable(module.begin) ? tables_of(module) : std::nullopt;
  }
  LoaderAnswer answer{};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader's interface
  if (find_object_(reinterpret_cast<void*>(address), &answer) != 0 || answer.eh_frame == nullptr) return std::nullopt;
  // What the loader has mapped is readable. No system call asks: a program may run in a sandbox that allows its own
  // only.
  const auto end = reinterpret_cast<std::uintptr_t>(answer.map_end);
  if (auto place = tables_of({reinterpret_cast<std::uintptr_t>(answer.map_start), end})) return place;
  // If a program's segments have unmapped pages in between, as lld sometimes leaves them, the loader returns only the
  // segment. The headers are at the start of the first one.
  return answer.map != nullptr && is_readable(start_of(*answer.map)) ? tables_of({start_of(*answer.map), end})
                                                                     : std::nullopt;
}

AddressRange CodeMap::module_in_copy(std::uintptr_t address) const {
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::uint32_t version = version_.load(std::memory_order_acquire);
    if (version % 2 != 0) continue;
    AddressRange found;
    // All loads complete before the version is loaded again.
    const std::uint32_t size = copy_size_.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < size; ++i) {
      const AddressRange range{copy_.at(i).begin.load(std::memory_order_acquire),
                               copy_.at(i).end.load(std::memory_order_acquire)};
      if (range.contains(address)) found = range;
    }
    if (version_.load(std::memory_order_relaxed) == version) return found;
  }
  return {};
}

void CodeMap::refresh() {
  if (find_object_ != nullptr) return;
  std::vector<AddressRange> ranges;
  walk_loaded_modules(add_range, &ranges);
  const std::uint32_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  // All stores become visible after that of the odd version.
  const std::size_t size = std::min(ranges.size(), copy_.size());
  for (std::size_t i = 0; i < size; ++i) {
    copy_.at(i).begin.store(ranges[i].begin, std::memory_order_release);
    copy_.at(i).end.store(ranges[i].end, std::memory_order_release);
  }
  copy_size_.store(static_cast<std::uint32_t>(size), std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

}  // namespace memreel::stacks
