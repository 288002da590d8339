#!/bin/sh
# Build the native tests with sanitizers, address and undefined behaviour first and then threads, and run them.
set -eu
cd "$(dirname "$0")/.."
for sanitizers in address,undefined thread; do
  build=build/sanitized-$sanitizers
  cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Debug -DZEROFLEET_SANITIZE=$sanitizers >/dev/null
  cmake --build "$build"
  echo "native tests under -fsanitize=$sanitizers"
  ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1 \
    "$build/native/tests/native-tests"
done
