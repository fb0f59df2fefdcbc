// A library with the recorder's end of the annotations, for a process that has begun without it.
#include "collector/annotate/annotations.h"

extern "C" [[gnu::visibility("default")]] void late_recorder_introduce() { memreel::annotate::introduce(); }
