#include "plugin/host/registrar.h"

#include <stdexcept>

#include "plugin/host/log.h"

namespace megascale::host {

void* Registrar::reg(void* connection, const void* data, size_t bytes,
                     std::vector<Operation::Registration>& undo) {
  std::lock_guard lock(mutex_);
  if (closed_) throw std::runtime_error("the communicator was aborted");
  if (Lasting* lasting = find(data, bytes)) {
    const auto [place, fresh] = lasting->regions.try_emplace(connection, nullptr);
    if (fresh) {
      const auto begin = reinterpret_cast<const void*>(
          std::prev(lasting_.upper_bound(reinterpret_cast<uintptr_t>(data)))->first);
      try {
        place->second = call_reg(connection, begin, lasting->bytes);
      } catch (...) {
        lasting->regions.erase(place);
        throw;
      }
    }
    return place->second;
  }
  void* region = call_reg(connection, data, bytes);
  undo.push_back({connection, region});
  return region;
}

void* Registrar::call_reg(void* connection, const void* data, size_t bytes) {
  void* region = nullptr;
  const abi::Result result = net_.reg(connection, const_cast<void*>(data), bytes, abi::kPtrHost, &region);
  if (result != abi::kSuccess) {
    std::string text = net_.name() + "'s regMr refused " + std::to_string(bytes) +
                       " bytes of host memory with " + describe(result);
    if (const std::string warning = take_last_warning(); !warning.empty()) text += ": " + warning;
    throw std::runtime_error(text);
  }
  live_.emplace(connection, region);
  return region;
}

void Registrar::undo(std::vector<Operation::Registration>& registrations) {
  std::lock_guard lock(mutex_);
  for (const auto& [connection, region] : registrations) {
    const auto found = live_.find({connection, region});
    if (found == live_.end()) continue;  // closed meanwhile
    live_.erase(found);
    net_.dereg(connection, region);
  }
  registrations.clear();
}

Registrar::Lasting* Registrar::find(const void* data, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  auto next = lasting_.upper_bound(address);
  if (next == lasting_.begin()) return nullptr;
  auto& [begin, lasting] = *std::prev(next);
  const bool inside = address - begin <= lasting.bytes && bytes <= lasting.bytes - (address - begin);
  return inside ? &lasting : nullptr;
}

void Registrar::keep(const void* data, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<uintptr_t>(data);
  const auto next = lasting_.lower_bound(address);
  const bool overlaps_next = next != lasting_.end() && next->first < address + bytes;
  const bool overlaps_last =
      next != lasting_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address;
  if (bytes == 0 || overlaps_next || overlaps_last) {
    throw std::invalid_argument("lasting memory must not be empty and must not overlap other lasting memory");
  }
  lasting_.emplace(address, Lasting{bytes, {}});
}

void Registrar::drop(const void* data) {
  std::lock_guard lock(mutex_);
  const auto found = lasting_.find(reinterpret_cast<uintptr_t>(data));
  if (found == lasting_.end()) throw std::invalid_argument("no lasting memory begins there");
  for (const auto& [connection, region] : found->second.regions) {
    const auto live = live_.find({connection, region});
    if (live == live_.end()) continue;
    live_.erase(live);
    net_.dereg(connection, region);
  }
  lasting_.erase(found);
}

void Registrar::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& [connection, region] : live_) net_.dereg(connection, region);
  live_.clear();
  lasting_.clear();
}

}  // namespace megascale::host
