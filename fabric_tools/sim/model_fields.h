// Every number of a Model that a user may set, declared once: its name in files and on the command line, what
// it accepts, and a sentence. Scenario files, --set, --help and presets all read this table.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "fabric_tools/sim/model.h"

namespace megascale::sim {

struct Field {
  using Access =
      std::variant<bool& (*)(Model&), double& (*)(Model&), Bytes& (*)(Model&), uint32_t& (*)(Model&),
                   Duration& (*)(Model&), Rate& (*)(Model&), std::optional<Duration>& (*)(Model&),
                   Balance& (*)(Model&), Recovery& (*)(Model&)>;

  std::string_view name;  // "switches.ecn.kmin"
  Access access;
  double least = 0, most = 0;  // both accepted; bytes, seconds, bit/s or a plain number
  std::string_view sentence;
};

std::span<const Field> fields();

// Throws std::invalid_argument that names the field, what was given and what is accepted; an unknown name is
// answered with those that are like it.
void set_field(Model&, std::string_view name, std::string_view value);

// The same for every field of a model, wherever it is from.
void check_fields(const Model&);

std::string accepted(const Field&);  // "0 to 1", "on or off", "one of ecmp, flowlet, spray, plb"
std::string value_of(const Field&, const Model&);  // as set_field() takes it
std::string describe_fields();                     // for --help: name, default, what is accepted, sentence
nlohmann::ordered_json to_json(const Model&);      // fields that differ from the defaults

}  // namespace megascale::sim
