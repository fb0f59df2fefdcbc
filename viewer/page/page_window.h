// What is asked of a Window in a page beside what others ask of one.
#pragma once

namespace memreel::viewer {

/// Whether something has happened since the last call that a frame shows: an event, or Window::wake().
bool take_wake();

}  // namespace memreel::viewer
