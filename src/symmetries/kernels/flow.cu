// Log-density of a flow of coupling splines, and its gradient: one block takes 16 points through
// all layers. A warp has 32 hidden units, a lane eight neighbouring ones of two points: what the
// tensor cores' tiles ask for, if their columns are counted in that order. So hidden units never
// leave the registers: the norm and the products exchange a few sums between warps.
//
// Set by the compiler: DIM, HIDDEN (a multiple of 32), LAYERS, BINS, SAMPLES (points that share a
// context), DROP (whether units are dropped), ROUNDED (whether `projected` is bfloat16).

constexpr int ROWS = 16, WARPS = HIDDEN / 32, THREADS = 32 * WARPS;
constexpr int FREE = 3 * BINS - 1, MOST = (DIM + 1) / 2, FEW = DIM / 2, SIZE = FREE * MOST;
constexpr int TILES = (SIZE + 7) / 8, PITCH = 8 * TILES + 4;   // rows of parameters, few conflicts
constexpr int WIDE = 8 * TILES + (TILES % 2 ? 0 : 8);          // rows of partial sums, none
constexpr int EVEN = HIDDEN * (FEW + 2 + FREE * MOST), ODD = HIDDEN * (MOST + 2 + FREE * FEW);
constexpr int WHOLE = (LAYERS + 1) / 2 * EVEN + LAYERS / 2 * ODD;  // weights before the biases
constexpr int ACROSS = LAYERS * HIDDEN, ROW = 8 * TILES;  // of parameters in global memory
constexpr int PARTS = (MOST + 3) * HIDDEN + ROW;  // sums over points, for each layer

struct Constants {
  float half, share, min_slope, unit_slope, min_scale, unit_scale, epsilon, keep;
};

