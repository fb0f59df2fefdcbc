#include "collector/record/recording_options.h"

#include <string>

namespace memreel::record {

void add_recording_options(CLI::App& app, agent::Options& options) {
  app.add_option("--backend", "Where calls are seen: auto, cupti or interpose [auto]")
      ->check(CLI::IsMember({"auto", "cupti", "interpose"}))
      ->each([&options](const std::string& text) {
        options.backend = text == "auto"    ? agent::BackendChoice::automatic
                          : text == "cupti" ? agent::BackendChoice::cupti
                                            : agent::BackendChoice::interpose;
      });
  app.add_option("--depth", options.depth, "Most native frames of a stack; 0: no stacks [64]")
      ->check(CLI::Range(0, 1024));
  app.add_option("--ring-events", options.ring_events, "Events that wait in memory, per thread [65536]")
      ->check(CLI::Range(64, 1 << 24));
  app.add_option("--when-full", "When they are full: drop (count the event as lost) or block (wait) [drop]")
      ->check(CLI::IsMember({"drop", "block"}))
      ->each([&options](const std::string& text) {
        options.when_full = text == "drop" ? agent::WhenFull::drop : agent::WhenFull::block;
      });
  app.add_option("--sample-ms", "Milliseconds between samples of the device's memory; 0: none [100]")
      ->check(CLI::Range(0, 3'600'000))
      ->each(
          [&options](const std::string& text) { options.sample_period = std::chrono::milliseconds(std::stoll(text)); });
  app.add_flag_callback(
      "--no-torch", [&options] { options.torch = false; }, "Leave out PyTorch's tensors");
  app.add_flag_callback(
      "--no-python", [&options] { options.python = false; }, "Leave out Python's frames");
  app.add_option("--libcupti", options.libcupti, "The libcupti to load [the one that belongs to the program's CUDA]");
}

}  // namespace memreel::record
