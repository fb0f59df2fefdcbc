#include "formats/import/unpickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/import/pickle_opcodes.h"

namespace memreel {
namespace {

constexpr std::uint8_t oldest_protocol = 2;
constexpr std::uint8_t newest_protocol = 5;

// PyTorch's C++ pickler appends a list of any length at once. So that its items need not all wait on the stack, they
// are handed on in portions of this many.
constexpr std::size_t portion = 4096;

// About as dense as memo entries are in snapshots. Memory that is set aside but not needed is never touched.
constexpr std::uint64_t bytes_per_memo_entry = 24;
constexpr std::uint64_t max_expected_memo = std::uint64_t{1} << 26U;

/// Short texts that came lately. Pickles repeat a text for every object that had a string of its own, as each entry of
/// a history has the name of its action.
class RecentTexts {
 public:
  /// A text of at most 16 bytes. What follows its `length` bytes is 0.
  struct Text {
    std::uint64_t first = 0, second = 0;
    std::uint64_t length = 0;

    static constexpr std::size_t most = 2 * sizeof first;
    /// `bytes`: `most` of them, whatever the length.
    static Text of(std::span<const std::byte> bytes, std::uint64_t length) {
      constexpr std::uint64_t half = most / 2;
      const auto kept = [](std::uint64_t word, std::uint64_t count) {
        return count >= half ? word : word & ((std::uint64_t{1} << (8 * count)) - 1);
      };
      Text text{.length = length};
      std::memcpy(&text.first, bytes.data(), half);
      std::memcpy(&text.second, bytes.data() + half, half);
      text.first = kept(text.first, length);
      text.second = length > half ? kept(text.second, length - half) : 0;
      return text;
    }
    friend bool operator==(const Text&, const Text&) = default;
  };

  /// Its value when it came lately; null otherwise.
  const Value* find(const Text& text) const {
    const Known& known = known_[slot_of(text)];
    return known.text == text ? &known.value : nullptr;
  }
  void add(const Text& text, Value value) { known_[slot_of(text)] = {text, value}; }

 private:
  struct Known {
    Text text{.length = Text::most + 1};  // none has that length
    Value value;
  };
  static constexpr unsigned slots_log2 = 7;

  static std::size_t slot_of(const Text& text) {
    constexpr std::uint64_t odd = 0x9E37'79B9'7F4A'7C15;  // 2^64 divided by the golden ratio
    return ((text.first ^ (text.second * odd)) * odd) >> (64 - slots_log2);
  }

  std::array<Known, std::size_t{1} << slots_log2> known_;
};

/// A pickle is a program for this machine: a stack of values, marks in it, and a memo of values for later reference.
class Unpickler {
 public:
  Unpickler(ByteCursor& bytes, ValueArena& arena, DocumentSink& sink) : bytes_(bytes), arena_(arena), sink_(sink) {
    memo_.reserve(std::min(bytes.stored_size() / bytes_per_memo_entry, max_expected_memo));
  }

  Result<Value> run() {
    if (execute()) return stack_.back();
    return error();
  }

 private:
  // Every function that returns a bool returns false when the machine can't go on. failed_ then says why, or else the
  // data ended.

  /// Runs up to STOP.
  bool execute();

  Error error() const;
  [[gnu::cold, gnu::noinline]] bool fail(std::string what,
                                         std::string remedy = "the file is damaged: copy or dump it again");
  [[gnu::cold, gnu::noinline]] bool fail_too_large();
  [[gnu::cold, gnu::noinline]] bool fail_underflow();
  [[gnu::cold, gnu::noinline]] bool fail_memo(std::size_t i);
  [[gnu::cold, gnu::noinline]] bool fail_kind(Value value, ValueKind wanted);
  [[gnu::cold, gnu::noinline]] bool refuse();

  // ---- the stack

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  bool push(Value value) {
    stack_.push_back(value);
    return true;
  }
  bool push_made(Value value) { return arena_.full() ? fail_too_large() : push(value); }
  bool needs(std::size_t count) { return stack_.size() - floor() >= count || fail_underflow(); }
  /// Takes the latest mark off; the values above it begin at `first`.
  bool pop_mark(std::size_t& first) {
    if (marks_.empty()) return fail_underflow();
    first = marks_.back();
    marks_.pop_back();
    return true;
  }

  // ---- opcodes

