// What lists and pictures are limited to: allocations by their stack or address, their size, their category.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "viewer/model/background.h"
#include "viewer/model/classification.h"
#include "viewer/model/document.h"

namespace memreel::viewer {

struct Filter {
  static constexpr Bytes no_limit{std::numeric_limits<std::uint64_t>::max()};
  std::string text;                  // in a frame, a module, "file:line", or an address in hexadecimal; empty: any
  Bytes least, most = no_limit;      // of the size that was requested
  std::optional<Category> category;  // none: any

  bool limits_size() const { return least > 0_B || most < no_limit; }
  bool lets_all_pass() const { return *this == Filter(); }
  friend bool operator==(const Filter&, const Filter&) = default;
};

/// What somebody typed: words such as ">1MiB", "<= 64 KiB" or "=512" limit the size, the rest is text to search for.
Filter typed_filter(std::string_view typed);
/// What has to be typed so that `least`, such as "20MiB", is the smallest size and all else is as it was; "": any size.
std::string with_least(std::string_view typed, std::string_view least);

/// A filter applied to a version of a document: made once, it answers in a few instructions. Of allocations and stacks
/// that came later none passes.
class Sieve {
 public:
  /// `classification`: may be null; all is of the category `unknown` then.
  Sieve(std::shared_ptr<const Document> document, Filter filter, std::shared_ptr<const Classification> classification);

  const Filter& filter() const { return filter_; }
  /// Whether the text is an address: allocations have it, and no stack does.
  bool is_address() const { return !address_.empty(); }
  bool passes(std::uint32_t allocation) const {
    return passes_but_category(allocation) && (!filter_.category || category_of(allocation) == *filter_.category);
  }
  /// Whether it passes, were it of any category.
  bool passes_but_category(std::uint32_t allocation) const;
  /// Of what is no allocation.
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
  std::string address_;  // as it is searched for; empty: the text is none
  std::shared_ptr<const Classification> classification_;
  std::vector<bool> stacks_;  // those with the text
};

/// What a sieve is made of. `classified`: allocations; 0 where that does not matter.
struct SieveKey {
  Filter filter;
  std::uint32_t version = 0, classified = 0;
  friend bool operator==(const SieveKey&, const SieveKey&) = default;
};
using SieveJob = Background<SieveKey, Sieve>;

/// For each stack, whether a frame of it, or the module that one calls, contains `text`, in any case.
std::vector<bool> stacks_with(const Tables& tables, std::string_view text);

}  // namespace memreel::viewer
