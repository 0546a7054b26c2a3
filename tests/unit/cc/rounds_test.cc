#include "cc/rounds.h"

#include <gtest/gtest.h>

namespace megascale {
namespace {

TEST(Rounds, EndWhenAllThatWasInFlightIsAcknowledged) {
  Rounds rounds;
  rounds.sent(1000);
  rounds.sent(2000);
  EXPECT_TRUE(rounds.acked(1000)) << "the first acknowledgement ends the first round";
  rounds.sent(2000);                 // in flight now: up to 3000
  EXPECT_FALSE(rounds.acked(1500));  // the round ends at 2000, what was sent when it began
  EXPECT_TRUE(rounds.acked(2000));
  EXPECT_FALSE(rounds.acked(2999));
  EXPECT_TRUE(rounds.acked(3000));
}

TEST(Rounds, WithNothingInFlightEachAcknowledgementIsOne) {
  Rounds rounds;
  EXPECT_TRUE(rounds.acked(10));
  EXPECT_TRUE(rounds.acked(20));
  EXPECT_FALSE(rounds.acked(20)) << "nothing new";
  EXPECT_FALSE(rounds.acked(5)) << "an old one";
}

}  // namespace
}  // namespace megascale
