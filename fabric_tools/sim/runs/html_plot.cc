#include "fabric_tools/sim/runs/html_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace megascale::sim {
namespace {

constexpr double kWidth = 560, kHeight = 300, kLeft = 62, kRight = 12, kTop = 34, kBottom = 42;

std::string number_text(double v) {
  if (std::abs(v) < 1e-12) return "0";  // also what rounding left of it
  if (v != 0 && (std::abs(v) >= 1e6 || std::abs(v) < 1e-3)) return fmt::format("{:.3g}", v);
  return fmt::format("{:g}", std::round(v * 1e6) / 1e6);
}

std::vector<double> decades(double least, double most) {
  std::vector<double> list;
  for (double d = std::pow(10, std::floor(std::log10(least))); d <= most * 1.0001; d *= 10)
    for (double m : {1.0, 2.0, 5.0})
      if (d * m >= least * 0.9999 && d * m <= most * 1.0001) list.push_back(d * m);
  return list;
}

class Frame {  // where the values of the axes lie on the page
 public:
  Frame(const Axes& axes, const std::vector<Curve>& curves) : axes_(axes), most_y_(axes.most_y) {
    least_x_ = axes.least_x, most_x_ = axes.least_x;
    double highest = axes.least_y;
    for (const Curve& curve : curves)
      for (const auto& [x, y] : curve.points) most_x_ = std::max(most_x_, x), highest = std::max(highest, y);
    if (most_x_ <= least_x_) most_x_ = least_x_ + 1;
    if (axes.log_x && most_x_ < 2 * least_x_) most_x_ = 2 * least_x_;
    if (most_y_ <= 0) most_y_ = highest > axes.least_y ? highest * 1.05 : axes.least_y + 1;
  }

  double x(double v) const {
    const double at = axes_.log_x ? std::log(std::max(v, least_x_) / least_x_) / std::log(most_x_ / least_x_)
                                  : (v - least_x_) / (most_x_ - least_x_);
    return kLeft + at * (kWidth - kLeft - kRight);
  }
  double y(double v) const {
    const double at = std::min((v - axes_.least_y) / (most_y_ - axes_.least_y), 1.0);
    return kHeight - kBottom - at * (kHeight - kTop - kBottom);
  }

  std::string grid() const {
    std::string svg;
    for (double v : round_steps(axes_.least_y, most_y_, 5))
      svg += fmt::format(
          R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/><text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)",
          kLeft, kWidth - kRight, y(v), y(v), kLeft - 6, y(v) + 4, number_text(v));
    for (double v : axes_.log_x ? decades(least_x_, most_x_) : round_steps(least_x_, most_x_, 6))
      svg += fmt::format(
          R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/><text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
          x(v), x(v), kTop, kHeight - kBottom, x(v), kHeight - kBottom + 16, number_text(v));
    return svg;
  }

 private:
  const Axes& axes_;
  double least_x_ = 0, most_x_ = 0, most_y_ = 0;
};

std::string path_of(const Frame& frame, const Curve& curve) {
  std::string d;
  for (const auto& [x, y] : curve.points)
    d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", frame.x(x), frame.y(y));
  return fmt::format(R"(<path class="curve c{}" d="{}"><title>{}</title></path>)", curve.colour, d,
                     escape(curve.name));
}

}  // namespace

std::vector<double> round_steps(double least, double most, int about) {
  const double rough = (most - least) / about;
  if (!(rough > 0) || !std::isfinite(rough)) return {least};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (double m : {5.0, 2.0, 1.0})
    if (m * power >= rough * 0.999) step = m * power;
  std::vector<double> list;
  for (double v = std::ceil(least / step - 1e-9) * step; v <= most + step * 1e-9; v += step)
    list.push_back(v);
  return list;
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

std::string plot(const Axes& axes, const std::vector<Curve>& curves) {
  const Frame frame(axes, curves);
  std::string svg = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", kWidth, kHeight,
                                escape(axes.title));
  svg += fmt::format(R"(<text class="title" x="{}" y="18">{}</text>)", kLeft, escape(axes.title));
  svg += frame.grid();
  for (const Curve& curve : curves)
    if (!curve.points.empty()) svg += path_of(frame, curve);
  const double middle = kTop + (kHeight - kTop - kBottom) / 2;
  svg += fmt::format(R"(<text x="{}" y="{}" text-anchor="middle">{}</text>)",
                     kLeft + (kWidth - kLeft - kRight) / 2, kHeight - 8, escape(axes.x));
  svg += fmt::format(
      R"svg(<text x="14" y="{:.1f}" text-anchor="middle" transform="rotate(-90 14 {:.1f})">{}</text>)svg",
      middle, middle, escape(axes.y));
  return svg + "</svg>\n";
}

std::string heat_map(const std::string& title, const std::vector<HeatRow>& rows) {
  constexpr double kName = 150, kRow = 18, kGap = 4;
  const double height = 26 + static_cast<double>(rows.size()) * (kRow + kGap);
  std::string svg = fmt::format(R"(<svg class="heat" viewBox="0 0 {} {:.0f}" role="img" aria-label="{}">)",
                                kWidth, height, escape(title));
  svg += fmt::format(R"(<text class="title" x="0" y="16">{}</text>)", escape(title));
  double y = 26;
  for (const HeatRow& row : rows) {
    svg += fmt::format(R"(<text x="0" y="{:.1f}">{}</text>)", y + 13, escape(row.name));
    const double width =
        (kWidth - kName - kRight) / static_cast<double>(std::max<size_t>(row.cells.size(), 1));
    for (size_t i = 0; i < row.cells.size(); ++i) {
      const auto& [value, tip] = row.cells[i];
      svg += fmt::format(
          R"(<rect class="cell" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{}" fill-opacity="{:.3f}"><title>{}</title></rect>)",
          kName + static_cast<double>(i) * width, y, width > 6 ? width - 1 : width, kRow,
          0.04 + 0.96 * std::clamp(value, 0.0, 1.0), escape(tip));
    }
    y += kRow + kGap;
  }
  return svg + "</svg>\n";
}

}  // namespace megascale::sim
