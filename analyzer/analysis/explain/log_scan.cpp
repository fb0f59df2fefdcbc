// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/explain/log_scan.h"

#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "analyzer/analysis/explain/mention.h"
#include "formats/model/printable.h"

namespace memreel::explain {
namespace {

// A text is looked for from some way before its key to some way behind it.
constexpr std::size_t before_key = 4096, behind_key = 16 << 10;
constexpr std::size_t piece_size = std::size_t{1} << 20U;
constexpr std::size_t longest_key = 512;        // with what may be between its letters
constexpr std::size_t narrowest_terminal = 60;  // columns: a shorter line was not broken by one
constexpr std::size_t most_sources = 4096;
constexpr std::uint64_t same_failure = std::uint64_t{16}
                                       << 20U;  // bytes: the dump of an allocator lies between its texts
constexpr std::uint64_t vague_distance = 2048;

/// In the buffer, where a line goes on that its collector broke. It counts as the line feed that it replaces.
constexpr char broken_here = '\x7f';

/// How containerd and CRI-O begin a line. After P, for partial, the line goes on in the stream's next one.
constexpr std::string_view container_line =
    R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]{0,10}(?:Z|[+-]\d\d:\d\d) (std(?:err|out)) ([FP])(?::[\w:]{1,20})? )";
constexpr std::size_t longest_container_line = 80;  // its beginning

/// A path of Windows: not the end of a word before an escaped line feed ("e:\\nfoo").
constexpr std::string_view path_on_a_drive =
    R"(\b[A-Z]:\\{1,2}(?:[^nrtuxabfv0"'\\\s]|[\w. -]{1,100}(?:\\|\.[a-z]{1,5}\b)))";

/// What launchers, loggers and log collectors put before a line; the first group names the process.
constexpr std::string_view prefixes =
    R"(\s*(?:\[((?:default|[Rr]ank ?)\d+)\]:?|\[\d+,(\d+)\]<std(?:err|out)>:?|\((\w{1,40} pid=\d+)(?:, ip=[\d.]+)?\))"
    R"(|>\s|(\d{1,5}): |([\w.-]{1,40}) +\| |std(?:err|out) [FP] )"
    R"(|\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,\d]*Z?(?:[+-]\d\d:?\d\d)?[\]:]?|\[?\d\d-\d\d \d\d:\d\d:\d\d[.,\d]*\]?|\[?\d\d:\d\d:\d\d[.,:\d]*\]?)"
    R"(|\[[WEIF]\d{3,4} [\d:.]+ \S{1,80}:\d+\]|(?:INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|DEBUG|[IWEF])\b:?\s)"
    R"(|\[?[\w./\\-]{1,120}\.(?:py|cc|cpp|cu|h|hpp):\d+\]:?|\[(?:E|W|I|V|TRT|TensorRT|ERROR|WARNING|INFO)\])"
    R"(|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d|[\w.-]{1,64} (?:[\w./@-]{1,64}\[\d{1,7}\]|kernel): ))";

RE2::Options log_options() {
  RE2::Options options;
  options.set_encoding(RE2::Options::EncodingLatin1);
  options.set_log_errors(false);
  options.set_max_mem(16 << 20);
  return options;
}

/// Without the escape sequences of terminals (ECMA-48: CSI, OSC, and those of two characters).
std::string without_escapes(std::string_view line) {
  std::string out;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] != '\x1b') {
      out += line[at] == '\0' ? ' ' : line[at];
      continue;
    }
    if (++at >= line.size()) break;
    if (line[at] == '[') {
      while (++at < line.size() && !(line[at] >= '@' && line[at] <= '~')) continue;
    } else if (line[at] == ']') {
      while (++at < line.size() && line[at] != '\a' && line[at] != '\x1b') continue;
      if (at + 1 < line.size() && line[at] == '\x1b') ++at;
    }
  }
  return out;
}

/// Lower case, without white space: where keys are looked for.
std::string squeezed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char letter : text)
    if (std::isspace(static_cast<unsigned char>(letter)) == 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return out;
}

std::string family_of(const Grammar& grammar) {
  const std::string prefix(grammar.name.substr(0, grammar.name.find('.')));
  return prefix == "tf" ? "xla" : prefix;  // they share the allocator, and print its texts mixed
}

void add_missing(Figures& to, const Figures& from) {
  for (std::size_t i = 0; i < field_count; ++i)
    if (const auto field = static_cast<Field>(i); !to[field]) to[field] = from[field];
}

