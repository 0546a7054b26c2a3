// What a run leaves behind for programs: losses bit for bit, and a JSON document.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "trainer/configuration/run_config.h"
#include "trainer/loop/training.h"

namespace megascale::trainer {

struct Validation {
  size_t step = 0;
  double loss = 0;
};

class Record {
 public:
  // Empty names: nothing is written. Throws ConfigurationError when a file cannot be opened.
  Record(const std::string& losses_file, const std::string& json_file);

  void add(const StepReport& report);  // its loss is in the file when this returns
  void add(const Validation& validation) { validations_.push_back(validation); }

  const std::vector<double>& losses() const { return losses_; }
  double seconds() const { return seconds_; }
  double exposed_seconds() const { return exposed_seconds_; }
  double tokens_per_second() const { return seconds_ > 0 ? static_cast<double>(tokens_) / seconds_ : 0; }

  // The JSON document, once the run has ended well. Throws std::runtime_error when it cannot be written.
  void finish(const RunConfig& config, const Training& training);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  static File open(const std::string& name);

  std::string losses_name_, json_name_;
  File losses_file_, json_file_;
  std::vector<double> losses_;
  std::vector<Validation> validations_;
  double seconds_ = 0, exposed_seconds_ = 0;
  size_t tokens_ = 0;
};

}  // namespace megascale::trainer
