// SPDX-License-Identifier: Apache-2.0
// What users type: filters of lists and pictures, lists of policies, and options that both viewers have.
#pragma once

#include <limits>
#include <memory>

#include "viewer/model/background.h"
#include "viewer/model/document.h"
#include "viewer/model/findings.h"

namespace memreel::viewer {

struct Filter {
  static constexpr Bytes no_limit{std::numeric_limits<std::uint64_t>::max()};
  std::string text;                  // in a frame, a module, "file:line", or an address in hexadecimal; empty: any
  Bytes least, most = no_limit;      // of the requested size
  std::optional<Category> category;  // none: any

  bool limits_size() const { return least > 0_B || most < no_limit; }
  bool lets_all_pass() const { return *this == Filter(); }
  friend bool operator==(const Filter&, const Filter&) = default;
};

/// Parses user input: words such as ">1MiB", "<= 64 KiB" or "=512" limit the size, the rest is text to search for.
Filter typed_filter(std::string_view typed);
/// The input with its smallest size replaced by `least`, such as "20MiB", and the rest unchanged; "": any size.
std::string with_least(std::string_view typed, std::string_view least);

/// A filter applied to one version of a document: built once, it answers in a few instructions. Later allocations and
/// stacks never pass.
class Sieve {
 public:
  /// `classification`: may be null; then every category is `unknown`.
  Sieve(std::shared_ptr<const Document> document, Filter filter, std::shared_ptr<const Classification> classification);

  const Filter& filter() const { return filter_; }
  /// Whether the text is an address, which matches allocations but no stacks.
  bool is_address() const { return !address_.empty(); }
  bool passes(std::uint32_t allocation) const {
    return passes_but_category(allocation) && (!filter_.category || category_of(allocation) == *filter_.category);
  }
  /// Whether it passes, ignoring the category.
  bool passes_but_category(std::uint32_t allocation) const;
  /// For things other than allocations.
  bool passes(StackId stack) const { return filter_.text.empty() || has_text(stack); }
  bool passes(StackId stack, Bytes size) const {
    return size >= filter_.least && size <= filter_.most && passes(stack);
  }

 private:
  Category category_of(std::uint32_t allocation) const {
    return classification_ ? classification_->category(allocation) : Category::unknown;
  }
  bool has_text(StackId stack) const { return index(stack) < stacks_.size() && stacks_[index(stack)]; }

  std::shared_ptr<const Document> document_;
  Filter filter_;
  std::string address_;  // normalized; empty: the text is not an address
  std::shared_ptr<const Classification> classification_;
  std::vector<bool> stacks_;  // whether a stack contains the text
};

/// The inputs of a sieve. `classified`: number of classified allocations; 0 if irrelevant.
struct SieveKey {
  Filter filter;
  std::uint32_t version = 0, classified = 0;
  friend bool operator==(const SieveKey&, const SieveKey&) = default;
};
using SieveJob = Background<SieveKey, Sieve>;

/// For each stack, whether one of its frames, or a module that one calls, contains `text`, ignoring case.
std::vector<bool> stacks_with(const Tables& tables, std::string_view text);

/// A list of policies in the syntax of `memreel replay --policy`. Settings of PYTORCH_CUDA_ALLOC_CONF, alone or with
/// the variable and `export` in front, become parameters of torch.native; everything else is unchanged.
std::string as_policies(std::string_view typed);

/// --max-memory; 0 without one.
Result<Bytes> parse_memory_limit(const std::string& typed);

/// For --at with what instant_named() does not know.
Error not_an_instant(const std::string& typed);

}  // namespace memreel::viewer
