// The parameters of a search, as `search/base.py` documents them, and the tables derived from them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace zerofleet {

struct Config {
  std::int32_t num_simulations = 100;
  std::int32_t leaves_per_tree = 4;
  bool log_exploration = true;
  double c_init = 1.25;
  double c_base = 19652.0;
  bool parent_urgency = true;
  double fpu_value = 0.2;
  double reuse_limit = 4.0;
  std::int64_t max_nodes = 0;
  double dirichlet_fraction = 0.0;
};

// scale(total) = C(total) * sqrt(max(1, total)): the logarithm in double, all else in single precision.
class ExplorationScale {
 public:
  explicit ExplorationScale(const Config& config)
      : log_(config.log_exploration), c_init_(static_cast<float>(config.c_init)), c_base_(config.c_base) {}

  float compute(std::int32_t total) const {
    float c = c_init_;
    if (log_) c = static_cast<float>(std::log((1.0 + total + c_base_) / c_base_)) + c_init_;
    return c * std::sqrt(static_cast<float>(std::max(1, total)));
  }

  float operator()(std::int32_t total) const {
    return total < num_entries_ ? table_[static_cast<std::size_t>(total)] : compute(total);
  }

  // Make the lookup cover totals up to `total`, within a bound on the table's memory.
  void cover(std::int64_t total) {
    const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(total + 1, kMaxEntries));
    while (table_.size() < wanted) table_.push_back(compute(static_cast<std::int32_t>(table_.size())));
    num_entries_ = static_cast<std::int32_t>(table_.size());
  }

  std::size_t bytes() const { return table_.capacity() * sizeof(float); }

 private:
  static constexpr std::int64_t kMaxEntries = 1 << 16;
  bool log_;
  float c_init_;
  double c_base_;
  std::vector<float> table_;
  std::int32_t num_entries_ = 0;  // of the table, in the type of a total
};

}  // namespace zerofleet