/// From this part on texts are an exception's, which a log prints again with each handler that passes it on.
constexpr int exception_part = 4;

/// The request of `known`, and nothing that it does not have.
bool repeats(const Failure& known, const Failure& failure) {
  for (std::size_t i = 0; i < field_count; ++i)
    if (const auto field = static_cast<Field>(i);
        failure.figures[field] && failure.figures[field] != known.figures[field])
      return false;
  return failure.figures[Field::requested].has_value();
}

/// What makes two failures the same one, printed again.
std::string identity_of(const Failure& failure) {
  std::string identity = failure.source + '\n' + std::string(failure.grammar->name);
  for (std::size_t i = 0; i < field_count; ++i) {
    const auto value = failure.figures[static_cast<Field>(i)];
    identity += value ? ' ' + std::to_string(*value) : " -";
  }
  return identity;
}

/// The lines of one source; one that a terminal broke is one.
struct Joined {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // of each physical line, in `text` and in the buffer

  auto line_behind(std::size_t at) const {
    return std::ranges::upper_bound(places, at, {}, &std::pair<std::size_t, std::size_t>::first);
  }
  std::size_t place_of(std::size_t at) const {
    const auto line = std::prev(line_behind(at));
    return line->second + (at - line->first);
  }
};

struct Extent {
  std::size_t begin, end;  // in the joined text
  const Grammar* grammar;
};

/// A line that explains a failure is near a vague text; one of something else explains only itself.
bool says_more(const Extent& other, const Extent& vague, const Joined& joined) {
  if (other.grammar == vague.grammar || other.grammar->fact || other.begin >= vague.end + vague_distance ||
      vague.begin >= other.end + vague_distance)
    return false;
  if (!other.grammar->aside) return true;
  const std::size_t gap_begin = std::min(other.end, vague.end), gap_end = std::max(other.begin, vague.begin);
  const auto line = joined.line_behind(gap_begin - 1);
  return line == joined.places.end() || line->first > gap_end;
}

bool is_in_a_mention(const Extent& head, const Joined& joined) {
  const std::size_t begin = std::prev(joined.line_behind(head.begin))->first;
  const auto next = joined.line_behind(head.end - 1);
  std::string_view line(joined.text);
  line = line.substr(begin, next == joined.places.end() ? std::string_view::npos : next->first - begin);
  if (line.ends_with('\n')) line.remove_suffix(1);
  const std::size_t end = std::min(head.end - begin, line.size());  // a text may end with the line feed
  return is_only_mentioned(line, std::min(head.begin - begin, end), end, head.grammar->vague);
}

/// If this is not a failure's text: where to go on looking; otherwise 0.
std::size_t rejected_until(const Extent& head, const std::vector<Extent>& taken, const Joined& joined) {
  const Grammar& grammar = *head.grammar;
  // A terminal may have broken the text, but what is before its last words may as well be the end of another line.
  constexpr std::string_view last_words = "out of memory";
  if (const auto line = joined.line_behind(head.begin); grammar.vague && grammar.key == "outofmemory" &&
                                                        line != joined.places.end() &&
                                                        line->first + last_words.size() <= head.end) {
    const std::string words = squeezed(std::string_view(joined.text).substr(head.begin, head.end - head.begin));
    if (words.find("error") == std::string::npos && words.find("fail") == std::string::npos) return line->first;
  }
  const auto taking = std::ranges::find_if(
      taken, [&](const Extent& other) { return head.begin < other.end && other.begin < head.end; });
  if (taking == taken.end()) return 0;
  return grammar.vague ? std::min(head.end, taking->end) : head.end;
}

}  // namespace

/// A physical line without its prefixes.
struct LogScan::Line {
  std::string source, text;
  std::size_t position = 0;  // of the line in the buffer
  std::size_t width = 0;     // with the prefixes
  bool has_prefix = false;
  bool continues = false;  // the terminal broke the line before it, or a collector
};

/// Whether a terminal broke a line, of whose pieces each got a prefix: they are of the same width, except the last.
bool LogScan::was_broken_before(const Line& line, const Line* last, const Line* last_but_one) {
  // The space that a piece began with counts, too.
  if (last == nullptr || !line.has_prefix || !last->has_prefix || last->text.size() + 1 < narrowest_terminal ||
      (line.width > last->width && line.text.size() > last->text.size()))
    return false;
  const auto are_alike = [](const Line& a, const Line& b) {
    return a.has_prefix && b.has_prefix && (a.width == b.width || a.text.size() == b.text.size());
  };
  return are_alike(*last, line) || (last_but_one != nullptr && are_alike(*last_but_one, *last));
}

