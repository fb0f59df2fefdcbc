// Call sites that the user has judged and that are not to be reported, in the syntax of LeakSanitizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/result.h"
#include "formats/model/tables.h"

namespace memreel {

struct Suppression {
  std::string pattern;
  bool built_in = false;
};

/// A list of `leak:PATTERN`. A pattern is searched in the function, file and module of every frame; `*` matches
/// anything, `^` and `$` the beginning and end of the name.
class Suppressions {
 public:
  /// Suppressions for known frameworks: memory that a library takes once per handle, stream or shape and keeps by
  /// design.
  static Suppressions built_in();

  /// One per line; blank lines and lines that begin with `#` are ignored. `where`: the name used in errors.
  Result<void> add_lines(std::string_view text, const std::string& where);

  const std::vector<Suppression>& all() const { return all_; }

  /// The first that matches a frame of `stack`; null if none does.
  const Suppression* match(const Tables& tables, StackId stack) const;

 private:
  std::vector<Suppression> all_;
};

/// Whether a name matches a pattern as described above.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace memreel
