// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/sizes.h"

#include <algorithm>
#include <charconv>

namespace memreel {
namespace {

/// Parameter values as written, ordered by name.
struct NamedValues {
  std::vector<std::string> names;
  std::vector<std::vector<std::uint64_t>> values;
};

/// "batch=8,16,seq=512". Errors name `where`.
Result<NamedValues> parse_values(std::string_view text, const std::string& where) {
  NamedValues parsed;
  const auto refuse = [&](const std::string& what) {
    return Error{.what = what, .where = where, .remedy = "write NAME=NUMBER, several separated by commas"};
  };
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (const std::size_t equals = word.find('='); equals != std::string_view::npos) {
      if (equals == 0) return refuse("a parameter without a name");
      const std::string name(word.substr(0, equals));
      if (std::ranges::find(parsed.names, name) != parsed.names.end()) return refuse("two values of " + name);
      parsed.names.push_back(name);
      parsed.values.emplace_back();
      word.remove_prefix(equals + 1);
    }
    std::uint64_t value = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    constexpr std::uint64_t most = std::uint64_t{1} << 32U;  // products of powers stay within 128 bits
    if (parsed.names.empty() || error != std::errc{} || rest != word.data() + word.size() || value == 0 || value > most)
      return refuse("'" + std::string(word) + "' is not a positive whole number of a parameter");
    parsed.values.back().push_back(value);
  }
  return parsed;
}

}  // namespace

Result<RecordingArgument> parse_recording(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::size_t equals = text.find('=');
  if (colon == std::string::npos || equals == std::string::npos || equals > colon)
    return Error{.what = "'" + text + "' does not say at which value it was recorded",
                 .remedy = "write NAME=VALUE:FILE, e.g. batch=4:snapshot.pickle"};
  Result<NamedValues> at = parse_values(std::string_view(text).substr(0, colon), text);
  if (!at) return std::move(at).error();
  RecordingArgument argument{.names = std::move(at->names), .file = text.substr(colon + 1)};
  for (const std::vector<std::uint64_t>& value : at->values) {
    if (value.size() != 1) return Error{.what = "a recording has one value per parameter", .where = text};
    argument.at.push_back(value.front());
  }
  return argument;
}

Result<std::vector<RecordingArgument>> parse_recordings(std::span<const std::string> texts) {
  std::vector<RecordingArgument> arguments;
  for (const std::string& text : texts) {
    Result<RecordingArgument> argument = parse_recording(text);
    if (!argument) return std::move(argument).error();
    if (!arguments.empty() && argument->names != arguments.front().names)
      return Error{.what = "names other parameters than the recordings before it", .where = text};
    arguments.push_back(*std::move(argument));
  }
  return arguments;
}

Result<std::vector<Values>> parse_targets(std::span<const std::string> to, const std::vector<std::string>& names,
                                          const Values& largest) {
  std::vector<std::vector<std::uint64_t>> wanted(names.size());
  for (const std::string& text : to) {
    Result<NamedValues> parsed = parse_values(text, "--to");
    if (!parsed) return std::move(parsed).error();
    for (std::size_t i = 0; i < parsed->names.size(); ++i) {
      const auto name = std::ranges::find(names, parsed->names[i]);
      if (name == names.end())
        return Error{.what = "no recording names a parameter '" + parsed->names[i] + "'", .where = "--to"};
      auto& values = wanted[static_cast<std::size_t>(name - names.begin())];
      values.insert(values.end(), parsed->values[i].begin(), parsed->values[i].end());
    }
  }
  std::vector<Values> targets{Values{}};
  for (std::size_t p = 0; p < names.size(); ++p) {
    if (wanted[p].empty()) wanted[p].push_back(largest[p]);
    std::vector<Values> longer;
    for (const Values& target : targets)
      for (const std::uint64_t value : wanted[p]) {
        longer.push_back(target);
        longer.back().push_back(value);
      }
    targets = std::move(longer);
  }
  return targets;
}

Result<HeapId> busiest_heap(const Trace& trace, std::span<const Prepared> heaps, const std::string& file) {
  if (heaps.empty()) return Error{.what = "holds no allocations to learn from", .where = file};
  std::vector<std::uint64_t> bytes(trace.tables.heaps.size());
  for (const Prepared& heap : heaps)
    for (std::size_t row = 0; row < heap.count(); ++row)
      if (heap.op[row] == Op::alloc) bytes[index(heap.heap)] += heap.size[row].count;
  return std::ranges::max_element(heaps, {}, [&](const Prepared& heap) { return bytes[index(heap.heap)]; })->heap;
}

namespace {

constexpr std::size_t curve_points = 17;

}  // namespace

std::size_t searched_parameter(std::span<const Values> targets, const Values& largest) {
  for (std::size_t p = 0; p < largest.size(); ++p)
    if (std::ranges::any_of(targets, [&](const Values& at) { return at[p] != targets.front()[p]; })) return p;
  for (std::size_t p = 0; p < largest.size(); ++p)
    if (!targets.empty() && targets.front()[p] != largest[p]) return p;
  return 0;
}

GrowthChart make_growth_chart(const Predictor& predictor, std::span<const Prediction> asked, std::size_t which,
                              const PredictDevice& device) {
  GrowthChart chart{.parameter = predictor.options().names[which],
                    .limit = device.capacity,
                    .limit_name = device.card.empty() ? "capacity" : device.card};
  if (asked.empty()) return chart;
  const auto along = [&](const Values& at) {
    Values like = asked.front().at;
    like[which] = at[which];
    return like == at;
  };
  Values from = asked.front().at, to = from;
  for (std::size_t r = 0; r < predictor.recordings().size(); ++r) {
    const Values& at = predictor.recordings()[r]->at;
    if (!along(at)) continue;
    const Peaks& peaks = predictor.recorded()[r];
    chart.recorded.push_back({at[which], peaks.live, peaks.reserved});
    from[which] = std::min(from[which], at[which]);
    to[which] = std::max(to[which], at[which]);
  }
  const auto add = [&](const Prediction& p, bool is_asked) {
    chart.predicted.push_back({p.at[which], p.peaks.live, p.peaks.reserved, p.reserved_low, p.reserved_high, is_asked});
  };
  for (const Prediction& prediction : asked) {
    if (!along(prediction.at)) continue;
    add(prediction, true);
    from[which] = std::min(from[which], prediction.at[which]);
    to[which] = std::max(to[which], prediction.at[which]);
  }
  const auto drawn = [&](const Prediction& p) {
    return std::ranges::any_of(chart.predicted,
                               [&](const GrowthChart::Predicted& known) { return known.at == p.at[which]; });
  };
  for (const Prediction& prediction : predictor.curve(from, to, which, curve_points))
    if (!drawn(prediction)) add(prediction, false);
  std::ranges::sort(chart.predicted, {}, &GrowthChart::Predicted::at);
  std::ranges::sort(chart.recorded, {}, &GrowthChart::Recorded::at);
  return chart;
}

}  // namespace memreel
