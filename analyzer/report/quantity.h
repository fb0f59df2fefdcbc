// Moved: quantities are read and written by the collector, too.
#pragma once

#include "formats/model/quantity.h"  // IWYU pragma: export
