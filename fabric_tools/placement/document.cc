#include "fabric_tools/placement/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "fabric_tools/file.h"

namespace megascale {
namespace {

constexpr size_t kMostPlacementBytes = 256 << 20;

using Json = nlohmann::json;
constexpr const char* kFormat = "megascale-placement";
constexpr int kVersion = 1;

class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

  [[noreturn]] void fail(const std::string& why) const {
    throw std::invalid_argument(fmt::format("{}: {}", source_, why));
  }

  const Json& member(const Json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key)) fail(fmt::format("`{}` is missing", key));
    return object[key];
  }

  double number(const Json& object, const char* key, double least, double most) const {
    const Json& value = member(object, key);
    const double number = value.is_number() ? value.get<double>() : NAN;
    if (!(number >= least && number <= most))
      fail(fmt::format("`{}` must be a number, {} to {}", key, least, most));
    return number;
  }

  uint32_t count(const Json& object, const char* key, uint32_t least = 1, double most = 1e9) const {
    const Json& value = member(object, key);
    if (!value.is_number_integer()) fail(fmt::format("`{}` must be a whole number", key));
    return static_cast<uint32_t>(number(object, key, least, most));
  }

 private:
  const std::string& source_;
};

TrainingModel read_model(const Reader& r, const Json& json) {
  TrainingModel m;
  m.layers = r.count(json, "layers"), m.hidden = r.count(json, "hidden");
  m.sequence = r.count(json, "sequence"), m.vocabulary = r.count(json, "vocabulary", 0);
  m.parameters = r.number(json, "parameters", 0, 1e18);
  m.micro_batch = r.count(json, "micro_batch"), m.micro_batches = r.count(json, "micro_batches");
  m.value_bytes = r.count(json, "value_bytes"), m.gradient_bytes = r.count(json, "gradient_bytes");
  m.flops = r.number(json, "flops", 1, 1e24);
  return m;
}

std::vector<std::string> read_names(const Reader& r, const Json& json) {
  const bool good = json.is_array() && !json.empty() &&
                    std::all_of(json.begin(), json.end(), [](const Json& name) { return name.is_string(); });
  if (!good) r.fail("`hosts` must be an array of names");
  return json.get<std::vector<std::string>>();
}

}  // namespace

nlohmann::ordered_json to_json(const PlacementDocument& d) {
  const TrainingModel& m = d.model;
  const Placement& p = d.placement;
  nlohmann::ordered_json json = {
      {"format", kFormat},
      {"version", kVersion},
      {"topology", p.topology->name},
      {"parallel",
       {{"tensor", d.parallel.tensor}, {"pipeline", d.parallel.pipeline}, {"data", d.parallel.data}}},
      {"model",
       {{"layers", m.layers},
        {"hidden", m.hidden},
        {"sequence", m.sequence},
        {"vocabulary", m.vocabulary},
        {"parameters", parameters_of(m)},
        {"micro_batch", m.micro_batch},
        {"micro_batches", m.micro_batches},
        {"value_bytes", m.value_bytes},
        {"gradient_bytes", m.gradient_bytes},
        {"flops", m.flops}}},
      {"gpus_per_host", p.gpus_per_host},
      {"hosts", Json::array()},
      {"ranks", Json::array()}};
  for (const uint32_t host : p.hosts) json["hosts"].push_back(p.topology->hosts[host].name);
  for (uint32_t rank = 0; rank < p.hosts.size() * p.gpus_per_host; ++rank) {
    json["ranks"].push_back({{"rank", rank},
                             {"host", p.topology->hosts[p.host_of(rank)].name},
                             {"local_rank", p.local_of(rank)},
                             {"rail", p.topology->nics[p.nic_of(rank)].rail}});
  }
  return json;
}

PlacementDocument parse_placement(std::string_view text, const std::string& source, const Topology& t) {
  const Reader r(source);
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) r.fail("this is no JSON object");
  if (!json.contains("format") || json["format"] != kFormat)
    r.fail("this is no placement: write one with `megascale-fabric place --json FILE`");
  if (r.count(json, "version") != kVersion)
    r.fail(fmt::format("this placement has another version than {}", kVersion));
  const Json& parallel = r.member(json, "parallel");
  PlacementDocument d;
  d.parallel = {r.count(parallel, "tensor", 1, Parallel::kMostTensor),
                r.count(parallel, "pipeline", 1, Parallel::kMostPipeline),
                r.count(parallel, "data", 1, Parallel::kMostData)};
  d.model = read_model(r, r.member(json, "model"));
  const std::vector<std::string> hosts = read_names(r, r.member(json, "hosts"));
  try {
    d.placement =
        in_order(t, hosts_named(t, hosts), r.count(json, "gpus_per_host", 1, kMostGpus), d.parallel);
  } catch (const std::invalid_argument& error) {
    const std::string why = error.what();
    r.fail(why.starts_with(source + ": ") ? why.substr(source.size() + 2) : why);
  }
  return d;
}

PlacementDocument read_placement(const std::string& path, const Topology& t) {
  return parse_placement(read_file("the placement", path, kMostPlacementBytes), path, t);
}

}  // namespace megascale
