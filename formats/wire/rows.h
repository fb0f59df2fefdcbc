// SPDX-License-Identifier: Apache-2.0
// How the rows of tables are stored in a trace: the lists of their members, by which they are written and read.
#pragma once

#include "formats/wire/message.h"
#include "formats/wire/schema.h"

namespace memreel {

constexpr Level highest(Level) { return Level::framework; }
constexpr MarkPhase highest(MarkPhase) { return MarkPhase::end; }
constexpr MarkPhase unknown_as(MarkPhase) { return MarkPhase::instant; }

namespace wire {

// Each row a message of its own.

template <>
struct MembersOf<Module> {
  static constexpr std::tuple all{member(1, &Module::path), verbatim(2, &Module::build_id), fixed(3, &Module::base),
                                  member(4, &Module::size)};
};

template <>
struct MembersOf<Heap> {
  static constexpr std::tuple all{member(1, &Heap::name), member(2, &Heap::level), member(3, &Heap::device),
                                  member(4, &Heap::parent), inverted(5, &Heap::observes_completion)};
};

template <>
struct MembersOf<Pool> {
  static constexpr std::tuple all{member(1, &Pool::name), fixed(2, &Pool::key_high), fixed(3, &Pool::key_low),
                                  member(4, &Pool::inferred)};
};

template <>
struct MembersOf<Thread> {
  static constexpr std::tuple all{member(1, &Thread::tid), member(2, &Thread::name)};
};

template <>
struct MembersOf<Mark> {
  static constexpr std::tuple all{member(1, &Mark::name), member(2, &Mark::phase)};
};

/// Settings are columns of their keys and values.
using Setting = std::pair<StringId, StringId>;
template <>
struct MembersOf<Setting> {
  static constexpr std::tuple all{member(1, &Setting::first), member(2, &Setting::second)};
};

// Rows of which there are many, as columns of the message that has all tables.

template <>
struct MembersOf<Frame> {
  static constexpr std::tuple all{member(RowsField::frame_function, &Frame::function),
                                  member(RowsField::frame_file, &Frame::file),
                                  member(RowsField::frame_line, &Frame::line),
                                  member(RowsField::frame_module, &Frame::module),
                                  member(RowsField::frame_module_offset, &Frame::module_offset),
                                  sparse(RowsField::frame_instance, &Frame::instance)};
};

template <>
struct MembersOf<Stack> {
  static constexpr std::tuple all{member(RowsField::stack_frame, &Stack::frame),
                                  back(RowsField::stack_caller_back, &Stack::caller)};
};

template <>
struct MembersOf<Origin> {
  static constexpr std::tuple all{
      member(RowsField::origin_heap, &Origin::heap), member(RowsField::origin_pool, &Origin::pool),
      member(RowsField::origin_stream, &Origin::stream), member(RowsField::origin_thread, &Origin::thread),
      sparse(RowsField::origin_metadata, &Origin::metadata)};
};

}  // namespace wire
}  // namespace memreel
