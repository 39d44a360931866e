// Log-density of a flow of coupling splines, and its gradient: one block takes 16 points through
// all layers. A warp has 32 hidden units, a lane eight neighbouring ones of two points: what the
// tensor cores' tiles ask for, if their columns are counted in that order. So hidden units never
// leave the registers: the norm and the products exchange a few sums between warps.
//
// Goes after units.cu. Set by the compiler: DIM, HIDDEN (a multiple of 32), LAYERS, BINS, SHARED
// (whether several points have one context), FULL (whether every block has 16 points), DROP (whether
// units are dropped), ROUNDED (whether `projected` is bfloat16).

constexpr int ROWS = 16, WARPS = HIDDEN / 32, THREADS = 32 * WARPS;
constexpr int FREE = 3 * BINS - 1, MOST = (DIM + 1) / 2, FEW = DIM / 2, SIZE = FREE * MOST;
constexpr int TILES = (SIZE + 7) / 8, PITCH = 8 * TILES + 4;   // rows of parameters, few conflicts
constexpr int WIDE = 8 * TILES + (TILES % 2 ? 0 : 8);          // rows of partial sums, none
constexpr int EVEN = HIDDEN * (FEW + 2 + FREE * MOST), ODD = HIDDEN * (MOST + 2 + FREE * FEW);
constexpr int WHOLE = (LAYERS + 1) / 2 * EVEN + LAYERS / 2 * ODD;  // weights before the biases
constexpr int ACROSS = LAYERS * HIDDEN, ROW = 8 * TILES;  // of parameters in global memory
constexpr int BESIDE = THREADS / ROWS;           // threads that share a point's parameters
constexpr int PARTS = (MOST + 3) * HIDDEN + ROW;  // sums over points, for each layer

struct Constants {
  float half, share, min_slope, unit_slope, min_scale, unit_scale, epsilon, keep;
  int samples;  // points that share a context
};

__device__ __forceinline__ bool within(int point, int n) { return FULL || point < n; }
__device__ __forceinline__ long long context_of(int point, const Constants& c) {
  return SHARED ? point / c.samples : point;
}

#ifdef __CUDACC__  // else whoever includes this has them
__device__ __forceinline__ unsigned to_tf32(float value) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}
__device__ __forceinline__ void multiply(float* c, const unsigned* a, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

#if ROUNDED
typedef unsigned short Unit;
__device__ __forceinline__ Unit single(float value) { return (Unit)narrow(value, 0.0f); }
struct Eight {
  int4 v;
};
__device__ __forceinline__ Eight fetch(const Unit* from) { return {*(const int4*)from}; }
__device__ __forceinline__ void open(const Eight& e, float* to) { widen(e.v, to); }
__device__ __forceinline__ void put(Unit* to, const float* from) {
  *(int4*)to = int4{narrow(from[0], from[1]), narrow(from[2], from[3]), narrow(from[4], from[5]),
                    narrow(from[6], from[7])};
}
#else
typedef float Unit;
__device__ __forceinline__ float single(float value) { return value; }
struct Eight {
  float v[8];
};
__device__ __forceinline__ Eight fetch(const Unit* from) {
  Eight e;
  load8(from, e.v);
  return e;
}
__device__ __forceinline__ void open(const Eight& e, float* to) {
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = e.v[i];
}
__device__ __forceinline__ void put(Unit* to, const float* from) { store8(to, from); }
#endif

// Sum over the four lanes that share a point.
__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// Sums over points of a lane's eight columns; each lane ends with the sum of one, `own_column`.
__device__ __forceinline__ float column_sum(float* v, int lane) {
#pragma unroll
  for (int bit = 16, left = 4; left > 0; bit >>= 1, left >>= 1) {
    const bool high = lane & bit;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k >= left) break;
      const float mine = high ? v[k + left] : v[k], other = high ? v[k] : v[k + left];
      v[k] = mine + __shfl_xor_sync(0xffffffffu, other, bit);
    }
  }
  return v[0];
}
__device__ __forceinline__ int own_column(int lane) {
  return 8 * (lane & 3) + (lane >> 4 & 1) * 4 + (lane >> 3 & 1) * 2 + (lane >> 2 & 1);
}

// A spline is the work of four lanes: widths, heights, slopes, and one more that repeats these.
struct Bin {
  int k;
  float x, x0, y0, w, h, d0, d1;
};

