#include "formats/export/device_heaps.h"

#include "formats/export/text.h"
#include "formats/model/origin_text.h"
#include "formats/model/stack_text.h"

namespace memreel {

std::vector<bool> device_heaps(const Tables& tables) {
  std::vector<bool> shown(tables.heaps.size());
  for (std::uint32_t h = 1; h < shown.size(); ++h)
    shown[h] = tables.heaps[h].device >= 0 && tables[tables.heaps[h].parent].level == Level::driver;
  return shown;
}

std::string heap_label(const Tables& tables, HeapId heap) {
  return "device " + std::to_string(tables[heap].device) + " " + utf8(tables[tables[heap].name]);
}

std::string frame_label(const Tables& tables, FrameId frame) {
  const FrameText text = frame_text(tables, frame);
  if (!text.function.empty()) return utf8(text.function);
  if (text.module_path.empty()) return "(unknown)";
  return utf8(text.module_path.substr(text.module_path.rfind('/') + 1)) + "+" +
         hexadecimal(tables[frame].module_offset);
}

}  // namespace memreel
