#include "transport/base/statistics.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "transport/base/events.h"
#include "transport/base/quantity.h"

namespace megascale {
namespace {

// A list that only grows: no lock that a fork() could leave held, no destructor that runs before the last
// user.
struct Node {
  RailStatistics statistics;
  Node* next;
};
std::atomic<Node*> rails{nullptr};

Node* find_rail(Node* from, const Node* until, const std::string& rail) {
  for (Node* n = from; n != until; n = n->next) {
    if (n->statistics.name == rail) return n;
  }
  return nullptr;
}

std::vector<const RailStatistics*> by_name() {
  std::vector<const RailStatistics*> all;
  for (Node* n = rails.load(std::memory_order_acquire); n; n = n->next) all.push_back(&n->statistics);
  std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->name < b->name; });
  return all;
}

template <class... A>
std::string print(const char* format, A... arguments) {
  char text[64];
  snprintf(text, sizeof text, format, arguments...);
  return text;
}

double microseconds(Duration d) { return static_cast<double>(d.count()) / 1e3; }
double milliseconds(Duration d) { return static_cast<double>(d.count()) / 1e6; }

using Row = std::array<std::string, 12>;

const Row& heading() {
  static const Row row = {"rail", "sent",  "received", "messages out/in", "RTT us min/mean", "retrans",
                          "CE",   "flaps", "fenced",   "replayed",        "lost ms",         "refused"};
  return row;
}

Row row_of(const RailStatistics& s) {
  const auto plain = [](const RailStatistics::Counter& c) { return std::to_string(c.load()); };
  return {s.name,
          short_size_text(static_cast<double>(s.bytes_sent)),
          short_size_text(static_cast<double>(s.bytes_received)),
          plain(s.messages_sent) + "/" + plain(s.messages_received),
          print("%.0f/%.0f", microseconds(s.rtt_min()), microseconds(s.rtt_smoothed())),
          plain(s.retransmissions),
          plain(s.ce_marks),
          plain(s.flaps),
          plain(s.fenced),
          short_size_text(static_cast<double>(s.bytes_replayed)),
          print("%.0f", milliseconds(s.time_lost())),
          plain(s.handshakes_refused)};
}

}  // namespace

void RailStatistics::saw_rtt(Duration rtt) {
  const int64_t sample = std::max<int64_t>(rtt.count(), 1);
  rtt_last_.store(sample, std::memory_order_relaxed);
  int64_t least = rtt_min_.load(std::memory_order_relaxed);
  while (sample < least && !rtt_min_.compare_exchange_weak(least, sample, std::memory_order_relaxed)) {
  }
  int64_t mean = rtt_smoothed_.load(std::memory_order_relaxed);
  while (!rtt_smoothed_.compare_exchange_weak(mean, mean == 0 ? sample : mean + (sample - mean) / 8,
                                              std::memory_order_relaxed)) {
  }
}

Duration RailStatistics::rtt_min() const {
  const int64_t least = rtt_min_.load(std::memory_order_relaxed);
  return Duration(least == INT64_MAX ? 0 : least);
}

void RailStatistics::lost(Duration d) {
  lost_.fetch_add(std::max<int64_t>(d.count(), 0), std::memory_order_relaxed);
}

RailStatistics& statistics_for(const std::string& rail) {
  Node* head = rails.load(std::memory_order_acquire);
  if (Node* known = find_rail(head, nullptr, rail)) return known->statistics;
  Node* mine = new Node{RailStatistics(rail), head};
  while (
      !rails.compare_exchange_weak(mine->next, mine, std::memory_order_acq_rel, std::memory_order_acquire)) {
    // Others were faster: one of them may have brought this very rail.
    if (Node* known = find_rail(mine->next, head, rail)) {
      delete mine;
      return known->statistics;
    }
    head = mine->next;
  }
  return mine->statistics;
}

std::string summary_table() {
  std::vector<Row> rows;
  for (const RailStatistics* s : by_name()) rows.push_back(row_of(*s));
  if (rows.empty()) return {};
  rows.insert(rows.begin(), heading());

  std::array<size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string table;
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - row[c].size(), ' ');
      table += c == 0 ? row[c] + pad : "  " + pad + row[c];
    }
    table += '\n';
  }
  return table;
}

void emit_statistics() {
  if (!events_on()) return;
  for (const RailStatistics* s : by_name()) {
    Event("rail")
        .with("rail", s->name)
        .with("bytes_sent", s->bytes_sent.load())
        .with("bytes_received", s->bytes_received.load())
        .with("messages_sent", s->messages_sent.load())
        .with("messages_received", s->messages_received.load())
        .with("rtt_us", microseconds(s->rtt_smoothed()))
        .with("rtt_min_us", microseconds(s->rtt_min()))
        .with("rtt_last_us", microseconds(s->rtt_last()))
        .with("retransmissions", s->retransmissions.load())
        .with("ce_marks", s->ce_marks.load())
        .with("flaps", s->flaps.load())
        .with("fenced", s->fenced.load())
        .with("replayed_chunks", s->chunks_replayed.load())
        .with("replayed_bytes", s->bytes_replayed.load())
        .with("lost_ms", milliseconds(s->time_lost()))
        .with("handshakes_refused", s->handshakes_refused.load())
        .emit();
  }
}

}  // namespace megascale
