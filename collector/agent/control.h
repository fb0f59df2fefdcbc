// The agent's control socket: clients that may control this process start and stop recording through it
// (collector/attach/control_socket.h).
//
// | question | fields | answer |
// |---|---|---|
// | start | variables of options.h | as for status, or the error |
// | stop | | trace, events, lost, cost_ns, own_ns; trace is empty when nothing was recorded |
// | dump | | trace: the dump's file |
// | status | | the fields in attach/process.h |
#pragma once

#include <functional>

namespace memreel::agent::control {

/// Serves requests for the life of the process, in its own thread, which sleeps between requests. Does nothing if a
/// thread already listens.
void listen();

/// Serves requests in the calling thread until a recording is stopped, or nobody starts one for ten seconds. Returns at
/// once if a thread already listens. Calls `may_clean_up` with each request until it returns true.
void visit(const std::function<bool()>& may_clean_up);

/// Runs visit() in its own thread.
void invite();

}  // namespace memreel::agent::control
