// Image warps of one picture per block, from shared memory.
//
// A picture is copied once, with a border of zeros, so that no tap needs a test; lanes of a warp
// take a tile of 8 x 4 pixels, and rows lie a length apart for which near pixels of such a tile,
// turned by any angle, are hardly ever in one bank. Sampling points come from the 2 x 3 map in
// registers. The gradient to an image is added up in shared memory as whole numbers, multiples of
// 2^-30 of the largest sum that its gradients can give: whole numbers are added without rounding, in
// any order, so results are the same in every run, and off by less than float32 would be.
//
// Set by the compiler: H, W (of the result), MARGIN (around the source), MODE (0 bilinear, 1 Keys, 2
// cubic B-spline), PITCH (length of rows in shared memory), WARPS, COLUMNS (tiles beside each other;
// a multiple of WARPS, or WARPS of it), TO_MAP, TO_IMAGES, FILTER (whether the source is made of
// images, H x W, by the prefilter of cubic B-splines). Blocks are pictures by channels; `versions` is
// the number of maps that each image has.

constexpr int SH = H + 2 * MARGIN, SW = W + 2 * MARGIN;
constexpr int INSET = FILTER ? MARGIN : 0;  // of the images in the source
constexpr int IH = SH - 2 * INSET, IW = SW - 2 * INSET;  // of the images
constexpr int TAPS = MODE == 0 ? 2 : 4;
constexpr int BORDER = TAPS;  // of zeros
constexpr int LOW = MODE == 0 ? 0 : -1;  // the first tap
constexpr int ACROSS = WARPS < COLUMNS ? COLUMNS / WARPS : 1;  // tiles of a warp beside each other
constexpr int TILE_ROWS = WARPS < COLUMNS ? 1 : WARPS / COLUMNS;  // below each other, at once
constexpr int STEPS = (H + 4 * TILE_ROWS - 1) / (4 * TILE_ROWS);
constexpr bool EVEN = STEPS * 4 * TILE_ROWS == H;  // all rows of all tiles are pixels
constexpr int THREADS = 32 * WARPS;
constexpr int ROOM = ((SH + 2 * BORDER) * PITCH + 3) / 4 * 4;  // of a source
// Blocks of a multiprocessor, if all threads or all shared memory are in use: registers for those.
constexpr int ROOMS = TO_MAP + TO_IMAGES > 1 ? 2 : 1;
constexpr int BY_MEMORY = 227 * 256 / (ROOMS * ROOM + 512), BY_THREADS = 2048 / THREADS;
constexpr int BLOCKS = MODE > 0 || BY_MEMORY < 2 ? 1 : BY_MEMORY < BY_THREADS ? BY_MEMORY : BY_THREADS;
constexpr float UNIT = H > W ? H : W;
constexpr float DOWN = 8 * TILE_ROWS / UNIT;  // from a tile to the next one of the same thread
constexpr float ROUND = 12582912.0f;  // 1.5 x 2^23: a sum with it is a whole number, in its last bits
constexpr unsigned ROUND_BITS = 0x4B400000u;

__device__ __forceinline__ void weights(float f, float* w, float* d) {
  if (MODE == 1) {
    const float a = -0.75f;
    float t = 1.0f + f;
    w[0] = a * (((t - 5.0f) * t + 8.0f) * t - 4.0f);
    d[0] = a * ((3.0f * t - 10.0f) * t + 8.0f);
    w[1] = ((a + 2.0f) * f - (a + 3.0f)) * f * f + 1.0f;
    d[1] = (3.0f * (a + 2.0f) * f - 2.0f * (a + 3.0f)) * f;
    t = 1.0f - f;
    w[2] = ((a + 2.0f) * t - (a + 3.0f)) * t * t + 1.0f;
    d[2] = -(3.0f * (a + 2.0f) * t - 2.0f * (a + 3.0f)) * t;
    t = 2.0f - f;
    w[3] = a * (((t - 5.0f) * t + 8.0f) * t - 4.0f);
    d[3] = -a * ((3.0f * t - 10.0f) * t + 8.0f);
  } else {
    const float t = 1.0f - f;
    w[0] = t * t * t * (1.0f / 6.0f);
    d[0] = -0.5f * t * t;
    w[1] = 2.0f / 3.0f - f * f * (2.0f - f) * 0.5f;
    d[1] = f * (1.5f * f - 2.0f);
    w[2] = 2.0f / 3.0f - t * t * (2.0f - t) * 0.5f;
    d[2] = -t * (1.5f * t - 2.0f);
    w[3] = f * f * f * (1.0f / 6.0f);
    d[3] = 0.5f * f * f;
  }
}