#ifdef __CUDACC__  // else whoever includes this has them
__device__ __forceinline__ float fast_exp(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
}
__device__ __forceinline__ float fast_log(float x) {
  asm("lg2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return 0.6931471805599453f * x;
}
__device__ __forceinline__ float inverse(float x) {
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
__device__ __forceinline__ float inverse_root(float x) {
  asm("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
__device__ __forceinline__ int narrow(float low, float high) {  // to bfloat16
  int both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
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

__device__ __forceinline__ void load4(const float* from, float* to) {
  const float4 v = *(const float4*)from;
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
__device__ __forceinline__ void load8(const float* from, float* to) {
  load4(from, to);
  load4(from + 4, to + 4);
}
__device__ __forceinline__ void store8(float* to, const float* from) {
  *(float4*)to = float4{from[0], from[1], from[2], from[3]};
  *(float4*)(to + 4) = float4{from[4], from[5], from[6], from[7]};
}
__device__ __forceinline__ void widen(const int4& v, float* to) {
  const int words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float((unsigned)words[i] << 16);
    to[2 * i + 1] = __uint_as_float((unsigned)words[i] & 0xffff0000u);
  }
}
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

// gelu(h), and its slope; the normal distribution by Abramowitz and Stegun 7.1.26, off by 8e-8.
__device__ __forceinline__ float gelu(float h, float& slope) {
  const float density = fast_exp(-0.5f * h * h);
  const float t = inverse(1.0f + 0.2316418882f * fabsf(h));
  float tail = t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f));
  tail = 0.5f * density * t * (0.254829592f + t * (-0.284496736f + tail));
  const float share = h < 0.0f ? tail : 1.0f - tail;
  slope = share + h * 0.3989422804014327f * density;
  return h * share;
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

struct __align__(16) Forward {
  Vectors vectors;
  float u[DIM][ROWS];
  float mean[WARPS][ROWS], spread[WARPS][ROWS];
  float part[WARPS][ROWS][WIDE];
  float parameters[ROWS][PITCH];
  float totals[MOST][ROWS];
};

template <int PARITY>
__device__ __forceinline__ void forward_layer(
    Forward& s, const Place& at, int layer, const Unit* projected, const float* bias,
    const float* packed, const unsigned short* mask, float* us, Unit* units, float* statistics,
    float* parameters, int n, const Constants& c) {
  typedef Layer<PARITY> L;
  const float* own = L::weights(packed, layer);
  const float* matrix = own + HIDDEN * (L::KEPT + 2) + at.column;
  Eight fetched[2];
  int4 kept[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int point = at.first + at.g + 8 * r, known = point < n ? point : 0;
    fetched[r] = fetch(projected + (long long)(known / SAMPLES) * ACROSS + layer * HIDDEN + at.column);
    if (DROP) kept[r] = *(const int4*)(mask + (long long)known * ACROSS + layer * HIDDEN + at.column);
  }
  float w[L::COUNT][8];
#pragma unroll
  for (int t = 0; t < L::COUNT; ++t) {
    const int row = 8 * t + at.g;
    load8(matrix + (row < L::USED ? row : 0) * HIDDEN, w[t]);
  }
  __syncthreads();  // coordinates and vectors are there
  for (int i = threadIdx.x; i < DIM * ROWS; i += THREADS) {
    const int point = at.first + i % ROWS;
    if (point < n) us[(long long)(layer * DIM + i / ROWS) * n + point] = s.u[i / ROWS][i % ROWS];
  }
  float y[2][8], slope;
  hidden_units<PARITY>(fetched, s.vectors, s.u, at, y);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = 0.0f, square = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += y[r][i] = gelu(y[r][i], slope);
    const float mean = quad_sum(sum) * (1.0f / 32);
#pragma unroll
    for (int i = 0; i < 8; ++i) square += (y[r][i] - mean) * (y[r][i] - mean);
    square = quad_sum(square);
    if (at.q == 0) s.mean[at.warp][at.g + 8 * r] = mean, s.spread[at.warp][at.g + 8 * r] = square;
  }
  __syncthreads();
  float gamma[8], beta[8];
  load8(s.vectors.own + HIDDEN * L::KEPT + at.column, gamma);
  load8(s.vectors.own + HIDDEN * (L::KEPT + 1) + at.column, beta);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = at.g + 8 * r, point = at.first + row;
    float mean = 0.0f, square = 0.0f;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) mean += s.mean[i][row];
    mean *= 1.0f / WARPS;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) {
      const float off = s.mean[i][row] - mean;
      square += s.spread[i][row] + 32.0f * off * off;
    }
    const float scale = inverse_root(square * (1.0f / HIDDEN) + c.epsilon);
    float stay[8];
    if (DROP) widen(kept[r], stay);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      y[r][i] = (y[r][i] - mean) * scale * gamma[i] + beta[i];
      if (DROP) y[r][i] = stay[i] != 0.0f ? y[r][i] * c.keep : 0.0f;
    }
    if (point < n) {
      put(units + ((long long)layer * n + point) * HIDDEN + at.column, y[r]);
      if (at.column == 0) {
        statistics[(long long)2 * layer * n + point] = mean;
        statistics[(long long)(2 * layer + 1) * n + point] = scale;
      }
    }
  }
  unsigned a[4][4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    a[k][0] = to_tf32(y[0][2 * k]), a[k][1] = to_tf32(y[1][2 * k]);
    a[k][2] = to_tf32(y[0][2 * k + 1]), a[k][3] = to_tf32(y[1][2 * k + 1]);
  }
