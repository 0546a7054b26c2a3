// "nan" passes CLI::Range, since it is neither below nor above anything. Options that take fractions are held
// to both.
#pragma once
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>

namespace megascale {

inline CLI::Validator not_nan() {
  return CLI::Validator(
      [](std::string& text) {
        return std::isnan(std::strtod(text.c_str(), nullptr)) ? "`" + text + "' is not a number"
                                                              : std::string();
      },
      "");
}

}  // namespace megascale