struct LogScan::Found {
  Failure failure;
  std::size_t position = 0, end = 0;  // in the buffer
};

/// A failure of which more texts may follow.
struct LogScan::Part {
  Failure failure;
  int part = 0;
};

struct LogScan::Expressions {
  re2::RE2 keys{"(?i)" + expression_for_keys(), log_options()};
  re2::RE2 prefix{re2::StringPiece(prefixes.data(), prefixes.size()), log_options()};
  re2::RE2 container{re2::StringPiece(container_line.data(), container_line.size()), log_options()};
  re2::RE2 drive{re2::StringPiece(path_on_a_drive.data(), path_on_a_drive.size()), log_options()};
  std::vector<Matcher> matchers;

  Expressions() {
    for (const Grammar* grammar : all_texts()) matchers.emplace_back(*grammar);
  }
  static const Expressions& all() {
    static const Expressions compiled;
    return compiled;
  }
};

LogScan::LogScan() : expressions_(Expressions::all()) {}
LogScan::~LogScan() = default;

bool LogScan::take(std::string_view piece) {
  constexpr std::uint64_t most_zeros = std::uint64_t{256} << 20U;  // a truncated log may begin with a hole
  if (findings_.bytes == zeros_) {
    zeros_ += std::min(piece.find_first_not_of('\0'), piece.size());
    if (zeros_ > most_zeros || is_binary(piece)) return false;
  }
  findings_.bytes += piece.size();
  while (!piece.empty()) {
    const std::string_view part = piece.substr(0, piece_size);
    taken_ += part;
    piece.remove_prefix(part.size());
    narrow(false);
    join(false);
    scan(false);
  }
  return true;
}

Findings LogScan::finish() {
  narrow(true);
  join(true);
  scan(true);
  while (!pending_.empty()) flush(pending_.begin()->first);
  std::ranges::sort(findings_.failures, {}, &Failure::offset);
  return std::move(findings_);
}

/// Leaves out the zeros of UTF-16: every other byte, of two letters or more. Others are a hole, or PyTorch 2.3's
/// device.
void LogScan::narrow(bool at_end) {
  constexpr std::size_t context = 2;
  const auto is_zero = [&](std::size_t at) { return at < taken_.size() && taken_[at] == '\0'; };
  const std::size_t end = at_end ? taken_.size() : taken_.size() - std::min(taken_.size(), context);
  const std::size_t before = text_.size();
  while (narrowed_ < end) {
    const std::size_t zero = std::min(taken_.find('\0', narrowed_), end);
    text_.append(taken_, narrowed_, zero - narrowed_);
    narrowed_ = zero;
    if (zero == end) break;
    const bool is_alone = (zero == 0 || !is_zero(zero - 1)) && !is_zero(zero + 1);
    if (!is_alone || (!is_zero(zero + 2) && (zero < 2 || !is_zero(zero - 2)))) text_ += '\0';
    ++narrowed_;
  }
  std::replace(text_.begin() + static_cast<std::ptrdiff_t>(before), text_.end(), broken_here, ' ');
  const std::size_t done = narrowed_ - std::min(narrowed_, context);
  taken_.erase(0, done);
  narrowed_ -= done;
}

/// Moves the text to the buffer: lines that a collector broke are marked, and lists of bytes become what they say.
void LogScan::join(bool at_end) {
  constexpr std::string_view message = "\"MESSAGE\"";
  constexpr std::size_t most_ahead = 128;
  const std::size_t end = at_end ? text_.size() : text_.size() - std::min(text_.size(), most_ahead);
  std::size_t at = 0, name = text_.find(message);
  if (end > 0 && !std::exchange(begun_, true)) at = behind_container_prefix(0);
  while (at < end) {
    if (in_byte_list_) {
      at = read_byte_list(at, end);
      if (!in_byte_list_) note_what_was_skipped(at);
      continue;
    }
    if (name < at) name = text_.find(message, at);
    const std::size_t stop = std::min({text_.find('\n', at), name, end});
    buffer_.append(text_, at, stop - at);
    at = stop;
    if (at == end) break;
    if (at != name) {
      const std::size_t line = at + 1;
      at = behind_container_prefix(line);
      buffer_ += at > line ? broken_here : '\n';
      if (at > line) note_what_was_skipped(at);
      continue;
    }
    at += message.size();
    buffer_ += message;
    const std::size_t list = text_.find_first_not_of(" :[\t\r\n", at);
    in_byte_list_ = list < text_.size() && std::isdigit(static_cast<unsigned char>(text_[list])) != 0 &&
                    text_.substr(at, list - at).find('[') != std::string::npos;
  }
  text_.erase(0, at);
  text_base_ += at;
}

