// What the viewer and the page that it is in know of each other: functions of page.js, and those that page.js calls.
#pragma once

extern "C" {

// In page.js.
/// Calls memreel_run_work(work) when there is time between frames.
void page_begin(void* work);
/// For what memreel_run_work() does: lets frames be drawn when it is time for one, and comes back after at least so
/// long. 0: this browser can't suspend what runs.
int page_give_way(double milliseconds);
/// Says why there is nothing to see.
void page_fail(const char* why);
/// Asks for a file, which comes by memreel_open().
void page_choose_file();
/// Text for the clipboard, and from it: what was copied here or pasted last. Belongs to the page until it is called
/// again.
void page_copy(const char* text);
const char* page_pasted();
/// The shape of the pointer: a name of CSS.
void page_set_pointer(const char* name);

// For page.js.
void memreel_run_work(void* work);
/// What is on screen, as JSON (Viewer::state()). Belongs to the viewer until it is called again.
const char* memreel_state();
/// Shows another file of the page's own file system.
void memreel_open(const char* path);
}
