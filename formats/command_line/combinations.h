// SPDX-License-Identifier: Apache-2.0
// Which options of a command line go together: what would have no effect is refused.
#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): its own name
class App;
}

namespace memreel {

/// Names of options, and of arguments, that were added before.
using OptionNames = std::vector<std::string>;

/// Refuses each of `options` unless one of `needed` is given, too.
void only_with(CLI::App& app, const OptionNames& options, const OptionNames& needed);

/// Refuses each of `options` beside one of `others`, unless one of `saving` is given, too.
void not_with(CLI::App& app, const OptionNames& options, const OptionNames& others, const OptionNames& saving = {});

}  // namespace memreel
