// What holds for every controller whatever it is told: random signals, seeded.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <new>
#include <random>

#include "cc/registry.h"

namespace {
uint64_t allocations = 0;
}

// Counts what a controller allocates after it was built: nothing.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace megascale {
namespace {

// One connection's life: time goes on, signals come as they like.
class Weather {
 public:
  explicit Weather(uint64_t seed) : random_(seed) {}

  void next(Controller& c) {
    now_ += Duration(static_cast<int64_t>(std::exp(uniform(0, 14))) - 1);  // 0 to 1.2 ms
    if (pick(500) == 0) now_ += 1s;
    switch (pick(12)) {
      case 0:
        return c.cnp(now_);
      case 1:
        return pick(20) ? c.loss(now_, 4096) : c.timeout(now_);
      case 2:
        return tick(c);
      case 3:
        return c.telemetry({.now = now_, .sequence = acked_, .hops = hops()});
      case 4:
      case 5:
      case 6: {
        const Bytes bytes = 1 + pick(9000);
        sent_ += bytes;
        return c.sent(now_, bytes, sent_ - acked_);
      }
      default:
        return c.ack(ack());
    }
  }
  Time now() const { return now_; }
  double uniform(double low, double high) { return std::uniform_real_distribution(low, high)(random_); }
  uint64_t pick(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }

  Ack ack() {
    const Bytes bytes = std::min<Bytes>(sent_ - acked_, pick(65536));
    acked_ += bytes;
    const auto rtt = pick(30) ? Duration(static_cast<int64_t>(std::exp(uniform(0, 16)))) : Duration(0);
    return {.now = now_,
            .sequence = acked_,
            .bytes = bytes,
            .rtt = rtt,
            .remote_hold = pick(3) ? Duration(0) : rtt * static_cast<int64_t>(pick(5)) / 4,
            .ecn_marked = pick(4) == 0,
            .hops = static_cast<unsigned>(pick(7))};
  }

 private:
  void tick(Controller& c) {
    if (c.next_tick() != kNever) now_ = std::max(now_, c.next_tick());
    c.tick(now_);
    EXPECT_GT(c.next_tick(), now_) << c.name();
  }
  // Up to twelve hops, more than any controller remembers; clocks and counters that stand still or jump back.
  std::span<const HopReport> hops() {
    const size_t count = pick(13);
    for (size_t i = 0; i < count; ++i) {
      reports_[i].at = now_ - Duration(static_cast<int64_t>(pick(100)));
      reports_[i].queue = pick(2'000'000);
      reports_[i].transmitted = pick(50) ? reports_[i].transmitted + pick(100'000) : 0;
      reports_[i].capacity = pick(50) ? Rate::gigabits(100) : Rate{0};
    }
    return {reports_.data(), count};
  }

  std::mt19937_64 random_;
  Time now_{};
  Bytes sent_ = 0, acked_ = 0;
  std::array<HopReport, 12> reports_{};
};

const PathFacts kPaths[] = {
    {},
    {.line_rate = Rate::gigabits(100), .packet = 4096, .base_rtt = 12us},
    {.line_rate = Rate::gigabits(400), .packet = 1024, .base_rtt = 2us},
    {.line_rate = Rate::gigabits(1), .packet = 9000, .base_rtt = 1ms},
    {.line_rate = Rate::gigabits(25), .packet = 0, .base_rtt = -5us},
    {.line_rate = Rate{0}, .packet = 1500, .base_rtt = 1ns},
};

void expect_sane(const Controller& c, const PathFacts& path) {
  const double rate = c.rate().bits_per_second;
  ASSERT_TRUE(rate > 0) << c.name() << " " << rate;  // also not NaN: a connection is never starved for good
  const bool known = path.line_rate.bits_per_second > 0 && !path.line_rate.is_unlimited();
  if (known) {
    ASSERT_LE(rate, path.line_rate.bits_per_second) << c.name();
  }
  ASSERT_GT(c.window(), 0u) << c.name();
}

TEST(AnyController, StaysInItsBoundsAndTakesNoMemoryWhateverItIsTold) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const PathFacts& path : kPaths) {
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        Parameters parameters;
        if (algorithm.name == "fixed") parameters["rate"] = 1e9;  // no port may be known
        if (algorithm.name == "timely") parameters["patched"] = static_cast<double>(seed % 2);
        if (algorithm.name == "dcqcn") parameters["nic_order"] = static_cast<double>(seed % 2);
        const PathFacts facts =
            algorithm.name == "fixed" && path.line_rate.bits_per_second <= 0 ? PathFacts{} : path;
        const auto c = build_controller(algorithm.name, parameters, facts, nullptr);
        Weather weather(seed);
        uint64_t taken = 0;
        for (int i = 0; i < 3000; ++i) {
          const uint64_t before = allocations;
          weather.next(*c);
          taken += allocations - before;
          ASSERT_NO_FATAL_FAILURE(expect_sane(*c, facts)) << "signal " << i << ", seed " << seed;
        }
        EXPECT_EQ(taken, 0u) << algorithm.name;
      }
    }
  }
}

