// What recorded processes hold, in OpenMetrics 1.0 format, which Prometheus reads.
#pragma once

#include <span>
#include <string>

#include "collector/top/watch.h"

namespace memreel::top {

/// The HTTP content type: https://prometheus.io/docs/specs/om/open_metrics_spec/
inline constexpr const char* openmetrics_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One family after the other, each with its type and help, then "# EOF". Device metrics have the names of NVIDIA's
/// dcgm-exporter and, like there, are in MiB; all others begin with memreel_. docs/production.md lists them.
std::string openmetrics(std::span<const WatchedProcess> processes);

}  // namespace memreel::top
