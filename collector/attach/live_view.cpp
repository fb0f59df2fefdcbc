#include "collector/attach/live_view.h"
namespace memreel::attach {
bool show_live(pid_t, const std::string&, double, double) { return false; }
}  // namespace memreel::attach
