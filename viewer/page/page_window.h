// SPDX-License-Identifier: Apache-2.0
// The viewer in a page: the interface to page.js, its window, keys and fonts.
#pragma once

#include <span>
#include <string_view>

extern "C" {

// Defined in page.js.
/// Calls memreel_run_work(work) when there is time between frames.
void page_begin(void* work);
/// For work run by memreel_run_work(): yields so that a frame can be drawn when due, and returns after at least this
/// long. 0: this browser can't suspend running code.
int page_give_way(double milliseconds);
/// Shows why there is nothing to see.
void page_fail(const char* why);
/// Opens the browser's file dialog; the file arrives through memreel_open().
void page_choose_file();
/// Writes and reads clipboard text: what was copied here or pasted last. The page owns the text until the next call.
void page_copy(const char* text);
const char* page_pasted();
/// The pointer's shape: a CSS cursor name.
void page_set_pointer(const char* name);
/// Whether the browser or its system asks for dark pages.
int page_prefers_dark();

// Called by page.js.
void memreel_run_work(void* work);
/// The state on screen, as JSON (Viewer::state()). The viewer owns the text until the next call.
const char* memreel_state();
/// Opens another file of the page's own file system.
void memreel_open(const char* path);
}

namespace memreel::viewer {

/// Roboto: Latin, Greek, Cyrillic, punctuation, currencies.
std::span<const unsigned char> letters_font();
/// DejaVu Sans: arrows and geometric shapes.
std::span<const unsigned char> symbols_font();

/// The GLFW key code for a browser's `code` (KeyboardEvent.code, by position on the keyboard); 0: not known to the
/// viewer.
int key_of_code(std::string_view code);

/// Whether a frame is due: because of an event or Window::wake() since the last call, or as the canvas has another size
/// or pixel ratio than in the last frame.
bool take_wake();

}  // namespace memreel::viewer
