#!/usr/bin/env python3
"""Finds what the NCCL rig is built from: cuda.h, cuda_runtime_api.h, nccl.h and an unstripped libnccl.so.2 of version 2.28.

Usage: find_nccl.py [DIR], where DIR (its include/ and lib*/) is searched instead of the usual places.
Prints lines of a name, a tab and a value:
  cuda, include    the folders of cuda.h and of nccl.h
  library, cudart  libnccl.so.2 and libcudart.so
  absent           why no program of NCCL can be built; empty when one can
  missing          why there can be no rig; empty when there can
"""
import glob
import os
import re
import struct
import sys


def usual_places():
    places = ["/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True), "/opt/cuda", "/usr/local", "/usr"]
    for site in [p for p in sys.path if p.endswith("-packages")]:  # where pip installs NVIDIA's wheels
        places += sorted(glob.glob(os.path.join(site, "nvidia", "*")))
    return places


def first_file(places, folders, name):
    for place in places:
        for folder in folders:
            path = os.path.join(place, folder, name)
            if os.path.isfile(path):
                return os.path.realpath(path) if name.startswith("lib") else path
    return ""


def has_symbol_table(path):
    """True when the ELF file has a .symtab (type 2) section."""
    with open(path, "rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:5] != b"\x7fELF\x02":
            return False
        offset, = struct.unpack_from("<Q", header, 40)
        entry_size, count = struct.unpack_from("<HH", header, 58)
        for i in range(count):
            file.seek(offset + i * entry_size + 4)
            entry = file.read(4)
            if len(entry) == 4 and struct.unpack("<I", entry)[0] == 2:
                return True
    return False


def version_of(header):
    with open(header, encoding="utf-8", errors="replace") as file:
        text = file.read()
    numbers = [re.search(rf"define\s+NCCL_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return tuple(int(n.group(1)) for n in numbers) if all(numbers) else (0, 0, 0)


def main():
    places = [sys.argv[1]] if len(sys.argv) > 1 and sys.argv[1] else usual_places()
    libraries = ["lib", "lib64", "lib/x86_64-linux-gnu", "targets/x86_64-linux/lib", "."]
    headers = ["include", "targets/x86_64-linux/include"]
    cuda, runtime, nccl = (first_file(places, headers, n) for n in ("cuda.h", "cuda_runtime_api.h", "nccl.h"))
    library = first_file(places, libraries, "libnccl.so.2")
    cudart = first_file(places, libraries, "libcudart.so") or first_file(places, libraries, "libcudart.so.13")
    absent = [n for n, p in (("cuda.h", cuda), ("cuda_runtime_api.h", runtime), ("nccl.h", nccl),
                             ("libnccl.so.2", library)) if not p]
    absent = f"{', '.join(absent)} not found (-Dnccl_dir=DIR says where they are)" if absent else ""
    missing = absent
    if absent:
        pass
    elif version_of(nccl)[:2] != (2, 28):
        missing = f"{nccl} is of version {'.'.join(map(str, version_of(nccl)))}, and the rig plays the kernels of 2.28"
    elif not has_symbol_table(library):
        missing = f"{library} is stripped: its CUDA functions cannot be found"
    elif os.uname().machine != "x86_64":
        missing = f"the rig patches x86-64 code, and this is {os.uname().machine}"
    print(f"cuda\t{os.path.dirname(runtime)}")
    print(f"include\t{os.path.dirname(nccl)}")
    print(f"library\t{library}")
    print(f"cudart\t{cudart}")
    print(f"absent\t{absent}")
    print(f"missing\t{missing}")


main()
