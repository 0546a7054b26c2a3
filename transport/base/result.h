// A value or an error, for the data path, where nothing throws.
#pragma once
#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace megascale {

// What kind of failure, in the classes that NCCL knows.
enum class Code {
  ok,
  system,            // a call to the kernel or a driver failed
  internal,          // a mistake of ours
  invalid_argument,  // what the caller passed
  invalid_usage,     // the order or the place of a call
  remote,            // the other end is gone, or said something it must not say
};

// What was tried, on which device, peer or file, why it failed and what to do, in one sentence.
struct [[nodiscard]] Error {
  Code code = Code::ok;
  std::string message;

  bool failed() const { return code != Code::ok; }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : held_(std::in_place_index<1>, std::move(error)) { assert(this->error().failed()); }
  Result(Code code, std::string message) : Result(Error{code, std::move(message)}) {}

  bool ok() const { return held_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Only after ok().
  T& value() & { return *held(); }
  const T& value() const& { return *const_cast<Result*>(this)->held(); }
  T&& value() && { return std::move(*held()); }
  T& operator*() { return *held(); }
  T* operator->() { return held(); }
  const T* operator->() const { return &value(); }

  // Only after !ok().
  const Error& error() const {
    assert(!ok());
    return *std::get_if<1>(&held_);
  }

 private:
  T* held() {
    assert(ok());
    return std::get_if<0>(&held_);
  }

  std::variant<T, Error> held_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) { assert(error_->failed()); }
  Result(Code code, std::string message) : Result(Error{code, std::move(message)}) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    assert(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace megascale