#pragma unroll
  for (int t = 0; t < L::COUNT; ++t) {
    float found[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply(found, a[k], to_tf32(w[t][2 * k]), to_tf32(w[t][2 * k + 1]));
    float* to = &s.part[at.warp][at.g][8 * t + 2 * at.q];
    to[0] = found[0], to[1] = found[1];
    to += 8 * WIDE;
    to[0] = found[2], to[1] = found[3];
  }
  __syncthreads();
  Incoming in;
  if (layer + 1 < LAYERS) ask<1 - PARITY>(in, bias, packed, layer + 1);
#pragma unroll 4
  for (int i = threadIdx.x; i < ROWS * ROW; i += THREADS) {
    const int row = i / ROW, column = i % ROW;
    if (column >= L::USED) continue;
    float sum = s.vectors.shift[column];
#pragma unroll
    for (int j = 0; j < WARPS; ++j) sum += s.part[j][row][column];
    s.parameters[row][column] = sum;
    if (at.first + row < n)
      parameters[((long long)layer * n + at.first + row) * ROW + column] = sum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 4 * ROWS * L::BENT; i += THREADS) {
    const int axis = i / (4 * ROWS), row = i / 4 % ROWS;
    float share[BINS];
    const float given = s.u[PARITY + 2 * axis][row];
    const Bin b = find_bin<L::BENT>(&s.parameters[row][axis], given, c, at.lane, share);
    const float per = inverse(b.w), steep = b.h * per, t = (b.x - b.x0) * per;
    const float mixed = t * (1.0f - t), under = steep + (b.d0 + b.d1 - 2.0f * steep) * mixed;
    const float rise = b.d1 * t * t + 2.0f * steep * mixed + b.d0 * (1.0f - t) * (1.0f - t);
    if (at.q == 0 && given >= -c.half && given <= c.half) {
      const float part = steep * inverse(under);
      s.u[PARITY + 2 * axis][row] =
          b.y0 + b.h * (steep * t * t + b.d0 * mixed) * inverse(under);
      s.totals[axis][row] += fast_log(rise * part * part);
    }
  }
  if (layer + 1 < LAYERS) receive<1 - PARITY>(s.vectors, in);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
flow_forward(const float* __restrict__ eta, const float* __restrict__ bounds,
             const Unit* __restrict__ projected, const float* __restrict__ bias,
             const float* __restrict__ packed, const unsigned short* __restrict__ mask,
             const float* __restrict__ base, float* __restrict__ us, Unit* __restrict__ units,
             float* __restrict__ statistics, float* __restrict__ parameters,
             float* __restrict__ out, int n, Constants c) {
  __shared__ Forward s;
  const Place at;
  for (int i = threadIdx.x; i < DIM * ROWS; i += THREADS) {
    const int point = at.first + i / DIM, j = i % DIM;
    s.u[j][i / DIM] = point < n ? eta[(long long)point * DIM + j] * (c.half / bounds[j]) : 0.0f;
  }
  for (int i = threadIdx.x; i < MOST * ROWS; i += THREADS) s.totals[i / ROWS][i % ROWS] = 0.0f;
  Incoming in;
  ask<0>(in, bias, packed, 0);
  receive<0>(s.vectors, in);
#pragma unroll 1
  for (int layer = 0; layer < LAYERS; layer += 2) {
    forward_layer<0>(s, at, layer, projected, bias, packed, mask, us, units, statistics,
                     parameters, n, c);
    if (layer + 1 < LAYERS)
      forward_layer<1>(s, at, layer + 1, projected, bias, packed, mask, us, units, statistics,
                       parameters, n, c);
  }
  __syncthreads();
  const int point = at.first + threadIdx.x;
  if (threadIdx.x < ROWS && point < n) {
    float sum = 0.0f, rate;
#pragma unroll
    for (int axis = 0; axis < MOST; ++axis) sum += s.totals[axis][threadIdx.x];
    const float* law = base + (long long)(point / SAMPLES) * (2 * DIM);
#pragma unroll
    for (int j = 0; j < DIM; ++j) {
      const float value = s.u[j][threadIdx.x], scale = base_scale(law[DIM + j], c, rate);
      const float z = (value - law[j]) / scale;
      us[(long long)(LAYERS * DIM + j) * n + point] = value;
      sum += fast_log(c.half / bounds[j]) - 0.91893853320467274f - 0.5f * z * z - fast_log(scale);
    }
    out[point] = sum;
  }
}

struct __align__(16) Backward {
  Vectors vectors[2];
  float u[2][DIM][ROWS], to_u[DIM][ROWS];
  float parameters[2][ROWS][PITCH];
  float along[2][WARPS][ROWS];
  float read[MOST][WARPS][ROWS];
};

// Coordinates and parameters of a layer, on their way to shared memory.
struct Coming {
  static constexpr int MANY = (ROWS * ROW + THREADS - 1) / THREADS;
  static constexpr int FEW_MORE = (DIM * ROWS + THREADS - 1) / THREADS;
  float parameters[MANY], u[FEW_MORE];
};

__device__ __forceinline__ void ask(Coming& in, const Place& at, int layer, const float* us,
                                    const float* parameters, int n) {
#pragma unroll
  for (int j = 0; j < Coming::MANY; ++j) {
    const int i = threadIdx.x + j * THREADS, point = at.first + i / ROW;
    in.parameters[j] = i < ROWS * ROW && point < n
                           ? parameters[((long long)layer * n + point) * ROW + i % ROW]
                           : 0.0f;
  }
#pragma unroll
  for (int j = 0; j < Coming::FEW_MORE; ++j) {
    const int i = threadIdx.x + j * THREADS, point = at.first + i % ROWS;
    in.u[j] = i < DIM * ROWS && point < n ? us[(long long)(layer * DIM + i / ROWS) * n + point]
                                          : 0.0f;
  }
}
__device__ __forceinline__ void receive(Backward& s, int into, const Coming& in) {
#pragma unroll
  for (int j = 0; j < Coming::MANY; ++j) {
    const int i = threadIdx.x + j * THREADS;
    if (i < ROWS * ROW) s.parameters[into][i / ROW][i % ROW] = in.parameters[j];
  }
#pragma unroll
  for (int j = 0; j < Coming::FEW_MORE; ++j) {
    const int i = threadIdx.x + j * THREADS;
    if (i < DIM * ROWS) s.u[into][i / ROWS][i % ROWS] = in.u[j];
  }
}

// The gradient of one spline: to its number, and to its parameters in their place.
template <int STEP>
__device__ __forceinline__ float spline_gradient(float* p, float given, float to_y, float to_log,
                                                 const Constants& c, int lane) {
  float share[BINS];
  const Bin b = find_bin<STEP>(p, given, c, lane, share);
  const int role = lane & 3;
  const float per_w = inverse(b.w), s = b.h * per_w, bend = b.d0 + b.d1 - 2.0f * s;
  const float t = fminf(fmaxf((b.x - b.x0) * per_w, 0.0f), 1.0f), mixed = t * (1.0f - t);
  const float per_under = inverse(s + bend * mixed), over = s * t * t + b.d0 * mixed;
  const float rise = b.d1 * t * t + 2.0f * s * mixed + b.d0 * (1.0f - t) * (1.0f - t);
  const float per_rise = inverse(rise);
  float bending = (2.0f * b.d1 * t - 2.0f * b.d0 * (1.0f - t) + 2.0f * s * (1.0f - 2.0f * t)) * per_rise;
  bending = (bending - 2.0f * bend * (1.0f - 2.0f * t) * per_under) * per_w;
  const bool within = given >= -c.half && given <= c.half;
  const float to_x =
      within ? to_y * s * s * rise * per_under * per_under + to_log * bending : to_y;
  if (!within) to_y = to_log = 0.0f;
  const float g_over = to_y * b.h * per_under;
  const float g_under = -(g_over * over + 2.0f * to_log) * per_under;
  const float g_rise = to_log * per_rise;
  const float g_s = 2.0f * to_log * inverse(s) + g_over * t * t + 2.0f * g_rise * mixed +
                    g_under * (1.0f - 2.0f * mixed);
  const float g_d0 = (g_over + g_under) * mixed + g_rise * (1.0f - t) * (1.0f - t);
  const float g_d1 = g_under * mixed + g_rise * t * t;
  const float g_mixed = g_over * b.d0 + g_under * bend + 2.0f * g_rise * s;
  const float g_t = 2.0f * g_over * s * t + 2.0f * g_rise * (b.d1 * t - b.d0 * (1.0f - t)) +
                    g_mixed * (1.0f - 2.0f * t);
  // To bins before this one, and to this one.
  const float before = role == 0 ? -g_t * per_w : to_y;
  const float here = role == 0 ? -(g_t * t + g_s * s) * per_w : to_y * over * per_under + g_s * per_w;
  float mean = 0.0f;
#pragma unroll
  for (int i = 0; i < BINS; ++i) mean += share[i] * (i < b.k ? before : i == b.k ? here : 0.0f);
  const float rest = 2.0f * c.half * (1.0f - c.share * BINS);
  if (role < 3) {
    p += role * (BINS * STEP);
#pragma unroll
    for (int i = 0; i < BINS; ++i) {
      if (role < 2)
        p[i * STEP] = rest * share[i] * ((i < b.k ? before : i == b.k ? here : 0.0f) - mean);
      else if (i < BINS - 1)
        p[i * STEP] = (i == b.k - 1 ? g_d0 : i == b.k ? g_d1 : 0.0f) * share[i];
    }
  }
  return to_x;
}

template <int PARITY>
__device__ __forceinline__ void backward_layer(
    Backward& s, const Place& at, int layer, const Unit* projected, const float* bias,
    const float* packed, const unsigned short* mask, const float* us, const float* statistics,
    const float* parameters, const float* grad, Unit* to_projected, Unit* to_parameters,
    float* partial, int n, const Constants& c, bool last) {
  typedef Layer<PARITY> L;
  const int now = layer & 1, lane = at.lane;
  const float* own = L::weights(packed, layer);
  const float* matrix = own + HIDDEN * (L::KEPT + 2) + 32 * at.warp + 4 * at.g;
  Eight fetched[2];
  int4 kept[2];
  float mean[2], scale[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int point = at.first + at.g + 8 * r, known = point < n ? point : 0;
    fetched[r] = fetch(projected + (long long)(known / SAMPLES) * ACROSS + layer * HIDDEN + at.column);
    if (DROP) kept[r] = *(const int4*)(mask + (long long)known * ACROSS + layer * HIDDEN + at.column);
    mean[r] = statistics[(long long)2 * layer * n + known];
    scale[r] = point < n ? statistics[(long long)(2 * layer + 1) * n + known] : 0.0f;
  }
  float w[L::COUNT][2][4];
#pragma unroll
  for (int k = 0; k < L::COUNT; ++k) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int row = 8 * k + 4 * e + at.q;
      load4(matrix + (row < L::USED ? row : 0) * HIDDEN, w[k][e]);
    }
  }
  Incoming vectors;
  Coming coming;
  if (layer > 0) {
    ask<1 - PARITY>(vectors, bias, packed, layer - 1);
    ask(coming, at, layer - 1, us, parameters, n);
  }
  for (int i = threadIdx.x; i < 4 * ROWS * L::BENT; i += THREADS) {
    const int axis = i / (4 * ROWS), row = i / 4 % ROWS, j = PARITY + 2 * axis;
    float to_y = s.to_u[j][row];
    if (!last) {  // what the layer after this one read
      float sum = 0.0f;
#pragma unroll
      for (int k = 0; k < (WARPS + 3) / 4; ++k)
        if (4 * k + at.q < WARPS) sum += s.read[axis][4 * k + at.q][row];
      to_y += quad_sum(sum);
    }
    const int point = at.first + row;
    const float to_log = point < n ? grad[point] : 0.0f;
    const float to_x = spline_gradient<L::BENT>(&s.parameters[now][row][axis], s.u[now][j][row],
                                                to_y, to_log, c, at.lane);
    if (at.q == 0) s.to_u[j][row] = to_x;
  }
  for (int i = threadIdx.x; i < ROWS * (8 * L::COUNT - L::USED); i += THREADS)
    s.parameters[now][i % ROWS][L::USED + i / ROWS] = 0.0f;
  if (layer > 0) {
    receive<1 - PARITY>(s.vectors[1 - now], vectors);
    receive(s, 1 - now, coming);
  }
  __syncthreads();
  float* to = partial + ((long long)blockIdx.x * LAYERS + layer) * PARTS;
  if (threadIdx.x < L::USED) {
    float sum = 0.0f;
#pragma unroll
    for (int row = 0; row < ROWS; ++row) sum += s.parameters[now][row][threadIdx.x];
    to[(MOST + 3) * HIDDEN + threadIdx.x] = sum;
  }
