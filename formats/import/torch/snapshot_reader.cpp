// SPDX-License-Identifier: Apache-2.0
#include "formats/import/torch/snapshot_reader.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "formats/model/trace.h"
#include "formats/torch/alloc_conf.h"
#include "formats/torch/settings.h"

namespace memreel::torch {
namespace {

constexpr std::size_t max_length = 4096;
constexpr int max_depth = 3;

std::string number_text(double number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  std::string text(digits.data(), end);
  // Python always marks floating-point numbers.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// Containers may be shared, so the text's length bounds the work, not their number.
bool append_text(const ValueArena& arena, Value value, int depth, std::string& text) {
  switch (arena.kind(value)) {
    case ValueKind::none:
      text += "None";
      break;
    case ValueKind::boolean:
      text += arena.as_boolean(value).value_or(false) ? "True" : "False";
      break;
    case ValueKind::integer:
      if (const auto small = arena.as_signed(value))
        text += std::to_string(*small);
      else
        text += std::to_string(arena.as_unsigned(value).value_or(0));
      break;
    case ValueKind::huge_integer:
      return false;
    case ValueKind::number:
      text += number_text(arena.as_number(value).value_or(0));
      break;
    case ValueKind::text:
      text += arena.text(value);
      break;
    case ValueKind::list:
    case ValueKind::tuple:
    case ValueKind::dict: {
      if (depth == max_depth) return false;
      const bool keyed = arena.is(value, ValueKind::dict);
      const std::span<const Value> items = arena.items(value);
      text += '[';
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (i > 0) text += keyed && i % 2 != 0 ? ':' : ',';
        if (!append_text(arena, items[i], depth + 1, text)) return false;
      }
      text += ']';
      break;
    }
  }
  return text.size() <= max_length;
}

}  // namespace

std::optional<std::string> settings_text(const ValueArena& arena, Value value) {
  std::string text;
  if (!append_text(arena, value, 0, text)) return std::nullopt;
  return text;
}

namespace {

std::optional<Action> action_of(SnapshotKey word) {
  switch (word) {
    case SnapshotKey::alloc:
      return Action::alloc;
    case SnapshotKey::free_requested:
      return Action::free_requested;
    case SnapshotKey::free_completed:
      return Action::free_completed;
    case SnapshotKey::segment_alloc:
      return Action::segment_alloc;
    case SnapshotKey::segment_free:
      return Action::segment_free;
    case SnapshotKey::segment_map:
      return Action::segment_map;
    case SnapshotKey::segment_unmap:
      return Action::segment_unmap;
    case SnapshotKey::oom:
      return Action::oom;
    case SnapshotKey::user_defined:
    case SnapshotKey::annotate:
      return Action::mark;
    default:
      return std::nullopt;
  }
}

/// A release that some setting or rule is known to begin with, or an older one.
bool names_known_release(std::string_view text) {
  if (text == TorchRelease::before_rules) return true;
  const std::optional<TorchRelease> release = TorchRelease::parse(text);
  return release &&
         std::ranges::any_of(conf_keys(), [&](const ConfKey& key) { return key.releases.first >= release->minor; });
}

}  // namespace

Result<void> SnapshotReader::take(std::size_t device, Value list, std::span<const Value> entries) {
  values_.at({.list = streamed_key(), .device = device});
  if (device >= most_devices) {
    values_.fail("there are histories of more than " + std::to_string(most_devices) + " devices");
    return *values_.failure();
  }
  if (values_.arena().used(list) &&
      values_.became(list, ValueReader::Became::trace) != static_cast<std::uint32_t>(device)) {
    values_.fail("is the history of two devices");
    return *values_.failure();
  }
  if (!values_.become(list, ValueReader::Became::trace, static_cast<std::uint32_t>(device))) return *values_.failure();
  DeviceHistory& history = snapshot_.devices[static_cast<std::int32_t>(device)];
  latest_ = &history;
  for (const Value entry : entries) {
    values_.at_item(history.recorded++);
    if (!read_entry(history, entry)) return *values_.failure();
  }
  return {};
}

bool SnapshotReader::take_dict(std::span<const Value> items, bool same_keys) {
  if (!same_keys) look_up_keys(items);
  if (!read_entry(*latest_, items)) {
    values_.forget_failure();
    return false;
  }
  ++latest_->recorded;
  return true;
}

Result<Snapshot> SnapshotReader::finish(Value root) {
  if (!read_root(root)) return *values_.failure();
  std::ranges::sort(snapshot_.host.segments, {}, &Segment::address);
  for (auto& [ordinal, history] : snapshot_.devices) {
    std::ranges::sort(history.segments, {}, &Segment::address);
    std::stable_sort(history.ranges.begin(), history.ranges.end(),
                     [](const Annotation& a, const Annotation& b) { return a.time_us < b.time_us; });
  }
  add_release();
  snapshot_.cut_stacks = tables_.cut_stacks();
  return std::move(snapshot_);
}

void SnapshotReader::add_release() {
  std::string release = snapshot_.named_release.value_or(std::string(shown_release()));
  if (!release.empty()) snapshot_.settings.emplace_back(TorchRelease::recorded_key, std::move(release));
}

std::string_view SnapshotReader::shown_release() const {
  if (snapshot_.lists_allocations) return TorchRelease::before_rules;
  const auto any_history = [&](bool DeviceHistory::*shows) {
    return std::ranges::any_of(snapshot_.devices, [&](const auto& device) { return device.second.*shows; });
  };
  const auto has_setting = [&](std::string_view key) {
    return std::ranges::any_of(snapshot_.settings, [&](const auto& setting) { return setting.first == key; });
  };
  // A history without events reveals nothing about its release, and has none to judge.
  if (std::ranges::none_of(snapshot_.devices, [](const auto& device) { return device.second.entries.count() > 0; }))
    return "";
  if (any_history(&DeviceHistory::states_pools)) {
    if (snapshot_.has_host_traces) return "2.14 or newer";
    return has_setting("max_cached_size") ? "2.13" : "2.12";
  }
  // Without settings, which the oldest releases don't list themselves, no rule differs.
  if (snapshot_.has_annotations || snapshot_.settings.empty()) return "";
  if (has_setting("max_split_size")) return any_history(&DeviceHistory::has_exact_sizes) ? "2.3" : "2.3 or 2.4";
  return any_history(&DeviceHistory::states_times) ? "2.2" : "2.1";
}

bool SnapshotReader::read_root(Value root) {
  values_.at({});
  if (values_.arena().is(root, ValueKind::list)) return segments_.read(root);
  const auto items = values_.consume(root, ValueKind::dict, "the document");
  if (!items) return false;
  bool is_snapshot = false;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    bool good = true;
    switch (values_.word((*items)[i])) {
      case SnapshotKey::segments:
        is_snapshot = true;
        good = segments_.read((*items)[i + 1]);
        break;
      case SnapshotKey::device_traces:
        is_snapshot = true;
        good = read_traces((*items)[i + 1]);
        break;
      case SnapshotKey::allocator_settings:
        good = read_settings((*items)[i + 1]);
        break;
      case SnapshotKey::external_annotations:
        snapshot_.has_annotations = true;
        good = read_annotations((*items)[i + 1]);
        break;
      case SnapshotKey::host_segments:
        good = segments_.read((*items)[i + 1], "host_segments");
        break;
      case SnapshotKey::host_traces:
        snapshot_.has_host_traces = true;
        good = read_host_traces((*items)[i + 1]);
        break;
      case SnapshotKey::device_type:
        good = values_.read_device_type((*items)[i + 1], snapshot_.device_type);
        break;
      case SnapshotKey::pytorch_release:
        if (const Value named = (*items)[i + 1]; values_.arena().is(named, ValueKind::text))
          if (const std::string_view text = values_.arena().text(named); text.empty() || names_known_release(text))
            snapshot_.named_release = text.substr(0, 32);
        break;
      case SnapshotKey::memreel_holders:
        if (const Value table = (*items)[i + 1]; values_.arena().is(table, ValueKind::text))
          snapshot_.python_holders = parse_python_holders(values_.arena().text(table));
        break;
      default:
        break;
    }
    if (!good) return false;
    values_.at({});
  }
  return is_snapshot || values_.fail("is not a PyTorch memory snapshot: it has neither 'segments' nor 'device_traces'");
}

