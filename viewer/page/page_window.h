// The additional interface of a Window in a page.
#pragma once

namespace memreel::viewer {

/// Whether a frame is due because of an event or Window::wake() since the last call.
bool take_wake();

}  // namespace memreel::viewer
