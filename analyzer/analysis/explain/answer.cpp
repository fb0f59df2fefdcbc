// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/explain/answer.h"

#include <algorithm>
#include <cmath>

#include "analyzer/analysis/explain/advice.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"

namespace memreel::explain {
namespace {

constexpr std::string_view record_flight = "memreel record --flight 256MiB -- PROGRAM";
constexpr std::string_view record_whole = "memreel record -o run.reel -- PROGRAM && memreel tune run.reel";

std::string_view unknown_in(Kind kind) {
  switch (kind) {
    case Kind::fragmentation:
      return "which setting would have served it, and whether cached blocks wait for another stream";
    case Kind::other_process:
      return "who holds it";
    case Kind::refused_though_free:
      return "how many mappings there were, and what the driver answered";
    case Kind::own_limit:
      return "whether the limit is too low, or the program grows";
    case Kind::private_pool:
      return "which pool or graph it is";
    case Kind::larger_than_device:
      return "which line asked for it";
    default:
      return "who holds the memory; a leak can't be told from need";
  }
}

/// A stretch of the bar.
struct Stretch {
  std::string_view name;
  std::uint64_t bytes;
  char ascii;
  std::string_view unicode;
};

std::vector<Stretch> stretches_of(const Failure& failure) {
  const Figures& figures = failure.figures;
  const auto value = [&](Field field) { return figures[field].value_or(0); };
  const std::uint64_t reserved = value(Field::reserved);
  const std::uint64_t context = figures[Field::in_use] && figures[Field::reserved] && value(Field::in_use) > reserved
                                    ? value(Field::in_use) - reserved
                                    : 0;
  const bool parts = figures[Field::live].has_value();
  std::vector<Stretch> all;
  if (parts) all.push_back({"live", value(Field::live), '#', "█"});
  if (!parts && reserved > 0) all.push_back({"held", reserved, '#', "█"});
  if (figures[Field::pools]) all.push_back({"cached in private pools", value(Field::pools), '%', "▚"});
  if (figures[Field::cached]) all.push_back({"cached", value(Field::cached), '+', "▓"});
  if (context > 0) all.push_back({"context and libraries", context, 'c', "▒"});
  // A difference of figures with two decimals is uncertain by their sum.
  constexpr std::uint64_t least_difference = std::uint64_t{32} << 20U;
  if (value(Field::others) >= least_difference) all.push_back({"others", value(Field::others), 'o', "░"});
  const std::uint64_t known = value(Field::live) + value(Field::free);
  if (is_family(failure, "torch.driver_pool") && parts && figures[Field::free] && value(Field::capacity) > known)
    all.push_back({"the pool's cache, contexts or others", value(Field::capacity) - known, '?', "░"});
  if (figures[Field::free]) all.push_back({"free", value(Field::free), '.', "·"});
  return all;
}

std::string bar_of(const Failure& failure, bool unicode) {
  constexpr std::size_t width = 32;
  const Figures& figures = failure.figures;
  const std::vector<Stretch> all = stretches_of(failure);
  std::string words;
  std::uint64_t sum = 0;
  for (const Stretch& stretch : all) {
    words += (words.empty() ? "" : ", ") + std::string(stretch.name) + " " + in_words(stretch.bytes);
    sum += std::min(stretch.bytes, std::uint64_t{1} << 60U);
  }
  if (figures[Field::budget] && figures[Field::weights]) {
    words = "weights " + in_words(*figures[Field::weights]);
    if (figures[Field::activations]) words += ", activations " + in_words(*figures[Field::activations]);
    if (figures[Field::non_torch]) words += ", libraries " + in_words(*figures[Field::non_torch]);
    return words + " of a budget of " + in_words(*figures[Field::budget]);
  }
  if (!figures[Field::capacity] || all.empty() || *figures[Field::capacity] == 0) return words;
  const std::uint64_t whole = std::max(sum, *figures[Field::capacity]);
  std::string bar;
  std::size_t drawn = 0;
  std::uint64_t so_far = 0;
  for (const Stretch& stretch : all) {
    so_far += stretch.bytes;
    const auto end =
        std::min(width, static_cast<std::size_t>(std::llround(static_cast<double>(width) * static_cast<double>(so_far) /
                                                              static_cast<double>(whole))));
    for (; drawn < end; ++drawn)
      if (unicode)
        bar += stretch.unicode;
      else
        bar += stretch.ascii;
  }
  bar.append(width - drawn, ' ');
  return "[" + bar + "] " + words + " of " + in_words(*figures[Field::capacity]);
}

/// For a table of Markdown: no cell ends early, and nothing is taken for a tag.
std::string cell(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '|') out += '\\';
    out += letter;
  }
  return out;
}

}  // namespace

