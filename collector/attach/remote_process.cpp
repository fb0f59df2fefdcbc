#include "collector/attach/remote_process.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <sstream>
#include <system_error>
#include <utility>

#include "collector/attach/process.h"

namespace memreel::attach {
namespace {

/// The parts of a library's dynamic section needed to look up a name.
struct SymbolTables {
  std::uint64_t symbols = 0, texts = 0, hash = 0;
};

SymbolTables tables_of(const RemoteProcess& process, std::uint64_t base) {
  const auto header = process.read<Elf64_Ehdr>(base);
  if (!header || header->e_phnum > 64) return {};
  SymbolTables tables;
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    const auto segment = process.read<Elf64_Phdr>(base + header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment || segment->p_type != PT_DYNAMIC) continue;
    for (std::uint64_t place = base + segment->p_vaddr;; place += sizeof(Elf64_Dyn)) {
      const auto entry = process.read<Elf64_Dyn>(place);
      if (!entry || entry->d_tag == DT_NULL) break;
      // Most loaders replace offsets with addresses.
      const std::uint64_t address = entry->d_un.d_ptr < base ? base + entry->d_un.d_ptr : entry->d_un.d_ptr;
      if (entry->d_tag == DT_SYMTAB) tables.symbols = address;
      if (entry->d_tag == DT_STRTAB) tables.texts = address;
      if (entry->d_tag == DT_GNU_HASH) tables.hash = address;
    }
  }
  return tables;
}

std::uint32_t gnu_hash(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

}  // namespace

std::string_view Mapping::file() const {
  std::string_view file = name;
  constexpr std::string_view deleted = " (deleted)";
  if (file.ends_with(deleted)) file.remove_suffix(deleted.size());
  return file.substr(file.rfind('/') + 1);
}

Result<RemoteProcess> RemoteProcess::open(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/mem";
  const int memory = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (memory < 0) return Error{.what = std::generic_category().message(errno), .where = path};
  return RemoteProcess(process, memory);
}

RemoteProcess::RemoteProcess(RemoteProcess&& other) noexcept
    : process_(other.process_), memory_(std::exchange(other.memory_, -1)) {}

RemoteProcess::~RemoteProcess() {
  if (memory_ >= 0) ::close(memory_);
}

bool RemoteProcess::read(std::uint64_t address, std::span<std::byte> into) const {
  return ::pread(memory_, into.data(), into.size(), static_cast<off_t>(address)) == static_cast<ssize_t>(into.size());
}

bool RemoteProcess::write(std::uint64_t address, std::span<const std::byte> bytes) const {
  return ::pwrite(memory_, bytes.data(), bytes.size(), static_cast<off_t>(address)) ==
         static_cast<ssize_t>(bytes.size());
}

std::string RemoteProcess::read_text(std::uint64_t address) const {
  std::string text;
  for (auto c = read<char>(address); c && *c != '\0' && text.size() < 4096; c = read<char>(address + text.size()))
    text.push_back(*c);
  return text;
}

std::vector<Mapping> RemoteProcess::mappings() const {
  std::vector<Mapping> mappings;
  std::istringstream lines(read_proc(process_, "maps").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    Mapping mapping;
    std::array<char, 5> rights{};
    int name = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &mapping.begin, &mapping.end,
                    rights.data(), &mapping.offset, &name) < 4)
      continue;
    mapping.executable = rights[2] == 'x';
    if (name > 0) mapping.name = line.substr(static_cast<std::size_t>(name));
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

std::optional<std::uint64_t> base_of(std::span<const Mapping> mappings, std::string_view file) {
  const auto found = std::ranges::find(mappings, file, &Mapping::file);
  return found != mappings.end() ? std::optional(found->begin - found->offset) : std::nullopt;
}

/// As in the specification of DT_GNU_HASH: buckets of chains, each ended by an odd hash.
std::uint64_t exported_function(const RemoteProcess& process, std::uint64_t base, std::string_view name) {
  struct HashHeader {
    std::uint32_t buckets, first_symbol, bloom_words, bloom_shift;
  };
  const SymbolTables tables = tables_of(process, base);
  const auto header = tables.hash != 0 ? process.read<HashHeader>(tables.hash) : std::nullopt;
  if (!header || header->buckets == 0 || tables.symbols == 0 || tables.texts == 0) return 0;
  const std::uint64_t buckets = tables.hash + sizeof(HashHeader) + 8ULL * header->bloom_words;
  const std::uint64_t chains = buckets + 4ULL * header->buckets;
  const std::uint32_t wanted = gnu_hash(name);
  auto symbol = process.read<std::uint32_t>(buckets + 4ULL * (wanted % header->buckets)).value_or(0);
  if (symbol < header->first_symbol) return 0;
  for (constexpr int longest = 1 << 16; symbol - header->first_symbol < longest; ++symbol) {
    const auto hash = process.read<std::uint32_t>(chains + 4ULL * (symbol - header->first_symbol));
    if (!hash) return 0;
    if ((*hash | 1U) == (wanted | 1U)) {
      const auto entry = process.read<Elf64_Sym>(tables.symbols + std::uint64_t{symbol} * sizeof(Elf64_Sym));
      if (entry && ELF64_ST_TYPE(entry->st_info) == STT_FUNC && entry->st_shndx != SHN_UNDEF &&
          process.read_text(tables.texts + entry->st_name) == name)
        return base + entry->st_value;
    }
    if ((*hash & 1U) != 0) return 0;
  }
  return 0;
}

}  // namespace memreel::attach
