// SPDX-License-Identifier: Apache-2.0
// Which settings of PyTorch's allocator are worth trying on a program.
#pragma once

#include <map>
#include <span>

#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/engine/prepared.h"

namespace memreel {

// What each setting of PyTorch's allocator does beside saving memory: the one table from which advice speaks.

struct SettingFacts {
  std::string_view key;           // in PYTORCH_CUDA_ALLOC_CONF
  std::string_view effect;        // on placement
  std::string_view side_effects;  // what it breaks or costs; may be empty
  std::string_view source;        // of the side effects: PyTorch's code, or threads that report them
};

/// All settings that memreel advises, in the order of the documents (docs/out-of-memory.md).
std::span<const SettingFacts> setting_facts();

/// Those of them that `to` changes from `from`. `from`, `to`: complete specs of torch.native or torch.host.
std::vector<const SettingFacts*> facts_of_changes(const PolicySpec& from, const PolicySpec& to);

/// "expandable_segments: cudaIpcGetMemHandle refuses its memory..." for each of those; empty if nothing is known.
std::string side_effects_of(const PolicySpec& from, const PolicySpec& to);

/// What is wrong with the recorded texts of PYTORCH_CUDA_ALLOC_CONF and its other names, given what the allocator said
/// was in force (a snapshot's allocator_settings): what PyTorch refuses, such as a key that it does not have, with the
/// likeliest one; a variable that the release does not read; a value that is not in force. Empty if nothing is.
std::string misread_settings(const std::map<std::string, std::string>& recorded);

/// The settings in those texts, "key:value", that the release does not read: all in a variable that does not count, and
/// keys that it does not have.
std::vector<std::string> ignored_settings(const std::map<std::string, std::string>& recorded);

/// A parameter and the values to try, excluding the program's own; best guess first.
struct Dimension {
  std::string parameter;
  std::vector<std::string> values;

  friend bool operator==(const Dimension&, const Dimension&) = default;
};

/// Whether the parameters of a policy are PyTorch settings: those of torch.native, and of torch.host for pinned host
/// memory.
bool has_settings(const PolicySpec& spec);

/// For programs that ran with `baseline`, a complete spec of torch.native or torch.host. Thresholds come from the sizes
/// of the program's own requests. Omits what can make no difference: garbage collection unless the program set a memory
/// fraction (`sets_fraction`, or a parameter of `baseline`), segments for sizes that are never requested.
std::vector<Dimension> search_space(std::span<const Prepared> heaps, const PolicySpec& baseline, bool sets_fraction);

/// `baseline` with one parameter changed, for every value of every dimension.
std::vector<PolicySpec> single_changes(const PolicySpec& baseline, std::span<const Dimension> dimensions);

/// Every combination of at least two changes.
std::vector<PolicySpec> combined_changes(const PolicySpec& baseline, std::span<const Dimension> dimensions);

/// The parameters that differ; how many.
std::vector<std::string> changed_parameters(const PolicySpec& from, const PolicySpec& to);
std::size_t changes(const PolicySpec& from, const PolicySpec& to);

/// The binary digits of the whole numbers that `to` has and `from` has not, without trailing zeros: values that were
/// chosen for one program's sizes have many.
int specificity(const PolicySpec& from, const PolicySpec& to);

/// Whether expandable_segments:True is the only difference.
bool only_expands(const PolicySpec& from, const PolicySpec& to);

/// The value of PYTORCH_CUDA_ALLOC_CONF for a complete spec that has settings:
/// "expandable_segments:True,max_split_size_mb:128". Empty for PyTorch's defaults.
std::string conf_of(const PolicySpec& spec);

inline constexpr std::string_view pytorch_defaults = "PyTorch's defaults";
/// What people call the settings of conf_of(): themselves, or "PyTorch's defaults".
std::string name_of_settings(const std::string& conf);

/// Whether the program's files are on a drive with a letter. PyTorch ignored expandable_segments on Windows until pull
/// request 189163 of July 2026.
bool ran_on_windows(const Tables& tables);

/// The shell line that sets it, quoted if necessary.
std::string export_line(const std::string& conf);

/// The first PyTorch release that has all settings of `spec`; empty if every supported one does.
std::string needs_release(const PolicySpec& spec);
/// The same where `precedes`: releases before 2.1 had no expandable_segments.
std::string needs_release(const PolicySpec& spec, bool precedes);

/// Whether the snapshot of some of these heaps shows a release before 2.1.
bool precede_rules(std::span<const Prepared> heaps);

/// Whether a program that ran with `baseline` can use `spec`, whatever its PyTorch release: every supported release has
/// the settings, or the one that `spec` names, or the program used one as new. `states_release`: `spec` names the
/// release because the program stated it (states_release()); else the default stands for any.
bool is_widely_usable(const PolicySpec& spec, const PolicySpec& baseline, bool states_release);

}  // namespace memreel
