// SPDX-License-Identifier: Apache-2.0
#include "formats/import/source/unpickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "formats/import/source/dict_at_hand.h"
#include "formats/import/source/pickle_opcodes.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

constexpr std::uint8_t oldest_protocol = 2;
constexpr std::uint8_t newest_protocol = 5;

// PyTorch's C++ pickler appends a list of any length at once. To keep its items from all waiting on the stack, they are
// passed on in portions of this size.
constexpr std::size_t portion = 4096;

// About the density of memo entries in snapshots. Reserved but unused memory is never touched.
constexpr std::uint64_t bytes_per_memo_entry = 24;
constexpr std::uint64_t max_expected_memo = std::uint64_t{1} << 26U;

/// Bytes known to be available.
struct BytesAtHand {
  const std::byte* at;

  template <class Number>
  bool read(Number& into) {
    std::memcpy(&into, at, sizeof into);
    at += sizeof into;
    return true;
  }
};

/// The machine's stack. As a std::vector it would cost a tenth of an import: push_back, which most opcodes call,
/// includes the vector's growth and is too large for GCC to inline.
class ValueStack {
 public:
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return values_.size(); }
  Value& operator[](std::size_t i) { return values_[i]; }
  Value operator[](std::size_t i) const { return values_[i]; }
  Value back() const { return values_[size_ - 1]; }
  std::span<const Value> from(std::size_t first) const { return std::span(values_).subspan(first, size_ - first); }

  void push(Value value) {
    if (size_ == values_.size()) grow();
    values_[size_++] = value;
  }
  /// Pops the values from `first` on.
  void cut(std::size_t first) { size_ = first; }

 private:
  [[gnu::cold, gnu::noinline]] void grow() { values_.resize(std::max<std::size_t>(64, 2 * size_)); }

  std::vector<Value> values_;
  std::size_t size_ = 0;
};

/// A pickle is a program for this machine: a stack of values, marks in it, and a memo of values for later reference.
class Unpickler {
 public:
  Unpickler(ByteCursor& bytes, ValueArena& arena, DocumentSink& sink) : bytes_(bytes), arena_(arena), sink_(sink) {
    memo_.reserve(std::min({bytes.stored_size() / bytes_per_memo_entry, max_expected_memo,
                            arena.memory_limit().count / (2 * sizeof(Value))}));
  }

  Result<Value> run() {
    if (execute() && is_all()) return stack_.back();
    return error();
  }

 private:
  // Every function that returns a bool returns false if the machine can't continue. failed_ then says why, or else the
  // data ended.

  /// Runs up to STOP.
  bool execute();
  /// Whether the data ends where the pickle does. What follows would be neither read nor missed.
  bool is_all();
  /// Runs the opcodes that make up nearly all of a snapshot, as long as they are buffered and valid. Where it stops,
  /// execute() continues and reports any error.
  ///
  /// It keeps its position in a register. With the cursor, every opcode would wait until the previous position has been
  /// written to memory and read back, twice if there is an operand.
  void run_at_hand();

  enum class Step : std::uint8_t { done, failed, not_simple };
  /// An opcode that needs only its operand, read from `bytes`, the stack and the memo.
  template <class Bytes>
  Step run_simple(PickleOpcode opcode, Bytes& bytes);

  Error error() const;
  [[gnu::cold, gnu::noinline]] bool fail(std::string what,
                                         std::string remedy = "the file is damaged: copy or dump it again");
  [[gnu::cold, gnu::noinline]] bool fail_too_large();
  [[gnu::cold, gnu::noinline]] bool fail_underflow();
  [[gnu::cold, gnu::noinline]] bool fail_memo(std::size_t i);
  [[gnu::cold, gnu::noinline]] bool fail_kind(Value value, ValueKind wanted);
  [[gnu::cold, gnu::noinline]] bool refuse();

  /// Memory outside the arena.
  Bytes memory() const {
    return {(stack_.capacity() + memo_.capacity()) * sizeof(Value) + marks_.capacity() * sizeof(std::size_t)};
  }

