// SPDX-License-Identifier: Apache-2.0
#include "formats/import/minimalloc.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "formats/import/source/log_lines.h"
#include "formats/model/printable.h"
#include "formats/model/value_check.h"

namespace memreel {
namespace {

constexpr auto largest_time = static_cast<std::uint64_t>(max_time.count()) - 1;  // some get one added
constexpr Bytes spacing = 512_B;                                                 // of the made-up addresses

enum class Column : std::uint8_t { id, lower, upper, end, size, gaps, alignment, hint, offset };

constexpr std::array<std::pair<std::string_view, Column>, 13> column_names{{{"id", Column::id},
                                                                            {"buffer", Column::id},
                                                                            {"buffer_id", Column::id},
                                                                            {"lower", Column::lower},
                                                                            {"start", Column::lower},
                                                                            {"begin", Column::lower},
                                                                            {"upper", Column::upper},
                                                                            {"end", Column::end},
                                                                            {"size", Column::size},
                                                                            {"gaps", Column::gaps},
                                                                            {"alignment", Column::alignment},
                                                                            {"hint", Column::hint},
                                                                            {"offset", Column::offset}}};

constexpr std::string_view expected_header = "the first line must name the columns, e.g. id,lower,upper,size";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Calls `field` with each field's number and text.
template <class Field>
std::size_t for_each_field(std::string_view line, const Field& field) {
  std::size_t count = 0;
  for (;; ++count) {
    const std::size_t comma = line.find(',');
    field(count, trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return count + 1;
    line.remove_prefix(comma + 1);
  }
}

/// The columns named in the first line; none unless it has all required ones, once each, and no unknown ones.
std::optional<std::vector<Column>> columns_of(std::string_view line) {
  std::vector<Column> columns;
  bool known = true;
  for_each_field(line, [&](std::size_t, std::string_view name) {
    const auto found = std::find_if(column_names.begin(), column_names.end(),
                                    [&](const auto& column) { return column.first == name; });
    known = known && found != column_names.end();
    if (known) columns.push_back(found->second);
  });
  const auto count = [&](Column column) { return std::count(columns.begin(), columns.end(), column); };
  if (!known || count(Column::lower) != 1 || count(Column::upper) + count(Column::end) != 1 ||
      count(Column::size) != 1 || count(Column::id) > 1 || count(Column::gaps) > 1 || count(Column::alignment) > 1 ||
      count(Column::hint) > 1 || count(Column::offset) > 1)
    return std::nullopt;
  return columns;
}

using Row = MinimallocBuffer;

class Reader {
 public:
  explicit Reader(ByteCursor& bytes) : bytes_(bytes), lines_(bytes) {}

  Result<std::vector<Row>> read() {
    std::vector<Row> rows;
    lines_.next();
    const auto columns = columns_of(lines_.text());
    if (!columns) return error("does not have the columns of buffers with lifetimes", expected_header);
    while (lines_.next()) {
      if (trimmed(lines_.text()).empty()) continue;
      const Result<Row> row = parse(*columns);
      if (!row) return row.error();
      rows.push_back(*row);
    }
    if (bytes_.failure()) return *bytes_.failure();
    if (lines_.too_long()) return error("is longer than 64 KiB", "this is not a list of buffers");
    return rows;
  }

  std::uint64_t with_gaps() const { return with_gaps_; }

 private:
  Error error(std::string_view what, std::string_view remedy) const {
    return {.what = "line " + std::to_string(lines_.number()) + " " + std::string(what),
            .where = bytes_.where(),
            .offset = std::nullopt,
            .remedy = std::string(remedy)};
  }

  Result<Row> parse(const std::vector<Column>& columns) {
    Row row;
    std::string_view gaps;
    std::optional<std::string> bad;
    std::uint64_t after_end = 0;  // added to last instants
    const auto number = [&](std::string_view text, std::uint64_t& into, std::uint64_t largest) {
      const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), into);
      if (problem != std::errc{} || end != text.data() + text.size() || into > largest)
        if (!bad)
          bad = "has '" + printable(text) + "' where a number up to " + std::to_string(largest) + " is expected";
    };
    const std::size_t count = for_each_field(lines_.text(), [&](std::size_t i, std::string_view text) {
      if (i >= columns.size()) return;
      switch (columns[i]) {
        case Column::id:
          row.id = text;
          break;
        case Column::lower:
          number(text, row.lower, largest_time);
          break;
        case Column::end:
          after_end = 1;
          [[fallthrough]];
        case Column::upper:
          number(text, row.upper, largest_time);
          break;
        case Column::size:
          number(text, row.size.count, max_allocation.count);
          break;
        case Column::gaps:
          gaps = text;
          break;
        case Column::alignment:
          number(text, row.alignment, max_allocation.count);
          break;
        case Column::hint:
          if (!text.empty() && text != "-1") number(text, row.hint.emplace().count, max_total.count);
          break;
        case Column::offset:
          if (!text.empty() && text != "-1") number(text, row.offset.emplace().count, max_total.count);
          break;
      }
    });
    if (count != columns.size())
      return error("has " + std::to_string(count) + " fields, the first line " + std::to_string(columns.size()),
                   "every line needs a field for every column");
    row.upper += after_end;
    if (!bad && !gaps.empty()) bad = add_gaps(gaps, after_end, row);
    if (!bad && (row.alignment == 0 || (row.alignment & (row.alignment - 1)) != 0))
      bad = "has the alignment " + std::to_string(row.alignment) + ", which is not a power of two";
    if (!bad && row.offset && row.offset->count % row.alignment != 0)
      bad = "has the offset " + std::to_string(row.offset->count) + ", which is not a multiple of its alignment";
    if (bad) return error(*bad, "correct the line or leave it out");
    if (row.upper <= row.lower) return error("ends before it begins", "a buffer lives for at least one unit of time");
    with_gaps_ += static_cast<std::uint64_t>(!gaps.empty());
    return row;
  }

