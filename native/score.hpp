// The choice of an edge: PUCT in single precision, the first edge with the greatest score.
//
// The same operations in the same order as `search/reference.py`, so that both trees agree bit for bit.
// The arrays of a node are padded to a multiple of four edges, and a padding edge can never win:
// its visits are 1 and its value is minus infinity.
#pragma once

#include <cstdint>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace zerofleet {

// The edges of one node, structure of arrays, each of `padded` entries.
struct Edges {
  float* prior;           // P
  float* value;           // W, the sum of values for the node's player
  std::int32_t* pending;  // V, virtual visits
  std::int32_t* visits;   // N + V
  std::uint32_t* child;   // the child's number, or kNoChild
  int padded;
};

inline constexpr std::uint32_t kNoChild = 0xFFFFFFFF;

// Make all edges unvisited; their priors stay.
inline void clear_edges(const Edges& e, int count) {
  for (int i = 0; i < e.padded; ++i) {
    e.value[i] = 0.0F;
    e.pending[i] = 0;
    e.visits[i] = 0;
    e.child[i] = kNoChild;
  }
  for (int i = count; i < e.padded; ++i) {
    e.value[i] = -std::numeric_limits<float>::infinity();
    e.visits[i] = 1;
  }
}

inline bool is_weight(float prior) { return prior >= 0.0F && prior <= std::numeric_limits<float>::max(); }

// Copy `count` priors in, with zeros for the padding; false if they are no distribution: not finite, negative or all zero.
inline bool store_priors(const Edges& e, const float* priors, int count) {
#if defined(__SSE2__)
  if (count >= 4 && e.padded == 8) {  // two overlapping fours
    const __m128 zero = _mm_setzero_ps(), most = _mm_set1_ps(std::numeric_limits<float>::max());
    const __m128 head = _mm_loadu_ps(priors), tail = _mm_loadu_ps(priors + count - 4);
    const __m128 head_sound = _mm_and_ps(_mm_cmpge_ps(head, zero), _mm_cmple_ps(head, most));
    const __m128 tail_sound = _mm_and_ps(_mm_cmpge_ps(tail, zero), _mm_cmple_ps(tail, most));
    const __m128 some = _mm_or_ps(_mm_cmpgt_ps(head, zero), _mm_cmpgt_ps(tail, zero));
    _mm_store_ps(e.prior + 4, zero);
    _mm_store_ps(e.prior, head);
    _mm_storeu_ps(e.prior + count - 4, tail);
    return _mm_movemask_ps(_mm_and_ps(head_sound, tail_sound)) == 0xF && _mm_movemask_ps(some) != 0;
  }
#endif
  bool sound = true, any = false;
  for (int i = count; i < e.padded; ++i) e.prior[i] = 0.0F;
  for (int i = 0; i < count; ++i) {
    e.prior[i] = priors[i];
    sound = sound && is_weight(priors[i]);
    any = any || priors[i] > 0.0F;
  }
  return sound && any;
}

// The plain statement of the score; the vectorised one below gives the same bits.
inline float edge_score(const Edges& e, int i, float scale, float fpu) {
  const std::int32_t n = e.visits[i];
  const float u = (scale * e.prior[i]) / static_cast<float>(1 + n);
  const float q = n > 0 ? (e.value[i] - static_cast<float>(e.pending[i])) / static_cast<float>(n) : fpu;
  return q + u;
}

inline int best_edge_plain(const Edges& e, float scale, float fpu) {
  int best = 0;
  float best_score = edge_score(e, 0, scale, fpu);
  for (int i = 1; i < e.padded; ++i) {
    const float score = edge_score(e, i, scale, fpu);
    if (score > best_score) {
      best = i;
      best_score = score;
    }
  }
  return best;
}

#if defined(__SSE2__)

namespace detail {

inline __m128 score4(const Edges& e, int i, __m128 scale, __m128 fpu) {
  const __m128i n = _mm_load_si128(reinterpret_cast<const __m128i*>(e.visits + i));
  const __m128i v = _mm_load_si128(reinterpret_cast<const __m128i*>(e.pending + i));
  const __m128 u = _mm_div_ps(_mm_mul_ps(scale, _mm_load_ps(e.prior + i)),
                              _mm_cvtepi32_ps(_mm_add_epi32(n, _mm_set1_epi32(1))));
  const __m128 mean = _mm_div_ps(_mm_sub_ps(_mm_load_ps(e.value + i), _mm_cvtepi32_ps(v)), _mm_cvtepi32_ps(n));
  const __m128 visited = _mm_castsi128_ps(_mm_cmpgt_epi32(n, _mm_setzero_si128()));
  const __m128 q = _mm_or_ps(_mm_and_ps(visited, mean), _mm_andnot_ps(visited, fpu));
  return _mm_add_ps(q, u);
}

inline __m128 max_of_lanes(__m128 x) {
  x = _mm_max_ps(x, _mm_shuffle_ps(x, x, _MM_SHUFFLE(1, 0, 3, 2)));
  return _mm_max_ps(x, _mm_shuffle_ps(x, x, _MM_SHUFFLE(2, 3, 0, 1)));
}

// The first lane of those set; 0 where none is (scores that are no numbers, from values out of bounds).
inline int first_lane(int mask) { return __builtin_ctz(static_cast<unsigned>(mask) | 0x100U) & 7; }

}  // namespace detail

inline int best_edge(const Edges& e, float scale_, float fpu_) {
  const __m128 scale = _mm_set1_ps(scale_), fpu = _mm_set1_ps(fpu_);
  if (e.padded == 8) {
    const __m128 low = detail::score4(e, 0, scale, fpu), high = detail::score4(e, 4, scale, fpu);
    const __m128 top = detail::max_of_lanes(_mm_max_ps(low, high));
    return detail::first_lane(_mm_movemask_ps(_mm_cmpeq_ps(low, top)) | _mm_movemask_ps(_mm_cmpeq_ps(high, top)) << 4);
  }
  int best = 0;
  float best_score = -std::numeric_limits<float>::infinity();
  for (int i = 0; i < e.padded; i += 4) {
    const __m128 score = detail::score4(e, i, scale, fpu);
    const __m128 top = detail::max_of_lanes(score);
    if (_mm_cvtss_f32(top) > best_score) {
      best = i + detail::first_lane(_mm_movemask_ps(_mm_cmpeq_ps(score, top)));
      best_score = _mm_cvtss_f32(top);
    }
  }
  return best;
}

#else

inline int best_edge(const Edges& e, float scale, float fpu) { return best_edge_plain(e, scale, fpu); }

#endif

}  // namespace zerofleet