  template <class Index>
  bool get() {
    Index i = 0;
    if (!bytes_.read(i)) return false;
    return i < memo_.size() ? push(memo_[i]) : fail_memo(i);
  }
  template <class Index>
  bool put() {
    Index i = 0;
    return bytes_.read(i) && put(i);
  }
  bool put(std::size_t i) {
    if (!needs(1)) return false;
    // Picklers number in order, so a memo needs no more room than the pickle has opcodes.
    if (i > memo_.size()) return fail_memo(i);
    if (i == memo_.size())
      memo_.push_back(stack_.back());
    else
      memo_[i] = stack_.back();
    return true;
  }
  template <class Number>
  bool integer() {
    Number number = 0;
    return bytes_.read(number) && push(arena_.integer(std::int64_t{number}));
  }
  template <class Length>
  bool long_integer() {
    Length length = 0;
    return bytes_.read(length) && long_integer(length);
  }
  template <class Length>
  bool text() {
    Length length = 0;
    return bytes_.read(length) && text(length);
  }
  bool long_integer(std::uint32_t length);
  bool long_integer_bytewise(std::uint32_t length);
  bool text(std::uint64_t length);
  bool any_text(std::uint64_t length);
  bool number();
  bool proto();
  bool frame();
  bool tuple(std::size_t first);
  bool append(std::size_t first);
  bool set_items(std::size_t first);
  bool add(Value container, std::span<const Value> items);

  // ---- streaming

  /// When the list at `place` of the stack is one that the sink streams: which.
  std::optional<std::size_t> streamed_list(std::size_t place) const;
  bool hand_on(std::size_t which, Value list, std::size_t first, std::size_t end);

