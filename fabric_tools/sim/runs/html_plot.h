// Plots as SVG text: curves over two axes, and heat maps. Colours come from the style sheet around them, so
// that they hold in light and in dark.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace megascale::sim {

struct Curve {
  int colour = 0;  // of the style sheet: class c0, c1, ...
  std::string name;
  std::vector<std::pair<double, double>> points;
};

struct Axes {
  std::string title, x, y;  // what the axes count, with units
  bool log_x = false;
  double least_x = 0, least_y = 0;  // where they begin
  double most_y = 0;                // 0: as the curves need
};

std::string plot(const Axes&, const std::vector<Curve>&);

struct HeatRow {
  std::string name;
  std::vector<std::pair<double, std::string>> cells;  // 0 to 1, and what a pointer is told
};
std::string heat_map(const std::string& title, const std::vector<HeatRow>&);

// Numbers at round steps (1, 2 or 5 x 10^n) within the range, about so many.
std::vector<double> round_steps(double least, double most, int about);

std::string escape(const std::string&);  // for HTML's text and attributes

}  // namespace megascale::sim
