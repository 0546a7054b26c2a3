// A small network plugin (NCCL's net interface, version TOY_VERSION, 8 to 12): one TCP connection over
// 127.0.0.1 for each comm. It is written against the published layouts and not against ours, and it is
// strict: whoever calls it against NCCL's habits gets an error.
//
// TOY_NULL=n      every n-th isend or irecv (at random) returns NULL, "not now"
// TOY_FAIL_AFTER  so many isends later every call fails
// TOY_FLIP=n      a bit of every n-th message with 16 bytes or more is wrong
// TOY_REFUSE=init|devices|listen|reg   that call fails
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

enum { OK = 0, SYSTEM = 2, INTERNAL = 3, REMOTE = 6, HOST_MEMORY = 1, WINDOW = 8 };

typedef void (*Log)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
#if TOY_VERSION >= 9
typedef size_t Size;
#else
typedef int Size;
#endif
#if TOY_VERSION >= 12
enum { MEMBERS = 8 };
#else
enum { MEMBERS = 4 };
#endif
typedef struct {
  char *name, *pci_path;
  uint64_t guid;
  int ptr_support, reg_is_global;
#if TOY_VERSION >= 9
  int force_flush;
#endif
  int speed, port;
  float latency;
  int max_comms, max_recvs, device_type, device_version;
#if TOY_VERSION >= 9
  int members, member[MEMBERS];
  size_t max_p2p, max_coll;
#endif
#if TOY_VERSION >= 11
  int max_multi;
#endif
#if TOY_VERSION >= 12
  int16_t rail, plane;
#endif
} Properties;

// What a test may look at.
__attribute__((visibility("default"))) struct toy_counters {
  int contexts, inits, comms, listeners, regions, nulls;
} PASTE(toy_counters_v, TOY_VERSION);
#define TOY_COUNTERS PASTE(toy_counters_v, TOY_VERSION)
static struct {
  Log log;
  int fail_after, one_in, flip;
} toy = {.fail_after = -1};
static __thread unsigned dice;
// Communicators of several threads may come and go.
#define GET(what) __atomic_load_n(&toy.what, __ATOMIC_RELAXED)
#define SET(what, value) __atomic_store_n(&toy.what, (value), __ATOMIC_RELAXED)
#define COUNT(what, n) __atomic_add_fetch(&TOY_COUNTERS.what, (n), __ATOMIC_RELAXED)

struct comm;
struct request {
  struct comm* comm;
  int sending, done;
  char* data;
  uint32_t header;
  size_t capacity, header_moved, moved;
};
struct comm {
  int fd, sends, received;
  struct request requests[WINDOW];
  unsigned oldest, untested, next;  // oldest that is not done, oldest not reported, next free
};

static int number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text ? atoi(text) : otherwise;
}
static int refused(const char* call) {
  const char* text = getenv("TOY_REFUSE");
  if (!text || strcmp(text, call)) return 0;
  if (GET(log)) GET(log)(2, ~0UL, __FILE__, __LINE__, "toy: told to refuse %s", call);
  return 1;
}
static int complain(const char* what) {
  if (GET(log)) GET(log)(2, ~0UL, __FILE__, __LINE__, "toy: %s", what);
  return INTERNAL;
}

static int set_up(Log log) {
  SET(log, log);
  SET(fail_after, number("TOY_FAIL_AFTER", -1));
  SET(one_in, number("TOY_NULL", 0));
  SET(flip, number("TOY_FLIP", 0));
  if (refused("init")) return SYSTEM;
  COUNT(inits, 1);
  return OK;
}
#if TOY_VERSION >= 11
static int init(void** context, uint64_t id, const int* config, Log log, void* profiler) {
  (void)id, (void)config, (void)profiler;
  const int result = set_up(log);
  *context = result == OK ? malloc(1) : NULL;
  if (*context) COUNT(contexts, 1);
  return result;
}
static int finalize(void* context) {
  if (context) COUNT(contexts, -1);
  free(context);
  return OK;
}
#elif TOY_VERSION == 10
static int init(Log log, void* profiler) {
  (void)profiler;
  return set_up(log);
}
#else
static int init(Log log) { return set_up(log); }
#endif

