// SPDX-License-Identifier: Apache-2.0
// A message has the version, tables of the texts and frames that the summary names by their rows, the summary, and a
// mark that it is complete: a message that is cut off between two fields is one too.
#include <map>
#include <protozero/exception.hpp>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "analyzer/fleet/rank_summary.h"
#include "formats/wire/message.h"

namespace memreel {
namespace {

constexpr std::uint32_t rank_version = 3;
constexpr std::uint32_t version_without_end = 2;

/// What a message has beside the summary.
struct Envelope {
  std::uint32_t version = rank_version;
  std::vector<std::string> texts;
  std::vector<CodeFrame> frames;
  bool is_complete = false;
};

}  // namespace

template <>
struct wire::MembersOf<Envelope> {
  static constexpr auto is_complete = member(56, &Envelope::is_complete);
  static constexpr std::tuple all{member(1, &Envelope::version), member(43, &Envelope::texts),
                                  member(44, &Envelope::frames), is_complete};
};

namespace {

class RowsToWrite {
 public:
  std::uint32_t row_of(const std::string& text) { return row_in(envelope_.texts, text_rows_, text, text); }
  std::uint32_t row_of(const CodeFrame& frame) {
    return row_in(envelope_.frames, frame_rows_, {row_of(frame.function), row_of(frame.file), frame.line}, frame);
  }
  const Envelope& envelope() const { return envelope_; }

 private:
  template <class Key, class Value>
  static std::uint32_t row_in(std::vector<Value>& values, std::map<Key, std::uint32_t>& rows,
                              const std::type_identity_t<Key>& key, const Value& value) {
    const auto [found, is_new] = rows.try_emplace(key, static_cast<std::uint32_t>(values.size()));
    if (is_new) values.push_back(value);
    return found->second;
  }

  Envelope envelope_;
  std::map<std::string, std::uint32_t> text_rows_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> frame_rows_;
};

/// Refuses files that expand to very much more than their size, by a long text in every frame of every stack.
class RowsToRead {
 public:
  explicit RowsToRead(const Envelope& envelope) : envelope_(envelope) {}

  bool at(std::uint64_t row, std::string& text) const { return copy(envelope_.texts, row, text); }
  bool at(std::uint64_t row, CodeFrame& frame) const { return copy(envelope_.frames, row, frame); }

 private:
  static constexpr std::size_t most_bytes = std::size_t{1} << 28U;

  static std::size_t size_of(const std::string& text) { return text.size(); }
  static std::size_t size_of(const CodeFrame& frame) {
    return sizeof(frame) + frame.function.size() + frame.file.size();
  }
  template <class Value>
  bool copy(const std::vector<Value>& values, std::uint64_t row, Value& value) const {
    if (row >= values.size()) return false;
    bytes_ += size_of(values[row]);
    if (bytes_ > most_bytes) throw protozero::invalid_length_exception{};
    value = values[row];
    return true;
  }

  const Envelope& envelope_;
  mutable std::size_t bytes_ = 0;  // copied
};

Envelope read(std::string_view bytes, RankSummary& summary) {
  Envelope envelope{.version = 0};
  const RowsToRead rows(envelope);
  for (wire::MessageReader<std::uint32_t> in(bytes); in.next();)
    if (!wire::read_field(in, envelope, rows) && !wire::read_field(in, summary, rows)) in.skip();
  return envelope;
}

}  // namespace

std::string encode_rank(const RankSummary& summary) {
  RowsToWrite rows;
  std::string body;
  protozero::pbf_writer summary_writer(body);
  wire::write_message(summary_writer, summary, rows);
  summary_writer.add_bool(wire::MembersOf<Envelope>::is_complete.number, true);
  std::string bytes;
  protozero::pbf_writer message(bytes);
  wire::write_message(message, rows.envelope(), rows);  // before what names its rows
  return bytes + body;
}

Result<RankSummary> decode_rank(std::string_view bytes, const std::string& where) {
  RankSummary summary;
  try {
    const Envelope envelope = read(bytes, summary);
    if (envelope.version == version_without_end || (envelope.version == rank_version && envelope.is_complete))
      return summary;
    if (envelope.version > rank_version)
      return Error{.what = "was made by a newer memreel (version " + std::to_string(envelope.version) + ")",
                   .where = where,
                   .remedy = "merge it with the memreel that made it"};
  } catch (const protozero::exception&) {
  }
  return Error{.what = "is not a rank summary", .where = where, .remedy = "make it again with memreel fleet map"};
}

}  // namespace memreel