#pragma unroll 4
  for (int i = threadIdx.x; i < ROWS * ROW; i += THREADS) {
    const int row = i / ROW, column = i % ROW;
    if (at.first + row < n && column < 8 * L::COUNT)
      to_parameters[((long long)layer * n + at.first + row) * ROW + column] =
          single(s.parameters[now][row][column]);
  }
  float found[4][4] = {};
#pragma unroll
  for (int k = 0; k < L::COUNT; ++k) {
    const float* from = &s.parameters[now][at.g][8 * k + at.q];
    const unsigned a[4] = {to_tf32(from[0]), to_tf32(from[8 * PITCH]), to_tf32(from[4]),
                           to_tf32(from[8 * PITCH + 4])};
#pragma unroll
    for (int j = 0; j < 4; ++j) multiply(found[j], a, to_tf32(w[k][0][j]), to_tf32(w[k][1][j]));
  }
  float h[2][8], gamma[8], sums[8], other[8];
  hidden_units<PARITY>(fetched, s.vectors[now], s.u[now], at, h);
  load8(s.vectors[now].own + HIDDEN * L::KEPT + at.column, gamma);
  float unit[2][8], d[2][8], rise[2][8];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float stay[8], sum = 0.0f, along = 0.0f;
    if (DROP) widen(kept[r], stay);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      unit[r][i] = (gelu(h[r][i], rise[r][i]) - mean[r]) * scale[r];
      float dy = found[i & 3][2 * r + (i >> 2)];
      if (DROP) dy = stay[i] != 0.0f ? dy * c.keep : 0.0f;
      sums[i] = r ? sums[i] + dy * unit[r][i] : dy * unit[r][i];
      other[i] = r ? other[i] + dy : dy;
      d[r][i] = dy * gamma[i];
      sum += d[r][i];
      along += d[r][i] * unit[r][i];
    }
    sum = quad_sum(sum), along = quad_sum(along);
    if (at.q == 0) s.along[0][at.warp][at.g + 8 * r] = sum, s.along[1][at.warp][at.g + 8 * r] = along;
  }
  const int mine = 32 * at.warp + own_column(lane);
  to[mine] = column_sum(sums, lane);
  to[HIDDEN + mine] = column_sum(other, lane);
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = at.g + 8 * r, point = at.first + row;
    float sum = 0.0f, along = 0.0f;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) sum += s.along[0][i][row], along += s.along[1][i][row];
    sum *= 1.0f / HIDDEN, along *= 1.0f / HIDDEN;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      d[r][i] = scale[r] * (d[r][i] - sum - unit[r][i] * along) * rise[r][i];
      sums[i] = r ? sums[i] + d[r][i] : d[r][i];
    }
    if (point < n) put(to_projected + (long long)point * ACROSS + layer * HIDDEN + at.column, d[r]);
  }
  to[2 * HIDDEN + mine] = column_sum(sums, lane);
  float read[8 * L::KEPT];