// At both ends of every parameter's range.
TEST(AnyController, StaysInItsBoundsWithExtremeParameters) {
  const PathFacts path{.line_rate = Rate::gigabits(100), .packet = 4096, .base_rtt = 12us};
  for (const Algorithm& algorithm : algorithms()) {
    for (const Parameter& p : algorithm.parameters) {
      for (const double value : {p.least, p.most}) {
        const auto c = build_controller(algorithm.name, {{std::string(p.name), value}}, path, nullptr);
        Weather weather(7);
        for (int i = 0; i < 1000; ++i) {
          weather.next(*c);
          ASSERT_NO_FATAL_FAILURE(expect_sane(*c, path)) << p.name << " = " << value;
        }
      }
    }
  }
}

TEST(AnyController, DoesTheSameWhenToldTheSame) {
  for (const Algorithm& algorithm : algorithms()) {
    const auto one = build_controller(algorithm.name, {}, kPaths[1], nullptr);
    const auto other = build_controller(algorithm.name, {}, kPaths[1], nullptr);
    const auto bystander = build_controller(algorithm.name, {}, kPaths[1], nullptr);
    Weather first(3), second(3), third(4);
    for (int i = 0; i < 500; ++i) {
      first.next(*one);
      third.next(*bystander);  // shares constants with nobody's state
      second.next(*other);
      ASSERT_EQ(one->rate(), other->rate()) << algorithm.name;
      ASSERT_EQ(one->window(), other->window()) << algorithm.name;
      ASSERT_EQ(one->next_tick(), other->next_tick()) << algorithm.name;
    }
  }
}

// The state that a seed's signals lead to; the same one as often as it is asked for.
std::unique_ptr<Controller> in_state(std::string_view name, const Parameters& parameters, uint64_t seed,
                                     Weather& weather) {
  auto c = build_controller(name, parameters, kPaths[1], nullptr);
  weather = Weather(seed);
  for (uint64_t i = 0; i < 20 + seed % 60; ++i) weather.next(*c);
  return c;
}

// From the same state, an acknowledgement with more delay never leaves more than one with less.
void expect_monotone_in_delay(std::string_view name, const Parameters& parameters, Duration from,
                              Duration to) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    for (const bool marked : {false, true}) {
      Bytes window = kNoWindow;
      Rate rate = Rate::unlimited();
      for (Duration rtt = from; rtt <= to; rtt += (to - from) / 20) {
        Weather weather(seed);
        const auto c = in_state(name, parameters, seed, weather);
        Ack ack = weather.ack();
        ack.now = weather.now() + 1ms;  // so that "once in an RTT" forbids no decrease
        ack.rtt = rtt;
        ack.bytes = 4096;
        ack.remote_hold = Duration(0);
        ack.ecn_marked = marked;
        c->ack(ack);
        // Pacing below one packet may count in RTTs; the window is what the delay decides.
        ASSERT_LE(c->window(), window) << name << ", seed " << seed << ", RTT " << rtt.count() << " ns";
        if (c->window() == kNoWindow) {
          ASSERT_LE(c->rate(), rate) << name << ", seed " << seed;
        }
        window = c->window();
        rate = c->rate();
      }
    }
  }
}

TEST(Monotone, MoreDelayNeverGivesMoreInSwift) { expect_monotone_in_delay("swift", {}, 5us, 500us); }

// QuickAdapt takes what arrived for the window, which may be more than a decrease would leave.
TEST(Monotone, MoreDelayNeverGivesMoreInNscc) {
  expect_monotone_in_delay("nscc", {{"adapt_share", 0}, {"fair", 0}}, 13us, 500us);
}

TEST(Monotone, MoreDelayNeverGivesMoreInTheHybrid) { expect_monotone_in_delay("hybrid", {}, 5us, 500us); }

// Between its two thresholds, where the gradient decides.
TEST(Monotone, ASteeperRiseOfTheRttNeverGivesMoreInTimely) {
  expect_monotone_in_delay("timely", {{"segment", 64}}, 51us, 499us);
  expect_monotone_in_delay("timely", {{"segment", 64}, {"patched", 1}}, 51us, 499us);
}

TEST(Monotone, ANotificationNeverRaisesARate) {
  for (const std::string_view name : {"dcqcn", "barre", "hybrid"}) {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      Weather weather(seed);
      const auto c = in_state(name, {}, seed, weather);
      const Rate rate = c->rate();
      const Bytes window = c->window();
      c->cnp(weather.now());
      EXPECT_LE(c->window(), window) << name << ", seed " << seed;
      // Barre's monitor of what is in flight ends with any feedback.
      if (window == kNoWindow && name != "barre") {
        EXPECT_LE(c->rate(), rate) << name << ", seed " << seed;
      }
    }
  }
}

TEST(Monotone, ALongerQueueNeverGivesMoreInHpcc) {
  for (Bytes queue = 0, window = kNoWindow; queue < 1'000'000; queue += 10'000) {
    const auto c = build_controller("hpcc", {}, kPaths[1], nullptr);
    HopReport report{.at = Time(1us), .queue = queue, .transmitted = 0, .capacity = Rate::gigabits(100)};
    c->telemetry({.now = Time(2us), .sequence = 4096, .hops = {&report, 1}});
    report.at += 12us;
    report.transmitted = 150'000;
    c->telemetry({.now = Time(14us), .sequence = 8192, .hops = {&report, 1}});
    EXPECT_LE(c->window(), window);
    window = c->window();
  }
}

}  // namespace
}  // namespace megascale