  ByteCursor& bytes_;
  ValueArena& arena_;
  DocumentSink& sink_;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::vector<Value> memo_;
  RecentTexts texts_;
  std::uint8_t opcode_ = 0;  // the latest, and the offset of its byte
  std::uint64_t opcode_at_ = 0;
  std::optional<Error> failed_;
};

bool Unpickler::execute() {
  for (;;) {
    opcode_at_ = bytes_.position();
    if (!bytes_.read(opcode_)) return false;
    std::size_t first = 0;
    bool done = false;
    switch (static_cast<PickleOpcode>(opcode_)) {
      case PickleOpcode::binget:
        done = get<std::uint8_t>();
        break;
      case PickleOpcode::long_binget:
        done = get<std::uint32_t>();
        break;
      case PickleOpcode::memoize:
        done = put(memo_.size());
        break;
      case PickleOpcode::binput:
        done = put<std::uint8_t>();
        break;
      case PickleOpcode::long_binput:
        done = put<std::uint32_t>();
        break;
      case PickleOpcode::mark:
        marks_.push_back(stack_.size());
        done = true;
        break;
      case PickleOpcode::binint1:
        done = integer<std::uint8_t>();
        break;
      case PickleOpcode::binint2:
        done = integer<std::uint16_t>();
        break;
      case PickleOpcode::binint:
        done = integer<std::int32_t>();
        break;
      case PickleOpcode::long1:
        done = long_integer<std::uint8_t>();
        break;
      case PickleOpcode::long4:
        done = long_integer<std::uint32_t>();
        break;
      case PickleOpcode::binfloat:
        done = number();
        break;
      case PickleOpcode::none:
        done = push({});
        break;
      case PickleOpcode::newtrue:
        done = push(ValueArena::boolean(true));
        break;
      case PickleOpcode::newfalse:
        done = push(ValueArena::boolean(false));
        break;
      case PickleOpcode::short_binunicode:
        done = text<std::uint8_t>();
        break;
      case PickleOpcode::binunicode:
        done = text<std::uint32_t>();
        break;
      case PickleOpcode::binunicode8:
        done = text<std::uint64_t>();
        break;
      case PickleOpcode::empty_list:
        done = push_made(arena_.make(ValueKind::list));
        break;
      case PickleOpcode::empty_tuple:
        done = push_made(arena_.make(ValueKind::tuple));
        break;
      case PickleOpcode::empty_dict:
        done = push_made(arena_.make(ValueKind::dict));
        break;
      case PickleOpcode::tuple1:
        done = needs(1) && tuple(stack_.size() - 1);
        break;
      case PickleOpcode::tuple2:
        done = needs(2) && tuple(stack_.size() - 2);
        break;
      case PickleOpcode::tuple3:
        done = needs(3) && tuple(stack_.size() - 3);
        break;
      case PickleOpcode::tuple:
        done = pop_mark(first) && tuple(first);
        break;
      case PickleOpcode::append:
        done = needs(2) && append(stack_.size() - 1);
        break;
      case PickleOpcode::appends:
        done = pop_mark(first) && append(first);
        break;
      case PickleOpcode::setitem:
        done = needs(3) && set_items(stack_.size() - 2);
        break;
      case PickleOpcode::setitems:
        done = pop_mark(first) && set_items(first);
        break;
      case PickleOpcode::frame:
        done = frame();
        break;
      case PickleOpcode::proto:
        done = proto();
        break;
      case PickleOpcode::stop:
        return (stack_.size() == 1 && marks_.empty()) || fail("STOP where the stack should hold one value");
      default:
        return refuse();
    }
    if (!done) return false;
  }
}

Error Unpickler::error() const {
  if (failed_) return *failed_;
  if (bytes_.failure()) return *bytes_.failure();
  return {.what = opcode_at_ == bytes_.position()
                      ? std::string{"the pickle ends without STOP"}
                      : "the pickle ends inside " + std::string(pickle_opcode_name(opcode_)),
          .where = bytes_.where(),
          .offset = bytes_.position(),
          .remedy = "the file was cut off: copy or dump it again"};
}

bool Unpickler::fail(std::string what, std::string remedy) {
  failed_ = Error{.what = std::move(what), .where = bytes_.where(), .offset = opcode_at_, .remedy = std::move(remedy)};
  return false;
}

bool Unpickler::fail_too_large() {
  return fail("the pickle holds more than memreel can address", "record fewer events per snapshot (max_entries)");
}

bool Unpickler::fail_underflow() { return fail("the stack holds too few values for this opcode"); }

bool Unpickler::fail_memo(std::size_t i) {
  return fail("memo index " + std::to_string(i) + " is out of range: " + std::to_string(memo_.size()) +
              " values are memoized so far");
}

bool Unpickler::fail_kind(Value value, ValueKind wanted) {
  return fail(std::string(pickle_opcode_name(opcode_)) + " meets " + std::string(described(arena_.kind(value))) +
              ", expected " + std::string(described(wanted)));
}

bool Unpickler::refuse() {
  constexpr std::string_view digits = "0123456789ABCDEF";
  const std::string hex{'0', 'x', digits[opcode_ >> 4U], digits[opcode_ & 15U]};
  const std::string_view name = pickle_opcode_name(opcode_);
  if (name.empty()) return fail(hex + " is no opcode");
  return fail("refused opcode " + std::string(name) + " (" + hex +
                  "): only plain lists, dicts, texts and numbers are read, nothing is executed",
              "a snapshot written by torch.cuda.memory._dump_snapshot has no such opcode");
}

bool Unpickler::proto() {
  std::uint8_t version = 0;
  if (!bytes_.read(version)) return false;
  if (version < oldest_protocol || version > newest_protocol)
    return fail("pickle protocol " + std::to_string(version) + " is not supported",
                "protocols 2 to 5 are: dump again with pickle.dump(snapshot, file, protocol=4)");
  return true;
}

// A hint for readers that want to buffer.
bool Unpickler::frame() {
  std::uint64_t length = 0;
  return bytes_.read(length);
}

bool Unpickler::text(std::uint64_t length) {
  using Text = RecentTexts::Text;
  if (length > Text::most) return any_text(length);
  const std::span<const std::byte> ahead = bytes_.peek(Text::most);
  if (ahead.size() < Text::most) return any_text(length);
  const Text text = Text::of(ahead, length);
  if (const Value* known = texts_.find(text)) {
    bytes_.take(length);
    return push(*known);
  }
  if (!any_text(length)) return false;
  texts_.add(text, stack_.back());
  return true;
}

bool Unpickler::any_text(std::uint64_t length) {
  arena_.begin_text();
  while (length > 0 && !arena_.full()) {
    const std::span<const std::byte> piece = bytes_.take(length);
    if (piece.empty()) return false;
    arena_.add_text(piece);
    length -= piece.size();
  }
  return push_made(arena_.end_text());
}

bool Unpickler::number() {
  std::uint64_t big_endian = 0;
  return bytes_.read(big_endian) && push_made(arena_.number(std::bit_cast<double>(__builtin_bswap64(big_endian))));
}

// Two's complement, least significant byte first, as short as the sign allows.
bool Unpickler::long_integer(std::uint32_t length) {
  std::uint64_t bits = 0;
  const std::span<const std::byte> ahead = bytes_.peek(sizeof bits);
  if (length == 0 || length > sizeof bits || ahead.size() < sizeof bits) return long_integer_bytewise(length);
  std::memcpy(&bits, ahead.data(), sizeof bits);
  bytes_.take(length);
  const std::uint32_t unused = 8 * (static_cast<std::uint32_t>(sizeof bits) - length);
  return push_made(arena_.integer(static_cast<std::int64_t>(bits << unused) >> unused));
}

bool Unpickler::long_integer_bytewise(std::uint32_t length) {
  if (length > static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max()))
    return fail("LONG4 declares a negative size");
  std::uint64_t low = 0;
  bool fits = true;
  std::uint8_t last = 0;
  for (std::uint32_t i = 0; i < length; ++i) {
    if (!bytes_.read(last)) return false;
    if (i < 8)
      low |= std::uint64_t{last} << (8 * i);
    else
      fits = fits && i == 8 && last == 0;
  }
  if (!fits) return push_made(arena_.huge_integer());
  const bool negative = length <= 8 && (last & 0x80U) != 0;
  if (!negative) return push_made(arena_.integer(low));
  if (length < 8) low |= ~std::uint64_t{0} << (8 * length);
  return push_made(arena_.integer(static_cast<std::int64_t>(low)));
}

bool Unpickler::tuple(std::size_t first) {
  const Value made = arena_.make(ValueKind::tuple);
  if (arena_.full() || !arena_.append(made, std::span(stack_).subspan(first))) return fail_too_large();
  stack_.resize(first);
  return push(made);
}

bool Unpickler::append(std::size_t first) {
  if (first <= floor()) return fail_underflow();
  const Value list = stack_[first - 1];
  if (!arena_.is(list, ValueKind::list)) return fail_kind(list, ValueKind::list);
  if (const std::optional<std::size_t> which = streamed_list(first - 1)) {
    if (!hand_on(*which, list, first, stack_.size())) return false;
  } else if (!add(list, std::span(stack_).subspan(first))) {
    return false;
  }
  stack_.resize(first);
  return true;
}

bool Unpickler::set_items(std::size_t first) {
  if (first <= floor()) return fail_underflow();
  const Value dict = stack_[first - 1];
  if (!arena_.is(dict, ValueKind::dict)) return fail_kind(dict, ValueKind::dict);
  const auto items = std::span(stack_).subspan(first);
  if (items.size() % 2 != 0) return fail("SETITEMS with a key that has no value");
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const ValueKind kind = arena_.kind(items[i]);
    if (kind == ValueKind::list || kind == ValueKind::dict)
      return fail(std::string(described(kind)) + " can't be the key of a dict");
  }
  if (!add(dict, items)) return false;
  stack_.resize(first);