/// The text goes on there.
void LogScan::note_what_was_skipped(std::size_t at) {
  const std::uint64_t offset = base_ + buffer_.size();
  skipped_.emplace_back(offset, text_base_ + at - offset);
}

/// Of a place in the buffer, in the log; that of a log in UTF-16 does not count its zeros.
std::uint64_t LogScan::offset_of(std::size_t position) const {
  const std::uint64_t offset = base_ + position;
  const auto behind = std::ranges::upper_bound(skipped_, offset, {}, &std::pair<std::uint64_t, std::uint64_t>::first);
  return behind == skipped_.begin() ? offset : offset + std::prev(behind)->second;
}

/// If the line that begins there goes on in its stream's next one, remembers that. If it is that one, returns where its
/// text begins, else where the line does.
std::size_t LogScan::behind_container_prefix(std::size_t line) {
  std::string stream, tag;
  re2::StringPiece rest(text_.data() + line, std::min(text_.size() - line, longest_container_line));
  const bool may_match = rest.size() > 10 && rest[4] == '-' && rest[10] == 'T';
  if (!may_match || !RE2::Consume(&rest, expressions_.container, &stream, &tag)) {
    stream_.clear();
    return line;
  }
  const bool goes_on = stream == stream_;
  stream_ = tag == "P" ? stream : "";
  return goes_on ? static_cast<std::size_t>(rest.data() - text_.data()) : line;
}

/// journald writes a message that has control characters, such as colours, as the list of its bytes.
std::size_t LogScan::read_byte_list(std::size_t at, std::size_t end) {
  for (; at < end; ++at) {
    const char letter = text_[at];
    if (std::isdigit(static_cast<unsigned char>(letter)) != 0) {
      byte_ = std::min(byte_.value_or(0) * 10 + static_cast<unsigned>(letter - '0'), 256U);
    } else if (letter == ',' || letter == ']') {
      if (byte_ == '\n')
        buffer_ += "\\n";
      else if (byte_)
        buffer_ += *byte_ == broken_here ? ' ' : static_cast<char>(*byte_);
      byte_.reset();
    } else if (letter == '\n') {
      buffer_ += broken_here;
    } else if (std::string_view(" :[\t\r").find(letter) == std::string_view::npos) {
      in_byte_list_ = false;
      return at;
    }
    if (letter == ']') {
      in_byte_list_ = false;
      return at + 1;
    }
  }
  return at;
}

void LogScan::scan(bool at_end) {
  for (;;) {
    re2::StringPiece key;
    if (!expressions_.keys.Match(buffer_, scanned_, buffer_.size(), RE2::UNANCHORED, &key, 1)) {
      scanned_ = std::max(scanned_, buffer_.size() - std::min(buffer_.size(), longest_key));
      break;
    }
    const auto at = static_cast<std::size_t>(key.data() - buffer_.data());
    if (!at_end && buffer_.size() - at < behind_key) {
      scanned_ = at;
      break;
    }
    std::size_t begin = std::max(handled_, at - std::min(at, before_key));
    if (begin > handled_)  // from the beginning of a line, if there is one
      if (const std::size_t line = buffer_.find('\n', begin); line < at) begin = line + 1;
    const std::size_t end = std::min(buffer_.size(), at + behind_key);
    const std::size_t limit = end == buffer_.size() && at_end ? end : at + behind_key / 4 * 3;
    examine(begin, end, limit);
    handled_ = scanned_ = limit;
  }
  const std::size_t keep = scanned_ - std::min(scanned_, before_key);
  if (keep < piece_size) return;
  line_at(keep);
  buffer_.erase(0, keep);
  base_ += keep;
  const auto kept = std::ranges::upper_bound(skipped_, base_, {}, &std::pair<std::uint64_t, std::uint64_t>::first);
  if (kept != skipped_.begin()) skipped_.erase(skipped_.begin(), std::prev(kept));
  scanned_ -= keep;
  handled_ -= std::min(handled_, keep);
  counted_ = 0;
}

