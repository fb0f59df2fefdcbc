// SPDX-License-Identifier: Apache-2.0
#include "collector/stacks/module_table.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "collector/stacks/nap.h"

namespace memreel::stacks {
namespace {

constexpr std::chrono::milliseconds longest_of_a_fork{100}, longest_of_a_use{1000};

// Counters instead of a mutex: after a fork, the child can't repair a mutex, since it doesn't know which thread held
// it. NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a process has one loader
constinit std::atomic<int> uses = 0, forks = 0;
struct Here {
  int uses = 0;  // by this thread
  bool forks = false;
};
constinit thread_local Here here{};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

LoaderUse::LoaderUse() {
  const bool may_wait = here.uses++ == 0 && !here.forks;
  const auto may_begin = [&] {
    uses.fetch_add(1);  // first: a fork says so and then looks for uses
    if (!may_wait || forks.load() == 0) return true;
    uses.fetch_sub(1);
    return false;
  };
  if (!nap_until(may_begin, longest_of_a_use)) uses.fetch_add(1);
}

LoaderUse::~LoaderUse() {
  uses.fetch_sub(1);
  --here.uses;
}

int walk_loaded_modules(int (*visit)(dl_phdr_info*, std::size_t, void*), void* argument) {
  const LoaderUse use;
  return ::dl_iterate_phdr(visit, argument);
}

void hold_loader_uses() {
  here.forks = true;
  forks.fetch_add(1);
  nap_until([] { return uses.load() <= here.uses; }, longest_of_a_fork);
}

void release_loader_uses() {
  forks.fetch_sub(1);
  here.forks = false;
}

void forget_loader_uses() {
  uses = here.uses;
  forks = 0;
  here.forks = false;
}

namespace {

struct Counts {
  unsigned long long adds = 0, subs = 0;
};

/// The description of the GNU_BUILD_ID note in a segment of notes.
std::string build_id_in(std::span<const std::byte> notes, std::size_t alignment) {
  const auto padded = [&](std::size_t size) { return (size + alignment - 1) & ~(alignment - 1); };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t name_at = sizeof note;
    const std::size_t description_at = padded(name_at + note.n_namesz);
    if (description_at > notes.size() || note.n_descsz > notes.size() - description_at) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes.data() + name_at, ELF_NOTE_GNU, 4) == 0) {
      const std::span<const std::byte> description = notes.subspan(description_at, note.n_descsz);
      return {static_cast<const char*>(static_cast<const void*>(description.data())), description.size()};
    }
    const std::size_t next = padded(description_at + note.n_descsz);
    if (next > notes.size()) break;
    notes = notes.subspan(next);
  }
  return {};
}

std::string path_of_program() {
  std::array<char, PATH_MAX> path{};
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : std::string("/proc/self/exe");
}

std::string path_of(const dl_phdr_info& info, bool first) {
  const std::string_view name = info.dlpi_name == nullptr ? "" : info.dlpi_name;
  if (name.empty()) return first ? path_of_program() : "";
  if (name.starts_with("linux-vdso") || name.starts_with("linux-gate")) return "[vdso]";
  // Relative if the program loaded it that way; if the directory has changed since, the name stays as it is.
  std::array<char, PATH_MAX> absolute{};
  return realpath(info.dlpi_name, absolute.data()) != nullptr ? std::string(absolute.data()) : std::string(name);
}

LoadedModule module_of(const dl_phdr_info& info, bool first) {
  LoadedModule module{.path = path_of(info, first), .range = {.begin = UINTPTR_MAX, .end = 0}};
  for (const ElfW(Phdr) & segment : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
    const std::uintptr_t begin = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      module.range.begin = std::min(module.range.begin, begin);
      module.range.end = std::max(module.range.end, begin + segment.p_memsz);
    } else if (segment.p_type == PT_NOTE && module.build_id.empty()) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): that is what the loader gives
      const std::span notes(reinterpret_cast<const std::byte*>(begin), segment.p_memsz);
      module.build_id = build_id_in(notes, segment.p_align == 8 ? 8 : 4);
    }
  }
  if (module.range.begin > module.range.end) module.range = {};
  return module;
}

int read_counts(dl_phdr_info* info, std::size_t size, void* argument) {
  if (size >= offsetof(dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
    *static_cast<Counts*>(argument) = {.adds = info->dlpi_adds, .subs = info->dlpi_subs};
  return 1;
}

int read_module(dl_phdr_info* info, std::size_t /*size*/, void* argument) {
  auto& modules = *static_cast<std::vector<LoadedModule>*>(argument);
  modules.push_back(module_of(*info, modules.empty()));
  return 0;
}

}  // namespace

std::vector<AddressRange> ModuleTable::refresh() {
  Counts counts;
  walk_loaded_modules(read_counts, &counts);
  if (counts.adds == adds_ && counts.subs == subs_ && !modules_.empty()) return {};
  std::vector<LoadedModule> now;
  walk_loaded_modules(read_module, &now);
  adds_ = counts.adds;
  subs_ = counts.subs;

  std::vector<Index> before = std::move(loaded_);
  loaded_.clear();
  for (const Index i : before) modules_[i].loaded = false;
  for (LoadedModule& module : now) {
    if (module.range.begin == module.range.end) continue;
    const auto known = std::find_if(modules_.begin(), modules_.end(), [&](const Entry& entry) {
      return entry.module.range == module.range && entry.module.path == module.path &&
             entry.module.build_id == module.build_id;
    });
    loaded_.push_back(static_cast<Index>(known - modules_.begin()));
    if (known == modules_.end())
      modules_.push_back({.module = std::move(module), .loaded = true});
    else
      known->loaded = true;
  }
  std::sort(loaded_.begin(), loaded_.end(),
            [&](Index a, Index b) { return modules_[a].module.range.begin < modules_[b].module.range.begin; });

  std::vector<AddressRange> gone;
  for (const Index i : before)
    if (!modules_[i].loaded) gone.push_back(modules_[i].module.range);
  return gone;
}

ModuleTable::Index ModuleTable::find(std::uintptr_t address) const {
  const auto after = std::upper_bound(loaded_.begin(), loaded_.end(), address,
                                      [&](std::uintptr_t a, Index i) { return a < modules_[i].module.range.begin; });
  if (after != loaded_.begin() && modules_[*(after - 1)].module.range.contains(address)) return *(after - 1);
  for (Index i = modules_.size(); i-- > 0;)
    if (modules_[i].module.range.contains(address)) return i;
  return none;
}

}  // namespace memreel::stacks