static int devices(int* count) {
  *count = refused("devices") ? 0 : 2;
  return OK;
}
static int get_properties(int device, Properties* p) {
  static char* names[] = {"toy0", "toy1"};
  if (device < 0 || device > 1) return INTERNAL;
  memset(p, 0, sizeof *p);
  p->name = names[device];
  p->guid = 100 + (unsigned)device;
  p->ptr_support = HOST_MEMORY;
  p->speed = 10000;
  p->port = 1;
  p->max_comms = 65536;
  p->max_recvs = 1;
#if TOY_VERSION >= 9
  p->members = 1;
  p->member[0] = device;
  p->max_p2p = p->max_coll = 1UL << 40;
#endif
#if TOY_VERSION >= 11
  p->max_multi = 1;
#endif
#if TOY_VERSION >= 12
  p->rail = (int16_t)(device + 5);
  p->plane = -1;
#endif
  return OK;
}

static int toy_listen(int device, void* handle, void** listener) {
  (void)device;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  if (refused("listen")) return SYSTEM;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (bind(fd, (void*)&address, length) || listen(fd, 64) || getsockname(fd, (void*)&address, &length)) {
    return SYSTEM;
  }
  memset(handle, 0, 128);
  memcpy(handle, &address, sizeof address);
  *listener = (void*)(intptr_t)(fd + 1);
  COUNT(listeners, 1);
  return OK;
}
static void* new_comm(int fd) {
  struct comm* comm = calloc(1, sizeof *comm);
  const int one = 1;
  fcntl(fd, F_SETFL, O_NONBLOCK);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  comm->fd = fd;
  COUNT(comms, 1);
  return comm;
}
static int toy_connect(void* handle, void** comm) {
  *comm = NULL;
  char* calls = (char*)handle + 127;  // the handle is the caller's state: the first calls say "later"
  if (++*calls < 3) return OK;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, handle, sizeof(struct sockaddr_in))) {
    close(fd);
    return REMOTE;
  }
  *comm = new_comm(fd);
  return OK;
}
#if TOY_VERSION >= 11
static int listen_on(void* context, int device, void* handle, void** listener) {
  return context ? toy_listen(device, handle, listener) : complain("listen without a context");
}
static int connect_to(void* context, int device, void* handle, void** comm, void** device_comm) {
  (void)device, (void)device_comm;
  return context ? toy_connect(handle, comm) : complain("connect without a context");
}
#else
static int listen_on(int device, void* handle, void** listener) {
  return toy_listen(device, handle, listener);
}
#if TOY_VERSION == 10
static int connect_to(int device, const int* config, void* handle, void** comm, void** device_comm) {
  (void)device, (void)device_comm;
  return config && *config == -1 ? toy_connect(handle, comm) : complain("connect without a configuration");
}
#else
static int connect_to(int device, void* handle, void** comm, void** device_comm) {
  (void)device, (void)device_comm;
  return toy_connect(handle, comm);
}
#endif
#endif
static int accept_from(void* listener, void** comm, void** device_comm) {
  (void)device_comm;
  const int fd = accept4((int)(intptr_t)listener - 1, NULL, NULL, SOCK_CLOEXEC);
  *comm = fd < 0 ? NULL : new_comm(fd);
  return OK;
}

static int reg(void* comm, void* data, size_t size, int type, void** region) {
  (void)data;
  if (refused("reg")) return SYSTEM;
  if (!comm || type != HOST_MEMORY || size == 0) return complain("an odd registration");
  *region = malloc(1);
  COUNT(regions, 1);
  return OK;
}
static int dereg(void* comm, void* region) {
  (void)comm;
  if (region) COUNT(regions, -1);
  free(region);
  return OK;
}

