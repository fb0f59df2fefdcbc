#include "formats/writer/trace_output.h"

#include "formats/writer/interner.h"
#include "formats/writer/table_encoder.h"

namespace memreel {
namespace {

template <class Id, class Row, class Value>
Id id_of(Interner& interner, std::vector<Row> Tables::*rows, const Value& value) {
  return Id{interner.intern(interner.tables().*rows, value)};
}

}  // namespace

TraceOutput::TraceOutput() : interner_(std::make_unique<Interner>()) {}
TraceOutput::TraceOutput(TraceOutput&&) noexcept = default;
TraceOutput& TraceOutput::operator=(TraceOutput&&) noexcept = default;
TraceOutput::~TraceOutput() = default;

const Tables& TraceOutput::tables() const { return interner_->tables(); }

StringId TraceOutput::intern(std::string_view text) {
  return id_of<StringId>(*interner_, &Tables::strings, text.substr(0, max_text_size));
}
ModuleId TraceOutput::intern(const Module& module) { return id_of<ModuleId>(*interner_, &Tables::modules, module); }
FrameId TraceOutput::intern(const Frame& frame) { return id_of<FrameId>(*interner_, &Tables::frames, frame); }
StackId TraceOutput::intern(const Stack& stack) { return id_of<StackId>(*interner_, &Tables::stacks, stack); }
HeapId TraceOutput::intern(const Heap& heap) { return id_of<HeapId>(*interner_, &Tables::heaps, heap); }
PoolId TraceOutput::intern(const Pool& pool) { return id_of<PoolId>(*interner_, &Tables::pools, pool); }
StreamId TraceOutput::intern(const Stream& stream) { return id_of<StreamId>(*interner_, &Tables::streams, stream); }
ThreadId TraceOutput::intern(const Thread& thread) { return id_of<ThreadId>(*interner_, &Tables::threads, thread); }
OriginId TraceOutput::intern(const Origin& origin) { return id_of<OriginId>(*interner_, &Tables::origins, origin); }
MarkId TraceOutput::intern(const Mark& mark) { return id_of<MarkId>(*interner_, &Tables::marks, mark); }
SettingsId TraceOutput::intern(const Settings& settings) {
  return id_of<SettingsId>(*interner_, &Tables::settings, settings);
}

}  // namespace memreel
