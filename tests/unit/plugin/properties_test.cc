// Sections B.2, B.3 and B.10 of the contract: what the plugin says of itself and of its devices, and what it
// takes note of.
#include <cmath>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>

#include "tests/unit/plugin/loaded.h"

namespace megascale::plugin_test {
namespace {

PLUGIN_TEST(Contract_B2, TheLoggerIsUsedWithTheNetFlag) {
  Stay s;
  auto lines = Log::copy();
  ASSERT_FALSE(lines.empty());
  for (auto& l : lines) {
    EXPECT_TRUE(l.flags & abi::kLogNet) << l.text;
    EXPECT_TRUE(l.level == abi::kLogInfo || l.level == abi::kLogWarn || l.level == abi::kLogTrace);
    EXPECT_FALSE(l.file.empty());
    EXPECT_EQ(l.text.find('\n'), std::string::npos) << "one line each";
  }
  EXPECT_TRUE(Log::has("congestion control")) << "which TCP algorithm is used is printed";
  EXPECT_TRUE(Log::has("MEGASCALE_SECRET is not set")) << "a job without a secret is warned";
}

// The configuration is on the caller's stack, and may be gone when it is needed.
PLUGIN_TEST(Contract_B2, TheConfigurationIsCopied) {
  void* library = open_library();
  auto* net = table<abi::NetV12>(library, 12);
  void* context = nullptr;
  {
    auto config = std::make_unique<abi::CommConfig>(abi::CommConfig{105});
    ASSERT_EQ(net->init(&context, 1, config.get(), Log::write, nullptr), abi::kSuccess);
    config->trafficClass = -12345;
  }
  EXPECT_TRUE(context);
  EXPECT_EQ(net->finalize(context), abi::kSuccess);
  ASSERT_EQ(net->init(&context, 1, nullptr, Log::write, nullptr), abi::kSuccess) << "it may be missing";
  EXPECT_EQ(net->finalize(context), abi::kSuccess);
}

// NCCL passes uninitialised memory. Two different fillings must come out the same, so that no byte of a field
// is left as it was.
template <class Net, class Properties>
void sets_every_field(int version) {
  const Net* net = table<Net>(open_library(), version);
  Properties a, b;
  memset(&a, 0xaa, sizeof a);
  memset(&b, 0x55, sizeof b);
  ASSERT_EQ(net->getProperties(0, &a), abi::kSuccess);
  ASSERT_EQ(net->getProperties(0, &b), abi::kSuccess);
#define SAME(field) EXPECT_EQ(a.field, b.field) << #field " of version " << version
  SAME(name);
  SAME(pciPath);
  SAME(guid);
  SAME(ptrSupport);
  SAME(regIsGlobal);
  SAME(speed);
  SAME(port);
  SAME(latency);
  SAME(maxComms);
  SAME(maxRecvs);
  SAME(netDeviceType);
  SAME(netDeviceVersion);
  EXPECT_EQ(a.ptrSupport, abi::kPtrHost);
  EXPECT_GT(a.speed, 0);
  EXPECT_FALSE(std::isnan(a.latency));
  EXPECT_GE(a.latency, 0);
  EXPECT_GT(a.maxComms, 0);
  EXPECT_EQ(a.maxRecvs, 1);
  EXPECT_EQ(a.netDeviceType, abi::kDeviceHost);
  EXPECT_EQ(a.netDeviceVersion, 0);
  if constexpr (requires { a.vProps; }) {
    SAME(forceFlush);
    SAME(vProps.ndevs);
    SAME(vProps.devs[0]);
    SAME(maxP2pBytes);
    SAME(maxCollBytes);
    EXPECT_EQ(a.vProps.ndevs, 1);
    EXPECT_EQ(a.vProps.devs[0], 0);
    for (std::size_t bytes : {a.maxP2pBytes, a.maxCollBytes}) {
      EXPECT_GT(bytes, 0u);
      EXPECT_LE(bytes, abi::kMaxBytesLimit);
    }
  }
  if constexpr (requires { a.maxMultiRequestSize; }) {
    SAME(maxMultiRequestSize);
    EXPECT_EQ(a.maxMultiRequestSize, 1);
  }
  if constexpr (requires { a.railId; }) {
    SAME(railId);
    SAME(planeId);
  }
#undef SAME
}

PLUGIN_TEST(Contract_B3, EveryPropertyIsSet) {
  Stay s;
  sets_every_field<abi::NetV8, abi::PropertiesV8>(8);
  sets_every_field<abi::NetV9, abi::PropertiesV9>(9);
  sets_every_field<abi::NetV10, abi::PropertiesV10>(10);
  sets_every_field<abi::NetV11, abi::PropertiesV11>(11);
  sets_every_field<abi::NetV12, abi::PropertiesV12>(12);
}

// Not only for logs: NCCL matches the nodes of its topology by name.
PLUGIN_TEST(Trap_B3, NamesAreUnique) {
  setenv("MEGASCALE_RAILS", "127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4", 1);
  Stay s;
  int n = 0;
  ASSERT_EQ(s.net->devices(&n), abi::kSuccess);
  ASSERT_EQ(n, 4);
  std::set<std::string> names;
  std::set<std::pair<uint64_t, int>> ports;
  for (int i = 0; i < n; i++) {
    abi::PropertiesV12 p;
    ASSERT_EQ(s.net->getProperties(i, &p), abi::kSuccess);
    names.insert(p.name);
    ports.emplace(p.guid, p.port);
  }
  EXPECT_EQ(names.size(), 4u);
  EXPECT_EQ(ports.size(), 4u) << "one port twice would be counted once";
}

PLUGIN_TEST(Contract_B3, ThereAreNeverMoreDevicesThanNcclHasRoomFor) {
  std::string rails;
  for (int i = 1; i <= abi::kMaxDevices + 2; i++) rails += "127.0.0." + std::to_string(i) + ",";
  setenv("MEGASCALE_RAILS", rails.c_str(), 1);
  Stay s;
  int n = 0;
  ASSERT_EQ(s.net->devices(&n), abi::kSuccess);
  EXPECT_EQ(n, abi::kMaxDevices);
}

PLUGIN_TEST(Contract_B3, StringsStayValidForLife) {
  char* name;
  {
    Stay s;
    abi::PropertiesV12 p;
    ASSERT_EQ(s.net->getProperties(1, &p), abi::kSuccess);
    name = p.name;
  }
  EXPECT_STREQ(name, "lo/127.0.0.2");
  Stay again;
  abi::PropertiesV12 p;
  ASSERT_EQ(again.net->getProperties(1, &p), abi::kSuccess);
  EXPECT_EQ(p.name, name);
}

PLUGIN_TEST(Contract_B3, DevicesThatDoNotExistAreRefused) {
  Stay s;
  for (int device : {-1, 2, 128, 1 << 30}) {
    abi::PropertiesV12 p;
    EXPECT_NE(s.net->getProperties(device, &p), abi::kSuccess) << device;
    Handle h{};
    void* lc = kStale;
    EXPECT_NE(s.net->listen(s.context, device, h.bytes, &lc), abi::kSuccess);
    EXPECT_EQ(lc, nullptr);
    void* sc = kStale;
    EXPECT_NE(s.net->connect(s.context, device, h.bytes, &sc, nullptr), abi::kSuccess);
    EXPECT_EQ(sc, nullptr);
  }
}

// With PXN one process uses the device numbers of another.
PLUGIN_TEST(Contract_B1, DeviceNumbersAreTheSameInEveryProcess) {
  auto described = [] {
    Stay s;
    std::string text;
    int n = 0;
    s.net->devices(&n);
    for (int i = 0; i < n; i++) {
      abi::PropertiesV12 p;
      s.net->getProperties(i, &p);
      text += std::string(p.name) + " " + std::to_string(p.guid) + " " + std::to_string(p.speed) + "\n";
    }
    return text;
  };
  unsetenv("MEGASCALE_RAILS");  // whatever this host has
  int out[2];
  ASSERT_EQ(pipe(out), 0);
  if (fork() == 0) {
    std::string text = described();
    _exit(write(out[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(out[1]);
  std::string theirs;
  char b[4096];
  for (ssize_t n; (n = read(out[0], b, sizeof b)) > 0;) theirs.append(b, static_cast<std::size_t>(n));
  EXPECT_FALSE(theirs.empty());
  EXPECT_EQ(described(), theirs);
}

PLUGIN_TEST(Contract_B10, MergingIsRefusedWhereItMakesNoSense) {
  Stay s;
  int device = -7;
  abi::VDevicePropsV12 members{2, {0, 1}};
  EXPECT_NE(s.net->makeVDevice(&device, &members), abi::kSuccess)
      << "loopback has no PCI path: NCCL finds no way to the result";
  for (auto wrong :
       {abi::VDevicePropsV12{0, {}}, abi::VDevicePropsV12{-1, {}}, abi::VDevicePropsV12{9, {0, 1}},
        abi::VDevicePropsV12{2, {0, 0}}, abi::VDevicePropsV12{2, {0, 77}}, abi::VDevicePropsV12{2, {-1, 0}}})
    EXPECT_NE(s.net->makeVDevice(&device, &wrong), abi::kSuccess);
  abi::VDevicePropsV12 one{1, {1}};
  EXPECT_EQ(s.net->makeVDevice(&device, &one), abi::kSuccess);
  EXPECT_EQ(device, 1) << "merged with nobody it is itself";
  int n = 0;
  EXPECT_EQ(s.net->devices(&n), abi::kSuccess);
  EXPECT_EQ(n, 2);
}

PLUGIN_TEST(Contract_B10, AttributesAreHints) {
  Stay s;
  abi::NetAttr a{{1, 1, 1, 1}, {1, 1, 1, 1}, ~0u, ~0u, ~0u};
  EXPECT_EQ(s.net->setNetAttr(s.context, &a), abi::kSuccess);
  EXPECT_TRUE(Pair(s).works());
}

// ---- what it costs to have it

PLUGIN_TEST(Guest, TwoHundredIdleConnectionsTakeLittleMemoryAndNoCpu) {
  auto resident = [] {
    std::ifstream f("/proc/self/statm");
    long pages = 0, whole = 0;
    f >> whole >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  Stay s;
  {
    Pair warm(s);
    warm.works();
  }
  std::vector<std::unique_ptr<Pair>> pairs;
  long before = resident();
  constexpr int kPairs = 200;
  for (int i = 0; i < kPairs; i++) pairs.push_back(std::make_unique<Pair>(s));
  long each = (resident() - before) / kPairs;
  std::cout << (each >> 10) << " KiB for both ends of an idle connection\n";
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(each, 256 << 10);
  std::this_thread::sleep_for(500ms);
  timespec t0{}, t1{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
  std::this_thread::sleep_for(2s);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
  double used =
      static_cast<double>(t1.tv_sec - t0.tv_sec) + 1e-9 * static_cast<double>(t1.tv_nsec - t0.tv_nsec);
  std::cout << used * 1e3 << " ms of CPU in 2 s with " << kPairs << " idle connections\n";
  EXPECT_LT(used, 0.020);
#endif
  for (int i = 0; i < kPairs; i += 50) EXPECT_TRUE(pairs[static_cast<std::size_t>(i)]->works());
}

}  // namespace
}  // namespace megascale::plugin_test
