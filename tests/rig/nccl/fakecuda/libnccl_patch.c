// Puts this library's functions in the place of the CUDA runtime that is linked into libnccl.
//
// libnccl carries the runtime as local functions, which no dynamic linker can interpose. So the .symtab of
// its file is read and the first bytes of each function named cudaXxx, in this process's private copy of the
// pages, become a jump: to our function of the same name or, where we have none, to a stub that says its name
// and returns an error.
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/rig/nccl/fakecuda/fakecuda.h"

static struct {
  uintptr_t base;
  char path[4096];
  const Elf64_Sym* symbols;
  size_t count;
  const char* names;
} nccl;

enum { JUMP_BYTES = 14, STUB_BYTES = 32, NOT_SUPPORTED = 801 };

int fake_verbosity(void) {
  static int level = -1;
  if (level < 0) {
    const char* text = getenv("FAKECUDA_VERBOSE");
    level = text ? atoi(text) : 1;
  }
  return level;
}

static int is_libnccl(struct dl_phdr_info* info, size_t size UNUSED, void* arg UNUSED) {
  if (!info->dlpi_name) return 0;
  const char* slash = strrchr(info->dlpi_name, '/');
  if (strncmp(slash ? slash + 1 : info->dlpi_name, "libnccl.so", 10) != 0) return 0;
  nccl.base = info->dlpi_addr;
  snprintf(nccl.path, sizeof nccl.path, "%s", info->dlpi_name);
  return 1;
}

static int read_symbol_table(void) {
  int fd = open(nccl.path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat st;
  const char* file = MAP_FAILED;
  if (!fstat(fd, &st)) file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (file == MAP_FAILED) return -1;
  const Elf64_Ehdr* header = (const void*)file;
  const Elf64_Shdr* section = (const void*)(file + header->e_shoff);
  for (int i = 0; i < header->e_shnum; i++) {
    if (section[i].sh_type != SHT_SYMTAB) continue;
    nccl.symbols = (const void*)(file + section[i].sh_offset);
    nccl.count = section[i].sh_size / sizeof(Elf64_Sym);
    nccl.names = file + section[section[i].sh_link].sh_offset;
    return 0;
  }
  return -1;
}

static const char* name_of(const Elf64_Sym* s) { return nccl.names + s->st_name; }

void* fake_symbol(const char* name, size_t* size) {
  for (size_t i = 0; i < nccl.count; i++) {
    const Elf64_Sym* s = &nccl.symbols[i];
    if (s->st_shndx == SHN_UNDEF || strcmp(name_of(s), name) != 0) continue;
    if (size) *size = s->st_size;
    return (void*)(nccl.base + s->st_value);
  }
  return NULL;
}

const char* fake_symbol_at(const void* addr) {
  uintptr_t value = (uintptr_t)addr - nccl.base;
  for (size_t i = 0; i < nccl.count; i++) {
    const Elf64_Sym* s = &nccl.symbols[i];
    if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_value == value) return name_of(s);
  }
  return NULL;
}

int fake_in_nccl(const void* addr) {
  Dl_info info;
  return dladdr(addr, &info) && (uintptr_t)info.dli_fbase == nccl.base;
}

static int not_supported(const char* name) {
  FAKE_LOG(1, "%s is not implemented", name);
  return NOT_SUPPORTED;
}

static void put_jump(uint8_t* at, const void* to) {  // jmp *[rip+0], then the address
  static const uint8_t code[6] = {0xff, 0x25, 0, 0, 0, 0};
  memcpy(at, code, sizeof code);
  memcpy(at + sizeof code, &to, sizeof to);
}

static void put_stub(uint8_t* at, const char* name) {  // mov rdi, name; mov rax, not_supported; jmp rax
  static const uint8_t mov_rdi[2] = {0x48, 0xbf}, mov_rax[2] = {0x48, 0xb8}, jmp_rax[2] = {0xff, 0xe0};
  const void* target = (const void*)not_supported;
  memcpy(at, mov_rdi, 2), memcpy(at + 2, &name, 8);
  memcpy(at + 10, mov_rax, 2), memcpy(at + 12, &target, 8);
  memcpy(at + 20, jmp_rax, 2);
}

