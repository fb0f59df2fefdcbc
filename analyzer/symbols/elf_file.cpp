// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/elf_file.h"

#include <cxxabi.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace memreel {

namespace {

namespace fs = std::filesystem;

constexpr int flags = O_PATH | O_CLOEXEC;  // only looks the file up

/// Opens what was looked up if it is a regular file: a trace names any path, and opening a device may have effects.
int opened(int looked_up) {
  struct stat status {};
  int file = -1;
  if (looked_up >= 0 && ::fstat(looked_up, &status) == 0 && S_ISREG(status.st_mode))
    file = ::open(("/proc/self/fd/" + std::to_string(looked_up)).c_str(), O_RDONLY | O_CLOEXEC);
  if (looked_up >= 0) ::close(looked_up);
  return file;
}

/// `path` in `root`, following links as the machine would whose root that is; empty if there are too many.
fs::path resolved_below(const fs::path& root, const fs::path& path) {
  constexpr int most_links = 40;  // the kernel's limit
  fs::path done;
  std::vector<fs::path> left;  // the next one last
  const auto follow = [&](const fs::path& to) {
    if (to.is_absolute()) done.clear();
    const fs::path parts = to.relative_path();
    const auto at = static_cast<std::ptrdiff_t>(left.size());
    left.insert(left.end(), parts.begin(), parts.end());
    std::reverse(left.begin() + at, left.end());
  };
  follow(path);
  int links = 0;
  while (!left.empty()) {
    const fs::path part = std::move(left.back());
    left.pop_back();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      done = done.parent_path();  // of the root: the root
      continue;
    }
    std::error_code no_link;
    const fs::path to = fs::read_symlink(root / done / part, no_link);
    if (no_link) {
      done /= part;
    } else {
      if (++links > most_links) return {};
      follow(to);
    }
  }
  return root / done;
}

/// Fallback where the kernel has no openat2 (before 5.6, in a sandbox, or as qemu plays it): looks the file up, then
/// checks its location, in case somebody replaced a folder meanwhile.
int open_and_check(const fs::path& root, const fs::path& path) {
  const fs::path found = resolved_below(root, path);
  const int file = ::open(found.c_str(), flags | O_NOFOLLOW);
  if (file < 0) return file;
  std::error_code problem;
  const fs::path real = fs::read_symlink("/proc/self/fd/" + std::to_string(file), problem);
  const fs::path inside = problem ? fs::path() : real.lexically_relative(fs::canonical(root, problem));
  if (!problem && !inside.empty() && *inside.begin() != "..") return file;
  ::close(file);
  return -1;
}

int open_below(const fs::path& root, const fs::path& path) {
  const int directory = ::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return -1;
  open_how how{};
  how.flags = flags;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const auto file = static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how));
  const int reason = errno;
  ::close(directory);
  return file < 0 && (reason == ENOSYS || reason == EPERM) ? open_and_check(root, path) : file;
}

}  // namespace

std::optional<ElfFile> ElfFile::open(const fs::path& path, const fs::path& root) {
  elf_version(EV_CURRENT);
  ElfFile file;
  file.path_ = root.empty() ? path : root / path.relative_path();
  file.descriptor_ = opened(root.empty() ? ::open(path.c_str(), flags) : open_below(root, path));
  if (file.descriptor_ < 0) return std::nullopt;
  file.elf_ = elf_begin(file.descriptor_, ELF_C_READ_MMAP, nullptr);
  if (file.elf_ == nullptr || elf_kind(file.elf_) != ELF_K_ELF) return std::nullopt;
  return file;
}

ElfFile& ElfFile::operator=(ElfFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(elf_, other.elf_);
  std::swap(dwarf_, other.dwarf_);
  std::swap(dwarf_looked_for_, other.dwarf_looked_for_);
  return *this;
}

ElfFile::~ElfFile() {
  if (dwarf_ != nullptr) dwarf_end(dwarf_);
  if (elf_ != nullptr) elf_end(elf_);
  if (descriptor_ >= 0) close(descriptor_);
}

Dwarf* ElfFile::dwarf() {
  if (!dwarf_looked_for_) dwarf_ = dwarf_begin_elf(elf_, DWARF_C_READ, nullptr);
  dwarf_looked_for_ = true;
  return dwarf_;
}

std::string ElfFile::build_id() const {
  const void* bytes = nullptr;
  const ssize_t size = dwelf_elf_gnu_build_id(elf_, &bytes);
  return size > 0 ? std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size)) : std::string();
}

std::string ElfFile::debug_link() const {
  GElf_Word checksum = 0;
  const char* const name = dwelf_elf_gnu_debuglink(elf_, &checksum);
  return name != nullptr ? name : "";
}

std::pair<std::uint64_t, std::uint64_t> ElfFile::extent() const {
  std::uint64_t begin = UINT64_MAX, end = 0;
  std::size_t count = 0;
  if (elf_getphdrnum(elf_, &count) != 0) return {0, 0};
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf_, static_cast<int>(i), &segment) == nullptr || segment.p_type != PT_LOAD) continue;
    begin = std::min(begin, segment.p_vaddr);
    end = std::max(end, segment.p_vaddr + segment.p_memsz);
  }
  return begin < end ? std::pair{begin, end - begin} : std::pair<std::uint64_t, std::uint64_t>{0, 0};
}

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

// The function behind abi::__cxa_demangle(): it delivers the name in pieces, while the latter builds all of it. Only
// the static libstdc++ has it.
extern "C" int __gcclibcxx_demangle_callback(const char* mangled,  // NOLINT(bugprone-reserved-identifier)
                                             void (*take)(const char* piece, std::size_t size, void* into), void* into);

namespace memreel {
namespace {

#ifndef MEMREEL_WHOLE_DEMANGLER

constexpr std::size_t longest = std::size_t{16} << 10U;

struct TooLong {};

/// Stops the demangler, which owns nothing, by throwing an exception.
void take(const char* piece, std::size_t size, void* into) {
  auto& name = *static_cast<std::string*>(into);
  if (size > longest - name.size()) throw TooLong{};
  name.append(piece, size);
}

std::string demangled_or_empty(const char* name) {
  std::string text;
  try {
    if (__gcclibcxx_demangle_callback(name, take, &text) != 0) text.clear();
  } catch (const TooLong&) {
    text.clear();
  }
  return text;
}

#else

std::string demangled_or_empty(const char* name) {
  constexpr std::size_t harmless = 128;
  if (std::string_view(name).size() > harmless) return {};
  int status = 0;
  // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): the library's own allocation
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text != nullptr ? text.get() : "";
}

#endif

}  // namespace

std::string demangled(const char* name) {
  std::string text = demangled_or_empty(name);
  return text.empty() ? name : text;
}

}  // namespace memreel
