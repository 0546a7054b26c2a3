// Durations, sizes and rates as people write them: "250ms", "512K", "10G", and back.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "cc/units.h"

namespace megascale {

// A plain decimal number, nothing before or behind it; "1e3" is one, "inf" and "0x10" are none.
std::optional<double> parse_number(std::string_view);
// ns, us, ms, s, min, h; a bare number is seconds. Nothing when malformed, negative or over 292 years.
std::optional<Duration> parse_duration(std::string_view);
// Whole bytes: KB, MB, GB, TB are powers of 1000; K, M, G, T of 1024, with or without "iB", as are k, m, g.
std::optional<Bytes> parse_size(std::string_view);
// Bits per second; K, M, G, T are powers of 1000. "unlimited" is a rate.
std::optional<Rate> parse_rate(std::string_view);

std::string text_of(Duration);
std::string size_text(Bytes);
std::string short_size_text(double bytes);  // to three digits, in powers of 1000: "1.05 MB"
std::string text_of(Rate);

}  // namespace megascale