static struct request* push(struct comm* comm, int* failed) {
  *failed = 0;
  if (comm->next - comm->untested == WINDOW) {
    *failed = complain("more than 8 operations in flight");
    return NULL;
  }
  if (!dice) dice = (unsigned)(uintptr_t)&dice | 1;
  if (GET(one_in) > 0 && rand_r(&dice) % GET(one_in) == 0) {
    COUNT(nulls, 1);
    return NULL;
  }
  struct request* request = &comm->requests[comm->next++ % WINDOW];
  memset(request, 0, sizeof *request);
  request->comm = comm;
  return request;
}
static int do_isend(struct comm* comm, void* data, size_t size, void* region, void** out) {
  int failed;
  if (GET(fail_after) >= 0 && comm->sends >= GET(fail_after)) return SYSTEM;
  if (!region) return complain("isend of memory that is not registered");
  struct request* request = push(comm, &failed);
  *out = request;
  if (!request) return failed;
  request->sending = 1;
  request->data = data;
  request->capacity = size;
  request->header = (uint32_t)size;
  ++comm->sends;
  return OK;
}
static int do_irecv(struct comm* comm, int n, void* data, size_t size, void* region, void** out) {
  int failed;
  if (n != 1) return complain("more than one receive at once");
  if (!region) return complain("irecv into memory that is not registered");
  if (*out != NULL && *out != (void*)1) return complain("irecv with a stale request");
  struct request* request = push(comm, &failed);
  *out = request;
  if (!request) return failed;
  request->data = data;
  request->capacity = size;
  return OK;
}
#if TOY_VERSION >= 10
static int isend(void* c, void* data, Size size, int tag, void* region, void* parent, void** out) {
  (void)tag, (void)parent;
  return do_isend(c, data, size, region, out);
}
static int irecv(void* c, int n, void** data, Size* sizes, int* tags, void** regions, void** parents,
                 void** out) {
  (void)tags;
  if (!parents) return complain("no array of parents");
  return do_irecv(c, n, data[0], sizes[0], regions[0], out);
}
#else
static int isend(void* c, void* data, Size size, int tag, void* region, void** out) {
  (void)tag;
  return do_isend(c, data, (size_t)size, region, out);
}
static int irecv(void* c, int n, void** data, Size* sizes, int* tags, void** regions, void** out) {
  (void)tags;
  return do_irecv(c, n, data[0], (size_t)sizes[0], regions[0], out);
}
#endif
static int iflush(void* comm, int n, void** data, int* sizes, void** regions, void** out) {
  (void)comm, (void)n, (void)data, (void)sizes, (void)regions;
  *out = NULL;
  return OK;
}

// Moves `size` bytes on from `*at`: 1 all there, 0 not yet, -1 the connection is broken.
static int move(struct request* request, char* bytes, size_t size, size_t* at) {
  while (*at < size) {
    const int fd = request->comm->fd;
    const ssize_t n = request->sending ? send(fd, bytes + *at, size - *at, MSG_NOSIGNAL)
                                       : recv(fd, bytes + *at, size - *at, 0);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) return -1;
    *at += (size_t)n;
  }
  return 1;
}
static int step(struct request* request) {
  const int header = move(request, (char*)&request->header, sizeof request->header, &request->header_moved);
  if (header <= 0) return header;
  if (request->header > request->capacity) return -1;
  return move(request, request->data, request->header, &request->moved);
}
static int test(void* opaque, int* done, int* size) {
  struct request* request = opaque;
  struct comm* comm = request->comm;
  if (request != &comm->requests[comm->untested % WINDOW])
    return complain("test of a request that is not the oldest");
  while (comm->oldest != comm->next) {
    struct request* first = &comm->requests[comm->oldest % WINDOW];
    const int result = step(first);
    if (result < 0) return REMOTE;
    if (result == 0) break;
    if (!first->sending && GET(flip) > 0 && first->header >= 16 && ++comm->received % GET(flip) == 0)
      first->data[9] ^= 4;
    first->done = 1;
    ++comm->oldest;
  }
  *done = request->done;
  if (*done && size) *size = (int)request->header;
  if (*done) ++comm->untested;
  return OK;
}

static int close_comm(void* comm) {
  if (!comm) return OK;
  close(((struct comm*)comm)->fd);
  free(comm);
  COUNT(comms, -1);
  return OK;
}
static int close_listener(void* listener) {
  close((int)(intptr_t)listener - 1);
  COUNT(listeners, -1);
  return OK;
}

struct table {
  const char* name;
  void* functions[18];
#if TOY_VERSION >= 9
  void* make_virtual_device;
#endif
#if TOY_VERSION >= 11
  void *finalize, *set_attributes;
#endif
};
__attribute__((visibility("default"))) struct table PASTE(ncclNetPlugin_v, TOY_VERSION) = {
    "Toy" TEXT(TOY_VERSION),
    {init, devices, get_properties, listen_on, connect_to, accept_from, reg, NULL, dereg, isend, irecv,
     iflush, test, close_comm, close_comm, close_listener, NULL, NULL},
#if TOY_VERSION >= 9
    NULL,
#endif
#if TOY_VERSION >= 11
    finalize,
    NULL,
#endif
};