// Coefficients of the cubic B-spline through values (zero outside), in place.
__device__ __forceinline__ void filter(float* at, int step, int length) {
  const float z = -0.2679491924311227f;  // the pole
  float value = 0.0f;
#pragma unroll 4
  for (int k = 0; k < length; ++k) at[k * step] = value = 6.0f * at[k * step] + z * value;
  at[(length - 1) * step] = value *= z / (z * z - 1.0f);
#pragma unroll 4
  for (int k = length - 2; k >= 0; --k) at[k * step] = value = z * (value - at[k * step]);
}

// A picture with its border of zeros; `at` points behind the border.
__device__ __forceinline__ void copy_source(const float* __restrict__ picture, float* at) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int row = warp - BORDER, column = lane - BORDER;
  const float* from = picture + ((row - INSET) * IW + column - INSET);
  float* to = at + (row * PITCH + column);
  asm("" : "+l"(from));  // one address for all
#pragma unroll
  for (int r = 0; r < SH + 2 * BORDER; r += WARPS) {
#pragma unroll
    for (int c = 0; c < SW + 2 * BORDER; c += 32) {
      const bool inside = (unsigned)(row + r - INSET) < IH && (unsigned)(column + c - INSET) < IW;
      const float value = inside ? __ldg(from + (r * IW + c)) : 0.0f;
      const bool rows = r + WARPS <= SH + 2 * BORDER || row + r < SH + BORDER;
      const bool columns = c + 32 <= SW + 2 * BORDER || column + c < SW + BORDER;
      if (rows && columns) to[r * PITCH + c] = value;
    }
  }
  if (FILTER) {
    __syncthreads();
    for (int i = threadIdx.x; i < IW; i += THREADS) filter(at + INSET + i, PITCH, SH);
    __syncthreads();
    for (int i = threadIdx.x; i < SH; i += THREADS) filter(at + i * PITCH, 1, SW);
  }
}

struct Map {
  float c, cy, r, ry;  // of this thread's column: source column c + cy y, source row r + ry y
  __device__ __forceinline__ Map(const float* __restrict__ t, float x) {
    c = 0.5f * UNIT * (t[0] * x + t[2]) + (0.5f * (W - 1) + MARGIN);
    r = -0.5f * UNIT * (t[3] * x + t[5]) + (0.5f * (H - 1) + MARGIN);
    cy = 0.5f * UNIT * t[1];
    ry = -0.5f * UNIT * t[4];
  }
  // Whole and fractional part of the point that pixel y sees; points outside stay in the border.
  __device__ __forceinline__ int point(float y, float& fr, float& fc, bool& inside) const {
    const float beyond = 0.5f * TAPS + 0.5f;
    const float ca = cy * y + c, ra = ry * y + r;
    const float cb = fminf(fmaxf(ca, -beyond), SW - 1 + beyond);
    const float rb = fminf(fmaxf(ra, -beyond), SH - 1 + beyond);
    inside = ca == cb && ra == rb;
    // Added to ROUND and rounded down: no conversion, which is slow, is needed.
    const float c0 = __fadd_rd(cb, ROUND), r0 = __fadd_rd(rb, ROUND);
    fc = cb - (c0 - ROUND);
    fr = rb - (r0 - ROUND);
    unsigned at = __float_as_uint(r0) * PITCH + __float_as_uint(c0);
    at -= ROUND_BITS * (PITCH + 1u);
    asm("" : "+r"(at));  // once, not again for each tap
    return (int)at;
  }
};

