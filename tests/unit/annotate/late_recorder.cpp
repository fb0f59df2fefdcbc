// SPDX-License-Identifier: Apache-2.0
// A library with the recorder's side of the annotations, for a process that started without it.
#include "collector/annotate/annotations.h"

extern "C" [[gnu::visibility("default")]] void late_recorder_introduce() { memreel::annotate::introduce(); }
