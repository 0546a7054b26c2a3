#include "plugin/host/loader.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/plugin/host/ranks.h"

namespace megascale::host {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(Loader, EmptyAndNoneMeanNoPlugin) {
  EXPECT_THAT(plugin_list(""), IsEmpty());
  EXPECT_THAT(plugin_list("none"), IsEmpty());
  EXPECT_THAT(plugin_list("NONE"), IsEmpty());
  EXPECT_THAT(error_of([] { attach("none", 1); }), HasSubstr("names no network plugin"));
}

TEST(Loader, CommaListHasAtMostFourteenEntriesOf254) {
  EXPECT_THAT(plugin_list("a,b,,c"), ElementsAre("a", "b", "c"));
  std::string many;
  for (int i = 0; i < 20; ++i) many += "x,";
  EXPECT_EQ(plugin_list(many).size(), 14U);
  EXPECT_EQ(plugin_list(std::string(400, 'y')).front().size(), 254U);
}

TEST(Loader, NameIsTriedAsItIsThenAsALibrary) {
  EXPECT_THAT(library_names("foo"), ElementsAre("foo", "libnccl-net-foo.so"));
  EXPECT_THAT(library_names("./foo"), ElementsAre("./foo"));
  EXPECT_THAT(library_names("libfoo.so"), ElementsAre("libfoo.so"));
  EXPECT_THAT(library_names("libfoo.so.1"), ElementsAre("libfoo.so.1", "libnccl-net-libfoo.so.1.so"));
}

TEST(Loader, AnyPrefixOfStaticPluginMeansTheProgramItself) {
  for (const char* name : {"s", "St", "STATIC_PLUGIN", "static_p"})
    EXPECT_THAT(library_names(name), ElementsAre(""));
  EXPECT_EQ(library_names("static_plugins").size(), 2U);
  EXPECT_THAT(error_of([] { open_net("static"); }),
              HasSubstr("this program exports none of ncclNetPlugin_v12"));
}

TEST(Loader, ShortNameIsFoundOnTheLibraryPath) {
  const auto net = open_net("toy8");
  EXPECT_EQ(net->path(), "libnccl-net-toy8.so");
  EXPECT_EQ(net->name(), "Toy8");
}

TEST(Loader, NewestSymbolWins) {
  const auto net = open_net(toy("-all"));
  EXPECT_EQ(net->version(), 12);
  EXPECT_EQ(net->name(), "Toy12");
}

TEST(Loader, EachVersionIsUnderstood) {
  for (int version = 8; version <= 12; ++version) {
    const auto context = attach(toy(version), 7);
    EXPECT_EQ(context->net().version(), version);
    EXPECT_EQ(context->net().name(), "Toy" + std::to_string(version));
    ASSERT_EQ(context->devices(), 2);
    const abi::PropertiesV12 p = context->properties(1);
    EXPECT_STREQ(p.name, "toy1");
    EXPECT_EQ(p.guid, 101U);
    EXPECT_EQ(p.speed, 10000);
    EXPECT_EQ(p.maxComms, 65536);
    EXPECT_EQ(p.maxRecvs, 1);
    EXPECT_EQ(p.vProps.ndevs, 1);
    EXPECT_EQ(p.vProps.devs[0], 1);
    EXPECT_EQ(p.railId, version == 12 ? 6 : -1);
    EXPECT_EQ(p.planeId, -1);
    EXPECT_EQ(p.maxP2pBytes, version == 8 ? 1UL << 30 : 1UL << 40);
    EXPECT_EQ(p.forceFlush, 0);
  }
}

TEST(Loader, V8RefusesMoreThanOneGibibyte) {
  const auto context = attach(toy(8), 7);
  void* request = reinterpret_cast<void*>(0x1234);
  EXPECT_EQ(context->net().isend(nullptr, nullptr, (1UL << 30) + 1, 0, nullptr, &request),
            abi::kInternalError);
  size_t size = (1UL << 30) + 1;
  void* data = nullptr;
  int tag = 0;
  void* region = nullptr;
  EXPECT_EQ(context->net().irecv(nullptr, 1, &data, &size, &tag, &region, &request), abi::kInternalError);
}

TEST(Loader, MissingLibraryIsNamedWithEveryPathTried) {
  const std::string error = error_of([] { open_net("nowhere"); });
  EXPECT_THAT(error, HasSubstr("`nowhere'"));
  EXPECT_THAT(error, HasSubstr("nowhere: cannot open shared object file"));
  EXPECT_THAT(error, HasSubstr("libnccl-net-nowhere.so: cannot open shared object file"));
}

TEST(Loader, LibraryWithoutASupportedTableIsNamed) {
  EXPECT_THAT(
      error_of([] { open_net(toy("-old")); }),
      testing::AllOf(HasSubstr("exports none of ncclNetPlugin_v12 to _v8"), HasSubstr("ncclNetPlugin_v7")));
}

TEST(Loader, TableWithAHoleIsRefused) {
  abi::NetV11 table{};
  table.name = "Holey";
  EXPECT_THAT(error_of([&] { wrap_table(11, &table, "holey.so", nullptr); }), HasSubstr("`init' unset"));
  EXPECT_THAT(error_of([&] { wrap_table(7, &table, "holey.so", nullptr); }),
              HasSubstr("no net interface v7"));
}

TEST(Loader, CandidatesAreTriedInOrder) {
  EXPECT_EQ(attach("nowhere," + toy(9) + "," + toy(10), 1)->net().name(), "Toy9");
  EXPECT_THAT(error_of([] { attach("nowhere,neither", 1); }),
              testing::AllOf(HasSubstr("`nowhere'"), HasSubstr("`neither'")));
}

TEST(Loader, NcclNetChoosesByName) {
  const Variable network("NCCL_NET", "tOY10");
  EXPECT_EQ(attach(toy(9) + "," + toy(10), 1)->net().name(), "Toy10");
  EXPECT_THAT(error_of([] { attach(toy(8), 1); }), HasSubstr("NCCL_NET=tOY10"));
}

TEST(Loader, FailedInitAndNoDevicesAreExplained) {
  {
    const Variable refuse("TOY_REFUSE", "init");
    const std::string error = error_of([] { attach(toy(12), 1); });
    EXPECT_THAT(error, HasSubstr("failed to initialise: ncclSystemError (2)"));
    EXPECT_THAT(error, HasSubstr("told to refuse init"));
  }
  const Variable refuse("TOY_REFUSE", "devices");
  EXPECT_THAT(error_of([] { attach(toy(12), 1); }), HasSubstr("reports 0 devices"));
}

TEST(Loader, InitOncePerCommunicatorFromV11OnAndOncePerProcessBefore) {
  for (int version : {10, 11}) {
    const auto first = attach(toy(version), 1);
    const ToyCounters counters(version);
    const int before = counters->inits;
    const auto second = attach(toy(version), 1);
    EXPECT_EQ(counters->inits - before, version >= 11 ? 1 : 0);
    EXPECT_EQ(counters->contexts, version >= 11 ? 2 : 0);
  }
}

TEST(Loader, FinalizeFollowsEveryInit) {
  const auto kept = open_net(toy(12));
  const ToyCounters counters(12);
  {
    const auto one = attach(toy(12), 1), two = attach(toy(12), 2);
    EXPECT_EQ(counters->contexts, 2);
  }
  EXPECT_EQ(counters->contexts, 0);
}

TEST(Loader, UnusedLibraryIsClosed) {
  open_net(toy(11));
  void* still_there = dlopen(toy(11).c_str(), RTLD_NOW | RTLD_NOLOAD);
  EXPECT_EQ(still_there, nullptr);
  if (still_there != nullptr) dlclose(still_there);
}

TEST(Loader, RefusedRegistrationsAndListensAreErrorsWithTheReason) {
  for (const char* call : {"listen", "reg"}) {
    const Variable refuse("TOY_REFUSE", call);
    const auto errors = errors_of_ranks(2, {.plugin = toy(12)}, [](Communicator& c) {
      int x = 1;
      c.all_reduce(&x, &x, 1, DataType::i32, ReduceOp::sum).wait();
    });
    for (const std::string& error : errors)
      EXPECT_THAT(error, HasSubstr(std::string("told to refuse ") + call));
  }
}

}  // namespace
}  // namespace megascale::host