__device__ __forceinline__ float height_of(int row) { return (H - 1 - 2 * row) * (1.0f / UNIT); }

// Which pixels a thread takes: `column(j)`, and rows from `first` on.
struct Pixels {
  int left, first;
  __device__ __forceinline__ Pixels() {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    left = (WARPS < COLUMNS ? warp : warp % COLUMNS) * 8 + (lane & 7);
    first = (WARPS < COLUMNS ? 0 : warp / COLUMNS) * 4 + (lane >> 3);
  }
  __device__ __forceinline__ int column(int j) const { return left + j * 8 * WARPS; }
  __device__ __forceinline__ float x(int j) const { return (2 * column(j) + 1 - W) * (1.0f / UNIT); }
  __device__ __forceinline__ bool inside(int j, int k) const {
    return column(j) < W && (EVEN || first + 4 * TILE_ROWS * k < H);
  }
  __device__ __forceinline__ int place(int j, int k) const {
    return (first + 4 * TILE_ROWS * k) * W + column(j);
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
warp_forward(const float* __restrict__ images, const float* __restrict__ theta,
             float* __restrict__ out, int versions, int image_step, int version_step) {
  extern __shared__ float memory[];
  float* source = memory + BORDER * PITCH + BORDER;
  const Pixels pixels;
  const long long n = blockIdx.x / versions, channels = gridDim.y, channel = blockIdx.y;
  const int s = blockIdx.x % versions;
  copy_source(images + (n * channels + channel) * (IH * IW), source);
  const float* t = theta + n * image_step + s * version_step;
  float* target = out + (blockIdx.x * channels + channel) * (H * W);
  const float y = height_of(pixels.first);
  __syncthreads();
#pragma unroll
  for (int j = 0; j < ACROSS; ++j) {
    const Map map(t, pixels.x(j));
#pragma unroll 8
    for (int k = 0; k < STEPS; ++k) {
      float fr, fc, value;
      bool unused;
      const float* at = source + map.point(y - k * DOWN, fr, fc, unused);
      if (MODE == 0) {
        const float top = at[0] + fc * (at[1] - at[0]);
        const float bottom = at[PITCH] + fc * (at[PITCH + 1] - at[PITCH]);
        value = top + fr * (bottom - top);
      } else {
        float wr[4], wc[4], slopes[4];
        weights(fr, wr, slopes);
        weights(fc, wc, slopes);
        value = 0.0f;
#pragma unroll
        for (int a = 0; a < 4; ++a) {
          const float* line = at + (a + LOW) * PITCH + LOW;
          value += wr[a] * (wc[0] * line[0] + wc[1] * line[1] + wc[2] * line[2] + wc[3] * line[3]);
        }
      }
      if (pixels.inside(j, k)) target[pixels.place(j, k)] = value;
    }
  }
}

// Eight sums over a warp: afterwards lane 4 j holds sum j.
__device__ __forceinline__ float eight_sums(float* v) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int count = 4, width = 16; count > 0; count >>= 1, width >>= 1) {
    const bool upper = lane & width;
#pragma unroll
    for (int j = 0; j < count; ++j) {
      const float given = upper ? v[j] : v[j + count];
      v[j] = (upper ? v[j + count] : v[j]) + __shfl_xor_sync(0xffffffffu, given, width);
    }
  }
  v[0] += __shfl_xor_sync(0xffffffffu, v[0], 2);
  return v[0] + __shfl_xor_sync(0xffffffffu, v[0], 1);
}

// The largest number of a block; `parts` has a place for each warp.
__device__ __forceinline__ unsigned block_max(unsigned value, unsigned* parts) {
#pragma unroll
  for (int width = 16; width > 0; width >>= 1)
    value = max(value, __shfl_xor_sync(0xffffffffu, value, width));
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = value;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < WARPS; ++w) value = max(value, parts[w]);
  return value;
}