// ---- histories

bool SnapshotReader::read_traces(Value traces) {
  if (!values_.expect(traces, ValueKind::list, "device_traces")) return false;
  const auto lists = values_.arena().items(traces);
  for (std::size_t device = 0; device < lists.size(); ++device) {
    values_.at({.list = streamed_key(), .device = device});
    const Value list = lists[device];
    if (!values_.expect(list, ValueKind::list, "the history")) return false;
    if (values_.arena().used(list)) {
      if (values_.became(list, ValueReader::Became::trace) != static_cast<std::uint32_t>(device))
        return values_.fail("is a list that was used as something else");
      continue;
    }
    if (!values_.arena().items(list).empty() && !take(device, list, values_.arena().items(list))) return false;
  }
  return true;
}

bool SnapshotReader::read_host_traces(Value traces) {
  constexpr std::string_view list = "host_traces";
  const auto entries = values_.consume(traces, ValueKind::list, list);
  if (!entries) return false;
  return std::ranges::all_of(*entries, [&](Value entry) {
    values_.at({.list = list, .item = snapshot_.host.recorded++});
    return read_entry(snapshot_.host, entry);
  });
}

bool SnapshotReader::read_entry(DeviceHistory& history, Value dict) {
  const auto items = values_.consume(dict, ValueKind::dict, "the entry");
  if (!items) return false;
  look_up_keys(*items);
  return read_entry(history, *items);
}