static int is_cuda_function(const Elf64_Sym* s) {
  const char* name = name_of(s);
  return ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_shndx != SHN_UNDEF && !strncmp(name, "cuda", 4) &&
         isupper((unsigned char)name[4]) && !strchr(name, '.');
}

// Our function of that name; a real CUDA runtime that is also in the process does not count.
static void* our_function(void* self, const void* our_base, const char* name) {
  void* function = dlsym(self, name);
  Dl_info info;
  return function && dladdr(function, &info) && info.dli_fbase == our_base ? function : NULL;
}

static void check_version(void) {
  int version = 0;
  int (*get)(int*) = (int (*)(int*))fake_symbol("ncclGetVersion", NULL);
  if (get) get(&version);
  if (version / 100 != 228 && !getenv("FAKECUDA_ANY_VERSION"))
    FAKE_DIE(
        "%s is version %d; the layouts in kernel/abi.h are those of 2.28 (check_abi.py says what differs)",
        nccl.path, version);
}

// The pages that hold the functions, and how many they are.
static size_t span_of_functions(uintptr_t* from, uintptr_t* to) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  size_t n = 0;
  *from = UINTPTR_MAX, *to = 0;
  for (size_t i = 0; i < nccl.count; i++) {
    if (!is_cuda_function(&nccl.symbols[i])) continue;
    uintptr_t at = nccl.base + nccl.symbols[i].st_value;
    if (at < *from) *from = at;
    if (at + JUMP_BYTES > *to) *to = at + JUMP_BYTES;
    n++;
  }
  *from &= ~(page - 1), *to = (*to + page - 1) & ~(page - 1);
  return n;
}

static void replace_functions(void) {
  uintptr_t from, to;
  size_t n = span_of_functions(&from, &to);
  if (!n) FAKE_DIE("%s has no statically linked CUDA runtime to replace", nccl.path);
  if (mprotect((void*)from, to - from, PROT_READ | PROT_WRITE | PROT_EXEC))
    FAKE_DIE("mprotect of %s: %m", nccl.path);
  uint8_t* stub =
      mmap(NULL, n * STUB_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stub == MAP_FAILED) FAKE_DIE("mmap of %zu stubs: %m", n);

  Dl_info me;
  void* self = dladdr((void*)fake_attach, &me) ? dlopen(me.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
  if (!self) self = dlopen(NULL, RTLD_NOW);
  size_t ours = 0, stubbed = 0, left = 0;
  for (size_t i = 0; i < nccl.count; i++) {
    const Elf64_Sym* s = &nccl.symbols[i];
    if (!is_cuda_function(s)) continue;
    uint8_t* code = (uint8_t*)(nccl.base + s->st_value);
    void* function = our_function(self, me.dli_fbase, name_of(s));
    if (s->st_size < JUMP_BYTES) {
      left++;  // it is itself no more than a jump to a function that is patched
    } else if (function) {
      put_jump(code, function);
      ours++;
    } else {
      put_stub(stub, name_of(s));
      put_jump(code, stub);
      stub += STUB_BYTES;
      stubbed++;
    }
  }
  mprotect((void*)from, to - from, PROT_READ | PROT_EXEC);
  FAKE_LOG(2, "%s: %zu CUDA functions replaced, %zu stubbed out, %zu left", nccl.path, ours, stubbed, left);
}

int fake_attach(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static int done;
  pthread_mutex_lock(&lock);
  if (!done && dl_iterate_phdr(is_libnccl, NULL)) {
    if (read_symbol_table())
      FAKE_DIE("%s cannot be read or has no symbol table: use one that is not stripped", nccl.path);
    check_version();
    replace_functions();
    done = 1;
  }
  int result = done ? 0 : -1;
  pthread_mutex_unlock(&lock);
  return result;
}

__attribute__((constructor)) static void on_load(void) {
  // Paths of NCCL that need the driver's virtual memory management.
  setenv("NCCL_CUMEM_ENABLE", "0", 0);
  setenv("NCCL_CUMEM_HOST_ENABLE", "0", 0);
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  const char* library = getenv("FAKECUDA_NCCL");  // for programs that open libnccl later
  if (library && *library && !dlopen(library, RTLD_NOW)) FAKE_DIE("FAKECUDA_NCCL: %s", dlerror());
  fake_attach();
}
