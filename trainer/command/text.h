// The text that a configuration names, ready to be read.
#pragma once
#include <memory>

#include "trainer/configuration/run_config.h"
#include "trainer/data/token_file.h"

namespace megascale::trainer {

// Makes the King James text first when it is asked for and not there. Throws ConfigurationError.
std::unique_ptr<TokenFile> open_text(const RunConfig& config);

}  // namespace megascale::trainer
