// What the exception says that a call throws; "accepted" when it throws none.
#pragma once
#include <stdexcept>
#include <string>

namespace megascale {

template <typename Error = std::invalid_argument, typename Call>
std::string complaint(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace megascale
