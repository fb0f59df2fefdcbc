// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/process.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <sstream>
#include <system_error>

#include "formats/model/files.h"
#include "formats/model/stack_text.h"

namespace memreel::attach {
namespace {

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// The directory's entries that are numbers, in order.
std::vector<pid_t> numbers_in(const std::string& directory) {
  std::vector<pid_t> numbers;
  std::error_code problem;
  std::filesystem::directory_iterator entry(directory, problem), end;
  for (; !problem && entry != end; entry.increment(problem))
    if (const auto number = number_in<pid_t>(entry->path().filename().string())) numbers.push_back(*number);
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace

std::optional<std::string> read_proc(pid_t process, std::string_view file) {
  Result<std::string> text = read_whole_file("/proc/" + std::to_string(process) + "/" + std::string(file));
  if (!text) return std::nullopt;
  return *std::move(text);
}

std::optional<std::uint64_t> start_time(pid_t process) {
  const auto stat = read_proc(process, "stat");
  // The name, in parentheses, may contain anything; the start time is the 20th word after it (proc(5)).
  const std::size_t name_end = stat ? stat->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(*stat).substr(name_end + 1);
  for (int word = 0; word < 20; ++word) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(space + 1);
  }
  return number_in<std::uint64_t>(rest.substr(0, rest.find(' ')));
}

std::string command_name(pid_t process) {
  std::string name = read_proc(process, "comm").value_or("");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

std::vector<pid_t> processes_named(std::string_view name) {
  constexpr std::size_t most = 3;
  std::vector<pid_t> found;
  for (const pid_t process : all_processes())
    if (command_name(process) == name) found.push_back(process);
  std::ranges::sort(found, std::greater());
  if (found.size() > most) found.resize(most);
  return found;
}

bool KnownProcess::has_ended() const {
  if (!start_ || start_time(number_) != start_) return true;
  // The main thread may end before the others: it stays a zombie until they have ended.
  return status_field(number_, "State").starts_with('Z') && threads_of(number_).size() <= 1;
}

std::string status_field(pid_t process, std::string_view name) {
  const std::string status = read_proc(process, "status").value_or("");
  const std::string line = "\n" + std::string(name) + ":\t";
  const std::size_t begin = status.find(line);
  if (begin == std::string::npos) return {};
  return status.substr(begin + line.size(), status.find('\n', begin + 1) - begin - line.size());
}

std::optional<std::uint64_t> number_in_own_namespace(pid_t process) {
  const std::string numbers = status_field(process, "NSpid");  // ours first, its own last
  if (numbers.empty()) return static_cast<std::uint64_t>(process);
  return number_in<std::uint64_t>(std::string_view(numbers).substr(numbers.rfind('\t') + 1));
}

std::vector<pid_t> all_processes() { return numbers_in("/proc"); }

std::vector<pid_t> threads_of(pid_t process) { return numbers_in("/proc/" + std::to_string(process) + "/task"); }

namespace {

constexpr std::size_t most_heaps = 256, longest_name = 128;  // so that it fits in a message

/// Removes the number at the start of a text, and the blank after it.
template <class Number>
bool take(std::string_view& text, Number& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

/// "DEVICE LEVEL LIVE PEAK RESERVED NAME"; the name may contain blanks.
std::string text_of(const HeapStatus& heap) {
  return std::to_string(heap.device) + ' ' + (heap.level == Level::driver ? '0' : '1') + ' ' +
         std::to_string(heap.live.count) + ' ' + std::to_string(heap.peak.count) + ' ' +
         std::to_string(heap.reserved.count) + ' ' + heap.name.substr(0, longest_name);
}

std::optional<HeapStatus> heap_of(std::string_view text) {
  HeapStatus heap;
  int level = 0;
  if (!take(text, heap.device) || !take(text, level) || !take(text, heap.live.count) || !take(text, heap.peak.count) ||
      !take(text, heap.reserved.count))
    return std::nullopt;
  heap.level = level == 0 ? Level::driver : Level::framework;
  heap.name = text.substr(0, longest_name);
  return heap;
}

/// "DEVICE USED FREE"
std::optional<DeviceStatus> device_of(std::string_view text) {
  DeviceStatus device;
  if (!take(text, device.device) || !take(text, device.used.count) || !take(text, device.free.count))
    return std::nullopt;
  return device;
}

}  // namespace

Message to_message(const ProcessStatus& status) {
  Message message{.word = "ok",
                  .fields = {{"recording", status.recording ? "1" : "0"},
                             {"trace", status.trace},
                             {"source", status.source},
                             {"rank", status.rank},
                             {"events", std::to_string(status.events)},
                             {"lost", std::to_string(status.lost)}}};
  for (const HeapStatus& heap : std::span(status.heaps).first(std::min(status.heaps.size(), most_heaps)))
    message.fields.emplace_back("heap", text_of(heap));
  for (const DeviceStatus& device : status.devices)
    message.fields.emplace_back("device", std::to_string(device.device) + ' ' + std::to_string(device.used.count) +
                                              ' ' + std::to_string(device.free.count));
  return message;
}

ProcessStatus process_status(const Message& answer) {
  ProcessStatus status{.recording = answer["recording"] == "1",
                       .trace = std::string(answer["trace"]),
                       .source = std::string(answer["source"]),
                       .rank = std::string(answer["rank"]),
                       .events = answer.number("events"),
                       .lost = answer.number("lost"),
                       .heaps = {},
                       .devices = {}};
  for (const auto& [name, value] : answer.fields) {
    if (name == "heap" && status.heaps.size() < most_heaps)
      if (auto heap = heap_of(value)) status.heaps.push_back(*std::move(heap));
    if (name == "device" && status.devices.size() < most_heaps)
      if (const auto device = device_of(value)) status.devices.push_back(*device);
  }
  return status;
}

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
  return base_name(file);
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