// Units of whole numbers, powers of two, in which no sum of gradients can be too large.
struct Units {
  float scale, inverse;  // units of one, and one in units; NaN if a gradient is not finite
  __device__ __forceinline__ Units(const float* __restrict__ t, unsigned largest) {
    // From pixel to pixel the map is (column, row) -> (p column - q row, -u column + v row) and a
    // shift; so many pixels, at most, have one pixel of the source among their taps.
    const float p = t[0], q = t[1], u = t[3], v = t[4];
    const float reach = 0.5f * TAPS * 1.0001f / fmaxf(fabsf(p * v - q * u), 1e-12f);
    const int across = (int)fminf(2.0f * reach * (fabsf(v) + fabsf(q)) + 1e-2f, W - 1.0f) + 1;
    const int down = (int)fminf(2.0f * reach * (fabsf(u) + fabsf(p)) + 1e-2f, H - 1.0f) + 1;
    const int exponent = __float_as_uint(__uint_as_float(largest) * (across * down)) >> 23;
    const int field = min(283 - exponent, 253);
    scale = __uint_as_float((unsigned)field << 23);
    inverse = __uint_as_float(exponent < 255 ? (unsigned)(254 - field) << 23 : 0x7fc00000u);
  }
};

__device__ __forceinline__ void add_whole(float* at, float value) {
  atomicAdd(reinterpret_cast<int*>(at), __float2int_rn(value));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
warp_backward(const float* __restrict__ images, const float* __restrict__ theta,
              const float* __restrict__ grad_out, float* __restrict__ grad_images,
              float* __restrict__ grad_theta, int versions, int image_step, int version_step) {
  extern __shared__ float memory[];
  __shared__ float parts[WARPS * 8];
  __shared__ unsigned most[WARPS];
  float* source = memory + BORDER * PITCH + BORDER;
  float* sums = source + (TO_MAP ? ROOM : 0);  // of gradients to the source
  const Pixels pixels;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  // With images a block has all versions of one, otherwise one.
  const long long n = TO_IMAGES ? blockIdx.x : blockIdx.x / versions;
  const long long channels = gridDim.y, channel = blockIdx.y;
  const int s0 = TO_IMAGES ? 0 : blockIdx.x % versions, s1 = TO_IMAGES ? versions : s0 + 1;
  const float y0 = height_of(pixels.first);
  for (int s = s0; s < s1; ++s) {
    const float* t = theta + n * image_step + s * version_step;
    const long long picture = (n * versions + s) * channels + channel;
    const float* given = grad_out + picture * (H * W);
    float g[ACROSS][STEPS];
    unsigned largest = 0;
#pragma unroll
    for (int j = 0; j < ACROSS; ++j)
#pragma unroll
      for (int k = 0; k < STEPS; ++k)
        g[j][k] = pixels.inside(j, k) ? __ldg(given + pixels.place(j, k)) : 0.0f;
    if (s > s0) __syncthreads();
    if (TO_IMAGES) {
      int4* cells = reinterpret_cast<int4*>(memory + (TO_MAP ? ROOM : 0)) + threadIdx.x;
#pragma unroll
      for (int i = 0; i < ROOM / 4; i += THREADS)
        if (i + THREADS <= ROOM / 4 || i + threadIdx.x < ROOM / 4) cells[i] = make_int4(0, 0, 0, 0);
    }
    if (TO_MAP && s == s0) copy_source(images + (n * channels + channel) * (IH * IW), source);
    if (TO_IMAGES) {
#pragma unroll
      for (int j = 0; j < ACROSS; ++j)
#pragma unroll
        for (int k = 0; k < STEPS; ++k) largest = max(largest, __float_as_uint(fabsf(g[j][k])));
      largest = block_max(largest, most);
    } else {
      __syncthreads();
    }
    const Units units(t, largest);
    float six[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
      const float x = pixels.x(j);
      const Map map(t, x);
      float to_column = 0.0f, to_column_y = 0.0f, to_row = 0.0f, to_row_y = 0.0f;
#pragma unroll
      for (int k = 0; k < STEPS; ++k) {
        const float y = y0 - k * DOWN;
        float fr, fc;
        bool inside;
        const int at = map.point(y, fr, fc, inside);
        float wr[4], wc[4], dr[4], dc[4];
        if (MODE != 0) {
          weights(fr, wr, dr);
          weights(fc, wc, dc);
        }
        if (TO_MAP) {
          const float* l = source + at;
          float by_row = 0.0f, by_column = 0.0f;
          if (MODE == 0) {
            const float along = l[1] - l[0], below = l[PITCH + 1] - l[PITCH];
            by_row = l[PITCH] + fc * below - (l[0] + fc * along);
            by_column = along + fr * (below - along);
          } else {
            l += LOW * PITCH + LOW;
#pragma unroll
            for (int a = 0; a < 4; ++a, l += PITCH) {
              by_row += dr[a] * (wc[0] * l[0] + wc[1] * l[1] + wc[2] * l[2] + wc[3] * l[3]);
              by_column += wr[a] * (dc[0] * l[0] + dc[1] * l[1] + dc[2] * l[2] + dc[3] * l[3]);
            }
          }
          by_row *= g[j][k];
          by_column *= g[j][k];
          to_row += by_row;
          to_row_y += by_row * y;
          to_column += by_column;
          to_column_y += by_column * y;
        }
        if (TO_IMAGES && inside) {
          const float whole = g[j][k] * units.scale;
          float* l = sums + at;
          if (MODE == 0) {
            const float right = whole * fc, left = whole - right;
            const float lower_right = right * fr, lower_left = left * fr;
            add_whole(l, left - lower_left);
            add_whole(l + 1, right - lower_right);
            add_whole(l + PITCH, lower_left);
            add_whole(l + PITCH + 1, lower_right);
          } else {
            l += LOW * PITCH + LOW;
#pragma unroll
            for (int a = 0; a < 4; ++a)
#pragma unroll
              for (int b = 0; b < 4; ++b) add_whole(l + a * PITCH + b, whole * wr[a] * wc[b]);
          }
        }
      }
      const float half = 0.5f * UNIT;
      six[0] += half * x * to_column;
      six[1] += half * to_column_y;
      six[2] += half * to_column;
      six[3] -= half * x * to_row;
      six[4] -= half * to_row_y;
      six[5] -= half * to_row;
    }
    if (TO_MAP) {
      const float sum = eight_sums(six);
      if ((lane & 3) == 0) parts[warp * 8 + (lane >> 2)] = sum;
    }
    __syncthreads();
    if (TO_MAP && threadIdx.x < 6) {
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < WARPS; ++w) total += parts[w * 8 + threadIdx.x];
      grad_theta[picture * 6 + threadIdx.x] = total;
    }
    if (TO_IMAGES) {
      float* target = grad_images + (n * channels + channel) * (IH * IW);
      if (FILTER) {  // the transpose of the prefilter, which is symmetric
        for (int r = warp; r < SH; r += WARPS)
          for (int c = lane; c < SW; c += 32)
            sums[r * PITCH + c] = __float_as_int(sums[r * PITCH + c]) * units.inverse;
        __syncthreads();
        for (int i = threadIdx.x; i < SH; i += THREADS) filter(sums + i * PITCH, 1, SW);
        __syncthreads();
        for (int i = threadIdx.x; i < IW; i += THREADS) filter(sums + INSET + i, PITCH, SH);
        __syncthreads();
      }
#pragma unroll
      for (int j = 0; j < (IW + 31) / 32; ++j) {
#pragma unroll 4
        for (int r = warp; r < IH; r += WARPS) {
          const int c = lane + 32 * j;
          if (c >= IW) break;
          const float sum = sums[(r + INSET) * PITCH + c + INSET];
          const float value = FILTER ? sum : __float_as_int(sum) * units.inverse;
          if (s > s0) target[r * IW + c] += value;
          else target[r * IW + c] = value;
        }
      }
    }
  }
}
