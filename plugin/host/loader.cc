#include "plugin/host/loader.h"

#include <dlfcn.h>
#include <strings.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>

#include "plugin/host/log.h"

namespace megascale::host {
namespace {

constexpr size_t kMaxEntries = 14;
constexpr size_t kMaxEntryLength = 254;
constexpr int kNewest = 12;
constexpr int kOldest = 8;

std::mutex open_mutex;
std::map<void*, std::weak_ptr<Net>> open_nets;  // by dlopen's handle, which is the same for the same library

std::shared_ptr<Net> take_newest(void* handle, const std::string& path) {
  std::shared_ptr<void> library(handle, [](void* h) { dlclose(h); });
  std::lock_guard lock(open_mutex);
  if (auto known = open_nets[handle].lock()) return known;
  for (int version = kNewest; version >= kOldest; --version) {
    const std::string symbol = "ncclNetPlugin_v" + std::to_string(version);
    if (const void* table = dlsym(handle, symbol.c_str())) {
      std::shared_ptr<Net> net = wrap_table(version, table, path, std::move(library));
      open_nets[handle] = net;
      return net;
    }
  }
  std::string old;
  for (int version = kOldest - 1; version >= 4 && old.empty(); --version) {
    const std::string symbol = "ncclNetPlugin_v" + std::to_string(version);
    if (dlsym(handle, symbol.c_str()) != nullptr) old = "; it has " + symbol + ", which is too old";
  }
  throw std::runtime_error(path + " exports none of ncclNetPlugin_v12 to _v8" + old +
                           ": it is no NCCL net plugin");
}

// The plugin's last words, when it had any.
std::string with_warning(const std::string& text) {
  const std::string warning = take_last_warning();
  return warning.empty() ? text : text + "; the plugin said: " + warning;
}

}  // namespace

std::vector<std::string> plugin_list(std::string_view specification) {
  std::vector<std::string> entries;
  if (specification.size() == 4 && strncasecmp(specification.data(), "none", 4) == 0) return entries;
  while (!specification.empty() && entries.size() < kMaxEntries) {
    const size_t comma = specification.find(',');
    const std::string_view entry = specification.substr(0, comma);
    if (!entry.empty()) entries.emplace_back(entry.substr(0, kMaxEntryLength));
    if (comma == std::string_view::npos) break;
    specification.remove_prefix(comma + 1);
  }
  return entries;
}

std::vector<std::string> library_names(std::string_view entry) {
  static constexpr std::string_view in_program = "STATIC_PLUGIN";
  if (entry.size() <= in_program.size() && strncasecmp(entry.data(), in_program.data(), entry.size()) == 0) {
    return {""};
  }
  std::vector<std::string> names{std::string(entry)};
  const bool path = entry.find('/') != std::string_view::npos;
  const bool library = entry.starts_with("lib") && entry.ends_with(".so");
  if (!path && !library) names.push_back("libnccl-net-" + std::string(entry) + ".so");
  return names;
}

std::string own_plugin() {
  namespace fs = std::filesystem;
  static constexpr const char* file = "libnccl-net-megascale.so";
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return "megascale";
  const fs::path home = program.parent_path();
  // An installation: bin/ beside lib/, or a multiarch folder in it. A build tree: plugin/ in a folder above.
  std::vector<fs::path> places{home / file, home.parent_path() / "lib" / file,
                               home.parent_path() / "lib" / "x86_64-linux-gnu" / file,
                               home.parent_path() / "lib" / "aarch64-linux-gnu" / file};
  fs::path above = home;
  for (int i = 0; i < 6 && above.has_relative_path(); ++i, above = above.parent_path()) {
    places.push_back(above / "plugin" / file);
  }
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place, error)) return place.string();
  }
  return "megascale";
}

std::shared_ptr<Net> open_net(const std::string& entry) {
  std::string tried;
  for (const std::string& name : library_names(entry)) {
    void* handle = dlopen(name.empty() ? nullptr : name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return take_newest(handle, name.empty() ? "this program" : name);
    const char* reason = dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(reason ? reason : "no reason given");
  }
  throw std::runtime_error("cannot open the network plugin `" + entry + "': " + tried +
                           ". Give its path, or put its folder into LD_LIBRARY_PATH");
}

NetContext::~NetContext() {
  if (net_) net_->finalize(context_);
}

abi::PropertiesV12 NetContext::properties(int device) const {
  abi::PropertiesV12 properties;
  const abi::Result result = net_->properties(device, &properties);
  if (result != abi::kSuccess) {
    throw std::runtime_error(with_warning(net_->name() + " (" + net_->path() +
                                          ") does not describe its device " + std::to_string(device) + ": " +
                                          describe(result)));
  }
  return properties;
}

std::unique_ptr<NetContext> attach(const std::string& specification, uint64_t communicator_id,
                                   const abi::CommConfig& config) {
  const std::vector<std::string> candidates = plugin_list(specification);
  if (candidates.empty()) {
    throw std::runtime_error(
        "`" + specification +
        "' names no network plugin, and nothing is built in here: give a path or a name as for "
        "NCCL_NET_PLUGIN");
  }
  const char* wanted = std::getenv("NCCL_NET");
  std::string reasons;
  auto give_up = [&](const std::string& reason) { reasons += (reasons.empty() ? "" : "; ") + reason; };
  static std::mutex one_at_a_time;  // NCCL calls init under a mutex of the process, and plugins rely on it
  const std::lock_guard lock(one_at_a_time);
  for (const std::string& candidate : candidates) {
    try {
      std::shared_ptr<Net> net = open_net(candidate);
      const std::string who = net->name() + " (" + net->path() + ", v" + std::to_string(net->version()) + ")";
      if (wanted != nullptr && *wanted != '\0' && strcasecmp(wanted, net->name().c_str()) != 0) {
        give_up(who + " is not the network that NCCL_NET=" + wanted + " asks for");
        continue;
      }
      void* context = nullptr;
      take_last_warning();
      const abi::Result started = net->init(&context, communicator_id, config);
      if (started != abi::kSuccess) {
        give_up(with_warning(who + " failed to initialise: " + describe(started)));
        continue;
      }
      std::unique_ptr<NetContext> result(new NetContext);
      result->net_ = std::move(net);
      result->context_ = context;
      const abi::Result counted = result->net_->devices(&result->devices_);
      if (counted == abi::kSuccess && result->devices_ > 0 && result->devices_ <= abi::kMaxDevices)
        return result;
      give_up(with_warning(
          who + (counted == abi::kSuccess
                     ? " reports " + std::to_string(result->devices_) + " devices (1 to 128 are usable)"
                     : " cannot count its devices: " + describe(counted))));
    } catch (const std::runtime_error& error) {
      give_up(error.what());
    }
  }
  throw std::runtime_error("no usable network plugin: " + reasons);
}

}  // namespace megascale::host
