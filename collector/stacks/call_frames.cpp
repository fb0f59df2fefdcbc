// SPDX-License-Identifier: Apache-2.0
#include "collector/stacks/call_frames.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <string_view>

#include "collector/stacks/stack_memory.h"

namespace memreel::stacks {
namespace {

using Kind = RegisterRule::Kind;

// Pointer encodings (LSB 10.5.1).
constexpr std::uint8_t pe_omit = 0xFF, pe_aligned = 0x50, pe_indirect = 0x80;
constexpr std::uint8_t pe_pc_relative = 0x10, pe_data_relative = 0x30;
constexpr std::uint8_t pe_data_relative_sdata4 = 0x3B;

/// Longest program of a function that is executed; real ones have some hundred bytes.
constexpr std::size_t program_limit = 0x10000;
/// Deepest nesting of remembered rows; compilers use one.
constexpr std::size_t nesting_limit = 2;

/// Reads a pointer; null if it can't be read or has an encoding that does not occur here.
std::uintptr_t read_pointer(ByteReader& reader, std::uint8_t encoding, std::uintptr_t data_base) {
  const std::uintptr_t at = reader.address();
  std::uint64_t value = 0;
  switch (encoding & 0x0FU) {
    case 0x00:
    case 0x04:
    case 0x0C:
      value = reader.fixed<std::uint64_t>();
      break;
    case 0x01:
      value = reader.uleb128();
      break;
    case 0x02:
      value = reader.fixed<std::uint16_t>();
      break;
    case 0x03:
      value = reader.fixed<std::uint32_t>();
      break;
    case 0x09:
      value = static_cast<std::uint64_t>(reader.sleb128());
      break;
    case 0x0A:
      value = static_cast<std::uint64_t>(std::int64_t{reader.fixed<std::int16_t>()});
      break;
    case 0x0B:
      value = static_cast<std::uint64_t>(std::int64_t{reader.fixed<std::int32_t>()});
      break;
    default:
      return 0;
  }
  switch (encoding & 0xF0U) {
    case 0x00:
      return value;
    case pe_pc_relative:
      return at + value;
    case pe_data_relative:
      return data_base + value;
    default:
      return 0;
  }
}

/// What functions that share it have in common (Common Information Entry).
struct CommonEntry {
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = 1;
  std::uint8_t pointer_encoding = 0;
  bool has_augmentation_size = false;
  bool signal_frame = false;
  std::span<const std::byte> program;
};

/// An entry in .eh_frame: the bytes covered by its length, after the length itself.
std::optional<MappedBytes> entry_at(const MappedBytes& frames, std::uintptr_t address) {
  if (!frames.contains(address)) return std::nullopt;
  ByteReader reader(frames.from(address));
  const auto length = reader.fixed<std::uint32_t>();
  // 0 ends the section; 0xFFFF'FFFF announces a 64-bit length, needed only by entries beyond 4 GiB.
  if (length == 0 || length == 0xFFFF'FFFF) return std::nullopt;
  const std::uintptr_t begin = reader.address();
  const std::span<const std::byte> content = reader.take(length);
  if (reader.failed()) return std::nullopt;
  return MappedBytes{begin, content};
}

std::optional<CommonEntry> read_common_entry(const MappedBytes& frames, std::uintptr_t address) {
  const std::optional<MappedBytes> entry = entry_at(frames, address);
  if (!entry) return std::nullopt;
  ByteReader reader(*entry);
  const auto id = reader.fixed<std::uint32_t>();
  const auto version = reader.fixed<std::uint8_t>();
  if (id != 0 || (version != 1 && version != 3)) return std::nullopt;
  std::array<char, 8> letters{};
  std::size_t letter_count = 0;
  for (char letter = reader.fixed<char>(); letter != '\0'; letter = reader.fixed<char>()) {
    if (letter_count == letters.size()) return std::nullopt;
    letters.at(letter_count++) = letter;
  }

  CommonEntry common;
  common.code_alignment = reader.uleb128();
  common.data_alignment = reader.sleb128();
  const std::uint64_t return_register = version == 1 ? reader.fixed<std::uint8_t>() : reader.uleb128();
  if (return_register != return_column) return std::nullopt;
  const std::string_view augmentation(letters.data(), letter_count);
  if (augmentation.starts_with('z')) {
    common.has_augmentation_size = true;
    const std::uint64_t size = reader.uleb128();
    const std::uintptr_t begin = reader.address();
    ByteReader data(MappedBytes{begin, reader.take(size)});
    for (const char letter : augmentation.substr(1)) {
      switch (letter) {
        case 'R':
          common.pointer_encoding = data.fixed<std::uint8_t>();
          break;
        case 'L':
          data.fixed<std::uint8_t>();
          break;
        case 'P': {
          const auto encoding = data.fixed<std::uint8_t>();
          if ((encoding & 0x70U) == pe_aligned) return std::nullopt;
          read_pointer(data, encoding & 0x0FU, 0);
          break;
        }
        case 'S':
          common.signal_frame = true;
          break;
        default:
          return std::nullopt;
      }
    }
    if (data.failed()) return std::nullopt;
  } else if (!augmentation.empty()) {
    return std::nullopt;
  }
  if (reader.failed()) return std::nullopt;
  common.program = reader.take(entry->bytes.size() - (reader.address() - entry->address));
  return common;
}

/// Executes the instructions that build the row for an address (DWARF 5, 6.4.2).
class RowProgram {
 public:
  RowProgram(const CommonEntry& common, std::uintptr_t location, std::uintptr_t address)
      : common_(common), location_(location), address_(address) {}

  FrameRow row;

  /// False if an instruction is unknown or invalid.
  bool run(MappedBytes program, const FrameRow* initial) {
    if (program.bytes.size() > program_limit) return false;
    initial_ = initial;
    ByteReader reader(program);
    while (!reader.done() && location_ <= address_)
      if (!step(reader)) return false;
    return !reader.failed();
  }

 private:
  bool set(std::uint64_t reg, RegisterRule rule) {
    // Vector registers have higher numbers; they are not needed here.
    if (reg < register_count) row.registers.at(reg) = rule;
    return true;
  }

  bool restore(std::uint64_t reg) {
    if (initial_ == nullptr) return false;
    if (reg < register_count) row.registers.at(reg) = initial_->registers.at(reg);
    return true;
  }

  bool advance(std::uint64_t delta) {
    const std::uintptr_t next = location_ + delta * common_.code_alignment;
    if (next < location_) return false;
    location_ = next;
    return true;
  }

  bool define_cfa(std::uint64_t reg, std::int64_t offset) {
    row.cfa = {.kind = Kind::value, .number = offset};
    row.cfa_register = reg;
    return true;
  }

  std::int64_t factored(std::uint64_t n) const { return factored(static_cast<std::int64_t>(n)); }
  std::int64_t factored(std::int64_t n) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(n) *
                                     static_cast<std::uint64_t>(common_.data_alignment));
  }