__device__ __forceinline__ float from_lane(float value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

// The bin of a number. For the gradient: the lane's shares of its lengths, or rates of its slopes.
template <int STEP>
__device__ __forceinline__ Bin find_bin(const float* p, float given, const Constants& c, int lane,
                                        float* share) {
  const int role = lane & 3, base = lane & ~3;
  const bool slopes = role > 1;
  p += (slopes ? 2 : role) * (BINS * STEP);
  float v[BINS], start[BINS], length[BINS];
#pragma unroll
  for (int i = 0; i < BINS; ++i) v[i] = slopes && i == BINS - 1 ? 0.0f : p[i * STEP];
  float most = v[0], sum = 0.0f;
#pragma unroll
  for (int i = 1; i < BINS; ++i) most = fmaxf(most, v[i]);
  most = slopes ? -c.unit_slope : most;
#pragma unroll
  for (int i = 0; i < BINS; ++i) {
    v[i] -= most;
    share[i] = fast_exp(fminf(v[i], 20.0f));
    sum += share[i];
  }
  Bin b;
  b.x = fminf(fmaxf(given, -c.half), c.half);
  b.k = 0;
  if (slopes) {
#pragma unroll
    for (int i = 0; i < BINS; ++i) {
      const bool large = v[i] > 20.0f;
      const float grown = share[i];
      length[i] = c.min_slope + (large ? v[i] : grown < 1e-4f ? grown : fast_log(1.0f + grown));
      share[i] = large ? 1.0f : grown * inverse(1.0f + grown);
      if (i == BINS - 1) length[i] = 1.0f;
      start[i] = i ? length[i - 1] : 1.0f;
    }
  } else {
    const float per = inverse(sum), rest = 1.0f - c.share * BINS;
    float edge = -c.half;
#pragma unroll
    for (int i = 0; i < BINS; ++i) {
      share[i] *= per;
      length[i] = 2.0f * c.half * (c.share + rest * share[i]);
      start[i] = edge;
      if (i > 0 && b.x >= edge) b.k = i;
      edge += length[i];
    }
  }
  b.k = (int)from_lane((float)b.k, base);
  float first = start[0], second = length[0];
#pragma unroll
  for (int i = 1; i < BINS; ++i) {
    first = i == b.k ? start[i] : first;
    second = i == b.k ? length[i] : second;
  }
  b.x0 = from_lane(first, base), b.w = from_lane(second, base);
  b.y0 = from_lane(first, base + 1), b.h = from_lane(second, base + 1);
  b.d0 = from_lane(first, base + 2), b.d1 = from_lane(second, base + 2);
  return b;
}

__device__ __forceinline__ float base_scale(float free, const Constants& c, float& rate) {
  const float value = free + c.unit_scale, grown = fast_exp(fminf(value, 20.0f));
  rate = value > 20.0f ? 1.0f : grown * inverse(1.0f + grown);
  return c.min_scale + (value > 20.0f ? value : fast_log(1.0f + grown));
}

// Where a lane works.
struct Place {
  int lane, warp, g, q, column, first;  // first: point of the block
  __device__ Place() {
    lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    g = lane >> 2, q = lane & 3;
    column = 32 * warp + 8 * q;
    first = blockIdx.x * ROWS;
  }
};

// Of layers with this parity: first bent coordinate, how many are bent, tiles of parameters.
template <int PARITY>
struct Layer {
  static constexpr int BENT = PARITY ? FEW : MOST, KEPT = DIM - BENT, USED = FREE * BENT;
  static constexpr int COUNT = (USED + 7) / 8;
  __device__ static const float* weights(const float* packed, int layer) {
    return packed + layer / 2 * (EVEN + ODD) + PARITY * EVEN;
  }
  __device__ static const float* shifts(const float* packed, int layer) {
    return packed + WHOLE + layer / 2 * (FREE * DIM) + PARITY * (FREE * MOST);
  }
};

// What all points of a layer need, in shared memory before the layer begins.
struct Vectors {
  float bias[HIDDEN], own[(MOST + 2) * HIDDEN];  // own: of the kept coordinates, of the norm
  float shift[ROW];
};

// A thread's part of these, on its way.
struct Incoming {
  float bias, own[MOST + 2], shift;
};

template <int PARITY>
__device__ __forceinline__ void ask(Incoming& in, const float* bias, const float* packed, int layer) {
  typedef Layer<PARITY> L;
  in.bias = bias[layer * HIDDEN + threadIdx.x];
  const float* own = L::weights(packed, layer);
#pragma unroll
  for (int j = 0; j < L::KEPT + 2; ++j) in.own[j] = own[j * HIDDEN + threadIdx.x];
  in.shift = threadIdx.x < L::USED ? L::shifts(packed, layer)[threadIdx.x] : 0.0f;
}
template <int PARITY>
__device__ __forceinline__ void receive(Vectors& to, const Incoming& in) {
  typedef Layer<PARITY> L;
  to.bias[threadIdx.x] = in.bias;
#pragma unroll
  for (int j = 0; j < L::KEPT + 2; ++j) to.own[j * HIDDEN + threadIdx.x] = in.own[j];
  if (threadIdx.x < L::USED) to.shift[threadIdx.x] = in.shift;
}

// Hidden units before their norm: h of a lane's two points.
template <int PARITY>
__device__ __forceinline__ void hidden_units(const Eight* fetched, const Vectors& vectors,
                                             const float (*u)[ROWS], const Place& at,
                                             float h[2][8]) {
  typedef Layer<PARITY> L;
  float shift[8];
  load8(vectors.bias + at.column, shift);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    open(fetched[r], h[r]);
#pragma unroll
    for (int i = 0; i < 8; ++i) h[r][i] += shift[i];
  }
  float read[8 * L::KEPT];
#pragma unroll
  for (int j = 0; j < L::KEPT; ++j) load8(vectors.own + at.column * L::KEPT + 8 * j, read + 8 * j);
#pragma unroll
  for (int j = 0; j < L::KEPT; ++j) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float value = u[1 - PARITY + 2 * j][at.g + 8 * r];
#pragma unroll
      for (int i = 0; i < 8; ++i) h[r][i] += value * read[i * L::KEPT + j];
    }
  }
}