std::uint64_t LogScan::line_at(std::size_t position) {
  const auto lines_in = [&](std::size_t begin, std::size_t end) {
    return static_cast<std::uint64_t>(std::ranges::count_if(std::string_view(buffer_).substr(begin, end - begin),
                                                            [](char c) { return c == '\n' || c == broken_here; }));
  };
  if (position <= counted_) return line_ - lines_in(position, counted_);
  line_ += lines_in(counted_, position);
  counted_ = position;
  return line_;
}

std::vector<LogScan::Line> LogScan::lines_between(std::size_t begin, std::size_t end) const {
  std::vector<Line> lines;
  for (std::size_t at = begin; at < end;) {
    // Progress bars end lines with a carriage return, structured logs with the two characters of an escape.
    std::size_t stop = at, next = end;
    for (; stop < end; ++stop) {
      if (buffer_[stop] == '\n' || buffer_[stop] == '\r' || buffer_[stop] == broken_here) {
        next = stop + 1;
        break;
      }
      if (buffer_[stop] == '\\' && stop + 1 < end && buffer_[stop + 1] == 'n') {
        next = stop + 2;
        break;
      }
    }
    if (stop == end) next = end;
    if (const std::size_t last = std::min(buffer_.find_first_not_of('\r', stop), end);
        last > stop && last < end && (buffer_[last] == '\n' || buffer_[last] == broken_here))
      next = last + 1;
    Line line{.source = {}, .text = without_escapes(std::string_view(buffer_).substr(at, stop - at)), .position = at};
    line.width = line.text.size();
    if (at > begin && buffer_[at - 1] == broken_here) {
      line.source = lines.back().source;
      line.has_prefix = lines.back().has_prefix;
      line.continues = true;
    } else {
      remove_prefixes(line);
      // The terminal broke a line of its width, unless a launcher or collector read it before.
      line.continues = !line.has_prefix && !lines.empty() && lines.back().width >= narrowest_terminal;
      if (line.source.empty() && line.continues) line.source = lines.back().source;
    }
    lines.push_back(std::move(line));
    at = next;
  }
  return lines;
}

void LogScan::remove_prefixes(Line& line) const {
  re2::StringPiece rest(line.text);
  std::string rank, task, process, number, service;
  constexpr int most_prefixes = 8;
  for (int i = 0; i < most_prefixes; ++i) {
    const re2::StringPiece unread = rest;
    if (!RE2::Consume(&rest, expressions_.prefix, &rank, &task, &process, &number, &service)) {
      rest = unread;
      break;
    }
    line.has_prefix = true;
    if (!line.source.empty()) continue;
    if (!rank.empty()) line.source = "rank " + rank.substr(rank.find_first_of("0123456789"));
    if (!task.empty()) line.source = "rank " + task;
    if (!process.empty()) line.source = process;
    if (!number.empty()) line.source = "task " + number;
    if (!service.empty()) line.source = service;
  }
  // The space behind a prefix is its end, not a part of a word that goes on here.
  if (line.has_prefix && rest.starts_with(" ") && rest.data()[-1] != ' ') rest.remove_prefix(1);
  line.text = std::string(rest.data(), rest.size());
}

void LogScan::examine(std::size_t begin, std::size_t end, std::size_t limit) {
  const std::vector<Line> lines = lines_between(begin, end);
  std::vector<std::string> sources;
  for (const Line& line : lines)
    if (std::ranges::find(sources, line.source) == sources.end() && sources.size() < 64) sources.push_back(line.source);
  std::vector<Found> found;
  for (const std::string& source : sources) match_in(source, lines, limit, found);
  std::ranges::stable_sort(found, {}, &Found::position);
  for (Found& one : found) accept(std::move(one));
}

