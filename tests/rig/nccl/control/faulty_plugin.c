// A small network plugin (NCCL's interface v8, one TCP connection a communicator over 127.0.0.1) that fails
// when told to.
//
// The control of the rig: with it one sees that the checks notice a flipped bit, a receive reported too early
// and an error, and that pointers to "device" memory and flushes reach a plugin. FAULTY_BUG=flip|early,
// FAULTY_FAIL_AFTER=SENDS, FAULTY_GDR=1. When it is unloaded it prints how often it was called.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))
typedef void (*logger)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
struct properties {
  char *name, *pci_path;
  uint64_t guid;
  int pointers, global_registration, speed, port;
  float latency;
  int max_comms, max_receives, device_type, device_version;
};
enum { SUCCESS = 0, SYSTEM_ERROR = 2, REMOTE_ERROR = 6, HOST_POINTERS = 1, CUDA_POINTERS = 2 };
enum { MOST_REQUESTS = 64 };

static struct {
  bool flip, early, gdr;
  long fail_after;
} faults = {.fail_after = -1};
static struct { long sends, receives, flushes, tests, registered[4]; } calls;

struct connection;
struct request {
  struct connection* connection;
  bool done, send;
  char* data;
  uint32_t announced;            // the length that travels before the data
  size_t capacity, moved, head;  // head: bytes of `announced` that have moved
};
struct connection {  // its requests complete in order
  int fd;
  size_t skip;  // bytes of a message that was said to be complete, still to come
  struct request request[MOST_REQUESTS];
  unsigned first, next;
};

static int init(logger log UNUSED) {
  const char *bug = getenv("FAULTY_BUG"), *after = getenv("FAULTY_FAIL_AFTER"), *gdr = getenv("FAULTY_GDR");
  faults.flip = bug && !strcmp(bug, "flip");
  faults.early = bug && !strcmp(bug, "early");
  faults.gdr = gdr && atoi(gdr);
  if (after) faults.fail_after = atol(after);
  return SUCCESS;
}

static int devices(int* n) {
  *n = 1;
  return SUCCESS;
}

static int get_properties(int device UNUSED, struct properties* p) {
  *p = (struct properties){.name = "lo",
                           .guid = 1,
                           .pointers = HOST_POINTERS | (faults.gdr ? CUDA_POINTERS : 0),
                           .speed = 10000,
                           .max_comms = 65536,
                           .max_receives = 1};
  return SUCCESS;
}

static int listen_on(int device UNUSED, void* handle, void** out) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return SYSTEM_ERROR;
  if (bind(fd, (void*)&address, length) || listen(fd, 64) || getsockname(fd, (void*)&address, &length)) {
    close(fd);
    return SYSTEM_ERROR;
  }
  fcntl(fd, F_SETFL, O_NONBLOCK);
  memcpy(handle, &address, sizeof address);
  *out = (void*)(intptr_t)(fd + 1);  // not NULL, also where the descriptor is 0
  return SUCCESS;
}
static int descriptor_of(void* listener) { return (int)(intptr_t)listener - 1; }

static struct connection* connection_over(int fd) {
  struct connection* c = calloc(1, sizeof *c);
  int one = 1;
  if (!c) return NULL;
  fcntl(fd, F_SETFL, O_NONBLOCK);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  c->fd = fd;
  return c;
}

static int connect_to(int device UNUSED, void* handle, void** out, void** offload UNUSED) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return SYSTEM_ERROR;
  if (connect(fd, handle, sizeof(struct sockaddr_in)) || !(*out = connection_over(fd))) {
    close(fd);
    return SYSTEM_ERROR;
  }
  return SUCCESS;
}

static int accept_from(void* listener, void** out, void** offload UNUSED) {
  int fd = accept4(descriptor_of(listener), NULL, NULL, SOCK_CLOEXEC);
  *out = fd < 0 ? NULL : connection_over(fd);
  return SUCCESS;
}

static int register_memory(void* c UNUSED, void* data UNUSED, size_t n UNUSED, int type, void** handle) {
  calls.registered[type & 3]++;
  *handle = (void*)(intptr_t)type;
  return SUCCESS;
}
static int deregister_memory(void* c UNUSED, void* handle UNUSED) { return SUCCESS; }

static struct request* new_request(struct connection* c, void* data, size_t capacity) {
  if (c->next - c->first == MOST_REQUESTS) return NULL;
  struct request* r = &c->request[c->next++ % MOST_REQUESTS];
  *r = (struct request){.connection = c, .data = data, .capacity = capacity};
  return r;
}

