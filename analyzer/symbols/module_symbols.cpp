// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <optional>
#include <utility>

#include "analyzer/symbols/debug_info.h"
#include "analyzer/symbols/elf_file.h"
#include "analyzer/symbols/symbols.h"
#include "formats/model/notation.h"

namespace memreel {
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