  /// Returns what is wrong with them, if anything.
  static std::optional<std::string> add_gaps(std::string_view text, std::uint64_t after_end, Row& row) {
    std::uint64_t used_to = row.lower, used = row.upper - std::min(row.upper, row.lower);
    const std::string fault =
        "has gaps '" + printable(text) + "' that are not times in its lifetime such as \"5-9 12-20\"";
    while (!text.empty()) {
      const std::string_view gap = text.substr(0, text.find(' '));
      text.remove_prefix(std::min(text.size(), gap.size() + 1));
      if (gap.empty()) continue;
      std::uint64_t lower = 0, upper = 0;
      const char* const end = gap.data() + std::min(gap.size(), gap.find('@'));
      const auto [dash, problem] = std::from_chars(gap.data(), end, lower);
      if (problem != std::errc{} || dash == end || *dash != '-') return fault;
      const auto [rest, other_problem] = std::from_chars(dash + 1, end, upper);
      if (other_problem != std::errc{} || rest != end || upper > largest_time) return fault;
      upper += after_end;
      if (lower < used_to || upper <= lower || upper > row.upper) return fault;
      used_to = upper;
      if (end != gap.data() + gap.size()) continue;  // part of it is in use
      used -= upper - lower;
      if (!row.gaps.empty() && row.gaps.back().second == lower)
        row.gaps.back().second = upper;
      else
        row.gaps.emplace_back(lower, upper);
    }
    return used > 0 ? std::nullopt : std::optional(fault);
  }

  static std::string printable(std::string_view text) {
    std::string result(text.substr(0, 40));
    for (char& c : result)
      if (c < ' ' || c > '~') c = '?';
    return result;
  }

  ByteCursor& bytes_;
  Lines lines_;
  std::uint64_t with_gaps_ = 0;
};

struct Change {
  std::uint64_t time = 0;
  bool begins = false;  // ends come before begins at the same instant, to make room
  std::uint32_t row = 0;

  friend auto operator<=>(const Change&, const Change&) = default;
};

void write(const std::vector<Row>& rows, ImportOutput& writer) {
  const HeapId heap =
      writer.intern(Heap{.name = writer.intern("minimalloc"), .level = Level::framework, .observes_completion = false});
  const OriginId origin = writer.intern(Origin{.heap = heap});
  std::vector<Change> changes;
  changes.reserve(2 * rows.size());
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    changes.push_back({rows[i].lower, true, i});
    changes.push_back({rows[i].upper, false, i});
  }
  std::sort(changes.begin(), changes.end());
  std::vector<AllocationId> allocations(rows.size(), AllocationId::none);
  std::vector<Address> addresses(rows.size());
  Address next{spacing.count};
  for (const Change& change : changes) {
    const Row& row = rows[change.row];
    if (change.begins) {
      addresses[change.row] = next;
      next = next + round_up(std::max(row.size, 1_B), spacing);
    }
    const AllocationId allocation = writer.append({.kind = change.begins ? EventKind::alloc : EventKind::free_requested,
                                                   .origin = origin,
                                                   .allocation = allocations[change.row],
                                                   .time = Nanoseconds{static_cast<std::int64_t>(change.time)},
                                                   .address = addresses[change.row],
                                                   .size = row.size});
    if (change.begins) allocations[change.row] = allocation;
  }
}

/// Whether the made-up addresses, each used once, stay in range.
bool addressable(const std::vector<Row>& rows) {
  TotalBytes sum;
  for (const Row& row : rows) {
    sum += round_up(std::max(row.size, 1_B), spacing);
    if (sum.bytes() > max_total) return false;
  }
  return true;
}

}  // namespace

bool looks_like_minimalloc(std::span<const std::byte> beginning) {
  std::string line;
  for (const std::byte byte : beginning) {
    const auto character = std::to_integer<char>(byte);
    if (character == '\n') break;
    line += character;
  }
  return columns_of(line).has_value();
}

Result<std::vector<MinimallocBuffer>> read_minimalloc(ByteCursor& bytes) { return Reader(bytes).read(); }

Result<std::optional<std::vector<MinimallocBuffer>>> read_minimalloc(const std::filesystem::path& file) {
  Result<OpenedFile> opened = open_bytes(file);
  if (!opened) return opened.error();
  ByteCursor bytes(*std::move(opened), {});
  if (!looks_like_minimalloc(bytes.peek(4096))) return std::optional<std::vector<MinimallocBuffer>>();
  Result<std::vector<MinimallocBuffer>> buffers = read_minimalloc(bytes);
  if (!buffers) return buffers.error();
  return std::optional(*std::move(buffers));
}

Result<void> import_minimalloc(ByteCursor& bytes, Header header, const BeginOutput& begin) {
  Reader reader(bytes);
  const Result<std::vector<Row>> rows = reader.read();
  if (!rows) return rows.error();
  if (!addressable(*rows))
    return Error{.what = "the sizes add up to more than 2^62 bytes",
                 .where = bytes.where(),
                 .offset = std::nullopt,
                 .remedy = "are they in bytes?"};
  header.source = "minimalloc.csv";
  ImportOutput& writer = begin(header);
  writer.set_losses({.unknown_actions = reader.with_gaps()});
  write(*rows, writer);
  return writer.finish();
}

}  // namespace memreel