static int post_send(void* connection, void* data, int size, int tag UNUSED, void* mr UNUSED, void** out) {
  if (faults.fail_after >= 0 && calls.sends >= faults.fail_after) return SYSTEM_ERROR;
  struct request* r = new_request(connection, data, (size_t)size);
  *out = r;
  if (!r) return SUCCESS;
  r->send = true;
  r->announced = (uint32_t)size;
  calls.sends++;
  return SUCCESS;
}

static int post_receive(void* connection, int n UNUSED, void** data, int* sizes, int* tags UNUSED,
                        void** mrs UNUSED, void** out) {
  *out = new_request(connection, data[0], (size_t)sizes[0]);
  if (*out) calls.receives++;
  return SUCCESS;
}

static int flush(void* c UNUSED, int n UNUSED, void** data UNUSED, int* sizes UNUSED, void** mrs UNUSED,
                 void** out) {
  calls.flushes++;
  *out = NULL;
  return SUCCESS;
}

enum progress { BROKEN = -1, PENDING, FINISHED };

// Moves bytes [*moved, n) of a buffer as far as the socket takes or gives them.
static enum progress move_bytes(struct request* r, char* buffer, size_t n, size_t* moved) {
  while (*moved < n) {
    ssize_t k = r->send ? send(r->connection->fd, buffer + *moved, n - *moved, MSG_NOSIGNAL)
                        : recv(r->connection->fd, buffer + *moved, n - *moved, 0);
    if (k < 0 && errno == EAGAIN) return PENDING;
    if (k <= 0) return BROKEN;
    *moved += (size_t)k;
    if (faults.early && !r->send && buffer == r->data && *moved > n / 2 && *moved < n) {
      r->connection->skip = n - *moved;
      return FINISHED;
    }
  }
  return FINISHED;
}

static enum progress skip_rest(struct connection* c) {
  char junk[4096];
  while (c->skip) {
    ssize_t k = recv(c->fd, junk, c->skip < sizeof junk ? c->skip : sizeof junk, 0);
    if (k < 0 && errno == EAGAIN) return PENDING;
    if (k <= 0) return BROKEN;
    c->skip -= (size_t)k;
  }
  return FINISHED;
}

static enum progress advance(struct request* r) {
  enum progress p = r->send ? FINISHED : skip_rest(r->connection);
  if (p == FINISHED) p = move_bytes(r, (char*)&r->announced, sizeof r->announced, &r->head);
  if (p != FINISHED) return p;
  if (r->announced > r->capacity) return BROKEN;
  p = move_bytes(r, r->data, r->announced, &r->moved);
  if (p == FINISHED && faults.flip && !r->send && r->announced > 100 && calls.tests % 7 == 0)
    r->data[r->announced / 2] ^= 0x40;
  return p;
}

static int test(void* request, int* done, int* size) {
  struct request* asked = request;
  struct connection* c = asked->connection;
  calls.tests++;
  for (; c->first != c->next; c->first++) {
    struct request* r = &c->request[c->first % MOST_REQUESTS];
    enum progress p = advance(r);
    if (p == BROKEN) return REMOTE_ERROR;
    if (p == PENDING) break;
    r->done = true;
  }
  *done = asked->done;
  if (*done && size) *size = (int)asked->announced;
  return SUCCESS;
}

static int close_connection(void* c) {
  close(((struct connection*)c)->fd);
  free(c);
  return SUCCESS;
}
static int close_listener(void* listener) {
  close(descriptor_of(listener));
  return SUCCESS;
}

__attribute__((destructor)) static void report(void) {
  if (calls.sends + calls.receives)
    fprintf(stderr,
            "faulty: sends=%ld receives=%ld flushes=%ld tests=%ld host_regions=%ld cuda_regions=%ld\n",
            calls.sends, calls.receives, calls.flushes, calls.tests, calls.registered[HOST_POINTERS],
            calls.registered[CUDA_POINTERS]);
}

// NCCL's order; regMrDmaBuf, getDeviceMr and irecvConsumed may be absent.
__attribute__((visibility("default"))) struct {
  const char* name;
  void* function[18];
} ncclNetPlugin_v8 = {"Faulty",
                      {init, devices, get_properties, listen_on, connect_to, accept_from, register_memory,
                       NULL, deregister_memory, post_send, post_receive, flush, test, close_connection,
                       close_connection, close_listener, NULL, NULL}};
