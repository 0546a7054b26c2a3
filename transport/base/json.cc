#include "transport/base/json.h"

#include <charconv>
#include <cmath>
#include <cstdint>

namespace megascale {
namespace {

// The length of the UTF-8 sequence at the start of `text`, 0 when there is none (Unicode 15, table 3-7).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto continues = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xe0 && byte(1) < 0xa0) return 0;  // overlong
    if (first == 0xed && byte(1) > 0x9f) return 0;  // a surrogate
    return 3;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xf0 && byte(1) < 0x90) return 0;
    if (first == 0xf4 && byte(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

void append_ascii(std::string& line, char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      line += "\\\"";
      return;
    case '\\':
      line += "\\\\";
      return;
    case '\n':
      line += "\\n";
      return;
    case '\t':
      line += "\\t";
      return;
    case '\r':
      line += "\\r";
      return;
    default:
      break;
  }
  if (static_cast<uint8_t>(c) >= 0x20 && c != 0x7f) {
    line += c;
    return;
  }
  line += "\\u00";
  line += kHex[(c >> 4) & 0xf];
  line += kHex[c & 0xf];
}

}  // namespace

void append_json_string(std::string& line, std::string_view text, size_t limit) {
  text = text.substr(0, limit);
  line += '"';
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) {
      line += "\xef\xbf\xbd";
      text.remove_prefix(1);
    } else if (length == 1) {
      append_ascii(line, text[0]);
      text.remove_prefix(1);
    } else {
      line.append(text.substr(0, length));
      text.remove_prefix(length);
    }
  }
  line += '"';
}

void append_json_number(std::string& line, double value) {
  if (!std::isfinite(value)) {
    line += "null";
    return;
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  line.append(text, end.ptr);
}

}  // namespace megascale
