#include "transport/session/handle.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "transport/session/handshake_wire.h"
#include "transport/session/random.h"

namespace megascale {
namespace {

constexpr int kProcessBits = 22;  // Linux' largest process id
constexpr uint64_t kProcessMask = (1ull << kProcessBits) - 1;
constexpr uint32_t kInUse = 0x4d53436e;  // marks the scratch as ours

struct Fixed {
  uint32_t magic, plugin_id;
  uint16_t version, port;
  uint8_t homes, count;
  uint16_t zero;
  uint64_t listener, nonce, incarnation;
};
static_assert(sizeof(Fixed) == 40);
constexpr std::size_t kRoom = Handle::kBytes - Handle::kScratch - sizeof(Fixed);

struct Scratch {
  uint32_t mark, zero;
  uint64_t attempt;
};
static_assert(sizeof(Scratch) == Handle::kScratch);

}  // namespace

void Handle::write(void* to) const {
  auto* out = static_cast<uint8_t*>(to);
  std::memset(out, 0, kBytes);
  Fixed f{kMagic, kPluginId, kProtocolVersion, port, homes, 0, 0, listener, nonce, incarnation};
  std::size_t at = sizeof f;
  for (const auto& a : addresses) {
    if (at + 1 + a.size() > sizeof f + kRoom) break;
    out[at++] = a.is_v4() ? 4 : 6;
    std::memcpy(out + at, a.bytes(), a.size());
    at += a.size();
    f.count++;
  }
  f.homes = std::min(homes, f.count);  // of long addresses only some fit
  std::memcpy(out, &f, sizeof f);
}

Result<Handle> Handle::read(const void* from) {
  auto* in = static_cast<const uint8_t*>(from);
  Fixed f;
  std::memcpy(&f, in, sizeof f);
  if (f.magic != kMagic || f.plugin_id != kPluginId)
    return Error{
        Code::invalid_usage,
        "the peer's handle was not made by Megascale: it uses another network; set the same NCCL_NET_PLUGIN "
        "(and NCCL_NET=Megascale to insist) on every host"};
  if (f.version != kProtocolVersion)
    return Error{Code::invalid_usage, "the peer speaks protocol version " + std::to_string(f.version) +
                                          ", we speak " + std::to_string(kProtocolVersion) +
                                          ": install the same Megascale on every host"};
  Handle h{f.port, f.listener, f.nonce, f.incarnation, f.homes, {}};
  std::size_t at = sizeof f, end = sizeof f + kRoom;
  for (int i = 0; i < f.count; i++) {
    if (at >= end) break;
    bool four = in[at] == 4;
    std::size_t n = four ? 4 : 16;
    if ((!four && in[at] != 6) || at + 1 + n > end) break;
    h.addresses.push_back(four ? tcp::Address::v4(in + at + 1, f.port)
                               : tcp::Address::v6(in + at + 1, f.port));
    at += 1 + n;
  }
  if (h.addresses.size() != f.count || h.addresses.empty() || h.homes == 0 || h.homes > f.count || !h.port)
    return Error{Code::invalid_argument, "the peer's handle is damaged"};
  return h;
}

uint64_t Handle::attempt(const void* handle) {
  Scratch s;
  std::memcpy(&s, static_cast<const uint8_t*>(handle) + kBytes - kScratch, sizeof s);
  return s.mark == kInUse ? s.attempt : 0;
}

void Handle::set_attempt(void* handle, uint64_t attempt) {
  Scratch s{kInUse, 0, attempt};
  std::memcpy(static_cast<uint8_t*>(handle) + kBytes - kScratch, &s, sizeof s);
}

Result<uint64_t> new_incarnation() {
  uint64_t r = 0;
  if (auto ok = random_bytes({reinterpret_cast<uint8_t*>(&r), sizeof r}); !ok) return ok.error();
  return (r & ~kProcessMask) | (static_cast<uint64_t>(getpid()) & kProcessMask);
}

int process_id_of(uint64_t incarnation) { return static_cast<int>(incarnation & kProcessMask); }

}  // namespace megascale
