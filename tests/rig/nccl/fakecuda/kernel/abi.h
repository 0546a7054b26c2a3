// What a kernel of NCCL 2.28 is given: layouts read from the debug information of libnccl 2.28.9 (gdb: ptype
// /o).
//
// Only the members the player needs are named. check_abi.py compares all of it with a libnccl's debug
// information.
#pragma once
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum { STEPS = 8, MAX_CHANNELS = 64, MAX_TREE_DOWN = 3 };
enum protocol { PROTO_LL, PROTO_LL128, PROTO_SIMPLE, PROTOCOLS };
enum reduction { SUM, PROD, MINMAX, PREMULSUM, SUMPOSTDIV, REDUCTIONS };
enum element {
  INT8,
  UINT8,
  INT32,
  UINT32,
  INT64,
  UINT64,
  FLOAT16,
  FLOAT32,
  FLOAT64,
  BFLOAT16,
  E4M3,
  E5M2,
  ELEMENTS
};

struct fifo {  // one slot on its way over the network; mode 1: `offset` says where it lies
  int32_t mode, offset;
  int64_t size;
  void* ptr;
};
enum { FIFO_OFFSET = 1 };
struct conn {
  char* buffs[PROTOCOLS];
  void* mhandles[PROTOCOLS];
  uint64_t *tail, *head;
  int32_t flags, shared, stepSize, pad;
  void** ptrExchange;
  uint64_t* redOpArgExchange;
  struct fifo* fifo;
  uint64_t step, llLastCleaning;
  uint64_t netDevice[4];
};
struct peer {
  struct conn send[2], recv[2];
};
struct channel {
  struct peer** peers;
  struct {
    int32_t prev, next;
    int32_t* userRanks;
    int32_t index, pad;
  } ring;
  struct {
    int32_t depth, up, down[MAX_TREE_DOWN];
  } tree;
  uint8_t other[344 - 52];
  uint32_t* workFifoDone;
  uint64_t workCounter, pad;
};
struct profiler {
  struct {
    uint64_t counter, timestamp;
  } data[64];
};
struct comm {
  int32_t rank, nRanks, node, nNodes, buffSizes[PROTOCOLS], p2pChunkSize, isAllNvlink, pad;
  int32_t* collNetDenseToUserRank;
  volatile uint32_t* abortFlag;
  struct channel* channels;
  int32_t* rankToLocalRank;
  struct profiler *workStarted, *workCompleted;
};
enum { CHANNELS_OFFSET = 96 };  // of the channel array behind `comm`, which is 16-byte aligned
enum storage { STORAGE_ARGS, STORAGE_FIFO, STORAGE_PERSISTENT };
struct args {
  struct comm* comm;
  uint64_t channelMask;
  uint8_t storage;
  uint32_t workMask;
  void* workBuf;
};
enum work_type { WORK_P2P, WORK_COLL, WORK_COLLREG };
struct batch {
  uint32_t nextJump : 14, nextExtends : 1, workType : 2, funcId : 15;
  uint32_t offsetBase;
  uint64_t offsetBitset;
};
struct p2p {
  char *sendAddr, *recvAddr;
  uint64_t sendBytes, recvBytes;
  int32_t sendRank, recvRank;
  uint8_t nP2pChannels, channelBase, nSendChannels, nRecvChannels, sendChunk, recvChunk;
  uint8_t sendLL : 1, recvLL : 1, sendNetReg : 1, recvNetReg : 1, sendIpcReg : 1, recvIpcReg : 1,
      profiler : 1;
};
struct coll {
  uint32_t channelLo : 8, channelHi : 8, nWarps : 8, argIsPtr : 1, regUsed : 1, netRegUsed : 1, oneNode : 1,
      direct : 2, isOneRPN : 1, profiler : 1;
  uint32_t root;
  char *recvbuff, *sendbuff;
  uint64_t sendOff, recvOff, *sendRmt, *recvRmt;
  uint64_t countLo, countMid, countHi;
  uint64_t grainsLo : 21, grainsMid : 21, grainsHi : 21;
  uint64_t redOpArg;
};
enum { COLLREG_BYTES = 288 };

#define SIZE_IS(type, bytes) static_assert(sizeof(struct type) == (bytes), "size of struct " #type)
SIZE_IS(fifo, 24);
SIZE_IS(conn, 152);
SIZE_IS(peer, 608);
SIZE_IS(channel, 368);
SIZE_IS(comm, 88);
SIZE_IS(args, 32);
SIZE_IS(batch, 16);
SIZE_IS(p2p, 48);
SIZE_IS(coll, 96);
