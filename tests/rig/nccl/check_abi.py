#!/usr/bin/env python3
"""Compares fakecuda/kernel/abi.h with the debug information of a libnccl: sizes and offsets of all that is read of its work.

Usage: check_abi.py STAND_IN LIBNCCL. Exits 0 when all agree, 1 when some differ or the stand-in has no debug information, 77
(skipped) where gdb or libnccl's debug information is missing.
"""
import re
import shutil
import subprocess
import sys

# our struct: (NCCL's struct, {our member: NCCL's member})
STRUCTS = {
    "fifo": ("ncclConnFifo", {"mode": "mode", "offset": "offset", "size": "size"}),
    "conn": ("ncclConnInfo", {"buffs": "buffs", "tail": "tail", "head": "head", "flags": "flags", "stepSize": "stepSize",
                              "fifo": "connFifo", "step": "step"}),
    "peer": ("ncclDevChannelPeer", {"send": "send", "recv": "recv"}),
    "channel": ("ncclDevChannel", {"peers": "peers", "ring": "ring", "ring.index": "ring.index",
                                   "ring.userRanks": "ring.userRanks", "tree": "tree", "tree.down": "tree.down",
                                   "workCounter": "workCounter"}),
    "comm": ("ncclKernelComm", {"nRanks": "nRanks", "buffSizes": "buffSizes", "p2pChunkSize": "p2pChunkSize",
                                "abortFlag": "abortFlag", "workStarted": "workStarted", "workCompleted": "workCompleted"}),
    "args": ("ncclDevKernelArgs", {"channelMask": "channelMask", "storage": "workStorageType", "workMask": "workMask",
                                   "workBuf": "workBuf"}),
    "batch": ("ncclDevWorkBatch", {"offsetBase": "offsetBase", "offsetBitset": "offsetBitset"}),
    "p2p": ("ncclDevWorkP2p", {"sendAddr": "sendAddr", "recvBytes": "recvBytes", "sendRank": "sendRank",
                               "nP2pChannels": "nP2pChannels", "channelBase": "channelBase",
                               "nSendChannels": "nSendChannels", "sendChunk": "sendChunkSize_u32fp8",
                               "recvChunk": "recvChunkSize_u32fp8"}),
    "coll": ("ncclDevWorkColl", {"root": "root", "recvbuff": "recvbuff", "sendbuff": "sendbuff", "countLo": "cbd.countLo",
                                 "countHi": "cbd.countHi", "redOpArg": "redOpArg"}),
    "profiler": ("ncclDevProfiler", {}),
}


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(77)


def fail(reason):
    print(f"FAIL: {reason}")
    sys.exit(1)


def evaluate(binary, expressions, without):
    """The values of constant expressions by the binary's debug information; where it has none, `without` says so and exits."""
    commands = [argument for e in expressions for argument in ("-ex", f"p (long)({e})")]
    try:
        done = subprocess.run(["gdb", "-batch", "-nx", *commands, binary], capture_output=True, text=True, timeout=240)
    except subprocess.TimeoutExpired:
        skip(f"gdb did not read {binary} within 240 s")
    values = re.findall(r"^\$\d+ = (-?\d+)", done.stdout, re.MULTILINE)
    if len(values) != len(expressions):
        without(f"{binary} has no debug information for all of them: {done.stderr.strip().splitlines()[:1]}")
    return [int(v) for v in values]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if not shutil.which("gdb"):
        skip("gdb is not installed")
    labels, ours, theirs = ["offset of the channels"], ["CHANNELS_OFFSET"], [
        "&((struct ncclKernelCommAndChannels *)0)->channels"]
    for our, (their, members) in STRUCTS.items():
        labels.append(f"size of {their}")
        ours.append(f"sizeof(struct {our})")
        theirs.append(f"sizeof(struct {their})")
        for mine, theirs_name in members.items():
            labels.append(f"{their}.{theirs_name}")
            ours.append(f"&((struct {our} *)0)->{mine}")
            theirs.append(f"&((struct {their} *)0)->{theirs_name}")
    differ = [f for f in zip(labels, evaluate(sys.argv[1], ours, fail), evaluate(sys.argv[2], theirs, skip)) if f[1] != f[2]]
    for label, mine, real in differ:
        print(f"{label}: {mine} in abi.h, {real} in {sys.argv[2]}")
    print(f"{len(labels)} layout facts compared, {len(differ)} differ")
    sys.exit(1 if differ else 0)


main()