void SnapshotReader::look_up_keys(std::span<const Value> items) {
  keys_.clear();
  for (std::size_t i = 0; i < items.size(); i += 2) keys_.push_back(values_.word(items[i]));
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): a case for each key
bool SnapshotReader::read_entry(DeviceHistory& history, std::span<const Value> items) {
  SnapshotKey action_word = SnapshotKey::other;
  Entry entry;
  PoolStream pool_stream;
  bool has_address = false;
  bool has_size = false;
  bool states_free = true;
  Value metadata, compiled;
  for (std::size_t i = 0; i < items.size(); i += 2) {
    const Value value = items[i + 1];
    bool good = true;
    switch (keys_[i / 2]) {
      case SnapshotKey::action:
        good = values_.expect(value, ValueKind::text, "action");
        if (good) action_word = values_.word(value);
        break;
      case SnapshotKey::addr:
      case SnapshotKey::device_free:  // an oom has it instead of an address
        good = values_.read_unsigned(value, "addr", entry.address);
        has_address = true;
        break;
      case SnapshotKey::memreel_free_unknown:
        states_free = false;
        break;
      case SnapshotKey::size:
        good = values_.read_unsigned(value, "size", entry.size);
        has_size = true;
        break;
      case SnapshotKey::stream:
        good = values_.read_unsigned(value, "stream", pool_stream.stream);
        break;
      case SnapshotKey::time_us:
        good = values_.read_time(value, entry.time_us);
        history.states_times = true;
        break;
      case SnapshotKey::frames:
        good = tables_.read_stack(value, entry.stack);
        break;
      case SnapshotKey::pool_id:
        good = values_.read_pool(value, pool_stream.pool);
        history.states_pools = true;
        break;
      case SnapshotKey::user_metadata:
        metadata = value;
        break;
      case SnapshotKey::compile_context:
        compiled = value;
        break;
      default:
        break;
    }
    if (!good) return false;
  }
  const std::optional<Action> action = action_of(action_word);
  if (!action) {
    if (action_word != SnapshotKey::snapshot) ++snapshot_.unknown_actions;
    return true;
  }
  if (*action != Action::mark && !has_size) return values_.fail("has no 'size'");
  if (torch::has_address(*action)) {
    if (!has_address) return values_.fail("has no 'addr'");
    if (entry.address > max_address.value) return values_.fail_address("addr");
    if (entry.size > max_allocation.count) return values_.fail_size("size");
  } else {
    entry.address = as_request(entry.address);
    if (*action == Action::oom && has_address && states_free) entry.address = free_when_failed_value({entry.address});
    entry.size = as_request(entry.size);
  }
  StringId said = tables_.name(metadata);
  // The compiled region is noted for allocations about which the program notes nothing itself.
  if (said == StringId::none && *action == Action::alloc) said = tables_.compiled_region(compiled);
  if (said != StringId::none && *action == Action::alloc)
    history.metadata.push_back({.entry = history.entries.count(), .address = std::nullopt, .text = said});
  if (said != StringId::none && action_word == SnapshotKey::annotate && has_address)
    history.metadata.push_back({.entry = history.entries.count(), .address = entry.address, .text = said});
  if (*action == Action::mark) {
    const MarkId id =
        action_word == SnapshotKey::annotate ? tables_.mark(said, SnapshotKey::other) : tables_.mark_of(entry.stack);
    entry.address = index(id);
  }
  if (*action == Action::alloc && entry.address % TorchSettings::min_block.count != 0) history.has_exact_sizes = true;
  PoolStreamId place_id{};
  if (!tables_.read_pool_stream(pool_stream, place_id)) return false;
  entry.set(*action, place_id);
  history.entries.push_back(entry);
  return true;
}

