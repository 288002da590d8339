#!/bin/sh
# Build the native extension into src/zerofleet for development: native/build-dev.sh [PYTHON]
set -eu
cd "$(dirname "$0")/.."
python=${1:-${PYTHON:-python}}
build=build/dev
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$(command -v "$python")" >/dev/null
cmake --build "$build"
for library in "$build"/_native*.so; do
  cp "$library" src/zerofleet/.new-native.so
  mv src/zerofleet/.new-native.so "src/zerofleet/$(basename "$library")"
done