#pragma unroll
  for (int j = 0; j < L::KEPT; ++j)
    load8(s.vectors[now].own + at.column * L::KEPT + 8 * j, read + 8 * j);
#pragma unroll
  for (int j = 0; j < L::KEPT; ++j) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float value = s.u[now][1 - PARITY + 2 * j][at.g + 8 * r];
      float along = 0.0f;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sums[i] = r ? sums[i] + d[r][i] * value : d[r][i] * value;
        along += d[r][i] * read[i * L::KEPT + j];
      }
      along = quad_sum(along);
      if (at.q == 0) s.read[j][at.warp][at.g + 8 * r] = along;
    }
    to[3 * HIDDEN + mine * L::KEPT + j] = column_sum(sums, lane);
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
flow_backward(const Unit* __restrict__ projected, const float* __restrict__ bias,
              const float* __restrict__ packed, const unsigned short* __restrict__ mask,
              const float* __restrict__ base, const float* __restrict__ us,
              const float* __restrict__ statistics, const float* __restrict__ parameters,
              const float* __restrict__ grad, Unit* __restrict__ to_projected,
              float* __restrict__ to_base, float* __restrict__ to_u,
              Unit* __restrict__ to_parameters, float* __restrict__ partial, int n, Constants c) {
  __shared__ Backward s;
  const Place at;
  for (int i = threadIdx.x; i < DIM * ROWS; i += THREADS) {
    const int row = i % ROWS, j = i / ROWS, point = at.first + row;
    float to_z = 0.0f;
    if (point < n) {
      const float* law = base + (long long)(point / SAMPLES) * (2 * DIM);
      float rate;
      const float scale = base_scale(law[DIM + j], c, rate), g = grad[point];
      const float z = (us[(long long)(LAYERS * DIM + j) * n + point] - law[j]) / scale;
      to_z = -g * z / scale;
      to_base[(long long)point * (2 * DIM) + j] = -to_z;
      to_base[(long long)point * (2 * DIM) + DIM + j] = g * (z * z - 1.0f) / scale * rate;
    }
    s.to_u[j][row] = to_z;
  }
  Incoming vectors;
  Coming coming;
  ask<(LAYERS - 1) % 2>(vectors, bias, packed, LAYERS - 1);
  ask(coming, at, LAYERS - 1, us, parameters, n);
  receive<(LAYERS - 1) % 2>(s.vectors[(LAYERS - 1) % 2], vectors);
  receive(s, (LAYERS - 1) % 2, coming);
  __syncthreads();
  if (LAYERS % 2)
    backward_layer<0>(s, at, LAYERS - 1, projected, bias, packed, mask, us, statistics, parameters,
                      grad, to_projected, to_parameters, partial, n, c, true);
#pragma unroll 1
  for (int layer = LAYERS - 1 - LAYERS % 2; layer > 0; layer -= 2) {
    backward_layer<1>(s, at, layer, projected, bias, packed, mask, us, statistics, parameters, grad,
                      to_projected, to_parameters, partial, n, c, layer == LAYERS - 1);
    backward_layer<0>(s, at, layer - 1, projected, bias, packed, mask, us, statistics, parameters,
                      grad, to_projected, to_parameters, partial, n, c, false);
  }
  for (int i = threadIdx.x; i < DIM * ROWS; i += THREADS) {
    const int row = i % ROWS, j = i / ROWS, point = at.first + row;
    float sum = s.to_u[j][row];
    if (j % 2 == 1) {  // kept by the first layer
#pragma unroll
      for (int k = 0; k < WARPS; ++k) sum += s.read[j / 2][k][row];
    }
    if (point < n) to_u[(long long)j * n + point] = sum;
  }
}
