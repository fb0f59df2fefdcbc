// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/debug_info.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <unistd.h>

#include <algorithm>

#include "formats/model/quantity.h"

namespace memreel {

/// The functions with code in a compilation unit.
struct DebugInfo::Unit {
  Dwarf_Die entry{};
  std::vector<Range> functions;
};

namespace {

/// More deeply nested entries are not followed.
constexpr int depth_limit = 64;

/// Calls `visit(begin, end)` for every address range of an entry.
template <class Visit>
void each_range(Dwarf_Die& entry, Visit visit) {
  Dwarf_Addr base = 0, begin = 0, end = 0;
  for (std::ptrdiff_t next = dwarf_ranges(&entry, 0, &base, &begin, &end); next > 0;
       next = dwarf_ranges(&entry, next, &base, &begin, &end))
    if (begin < end) visit(begin, end);
}

/// Calls `visit(child)` for the children of an entry.
template <class Visit>
void each_child(Dwarf_Die& entry, Visit visit) {
  Dwarf_Die child;
  if (dwarf_child(&entry, &child) != 0) return;
  do visit(child);
  while (dwarf_siblingof(&child, &child) == 0);
}

std::string name_of(Dwarf_Die& function) {
  Dwarf_Attribute attribute;
  for (const unsigned linkage_name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name})
    if (dwarf_attr_integrate(&function, linkage_name, &attribute) != nullptr)
      if (const char* const name = dwarf_formstring(&attribute)) return demangled(name);
  const char* const name = dwarf_diename(&function);
  return name != nullptr ? name : "";
}

std::string path_of(const char* file, Dwarf_Die& unit) {
  if (file == nullptr) return {};
  std::filesystem::path path(file);
  Dwarf_Attribute attribute;
  if (path.is_relative() && dwarf_attr(&unit, DW_AT_comp_dir, &attribute) != nullptr)
    if (const char* const directory = dwarf_formstring(&attribute)) path = directory / path;
  return path.lexically_normal().string();
}

std::optional<std::uint64_t> number_of(Dwarf_Die& entry, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_attr(&entry, name, &attribute) == nullptr || dwarf_formudata(&attribute, &value) != 0) return std::nullopt;
  return value;
}

/// Adds the inlined calls at `address` inside `entry`, outermost first.
void add_inlined(Dwarf_Die& entry, std::uint64_t address, int depth, std::vector<Dwarf_Die>& calls) {
  if (depth == depth_limit) return;
  bool found = false;
  each_child(entry, [&](Dwarf_Die& child) {
    const int tag = dwarf_tag(&child);
    if (found || (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block)) return;
    // Blocks without their own addresses may contain entries that have some.
    if (dwarf_haspc(&child, address) <= 0 && (tag == DW_TAG_inlined_subroutine || dwarf_hasattr(&child, DW_AT_low_pc) ||
                                              dwarf_hasattr(&child, DW_AT_ranges)))
      return;
    const std::size_t before = calls.size();
    if (tag == DW_TAG_inlined_subroutine) calls.push_back(child);
    add_inlined(child, address, depth + 1, calls);
    found = calls.size() > before;
  });
}

template <class Range>
void add_functions(Dwarf_Die& entry, int depth, std::vector<Range>& functions) {
  if (depth == depth_limit) return;
  each_child(entry, [&](Dwarf_Die& child) {
    switch (dwarf_tag(&child)) {
      case DW_TAG_subprogram:
        each_range(child, [&](Dwarf_Addr begin, Dwarf_Addr end) {
          functions.push_back({begin, end, dwarf_dieoffset(&child)});
        });
        add_functions(child, depth + 1, functions);
        break;
      case DW_TAG_namespace:
      case DW_TAG_module:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
      case DW_TAG_lexical_block:
        add_functions(child, depth + 1, functions);
        break;
      default:
        break;
    }
  });
}

}  // namespace

DebugInfo::DebugInfo(DebugInfo&&) noexcept = default;
DebugInfo& DebugInfo::operator=(DebugInfo&&) noexcept = default;
DebugInfo::~DebugInfo() = default;

