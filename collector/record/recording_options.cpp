#include "collector/record/recording_options.h"

#include <string>

namespace memreel::record {

void add_recording_options(CLI::App& app, agent::Options& options) {
  app.add_option("--backend", "How to observe driver calls: auto, cupti or interpose [auto]")
      ->check(CLI::IsMember({"auto", "cupti", "interpose"}))
      ->each([&options](const std::string& text) {
        options.backend = text == "auto"    ? agent::BackendChoice::automatic
                          : text == "cupti" ? agent::BackendChoice::cupti
                                            : agent::BackendChoice::interpose;
      });
  app.add_option("--depth", options.depth, "Maximum native frames per stack; 0 records no stacks [64]")
      ->check(CLI::Range(0, 1024));
  app.add_option("--ring-events", options.ring_events, "Events buffered in memory per thread [65536]")
      ->check(CLI::Range(64, 1 << 24));
  app.add_option("--when-full", "When the buffer is full: drop (count the event as lost) or block (wait) [drop]")
      ->check(CLI::IsMember({"drop", "block"}))
      ->each([&options](const std::string& text) {
        options.when_full = text == "drop" ? agent::WhenFull::drop : agent::WhenFull::block;
      });
  app.add_option("--sample-ms", "Milliseconds between samples of device memory; 0 disables sampling [100]")
      ->check(CLI::Range(0, 3'600'000))
      ->each(
          [&options](const std::string& text) { options.sample_period = std::chrono::milliseconds(std::stoll(text)); });
  app.add_option("--mode", "Permissions of the trace in octal; 640 lets your group read it [600]")
      ->check([](const std::string& text) {
        return agent::parse_mode(text) ? std::string() : "--mode: not octal digits from 600 to 777: " + text;
      })
      ->each([&options](const std::string& text) { options.mode = agent::parse_mode(text).value_or(options.mode); });
  app.add_option_function<std::string>(
         "--flight", [&options](const std::string& text) { options.flight = *agent::parse_flight(text); },
         "Flight recorder: keep only the latest events, by size (256MiB), time (10min) or both (256MiB,10min); older "
         "ones are summed up")
      ->check([](const std::string& text) {
        const auto parsed = agent::parse_flight(text);
        return parsed ? std::string() : parsed.error().message();
      });
  app.add_option_function<std::string>(
         "--when", [&options](const std::string& text) { static_cast<void>(agent::parse_when(text, options.dumps)); },
         "With --flight: also write a dump when a device is this full (95%) or its used memory grows this fast "
         "(+2GiB/min)")
      ->check([](const std::string& text) {
        agent::DumpOptions dumps;
        const auto parsed = agent::parse_when(text, dumps);
        return parsed ? std::string() : parsed.error().message();
      });
  app.add_option_function<std::string>(
         "--dump-signal",
         [&options](const std::string& text) { options.dumps.signal = *agent::parse_dump_signal(text); },
         "With --flight: signal that triggers a dump: USR1, USR2, a real-time signal's number, or none [USR2]")
      ->check([](const std::string& text) {
        return agent::parse_dump_signal(text) ? std::string()
                                              : "--dump-signal: not USR1, USR2, a real-time signal or none: " + text;
      });
  app.add_option("--dumps", options.dumps.kept, "Number of dumps to keep; a new one replaces the oldest [8]")
      ->check(CLI::Range(1, 1000));
  app.add_flag_callback(
      "--show-secrets", [&options] { options.mask = false; },
      "Keep arguments that look like secrets (--token X, PASSWORD=X) in the trace");
  app.add_flag_callback(
      "--no-torch", [&options] { options.torch = false; }, "Do not record PyTorch's tensors");
  app.add_flag_callback(
      "--no-python", [&options] { options.python = false; }, "Do not record Python frames");
}

}  // namespace memreel::record