  if (marks_.empty() || stack_.size() - marks_.back() <= portion) return true;
  const std::size_t waiting = marks_.back();
  if (waiting < 2) return true;
  const std::optional<std::size_t> which = streamed_list(waiting - 1);
  if (!which) return true;
  // The last item is not certain to be complete.
  if (!hand_on(*which, stack_[waiting - 1], waiting, stack_.size() - 1)) return false;
  stack_[waiting] = stack_.back();
  stack_.resize(waiting + 1);
  return true;
}

bool Unpickler::add(Value container, std::span<const Value> items) {
  if (arena_.append(container, items)) return true;
  if (arena_.full()) return fail_too_large();
  return fail("changes " + std::string(described(arena_.kind(container))) + " that was complete before");
}

std::optional<std::size_t> Unpickler::streamed_list(std::size_t place) const {
  // Below the list: ROOT [MARK] (key value)* KEY OUTER ([MARK] list* | nothing). A mark at or below `place` that is not
  // the root's belongs to OUTER; above `place` there is at most the one of the list's own items.
  if (marks_.size() > 3) return std::nullopt;
  std::size_t marks = marks_.size();
  while (marks > 0 && marks_[marks - 1] > place) --marks;
  const bool root_marked = marks > 0 && marks_[0] == 1;
  const std::size_t of_outer = marks - (root_marked ? 1 : 0);
  if (of_outer > 1) return std::nullopt;
  const std::size_t first = of_outer == 1 ? marks_[marks - 1] : place;  // of the lists that wait to be put in OUTER
  if (first < 3) return std::nullopt;
  const std::size_t outer = first - 1;
  const std::size_t key = outer - 1;
  if (key % 2 != 1 || (!root_marked && key != 1)) return std::nullopt;
  if (!arena_.is(stack_[0], ValueKind::dict) || !arena_.is(stack_[outer], ValueKind::list) ||
      !arena_.is(stack_[key], ValueKind::text) || arena_.text(stack_[key]) != sink_.streamed_key() ||
      !arena_.is(stack_[place], ValueKind::list))
    return std::nullopt;
  return arena_.items(stack_[outer]).size() + (place - first);
}

bool Unpickler::hand_on(std::size_t which, Value list, std::size_t first, std::size_t end) {
  const Result<void> taken = sink_.take(which, list, std::span(stack_).subspan(first, end - first));
  if (!taken) {
    failed_ = taken.error();
    if (failed_->where.empty()) failed_->where = bytes_.where();
    return false;
  }
  arena_.recycle();
  return true;
}

}  // namespace

Result<Value> unpickle(ByteCursor& bytes, ValueArena& arena, DocumentSink& sink) {
  return Unpickler(bytes, arena, sink).run();
}

}  // namespace memreel
