// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/explain/mention.h"

#include <re2/re2.h>

#include <algorithm>
#include <string>

namespace memreel::explain {
namespace {

/// Where a line of source code begins, behind what grep, diff, pytest and compilers put before it.
constexpr std::string_view line_of_source =
    R"(^\s*(?:[\w./\\-]{1,200}:\d+(?::\d+)?[:-])?\s*(?:\d{1,7} *[|:])?\s*(?:[>+-]|E )?\s*)";
/// In a string that the code raises, compares or prints.
constexpr std::string_view in_a_string =
    R"((?:raise|throw|return|assert|print\w*|(?:el)?if|else if|while|with|except|yield|(?:\w+\.)?log(?:ger|ging)?\.\w+)\b[^"'\n]*[("' ][a-z]{0,2}["'][^"'\n]*$)";
constexpr std::string_view in_a_check =
    R"(\b(?:EXPECT|ASSERT|CHECK|REQUIRE|assert|match)\w*[(=](?:[^\n]*[(,])?\s*[a-z]{0,2}["'][^"'\n]*$)";
constexpr std::string_view in_an_expression = R"((?:case\s+|//\s|/\*\s|#\s*(?:define|if)\b)[\w:. ]*$)";
constexpr std::string_view in_a_comparison = R"([=!]=\s*[\w:.]*$)";
/// Ended by `behind_a_statement`.
constexpr std::string_view in_a_statement = R"((?:return|throw|raise|except)\s+[\w:.(]*$)";
constexpr std::string_view behind_a_statement = R"(^\)?\s*[;:]\s*$)";
constexpr std::string_view of_a_change =
    R"(^\W*(?:commit [0-9a-f]{7,40}\b|(?:[0-9a-f]{7,40} )?(?:Fix(?:es)?|Revert)\s))";
constexpr std::string_view of_a_test_that_passed =
    R"(::\S[^\n]*\s(?:PASSED|SKIPPED|XFAIL)\b|\b(?:PASSED|SKIPPED|XFAIL)\s*(?:\[\s*\d+%\])?\s*$|\[\s+OK \])";
constexpr std::string_view of_a_compiler =
    R"(\[-W[a-z][\w=+-]*\]|\bwarning (?:#\d+(?:-D)?|C\d{4})\s*:|\bwarning: (?:unused|enumeration))";
/// `NAME=0`, `"NAME": 0,`, and `NAME = 2,` of an enumeration.
constexpr std::string_view behind_a_count =
    R"(^["']?\s?(?:=\s?0\b|:\s?0\s*(?:[,;|}]|$))|^\s*=\s*\d+\s*,?\s*(?://[^\n]*|/\*[^\n]*)?$)";
/// A name alone in a cell of one of several columns.
constexpr std::string_view before_a_cell = R"(^\s*\|(?:[^\n]*\|)?[\s`*]*$)";
constexpr std::string_view behind_a_cell = R"(^[\s`*]*\|[^\n]*\w)";
/// Advice, up to the text's end.
constexpr std::string_view advice =
    R"((?i)\b(?:(?:avoid(?:s|ed|ing)?|prevent(?:s|ed|ing)?|against|in case of|risk(?:s|ing)?(?: of)?)(?: an?| the| any)?)"
    R"(|(?:may|might|could|can|would|will) (?:(?:also|still|then|easily|otherwise) )?)"
    R"((?:cause|get|raise|give|hit|lead to|result in|trigger|throw|produce|see|encounter)(?: an?| the)?)"
    R"(|if (?:you|it|there|the \w+)(?: \w+){1,2})[ "'`(]{1,3})"
    R"((?:[\w:]+|(?:\S{1,30} )?(?:error:? )?out[\s-]+of[\s-]+memory)$)";
/// A story of another run.
constexpr std::string_view behind_a_story = R"(^["'`]?, (?:so|which|hence|therefore)\b)";

constexpr std::size_t most_before = 400, most_behind = 200;

struct Expression : re2::RE2 {
  explicit Expression(const std::string& expression) : RE2(expression, options()) {}
  explicit Expression(std::string_view expression) : Expression(std::string(expression)) {}
  bool is_in(std::string_view text) const { return PartialMatch(re2::StringPiece(text.data(), text.size()), *this); }

  static Options options() {
    Options options;
    options.set_encoding(Options::EncodingLatin1);
    options.set_log_errors(false);
    return options;
  }
};

struct Expressions {
  Expression source{std::string(line_of_source) + "(?:" + std::string(in_a_string) + "|" +
                    std::string(in_an_expression) + ")|" + std::string(in_a_check) + "|" + std::string(of_a_change)};
  Expression comparison{in_a_comparison};
  Expression statement{std::string(line_of_source) + std::string(in_a_statement)};
  Expression statements_end{behind_a_statement};
  Expression line{std::string(of_a_test_that_passed) + "|" + std::string(of_a_compiler)};
  Expression counted{behind_a_count};
  Expression cell{before_a_cell};
  Expression cells_end{behind_a_cell};
  Expression advised{std::string(advice)};
  Expression told{behind_a_story};
};

}  // namespace

bool is_only_mentioned(std::string_view line, std::size_t begin, std::size_t end, bool vague) {
  static const Expressions expressions;
  if (begin > most_before) {
    line.remove_prefix(begin - most_before);
    end -= begin - most_before;
    begin = most_before;
  }
  const std::string_view before = line.substr(0, begin), text = line.substr(begin, end - begin),
                         behind = line.substr(end, most_behind);
  // Some begin with the name of what raises the string: `cuda.OutOfMemoryError("CUDA out of memory`.
  const std::string_view before_string = line.substr(0, begin + text.find_last_of("\"'") + 1);
  if (expressions.source.is_in(before) || expressions.source.is_in(before_string) ||
      expressions.line.is_in(line.substr(0, end + behind.size())))
    return true;
  if (!vague) return false;
  const bool is_name = text.find_first_of(" \t\n") == std::string_view::npos;
  if (is_name && (before.ends_with('_') || behind.starts_with('_'))) return true;
  return expressions.counted.is_in(behind) || expressions.told.is_in(behind) ||
         expressions.advised.is_in(line.substr(0, end)) ||
         (expressions.statement.is_in(before) && expressions.statements_end.is_in(behind)) ||
         (is_name && expressions.comparison.is_in(before)) ||
         (is_name && expressions.cell.is_in(before) && expressions.cells_end.is_in(behind));
}

}  // namespace memreel::explain
