#include "analyzer/fleet/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <regex>
#include <string>

namespace memreel {
namespace {

std::optional<std::string> found(const std::string& pattern, const std::string& name) {
  const Result<NamePattern> parsed = NamePattern::parse(pattern);
  EXPECT_TRUE(parsed) << pattern;
  if (!parsed) return std::nullopt;
  const auto group = parsed->first_group(name);
  return group ? std::optional(std::string(*group)) : std::nullopt;
}

std::string problem_of(const std::string& pattern) {
  const Result<NamePattern> parsed = NamePattern::parse(pattern);
  return parsed ? "" : parsed.error().message();
}

TEST(NamePattern, FindsTheFirstGroupOfTheLeftmostMatch) {
  EXPECT_EQ(found("worker-([0-9]+)", "/job/worker-12/worker-7.reel"), "12");
  EXPECT_EQ(found("Worker-([0-9]+)", "/job/wORKER-12"), "12");
  EXPECT_EQ(found("(?:node|host)(\\d+)\\.", "/job/host31.reel"), "31");
  EXPECT_EQ(found("r(\\d{2})", "r1r123"), "12");
  EXPECT_EQ(found("([0-9]+)$", "/job/1/x22"), "22");
  EXPECT_EQ(found("^([0-9]+)", "7/x"), "7");
  EXPECT_EQ(found("^([0-9]+)", "/7"), std::nullopt);
  EXPECT_EQ(found("\\b(7)\\b", "17/7"), "7");
  EXPECT_EQ(found("x(\\B7)", "x7"), "7");
  EXPECT_EQ(found("([^/]+)/[^/]*$", "/job/rank3/snapshot.pickle"), "rank3");
  EXPECT_EQ(found("([[:digit:]_-]+)a", "1_2-3a"), "1_2-3");
  EXPECT_EQ(found("a(b)?c", "ac"), "");
  EXPECT_EQ(found("()x", "yx"), "");
  EXPECT_EQ(found("(x)", ""), std::nullopt);
}

TEST(NamePattern, TakesAsMuchAsItCanUnlessToldOtherwise) {
  EXPECT_EQ(found("a(.*)b", "aXbYb"), "XbY");
  EXPECT_EQ(found("a(.*?)b", "aXbYb"), "X");
  EXPECT_EQ(found("(a|ab)", "ab"), "a");  // the first that matches, not the longest
  EXPECT_EQ(found("(a{1,2}?)", "aaa"), "a");
  EXPECT_EQ(found("(\\d)+", "123"), "3");  // what a group matched last
}

TEST(NamePattern, AnswersAsTheStandardLibraryDoes) {
  std::mt19937 random(3);
  const auto one_of = [&](const char* const(&words)[16]) { return std::string(words[random() % 16]); };
  static constexpr const char* parts[16] = {"a",  "b",   ".",    "[ab]", "[^a]", "(a|b)", "(ab?)", "(?:ba)",
                                            "a*", "b+?", "(a*)", "\\d",  "1",    "$",     "^",     "(1|a){1,2}"};
  static constexpr const char* letters[16] = {"a", "b", "a", "b", "1", "ab", "ba", "1",
                                              "a", "b", "/", "2", "a", "b",  "1",  "A"};
  for (int i = 0; i < 3'000; ++i) {
    std::string pattern, name;
    for (std::size_t count = 1 + random() % 4; count > 0; --count) pattern += one_of(parts);
    for (std::size_t count = random() % 8; count > 0; --count) name += one_of(letters);
    if (pattern.find('(') == std::string::npos || !NamePattern::parse(pattern)) continue;
    std::smatch matched;
    const bool is_found =
        std::regex_search(name, matched, std::regex(pattern, std::regex::ECMAScript | std::regex::icase));
    EXPECT_EQ(found(pattern, name), is_found ? std::optional(matched[1].str()) : std::nullopt)
        << pattern << " in " << name;
  }
}

TEST(NamePattern, TakesTimeInProportionToTheName) {
  const std::string name(4'096, 'a');  // a backtracking search would not end
  std::string groups;
  for (int i = 0; i < 60; ++i) groups += "(.*)";
  EXPECT_EQ(found(groups + "x", name), std::nullopt);
  EXPECT_EQ(found("((a*)*)*b", name), std::nullopt);
  EXPECT_EQ(found("(a?){400}b", name), std::nullopt);
}

TEST(NamePattern, SaysWhatIsWrong) {
  EXPECT_THAT(problem_of(std::string(257, 'a')), testing::HasSubstr("longer than 256 bytes"));
  EXPECT_THAT(problem_of("worker"), testing::HasSubstr("parentheses"));
  EXPECT_THAT(problem_of("((a{1000}){1000})"), testing::HasSubstr("repeats too much"));
  EXPECT_THAT(problem_of("((((?:){1000}){1000}){1000})"), testing::HasSubstr("repeats too much"));
  EXPECT_THAT(problem_of("(a)(?!b)"), testing::HasSubstr("not supported"));
  EXPECT_THAT(problem_of("(a)\\1"), testing::HasSubstr("not supported"));
  for (const char* const pattern : {"(", ")", "(a))", "[a", "(*)", "(a{2,1})", "(a{)", "(a\\", "([b-a])", "(?)"})
    EXPECT_THAT(problem_of(pattern), testing::HasSubstr("not a regular expression")) << pattern;
  EXPECT_EQ(problem_of(std::string(120, '(') + "a" + std::string(120, ')')), "");
}

}  // namespace
}  // namespace memreel
