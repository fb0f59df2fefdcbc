// What recorded processes hold, as OpenMetrics 1.0 has it, which Prometheus reads.
#pragma once

#include <span>
#include <string>

#include "collector/top/watch.h"

namespace memreel::top {

/// What the text is, for HTTP: https://prometheus.io/docs/specs/om/open_metrics_spec/
inline constexpr const char* openmetrics_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One family after the other, each with its type and help, and "# EOF". Devices have the names of NVIDIA's
/// dcgm-exporter, in MiB as it has them; all else begins with memreel_. docs/production.md lists them.
std::string openmetrics(std::span<const WatchedProcess> processes);

}  // namespace memreel::top
