// A run's losses drawn with characters.
#pragma once
#include <span>
#include <string>

namespace megascale::trainer {

struct CurveSize {
  size_t columns = 64;
  size_t rows = 12;
};

// Each column is the mean of its share of the steps. Lines end with a newline; nothing for no losses.
// unicode: whether the terminal draws more than ASCII.
std::string loss_curve(std::span<const double> losses, CurveSize size, bool unicode);

// Whether the locale of this process says UTF-8.
bool terminal_draws_unicode();

}  // namespace megascale::trainer