  bool step(ByteReader& reader) {
    const auto code = reader.fixed<std::uint8_t>();
    const std::uint64_t low = code & 0x3FU;
    switch (code & 0xC0U) {
      case 0x40:  // advance_loc
        return advance(low);
      case 0x80:  // offset
        return set(low, {.kind = Kind::saved, .number = factored(reader.uleb128())});
      case 0xC0:  // restore
        return restore(low);
      default:
        return extended(code, reader);
    }
  }

  bool extended(std::uint8_t code, ByteReader& reader);

  const CommonEntry& common_;
  std::uintptr_t location_;  // the next instruction to which the row does not apply
  std::uintptr_t address_;
  const FrameRow* initial_ = nullptr;
  std::array<FrameRow, nesting_limit> remembered_;
  std::size_t remembered_count_ = 0;
};

bool RowProgram::extended(std::uint8_t code, ByteReader& reader) {
  switch (code) {
    case 0x00:  // nop
      return true;
    case 0x01:  // set_loc
      location_ = read_pointer(reader, common_.pointer_encoding, 0);
      return true;
    case 0x02:  // advance_loc1
      return advance(reader.fixed<std::uint8_t>());
    case 0x03:  // advance_loc2
      return advance(reader.fixed<std::uint16_t>());
    case 0x04:  // advance_loc4
      return advance(reader.fixed<std::uint32_t>());
    case 0x05: {  // offset_extended
      const std::uint64_t reg = reader.uleb128();
      return set(reg, {.kind = Kind::saved, .number = factored(reader.uleb128())});
    }
    case 0x06:  // restore_extended
      return restore(reader.uleb128());
    case 0x07:  // undefined
      return set(reader.uleb128(), {.kind = Kind::undefined});
    case 0x08:  // same_value
      return set(reader.uleb128(), {.kind = Kind::same});
    case 0x09: {  // register
      const std::uint64_t reg = reader.uleb128();
      return set(reg, {.kind = Kind::other_register, .number = static_cast<std::int64_t>(reader.uleb128())});
    }
    case 0x0A:  // remember_state
      if (remembered_count_ == remembered_.size()) return false;
      remembered_.at(remembered_count_++) = row;
      return true;
    case 0x0B:  // restore_state
      if (remembered_count_ == 0) return false;
      row = remembered_.at(--remembered_count_);
      return true;
    case 0x0C: {  // def_cfa
      const std::uint64_t reg = reader.uleb128();
      return define_cfa(reg, static_cast<std::int64_t>(reader.uleb128()));
    }
    case 0x0D:  // def_cfa_register
      return define_cfa(reader.uleb128(), row.cfa.number);
    case 0x0E:  // def_cfa_offset
      return define_cfa(row.cfa_register, static_cast<std::int64_t>(reader.uleb128()));
    case 0x0F:  // def_cfa_expression
      row.cfa = {.kind = Kind::value_expression, .expression = reader.take(reader.uleb128())};
      return true;
    case 0x10:    // expression
    case 0x16: {  // val_expression
      const std::uint64_t reg = reader.uleb128();
      const Kind kind = code == 0x10 ? Kind::saved_expression : Kind::value_expression;
      return set(reg, {.kind = kind, .expression = reader.take(reader.uleb128())});
    }
    case 0x11: {  // offset_extended_sf
      const std::uint64_t reg = reader.uleb128();
      return set(reg, {.kind = Kind::saved, .number = factored(reader.sleb128())});
    }
    case 0x12: {  // def_cfa_sf
      const std::uint64_t reg = reader.uleb128();
      return define_cfa(reg, factored(reader.sleb128()));
    }
    case 0x13:  // def_cfa_offset_sf
      return define_cfa(row.cfa_register, factored(reader.sleb128()));
    case 0x14: {  // val_offset
      const std::uint64_t reg = reader.uleb128();
      return set(reg, {.kind = Kind::value, .number = factored(reader.uleb128())});
    }
    case 0x15: {  // val_offset_sf
      const std::uint64_t reg = reader.uleb128();
      return set(reg, {.kind = Kind::value, .number = factored(reader.sleb128())});
    }
    case 0x2E:  // GNU_args_size
      reader.uleb128();
      return true;
    default:
      return false;
  }
}

/// The Frame Description Entry that the header's sorted table gives for `address`: the last one that begins at or
/// before it. 0 if there is none.
std::uintptr_t description_for(const MappedBytes& header, std::uintptr_t address) {
  ByteReader reader(header);
  const auto version = reader.fixed<std::uint8_t>();
  const auto frames_encoding = reader.fixed<std::uint8_t>();
  const auto count_encoding = reader.fixed<std::uint8_t>();
  const auto table_encoding = reader.fixed<std::uint8_t>();
  if (version != 1 || frames_encoding == pe_omit || count_encoding == pe_omit) return 0;
  if (table_encoding != pe_data_relative_sdata4) return 0;
  read_pointer(reader, frames_encoding, header.address);
  const std::uint64_t count = read_pointer(reader, count_encoding, header.address);
  struct Row {
    std::int32_t begin, description;
  };
  const std::size_t table_at = reader.address() - header.address;
  if (reader.failed() || count > (header.bytes.size() - table_at) / sizeof(Row)) return 0;
  const auto row = [&](std::uint64_t i) {
    Row result{};
    std::memcpy(&result, header.bytes.data() + table_at + i * sizeof(Row), sizeof(Row));
    return result;
  };
  const auto absolute = [&](std::int32_t offset) {
    return header.address + static_cast<std::uintptr_t>(std::intptr_t{offset});
  };
  std::uint64_t low = 0, high = count;  // all before low begin at or before the address, all from high on after it
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (absolute(row(middle).begin) <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low == 0 ? 0 : absolute(row(low - 1).description);
}

/// A function's Frame Description Entry.
struct Description {
  CommonEntry common;
  AddressRange code;
  MappedBytes program;
};

std::optional<Description> describe(const CallFrames& tables, std::uintptr_t address) {
  const std::uintptr_t at = description_for(tables.header, address);
  const std::optional<MappedBytes> entry = entry_at(tables.frames, at);
  if (!entry) return std::nullopt;
  ByteReader reader(*entry);
  const auto common_back = reader.fixed<std::uint32_t>();  // 0: not a description but a common entry
  if (common_back == 0) return std::nullopt;
  const std::optional<CommonEntry> common = read_common_entry(tables.frames, entry->address - common_back);
  if (!common || (common->pointer_encoding & pe_indirect) != 0) return std::nullopt;
  const std::uintptr_t begin = read_pointer(reader, common->pointer_encoding, tables.header.address);
  const std::uintptr_t size = read_pointer(reader, common->pointer_encoding & 0x0FU, 0);
  if (address - begin >= size) return std::nullopt;
  if (common->has_augmentation_size) reader.take(reader.uleb128());
  if (reader.failed()) return std::nullopt;
  const MappedBytes program{reader.address(), reader.take(entry->bytes.size() - (reader.address() - entry->address))};
  return Description{.common = *common, .code = {begin, begin + size}, .program = program};
}

}  // namespace

std::optional<FrameRow> row_at(const CallFrames& tables, std::uintptr_t address) {
  const std::optional<Description> description = describe(tables, address);
  if (!description) return std::nullopt;
  const CommonEntry& common = description->common;
  RowProgram rows(common, description->code.begin, address);
  if (!rows.run({0, common.program}, nullptr)) return std::nullopt;
  const FrameRow initial = rows.row;
  if (!rows.run(description->program, &initial)) return std::nullopt;
  rows.row.signal_frame = common.signal_frame;
  return rows.row;
}

std::optional<AddressRange> function_at(const CallFrames& tables, std::uintptr_t address) {
  const std::optional<Description> description = describe(tables, address);
  return description ? std::optional(description->code) : std::nullopt;
}

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