DebugInfo::DebugInfo(Dwarf* dwarf) : dwarf_(dwarf) {
  Dwarf_CU* unit = nullptr;
  Dwarf_Die entry, sub_entry;
  Dwarf_Half version = 0;
  std::uint8_t type = 0;
  while (dwarf_get_units(dwarf_, unit, &unit, &version, &type, &entry, &sub_entry) == 0) {
    if (type == DW_UT_type || type == DW_UT_split_type) continue;
    each_range(entry, [&](Dwarf_Addr begin, Dwarf_Addr end) {
      units_.push_back({begin, end, dwarf_dieoffset(&entry)});
    });
  }
  std::sort(units_.begin(), units_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

std::vector<SourceFrame> DebugInfo::at(std::uint64_t address) {
  const auto after = std::upper_bound(units_.begin(), units_.end(), address,
                                      [](std::uint64_t a, const Range& range) { return a < range.begin; });
  if (after == units_.begin() || (after - 1)->end <= address) return {};
  std::unique_ptr<Unit>& indexed = indexed_[(after - 1)->entry];
  if (indexed == nullptr) {
    indexed = std::make_unique<Unit>();
    if (dwarf_offdie(dwarf_, (after - 1)->entry, &indexed->entry) != nullptr)
      add_functions(indexed->entry, 0, indexed->functions);
  }
  Unit& unit = *indexed;
  if (unit.entry.addr == nullptr) return {};

  // For nested functions, takes the smallest.
  const Range* function = nullptr;
  for (const Range& range : unit.functions)
    if (address >= range.begin && address < range.end &&
        (function == nullptr || range.end - range.begin < function->end - function->begin))
      function = &range;
  std::vector<Dwarf_Die> calls;  // outermost first
  Dwarf_Die entry;
  if (function != nullptr && dwarf_offdie(dwarf_, function->entry, &entry) != nullptr) {
    calls.push_back(entry);
    add_inlined(entry, address, 0, calls);
  }

  // The line table gives the position in the innermost function; each inlined call gives its caller's.
  std::vector<SourceFrame> frames;
  SourceFrame place;
  if (Dwarf_Line* const line = dwarf_getsrc_die(&unit.entry, address)) {
    int number = 0;
    if (dwarf_lineno(line, &number) == 0) place.line = static_cast<std::uint32_t>(number);
    place.file = path_of(dwarf_linesrc(line, nullptr, nullptr), unit.entry);
  }
  Dwarf_Files* files = nullptr;
  std::size_t file_count = 0;
  if (dwarf_getsrcfiles(&unit.entry, &files, &file_count) != 0) file_count = 0;
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    place.function = name_of(*call);
    frames.push_back(place);
    const std::optional<std::uint64_t> file = number_of(*call, DW_AT_call_file);
    place = {.line = static_cast<std::uint32_t>(number_of(*call, DW_AT_call_line).value_or(0))};
    if (file && *file < file_count) place.file = path_of(dwarf_filesrc(files, *file, nullptr, nullptr), unit.entry);
  }
  if (frames.empty() && (place.line != 0 || !place.file.empty())) frames.push_back(place);
  return frames;
}

namespace {

/// The used part of libdebuginfod (debuginfod.h of elfutils), all of it in its stable interface.
class Client {
 public:
  Client() {
    // Never closed: libcurl, its dependency, does not support that.
    void* const library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto begin = reinterpret_cast<void* (*)()>(dlsym(library, "debuginfod_begin"));
    find_ = reinterpret_cast<Find>(dlsym(library, "debuginfod_find_debuginfo"));
    end_ = reinterpret_cast<End>(dlsym(library, "debuginfod_end"));
    if (begin != nullptr && find_ != nullptr && end_ != nullptr) client_ = begin();
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    if (client_ != nullptr) end_(client_);
  }

  bool works() const { return client_ != nullptr; }

  std::filesystem::path find(const std::string& build_id) const {
    char* path = nullptr;
    const int descriptor = find_(client_, reinterpret_cast<const unsigned char*>(build_id.data()),
                                 static_cast<int>(build_id.size()), &path);
    // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): the library's own allocation
    const std::unique_ptr<char, decltype(&std::free)> owner(path, &std::free);
    if (descriptor < 0) return {};
    close(descriptor);
    return path != nullptr ? path : "";
  }

 private:
  using Find = int (*)(void*, const unsigned char*, int, char**);
  using End = void (*)(void*);
  Find find_ = nullptr;
  End end_ = nullptr;
  void* client_ = nullptr;
};

const Client& client() {
  static const Client one;
  return one;
}

}  // namespace

bool can_ask_servers() { return client().works(); }

std::filesystem::path debug_file_from_servers(const std::string& build_id) {
  return client().works() && !build_id.empty() ? client().find(build_id) : std::filesystem::path();
}

namespace {

namespace fs = std::filesystem;

/// A possible location of a file: below a root, or anywhere if that is empty.
struct Candidate {
  fs::path path, root;
};

}  // namespace

class ModuleSymbols::Impl {
 public:
  Impl(std::string_view path, Module module, SymbolOptions options)
      : path_(path), module_(std::move(module)), options_(std::move(options)) {
    find_code();
    find_debug_info();
    if (const ElfFile* const file = code_ ? &*code_ : debug_ ? &*debug_ : nullptr)
      first_address_ = file->extent().first;
    if (debug_) symbols_ = SymbolTable(*debug_);
    if (code_ && !symbols_.is_full()) symbols_ = SymbolTable(*code_);
    if (ElfFile* const file = debug_  ? &*debug_
                              : code_ ? &*code_
                                      : nullptr;
        file != nullptr && file->dwarf() != nullptr)
      info_.emplace(file->dwarf());
  }

  std::vector<SourceFrame> at(std::uint64_t offset) {
    const std::uint64_t address = first_address_ + offset;
    std::vector<SourceFrame> frames = info_ ? info_->at(address) : std::vector<SourceFrame>{};
    if (frames.empty()) frames.emplace_back();
    if (frames.back().function.empty()) frames.back().function = symbols_.at(address);
    if (frames.size() == 1 && frames[0].function.empty() && frames[0].file.empty()) frames.clear();
    return frames;
  }

  Found found() const {
    if (code_ || debug_) return Found::file;
    return mismatch_.empty() ? Found::nothing : Found::another_build;
  }
  const std::string& mismatch() const { return mismatch_; }

 private:
  std::optional<ElfFile> open_if_same(const Candidate& candidate) {
    std::optional<ElfFile> file = ElfFile::open(candidate.path, candidate.root);
    if (!file) return std::nullopt;
    const fs::path& path = file->path();
    const std::string build_id = file->build_id();
    if (build_id != module_.build_id) {
      mismatch_ =
          path.string() + (build_id.empty() ? " has no build-id" : " has build-id " + hex_of(build_id)) +
          (module_.build_id.empty() ? "; the recorded file had none" : "; recorded: " + hex_of(module_.build_id));
      return std::nullopt;
    }
    if (build_id.empty() && file->extent().second != module_.size.count) {
      mismatch_ = path.string() + " differs in size from the recorded file, and neither has a build-id";
      return std::nullopt;
    }
    return file;
  }

  void find_code() {
    std::vector<Candidate> candidates;
    if (!options_.sysroot.empty()) {
      candidates.push_back({path_, options_.sysroot});
      candidates.push_back({path_.filename(), options_.sysroot});
    }
    // A build ID proves that a file of this machine matches; a size alone is too weak.
    if (options_.sysroot.empty() || !module_.build_id.empty()) candidates.push_back({path_, {}});
    for (const Candidate& candidate : candidates) {
      code_ = open_if_same(candidate);
      if (!code_) continue;
      code_candidate_ = candidate;
      return;
    }
  }

  void find_debug_info() {
    if (code_ && code_->dwarf() != nullptr) return;
    if (module_.build_id.size() < 2) return;
    std::vector<Candidate> candidates;
    const std::string id = hex_of(module_.build_id);
    const fs::path by_id = fs::path("usr/lib/debug/.build-id") / id.substr(0, 2) / (id.substr(2) + ".debug");
    const std::string link = code_ ? code_->debug_link() : std::string();
    for (const fs::path& root : {options_.sysroot, fs::path("/")}) {
      if (root.empty()) continue;
      candidates.push_back({by_id, root});
      if (!link.empty()) candidates.push_back({"usr/lib/debug" / path_.parent_path().relative_path() / link, root});
    }
    if (!link.empty()) {
      candidates.push_back({code_candidate_.path.parent_path() / link, code_candidate_.root});
      candidates.push_back({code_candidate_.path.parent_path() / ".debug" / link, code_candidate_.root});
    }
    const std::string before = mismatch_;
    for (const Candidate& candidate : candidates)
      if (!debug_) debug_ = open_if_same(candidate);
    if (!debug_ && options_.debuginfod) debug_ = open_if_same({debug_file_from_servers(module_.build_id), {}});
    // Mismatching separate debug information does not matter if the module itself was found.
    if (code_) mismatch_ = before;
  }

  fs::path path_;
  Module module_;
  SymbolOptions options_;
  Candidate code_candidate_;
  std::optional<ElfFile> code_, debug_;  // debug_ only if code_ contains no debug information
  std::uint64_t first_address_ = 0;
  SymbolTable symbols_;
  std::optional<DebugInfo> info_;
  std::string mismatch_;
};

bool can_read_symbols() { return true; }

ModuleSymbols::ModuleSymbols(std::string_view path, const Module& module, const SymbolOptions& options)
    : impl_(std::make_unique<Impl>(path, module, options)) {}
ModuleSymbols::ModuleSymbols(ModuleSymbols&&) noexcept = default;
ModuleSymbols& ModuleSymbols::operator=(ModuleSymbols&&) noexcept = default;
ModuleSymbols::~ModuleSymbols() = default;

std::vector<SourceFrame> ModuleSymbols::at(std::uint64_t offset) { return impl_->at(offset); }
ModuleSymbols::Found ModuleSymbols::found() const { return impl_->found(); }
const std::string& ModuleSymbols::mismatch() const { return impl_->mismatch(); }

}  // namespace memreel
