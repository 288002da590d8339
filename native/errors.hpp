// The errors that native code raises: each becomes the class of that name in zerofleet.errors.
#pragma once

#include <stdexcept>
#include <string>

namespace zerofleet {

struct Error : std::runtime_error {
  Error(const char* type_, const std::string& message) : std::runtime_error(message), type(type_) {}
  const char* type;  // the name of a class in zerofleet.errors
};

[[noreturn]] inline void fail(const char* type, const std::string& message) { throw Error(type, message); }
[[noreturn]] inline void usage_error(const std::string& message) { fail("UsageError", message); }

}  // namespace zerofleet
