// The library's ear: whoever may join this process says through a socket when recording begins and ends
// (collector/attach/message.h).
//
// | question | fields | answer |
// |---|---|---|
// | start | variables of options.h | as status, or why not |
// | stop | | trace, events, lost, cost_ns, own_ns; trace is empty when nothing was recorded |
// | dump | | trace: the file that was written |
// | status | | what attach/process_status.h has |
#pragma once

#include <functional>

namespace memreel::agent::control {

/// Waits for questions in a thread of its own, which sleeps until one comes, for as long as the process lives. Does
/// nothing when somebody listens already.
void listen();

/// Waits for questions in the calling thread, until a recording was stopped, or nobody has begun one for ten seconds.
/// Returns at once when somebody listens already. `may_clean_up` is asked with each question, until it has: true.
void visit(const std::function<bool()>& may_clean_up);

/// visit() in a thread of its own.
void invite();

}  // namespace memreel::agent::control