// ---- annotations and settings

bool SnapshotReader::read_annotations(Value annotations) {
  const auto list = values_.consume(annotations, ValueKind::list, "external_annotations");
  if (!list) return false;
  for (std::size_t i = 0; i < list->size(); ++i) {
    values_.at({.list = "external_annotations", .item = i});
    if (!read_annotation((*list)[i])) return false;
  }
  return true;
}

bool SnapshotReader::read_annotation(Value dict) {
  const auto items = values_.consume(dict, ValueKind::dict, "the annotation");
  if (!items) return false;
  Annotation annotation;
  std::int32_t device = 0;
  StringId range = StringId::none;
  SnapshotKey stage = SnapshotKey::other;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const Value value = (*items)[i + 1];
    bool good = true;
    switch (values_.word((*items)[i])) {
      case SnapshotKey::name:
        range = tables_.name(value);
        break;
      case SnapshotKey::stage:
        stage = values_.word(value);
        break;
      case SnapshotKey::device:
        good = values_.read_device(value, device);
        break;
      case SnapshotKey::time_us:
        good = values_.read_time(value, annotation.time_us);
        break;
      default:
        break;
    }
    if (!good) return false;
  }
  annotation.mark = tables_.mark(range, stage);
  snapshot_.devices[device].ranges.push_back(annotation);
  return true;
}

bool SnapshotReader::read_settings(Value settings) {
  values_.at({});
  const auto items = values_.consume(settings, ValueKind::dict, "allocator_settings");
  if (!items) return false;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    if (!values_.expect((*items)[i], ValueKind::text, "a key of allocator_settings")) return false;
    std::string key(values_.arena().text((*items)[i]));
    std::optional<std::string> value = settings_text(values_.arena(), (*items)[i + 1]);
    if (!value) return values_.fail("allocator_settings: the value of '" + key + "' is not a setting");
    snapshot_.settings.emplace_back(std::move(key), std::move(*value));
    if (!read_setting(values_.word((*items)[i]), (*items)[i + 1])) return false;
  }
  return true;
}

bool SnapshotReader::read_setting(SnapshotKey key, Value value) {
  if (key == SnapshotKey::trace_alloc_max_entries)
    return values_.read_unsigned(value, "trace_alloc_max_entries", snapshot_.ring_capacity);
  // One flag, or one for each device.
  if (key == SnapshotKey::trace_alloc_overflowed)
    snapshot_.ring_overflowed = snapshot_.settings.back().second.find("True") != std::string::npos;
  return true;
}

}  // namespace memreel::torch