  // ---- the stack

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  bool push(Value value) {
    stack_.push(value);
    return true;
  }
  bool push_made(Value value) { return arena_.full() ? fail_too_large() : push(value); }
  bool needs(std::size_t count) { return stack_.size() - floor() >= count || fail_underflow(); }
  /// Pops the latest mark; the values above it begin at `first`.
  bool pop_mark(std::size_t& first) {
    if (marks_.empty()) return fail_underflow();
    first = marks_.back();
    marks_.pop_back();
    return true;
  }

  // ---- opcodes

  template <class Index, class Bytes>
  bool get(Bytes& bytes) {
    Index i = 0;
    if (!bytes.read(i)) return false;
    return i < memo_.size() ? push(memo_[i]) : fail_memo(i);
  }
  template <class Index, class Bytes>
  bool put(Bytes& bytes) {
    Index i = 0;
    return bytes.read(i) && put(i);
  }
  bool put(std::size_t i) {
    if (!needs(1)) return false;
    // Picklers number sequentially, so a memo needs no more room than the pickle has opcodes.
    if (i > memo_.size()) return fail_memo(i);
    if (i == memo_.size())
      memo_.push_back(stack_.back());
    else
      memo_[i] = stack_.back();
    return true;
  }
  template <class Number, class Bytes>
  bool integer(Bytes& bytes) {
    Number number = 0;
    return bytes.read(number) && push(arena_.integer(std::int64_t{number}));
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
  bool text(std::uint64_t length);
  bool make_text(std::uint64_t length);
  bool number();
  bool proto();
  bool frame();
  bool tuple(std::size_t first);
  bool append(std::size_t first);
  bool set_items(std::size_t first);
  bool add(Value container, std::span<const Value> items);

  // ---- streaming

  /// If the list at `place` on the stack is one that the sink streams: which one.
  std::optional<std::size_t> streamed_list(std::size_t place) const;
  bool hand_on(std::size_t which, Value list, std::size_t first, std::size_t end);
  /// Reads the next items of a streamed list without the machine, as long as they are what a DictAtHand reads.
  bool take_dicts();

  ByteCursor& bytes_;
  ValueArena& arena_;
  DocumentSink& sink_;
  ValueStack stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::vector<Value> memo_;
  RecentTexts texts_;
  DictAtHand dict_{arena_, memo_, texts_};
  std::optional<Value> taken_;  // stands for every dict that the sink took
  std::uint8_t opcode_ = 0;     // the latest, and the offset of its byte
  std::uint64_t opcode_at_ = 0;
  std::optional<Error> failed_;
};

template <class Bytes>
Unpickler::Step Unpickler::run_simple(PickleOpcode opcode, Bytes& bytes) {
  bool done = false;
  switch (opcode) {
    case PickleOpcode::binget:
      done = get<std::uint8_t>(bytes);
      break;
    case PickleOpcode::long_binget:
      done = get<std::uint32_t>(bytes);
      break;
    case PickleOpcode::memoize:
      done = put(memo_.size());
      break;
    case PickleOpcode::binput:
      done = put<std::uint8_t>(bytes);
      break;
    case PickleOpcode::long_binput:
      done = put<std::uint32_t>(bytes);
      break;
    case PickleOpcode::mark:
      marks_.push_back(stack_.size());
      done = true;
      break;
    case PickleOpcode::binint1:
      done = integer<std::uint8_t>(bytes);
      break;
    case PickleOpcode::binint2:
      done = integer<std::uint16_t>(bytes);
      break;
    case PickleOpcode::binint:
      done = integer<std::int32_t>(bytes);
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
    default:
      return Step::not_simple;
  }
  return done ? Step::done : Step::failed;
}

void Unpickler::run_at_hand() {
  using Text = RecentTexts::Text;
  constexpr std::size_t longest = 2 + Text::most;  // SHORT_BINUNICODE, its length byte and the bytes compared
  const std::span<const std::byte> ahead = bytes_.at_hand();
  if (ahead.size() < longest) return;

  const auto long_integer = [this](BytesAtHand& bytes) {
    std::uint8_t length = 0;
    std::uint64_t bits = 0;
    bytes.read(length);
    if (length == 0 || length > sizeof bits || arena_.full()) return false;
    std::memcpy(&bits, bytes.at, sizeof bits);
    bytes.at += length;
    return push(arena_.integer(sign_extended(bits, length)));
  };
  const auto text = [this](BytesAtHand& bytes) {
    std::uint8_t length = 0;
    bytes.read(length);
    if (length > Text::most) return false;
    const Value* known = texts_.find(Text::of({bytes.at, Text::most}, length));
    if (known == nullptr) return false;
    bytes.at += length;
    return push(*known);
  };

  const std::byte* at = ahead.data();
  const std::byte* const last = at + (ahead.size() - longest);
  while (at <= last) {
    BytesAtHand behind{at + 1};
    const auto opcode = static_cast<PickleOpcode>(*at);
    const bool done = opcode == PickleOpcode::long1              ? long_integer(behind)
                      : opcode == PickleOpcode::short_binunicode ? text(behind)
                                                                 : run_simple(opcode, behind) == Step::done;
    if (!done) break;
    at = behind.at;
  }
  bytes_.take(static_cast<std::uint64_t>(at - ahead.data()));
}

bool Unpickler::execute() {
  for (;;) {
    run_at_hand();
    if (!take_dicts()) return false;
    opcode_at_ = bytes_.position();
    if (memory() > arena_.memory_limit()) return fail_too_large();  // little is buffered between checks
    if (!bytes_.read(opcode_)) return false;
    const auto opcode = static_cast<PickleOpcode>(opcode_);
    const Step step = run_simple(opcode, bytes_);
    if (step == Step::done) continue;
    if (step == Step::failed) return false;
    std::size_t first = 0;
    bool done = false;
    switch (opcode) {
      case PickleOpcode::long1:
        done = long_integer<std::uint8_t>();
        break;
      case PickleOpcode::long4:
        done = long_integer<std::uint32_t>();
        break;
      case PickleOpcode::binfloat:
        done = number();
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

bool Unpickler::is_all() {
  constexpr std::size_t most_padding = 3;  // zeros, which _format_viz of PyTorch's torch/cuda/_memory_viz.py appends
  const std::span<const std::byte> rest = bytes_.peek(most_padding + 1);
  if (bytes_.failure()) return false;
  if (rest.size() <= most_padding && std::ranges::all_of(rest, [](std::byte byte) { return byte == std::byte{0}; }))
    return true;
  const bool is_another = rest[0] == std::byte{static_cast<std::uint8_t>(PickleOpcode::proto)};
  opcode_at_ = bytes_.position();
  return fail("more follows the end of the pickle",
              is_another ? "write each snapshot to a file of its own" : "the file is damaged: copy or dump it again");
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
  failed_ = arena_.too_large(bytes_.where(), opcode_at_);
  return false;
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
  const std::string hex{'0', 'x', hex_digit(opcode_ >> 4U, 'A'), hex_digit(opcode_, 'A')};
  const std::string_view name = pickle_opcode_name(opcode_);
  if (name.empty()) return fail(hex + " is not an opcode");
  return fail("refused opcode " + std::string(name) + " (" + hex +
                  "): only plain lists, dicts, strings and numbers are read, nothing is executed",
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

// A hint for readers that buffer.
bool Unpickler::frame() {
  std::uint64_t length = 0;
  return bytes_.read(length);
}

bool Unpickler::text(std::uint64_t length) {
  using Text = RecentTexts::Text;
  const std::span<const std::byte> ahead = bytes_.peek(Text::most);
  if (length > Text::most || ahead.size() < Text::most) return make_text(length);
  const Text text = Text::of(ahead, length);
  if (!make_text(length)) return false;
  texts_.add(text, stack_.back());
  return true;
}

bool Unpickler::make_text(std::uint64_t length) {
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
  if (arena_.full() || !arena_.append(made, stack_.from(first))) return fail_too_large();
  stack_.cut(first);
  return push(made);
}

bool Unpickler::append(std::size_t first) {
  if (first <= floor()) return fail_underflow();
  const Value list = stack_[first - 1];
  if (!arena_.is(list, ValueKind::list)) return fail_kind(list, ValueKind::list);
  if (const std::optional<std::size_t> which = streamed_list(first - 1)) {
    if (!hand_on(*which, list, first, stack_.size())) return false;
  } else if (!add(list, stack_.from(first))) {
    return false;
  }
  stack_.cut(first);
  return true;
}

bool Unpickler::set_items(std::size_t first) {
  if (first <= floor()) return fail_underflow();
  const Value dict = stack_[first - 1];
  if (!arena_.is(dict, ValueKind::dict)) return fail_kind(dict, ValueKind::dict);
  const auto items = stack_.from(first);
  if (items.size() % 2 != 0) return fail("SETITEMS with a key that has no value");
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const ValueKind kind = arena_.kind(items[i]);
    if (kind == ValueKind::list || kind == ValueKind::dict)
      return fail(std::string(described(kind)) + " can't be the key of a dict");
  }
  if (!add(dict, items)) return false;
  stack_.cut(first);

  if (marks_.empty() || stack_.size() - marks_.back() <= portion) return true;
  const std::size_t waiting = marks_.back();
  if (waiting < 2) return true;
  const std::optional<std::size_t> which = streamed_list(waiting - 1);
  if (!which) return true;
  // The last item may be incomplete.
  if (!hand_on(*which, stack_[waiting - 1], waiting, stack_.size() - 1)) return false;
  stack_[waiting] = stack_.back();
  stack_.cut(waiting + 1);
  return true;
}

bool Unpickler::add(Value container, std::span<const Value> items) {
  if (arena_.append(container, items)) return true;
  if (arena_.full()) return fail_too_large();
  return fail("changes " + std::string(described(arena_.kind(container))) + " that was complete before");
}

std::optional<std::size_t> Unpickler::streamed_list(std::size_t place) const {
  // Below the list: ROOT [MARK] (key value)* KEY OUTER ([MARK] list* | nothing). A mark at or below `place` that is not
  // the root's belongs to OUTER; above `place` there is at most the mark of the list's own items.
  if (marks_.size() > 3) return std::nullopt;
  std::size_t marks = marks_.size();
  while (marks > 0 && marks_[marks - 1] > place) --marks;
  const bool root_marked = marks > 0 && marks_[0] == 1;
  const std::size_t of_outer = marks - (root_marked ? 1 : 0);
  if (of_outer > 1) return std::nullopt;
  const std::size_t first = of_outer == 1 ? marks_[marks - 1] : place;  // of the lists not yet appended to OUTER
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
  const Result<void> taken = sink_.take(which, list, stack_.from(first).first(end - first));
  if (!taken) {
    failed_ = taken.error();
    if (failed_->where.empty()) failed_->where = bytes_.where();
    return false;
  }
  arena_.recycle();
  return true;
}

bool Unpickler::take_dicts() {
  // Changing over costs a little, so it comes only after some items.
  constexpr std::size_t most_waiting = 32;
  if (marks_.empty() || marks_.back() == 0) return true;
  const std::size_t first = marks_.back();
  const std::size_t waiting = stack_.size() - first;
  if ((waiting > 0 && waiting < most_waiting) || !DictAtHand::may_follow(bytes_.at_hand())) return true;
  const std::optional<std::size_t> which = streamed_list(first - 1);
  const auto is_dict = [this](Value value) { return arena_.is(value, ValueKind::dict); };
  // What waits may be incomplete, if it ends with a key.
  if (!which || !std::ranges::all_of(stack_.from(first), is_dict)) return true;
  if (!hand_on(*which, stack_[first - 1], first, stack_.size())) return false;
  stack_.cut(first);
  if (!taken_) {
    taken_ = arena_.make(ValueKind::dict);
    if (arena_.full()) return fail_too_large();
    arena_.use(*taken_, std::numeric_limits<std::uint32_t>::max());
  }
  dict_.begin();
  for (std::size_t count = 1;; ++count) {
    const std::size_t length = dict_.read(bytes_.peek(DictAtHand::longest), *taken_);
    if (length == 0) return true;
    if (!sink_.take_dict(dict_.items(), dict_.has_same_keys())) {
      dict_.undo();
      return true;
    }
    bytes_.take(length);
    if (count % portion == 0) arena_.recycle();
  }
}

}  // namespace

Result<Value> unpickle(ByteCursor& bytes, ValueArena& arena, DocumentSink& sink) {
  return Unpickler(bytes, arena, sink).run();
}

}  // namespace memreel
