#!/bin/sh
# Build the native tests with the address and undefined-behaviour sanitizers, and run them: native/test-sanitized.sh
set -eu
cd "$(dirname "$0")/.."
build=build/sanitized
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Debug -DZEROFLEET_SANITIZE=ON >/dev/null
cmake --build "$build"
ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 "$build/native/tests/native-tests"
