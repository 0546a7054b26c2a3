// Plays sends and receives, those of one batch all at once: each may wait for any other.
#include <pthread.h>
#include <string.h>

#include "tests/rig/nccl/fakecuda/fakecuda.h"
#include "tests/rig/nccl/fakecuda/kernel/player.h"
#include "tests/rig/nccl/fakecuda/kernel/primitives.h"

struct transfer {
  pthread_t thread;
  struct comm* comm;
  struct channel* channel;
  int peer;
  bool send, ll;
  char* address;
  size_t bytes, chunk;
};

static size_t decode_chunk(uint8_t code) {  // a float of 8 bits: 5 of exponent, 3 of mantissa
  unsigned exponent = code >> 3, mantissa = code & 7;
  return exponent ? (size_t)(mantissa | 8) << (exponent - 1) : mantissa;
}

static void* play_transfer(void* arg) {
  struct transfer* t = arg;
  struct primitives p = {.comm = t->comm,
                         .protocol = t->ll ? PROTO_LL : PROTO_SIMPLE,
                         .type = UINT8,
                         .element = 1,
                         .slices = 1,
                         .steps_per_slice = 1,
                         .step_elements = (size_t)t->comm->p2pChunkSize};
  if (t->send) open_send(&p, t->channel->peers[t->peer], 1);
  else open_recv(&p, t->channel->peers[t->peer], 1);
  size_t at = 0;
  do {  // an empty message is a chunk, too
    size_t n = t->bytes - at < t->chunk ? t->bytes - at : t->chunk;
    if (t->send) move_chunk(&p, SEND, t->address + at, NULL, (ssize_t)n);
    else move_chunk(&p, RECV, NULL, t->address + at, (ssize_t)n);
    at += n;
  } while (at < t->bytes);
  close_primitives(&p);
  return NULL;
}

// The part of a message that goes through this channel; false where none does.
static bool part_of_channel(const struct p2p* w, int index, int parts, char** address, size_t* bytes) {
  int part = (index - w->channelBase) & (w->nP2pChannels - 1);
  if (part >= parts) return false;
  size_t each = ((*bytes + (size_t)parts - 1) / (size_t)parts + 4095) & ~(size_t)4095;
  size_t from = (size_t)part * each, to = from + each;
  if (from > *bytes) from = *bytes;
  if (to > *bytes) to = *bytes;
  *address += from;
  *bytes = to - from;
  return true;
}

void play_p2p(struct comm* comm, struct channel* channel, int index, const struct p2p* work, int count) {
  enum { MOST = 64 };
  struct transfer transfer[MOST];
  int n = 0;
  for (int i = 0; i < count; i++) {
    struct p2p w = work[i];
    if (w.sendNetReg || w.recvNetReg || w.sendIpcReg || w.recvIpcReg)
      FAKE_DIE("sends and receives of registered user buffers are not played");
    if (n + 2 > MOST) FAKE_DIE("more than %d sends and receives in one batch", MOST);
    bool sends = part_of_channel(&w, index, w.nSendChannels, &w.sendAddr, &w.sendBytes);
    bool receives = part_of_channel(&w, index, w.nRecvChannels, &w.recvAddr, &w.recvBytes);
    if (w.sendRank == comm->rank) {
      if (sends && w.sendAddr != w.recvAddr) memmove(w.recvAddr, w.sendAddr, w.sendBytes);
      continue;
    }
    if (sends)
      transfer[n++] = (struct transfer){.comm = comm,
                                        .channel = channel,
                                        .peer = w.sendRank,
                                        .send = true,
                                        .ll = w.sendLL,
                                        .address = w.sendAddr,
                                        .bytes = w.sendBytes,
                                        .chunk = decode_chunk(w.sendChunk)};
    if (receives)
      transfer[n++] = (struct transfer){.comm = comm,
                                        .channel = channel,
                                        .peer = w.recvRank,
                                        .ll = w.recvLL,
                                        .address = w.recvAddr,
                                        .bytes = w.recvBytes,
                                        .chunk = decode_chunk(w.recvChunk)};
  }
  for (int i = 0; i < n; i++)
    if (pthread_create(&transfer[i].thread, NULL, play_transfer, &transfer[i]))
      FAKE_DIE("no thread for a transfer: %m");
  for (int i = 0; i < n; i++) pthread_join(transfer[i].thread, NULL);
}