void LogScan::match_in(const std::string& source, const std::vector<Line>& lines, std::size_t limit,
                       std::vector<Found>& found) const {
  Joined joined;
  const std::string& text = joined.text;
  const Line *last = nullptr, *last_but_one = nullptr;
  for (const Line& line : lines) {
    if (line.source != source) continue;
    if (!text.empty() && !line.continues && !was_broken_before(line, last, last_but_one)) joined.text += '\n';
    joined.places.emplace_back(text.size(), line.position);
    joined.text += line.text;
    last_but_one = std::exchange(last, &line);
  }
  const std::string squeezed_text = squeezed(text);
  std::optional<bool> is_of_windows;
  std::vector<Extent> taken;
  for (const Matcher& matcher : expressions_.matchers) {
    const Grammar& grammar = matcher.grammar();
    if (squeezed_text.find(grammar.key) == std::string::npos) continue;
    Extent head{.begin = 0, .end = 0, .grammar = &grammar};
    std::size_t next = 0;
    for (std::size_t from = 0; matcher.find(text, from, head.begin, head.end); from = next) {
      const std::size_t place = joined.place_of(head.begin);
      next = rejected_until(head, taken, joined);
      if (next > 0) continue;
      next = head.end;
      if (!grammar.fact && is_in_a_mention(head, joined)) continue;
      if (place >= limit) continue;
      std::size_t next_begin = 0, next_end = 0;
      std::size_t extent = std::min(text.size(), head.begin + grammar.extent);
      if (matcher.find(text, head.end, next_begin, next_end)) extent = std::min(extent, next_begin);
      Found one{.failure = {.grammar = &grammar, .source = source, .offset = offset_of(place)}, .position = place};
      const std::size_t read_to = matcher.read(text, head.begin, std::max(extent, head.end), one.failure);
      if (!is_of_windows) is_of_windows = RE2::PartialMatch(text, expressions_.drive);
      if (*is_of_windows) one.failure.words.emplace("system", "Windows");
      one.end = joined.place_of(read_to);
      taken.push_back({head.begin, std::max(read_to, head.end), &grammar});
      if (grammar.vague &&
          std::ranges::any_of(taken, [&](const Extent& other) { return says_more(other, head, joined); }))
        continue;
      found.push_back(std::move(one));
    }
  }
}

void LogScan::accept(Found found) {
  Failure& failure = found.failure;
  const Grammar& grammar = *failure.grammar;
  if (grammar.fact) {
    const auto device = failure.figures[Field::device];
    Figures& facts = facts_[family_of(grammar) + (device ? std::to_string(*device) : "")];
    add_missing(failure.figures, facts);
    facts = failure.figures;
    constexpr std::size_t most_facts = 256;
    if (facts_.size() > most_facts) facts_.clear();
    return;
  }
  failure.line = line_at(found.position);
  const auto pending = pending_.find(failure.source);
  if (pending != pending_.end()) {
    Part& part = pending->second;
    const bool near = failure.offset - std::min(failure.offset, part.failure.offset) < same_failure;
    const bool close = failure.offset - std::min(failure.offset, part.failure.offset) < vague_distance;
    if (grammar.vague && close && part.failure.grammar != &grammar && !part.failure.grammar->aside) return;
    // A vague text, or a warning of the same request, is the beginning of what follows.
    if (close && !grammar.vague && !grammar.aside && part.failure.grammar->vague) {
      part = {.failure = std::move(failure), .part = grammar.part};
      return;
    }
    const bool is_of_host = part.failure.grammar->aside && part.part > 0 && !grammar.aside;
    if (near && family_of(grammar) == family_of(*part.failure.grammar) && grammar.part > part.part && !is_of_host) {
      if (part.part == 0) {
        part = {.failure = std::move(failure), .part = grammar.part};
        return;
      }
      add_missing(part.failure.figures, failure.figures);
      part.failure.words.merge(failure.words);
      part.failure.grammar = failure.grammar;
      part.part = grammar.part;
      return;
    }
    if (near && family_of(grammar) == family_of(*part.failure.grammar) && grammar.part >= exception_part &&
        part.part >= exception_part && repeats(part.failure, failure)) {
      ++part.failure.count;
      return;
    }
    flush(failure.source);
  }
  if (pending_.size() >= most_sources) flush(pending_.begin()->first);
  const std::string source = failure.source;
  pending_.insert_or_assign(source, Part{.failure = std::move(failure), .part = grammar.part});
}

void LogScan::flush(const std::string& source) {
  auto node = pending_.extract(source);
  if (node.empty()) return;
  Failure failure = std::move(node.mapped().failure);
  const std::string family = family_of(*failure.grammar);
  if (const auto facts = facts_.find(family); facts != facts_.end()) add_missing(failure.figures, facts->second);
  if (const auto device = failure.figures[Field::device])
    if (const auto facts = facts_.find(family + std::to_string(*device)); facts != facts_.end())
      add_missing(failure.figures, facts->second);
  const std::string identity = identity_of(failure);
  if (const auto before = seen_.find(identity); before != seen_.end()) {
    findings_.failures[before->second].count += failure.count;
    return;
  }
  if (findings_.failures.size() >= most_failures) {
    ++findings_.left_out;
    return;
  }
  const Rule rule = failure.grammar->rule == nullptr ? judge_by_figures : failure.grammar->rule;
  rule(failure);
  seen_.emplace(identity, findings_.failures.size());
  findings_.failures.push_back(std::move(failure));
}

}  // namespace memreel::explain