Answer answer_to(const Failure& failure) {
  Answer answer{.advice = {}, .record = {}, .unknown = unknown_in(failure.kind)};
  const auto [first, second] = usual_advice(failure);
  const Figures& figures = failure.figures;
  const auto activations = figures[Field::activations], weights = figures[Field::weights];
  if (failure.kind == Kind::engine_budget && activations && weights && *activations > *weights)
    answer.advice.push_back(
        {"lower --max-num-batched-tokens or --max-num-seqs: activations, not the utilization, are the problem",
         "fewer tokens at once"});
  if (failure.kind == Kind::lack && figures[Field::capacity] && figures[Field::requested] &&
      *figures[Field::requested] > *figures[Field::capacity] / 2)
    answer.advice.push_back(
        {"make that one tensor smaller: it is more than half of the device (tiles, chunks, a fused kernel)", ""});
  if (failure.kind == Kind::lack && failure.because.find("moved memory to the host") != std::string::npos)
    answer.advice.push_back(
        {"hold less, and switch off the driver's fallback to host memory, which makes everything slow", ""});
  if (failure.kind == Kind::refused_though_free && figures[Field::capacity] && figures[Field::free] &&
      *figures[Field::free] < *figures[Field::capacity] / 50)
    answer.advice.push_back(
        {"hold a little less: the device is as good as full, and drivers keep some memory for themselves", ""});
  if (failure.kind == Kind::other_process && figures[Field::in_use] && figures[Field::reserved] &&
      *figures[Field::in_use] - std::min(*figures[Field::in_use], *figures[Field::reserved]) >
          figures[Field::others].value_or(0))
    answer.advice.push_back(
        {"limit what else allocates in this process: another framework's or engine's pool, NCCL's buffers, TensorRT",
         ""});
  answer.advice.push_back(first);
  if (!second.what.empty()) answer.advice.push_back(second);
  switch (failure.kind) {
    case Kind::host_memory:
    case Kind::not_device_memory:
    case Kind::warning:
      break;
    case Kind::other_process:
      answer.record = "memreel top";
      break;
    case Kind::fragmentation:
    case Kind::private_pool:
      answer.record = record_whole;
      break;
    default:
      answer.record = record_flight;
  }
  return answer;
}

std::string text_of(const Failure& failure, std::string_view name, bool unicode) {
  const Figures& figures = failure.figures;
  std::string out(name);
  out += ":" + std::to_string(failure.line) + ": ";
  if (!failure.source.empty()) out += printable(failure.source) + ": ";
  out += failure.grammar->framework;
  if (figures[Field::device]) out += ", device " + std::to_string(*figures[Field::device]);
  out += ": " + std::string(text_of(failure.kind).title);
  if (figures[Field::requested]) out += ", " + in_words(*figures[Field::requested]) + " requested";
  if (figures[Field::needed] && figures[Field::needed] != figures[Field::requested] &&
      *figures[Field::needed] >= 2 * figures[Field::requested].value_or(0))
    out += " (a segment of " + in_words(*figures[Field::needed]) + ")";
  if (failure.shortfall && failure.kind != Kind::larger_than_device)
    out += ", short by " + in_words(*failure.shortfall);
  if (failure.count > 1) out += " (" + std::to_string(failure.count) + " times)";
  out += '\n';
  if (const std::string bar = bar_of(failure, unicode); !bar.empty()) out += "  " + bar + '\n';
  if (!failure.because.empty()) out += "  why: " + printable(failure.because) + '\n';
  const Answer answer = answer_to(failure);
  const Advice& first = answer.advice.front();
  out += "  try: " + std::string(first.what);
  if (!first.side_effects.empty()) out += " (side effect: " + std::string(first.side_effects) + ")";
  out += '\n';
  if (!answer.record.empty()) out += "  " + answer.record + ": " + std::string(answer.unknown) + '\n';
  return out;
}

std::string errors_page() {
  std::string page =
      "# Error texts, and what they mean\n\n"
      "`memreel explain LOG` finds these texts in a log and says what their figures decide. This page is the same "
      "table: each text as\n"
      "people search for it. It is generated: `memreel explain --texts > docs/errors.md`.\n\n"
      "What no text can say: who holds the memory, and whether it is a leak or a need. A recording can\n"
      "([out of memory](out-of-memory.md)).\n";
  std::vector<const Grammar*> texts = all_texts();
  std::erase_if(texts, [](const Grammar* grammar) { return grammar->fact; });
  while (!texts.empty()) {
    const std::string_view framework = texts.front()->framework;
    page += "\n## " + std::string(framework) + "\n\n| text | printed by | meaning |\n|---|---|---|\n";
    for (const Grammar* grammar : texts) {
      if (grammar->framework != framework) continue;
      page += "| `" + cell(grammar->example) + "` | " + cell(grammar->printed_by);
      if (!grammar->releases.empty()) page += " (" + cell(grammar->releases) + ")";
      page += " | " + cell(grammar->meaning) + " |\n";
    }
    std::erase_if(texts, [&](const Grammar* grammar) { return grammar->framework == framework; });
  }
  page += "\n## Kinds\n\n| kind | in JSON |\n|---|---|\n";
  for (const KindText& kind : all_kinds())
    page += "| " + std::string(kind.title) + " | `" + std::string(kind.name) + "` |\n";
  return page;
}

}  // namespace memreel::explain
