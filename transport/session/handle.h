// The 128 bytes that a listener hands to whoever is to connect (NCCL carries them): where to find it and
// which connection is meant. Nothing in it is secret. Little-endian:
//
//   u32 magic "MSH1", u32 plugin id, u16 protocol version, u16 port, u64 listener, u64 nonce, u64
//   incarnation, u8 homes (of the addresses that follow, how many are home rails), u8 addresses, then each:
//   u8 4 or 6, 4 or 16 bytes. The last 16 bytes are the connecting side's to scribble in between its calls.
#pragma once
#include <optional>
#include <vector>

#include "transport/base/result.h"
#include "transport/tcp/address.h"

namespace megascale {

struct Handle {
  static constexpr std::size_t kBytes = 128, kScratch = 16;
  static constexpr uint32_t kMagic = 0x3148534d;

  uint16_t port = 0;
  uint64_t listener = 0, nonce = 0, incarnation = 0;
  uint8_t homes = 1;
  std::vector<tcp::Address> addresses;  // as many as fit

  void write(void* to) const;  // kBytes
  static Result<Handle> read(const void* from);
  // The connecting side's own state: which attempt this handle is in the middle of; 0 at first.
  static uint64_t attempt(const void* handle);
  static void set_attempt(void* handle, uint64_t);
};

// The name of a process in an incarnation number: the low bits are its id, the others are random, so that a
// process that took another's place is told from it, and a person can be told which process is meant.
Result<uint64_t> new_incarnation();
int process_id_of(uint64_t incarnation);

}  // namespace megascale
