#include "collector/torch/diverted_calls.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "collector/stacks/loader_walk.h"
#include "collector/torch/reporters.h"

namespace memreel::torch {
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
